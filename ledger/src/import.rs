//! The session of what is imported.

use parhelia_store::name::step::Step;
use parhelia_store::{Error, Result, fold::Projection, name};

use crate::{fold::Ledger, maker::works_in, session::Session};

/// So many names are tried for a session whose own is taken.
const NAMES_MAX: usize = 100;

impl Ledger {
    /// The session that is asked for, or that of the exported checkpoint, or a name beside it where that one works in a folder here.
    pub(crate) fn session_of_import(&self, kept: Projection<'_>, asked: Option<&str>, exported: &str) -> Result<String> {
        if let Some(name) = asked {
            return match self.worked_in(kept, name)? {
                Some(session) => Err(works_in(&session.id, &session.workspace.unwrap_or_default())),
                None => Ok(name.to_owned()),
            };
        }
        let names = std::iter::once(exported.to_owned()).chain((1..).map(|n| match n {
            1 => format!("{exported}-imported"),
            _ => format!("{exported}-imported-{n}"),
        }));
        for name in names.take(NAMES_MAX) {
            if name::check_session(&name).is_ok() && self.worked_in(kept, &name)?.is_none() {
                return Ok(name);
            }
        }
        Err(Error::Refused(format!(
            "session {exported} works in a folder here, and what is imported needs another name: give it with {}",
            Step::SessionOption
        )))
    }

    /// The session of that id or name which works in a folder here. Nothing is imported into one: it would be what `latest` means in that folder,
    /// and the parent of what is captured there next.
    fn worked_in(&self, kept: Projection<'_>, name: &str) -> Result<Option<Session>> {
        let is_it =
            |session: &Session| (session.id == name || session.name == name) && session.workspace.is_some() && session.is_ours();
        Ok(self.sessions(kept)?.into_iter().find(is_it))
    }
}
