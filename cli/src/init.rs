//! `init`: makes the store, for those who expect to have to.

use std::os::unix::ffi::OsStrExt;

use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
};

/// Makes the store where there is none.
pub fn run(context: &mut Context) -> Result<Code> {
    let path = context.store_path()?;
    let is_there = path.join("store.json").is_file();
    drop(context.open_with(true)?);
    let shown = human::path(path.as_os_str().as_bytes());
    let text = match is_there {
        true => format!("The store at {shown} is there already."),
        false => {
            context.out.did(format!("the store at {shown} is made"));
            format!("Made a store at {shown}.")
        }
    };
    context.out.remark(text)?;
    context.out.remark("No init is needed: `parhelia checkpoint create` makes the store with the first checkpoint.")?;
    context.out.summary(Summary::Init { store: shown, created: !is_there })?;
    Ok(Code::Done)
}
