//! The browsers that are signed in at the page of a service: listing them, and signing them out.

use std::path::Path;

use parhelia_screen::human;
use parhelia_service::Browsers;
use parhelia_store::{clock, name::NameExt as _};
use parhelia_wire::{Line, Summary, tool::Browser};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    layout::Table,
};

/// Lists them, or signs one out; the service, if it runs, knows at once. The path is that of the service's token; the caller says if a flag has
/// led to it.
pub fn run(context: &mut Context, (token, is_named): (&Path, bool), signed_out: Option<&str>) -> Result<Code> {
    let table = Browsers::beside(token);
    let failed = |action| move |source| Failure::File { action, path: table_of(token), source };
    // A service with another token's file has its browsers beside that.
    let nowhere = || {
        let flags = if is_named { "" } else { "; of a service with --token-file or --socket, give the same here" };
        format!("there has been none at a service whose token is in {}{flags}", token.shown())
    };
    match signed_out {
        Some(id) if !table.exists() => {
            return Err(Failure::NotFound(format!("no browser '{}' is signed in: {}", human::path(id.as_bytes()), nowhere())));
        }
        Some(id) => {
            if !table.revoke(id).map_err(failed("change"))? {
                return Err(Failure::NotFound(format!("no browser '{id}' is signed in")));
            }
            context.out.did(format!("browser {id} is signed out"));
            context.out.remark(format!("Browser {id} is signed out."))?;
        }
        None if !table.exists() => context.out.remark(format!("No browser is signed in: {}.", nowhere()))?,
        None => list(context, &table.browsers().map_err(failed("read"))?)?,
    }
    context.out.summary(Summary::Serve { path: None })?;
    Ok(Code::Done)
}

fn table_of(token: &Path) -> std::path::PathBuf {
    format!("{}.browsers", token.shown()).into()
}

fn list(context: &mut Context, browsers: &[Browser]) -> Result<()> {
    if context.out.json {
        for browser in browsers {
            context.out.object(Line::Browser(browser.clone()))?;
        }
        return Ok(());
    }
    if browsers.is_empty() {
        return context.out.remark("No browser is signed in.");
    }
    let now = clock::timestamp();
    let mut rows = vec![["ID", "SIGNED IN", "USED", "NAME"].map(str::to_owned).to_vec()];
    rows.extend(browsers.iter().map(|browser| {
        let name = human::path(browser.name.as_bytes());
        vec![browser.id.clone(), human::ago(browser.created_at, now), human::ago(browser.used_at, now), name]
    }));
    context.out.table(&Table { rows: &rows, right: &[], dropped: &["SIGNED IN"] })
}
