//! This process as the caller of the screen.

use std::{
    any::Any,
    ffi::OsString,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use parhelia_fuse::{Options, What};
use parhelia_host::Host;
use parhelia_screen::Caller;
use parhelia_store::{Store, id::Ulid};

use crate::{context::Context, exit::Result, host::Shell, interrupt::Cancel, mount::GUARD, words};

/// This process at its terminal.
pub struct AtTerminal {
    host: Shell,
    cancel: Cancel,
    has_colours: bool,
}

impl AtTerminal {
    /// With the flags of a verb.
    pub fn new(context: &Context) -> Result<Self> {
        Ok(AtTerminal { host: context.host()?, cancel: context.cancel(), has_colours: context.out.has_colours() })
    }
}

impl Caller for AtTerminal {
    fn host(&self) -> &dyn Host {
        &self.host
    }

    fn explain(&self, error: &parhelia_host::Error) -> String {
        words::error(error)
    }

    fn mount(&self, store: &Arc<Store>, checkpoint: Ulid, folder: &Path) -> Result<Box<dyn Any>, String> {
        let what = What::Tree { checkpoint, path: Vec::new() };
        let options = Options { guard: GUARD.map(OsString::from).into(), ..Options::default() };
        match parhelia_fuse::mount(store.clone(), what, folder, &options) {
            Ok(mounted) => Ok(Box::new(mounted)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn is_stopped(&self) -> bool {
        self.cancel.load(Ordering::SeqCst)
    }

    fn has_colours(&self) -> bool {
        self.has_colours
    }
}
