//! `mount STORE SELECTOR MOUNTPOINT`: mounts a checkpoint (`latest`, an id, `ID:path`; `store` for all of them) until it is unmounted
//! or gets a signal.

use std::{error::Error, path::Path, sync::Arc};

use parhelia_fuse::{Options, What, clear_stale, mount};
use parhelia_ledger::selector;
use parhelia_store::OpenOptions;

const GUARD: &str = "mount-guard";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [verb, mountpoint, identity] = args.as_slice()
        && verb == GUARD
    {
        return Ok(parhelia_fuse::guard(Path::new(mountpoint), identity)?);
    }
    let [store, selector, mountpoint] = args.as_slice() else { return Err("usage: mount STORE SELECTOR MOUNTPOINT".into()) };
    let store = Arc::new(parhelia_ledger::open(Path::new(store), &OpenOptions::default())?);
    for stale in clear_stale(&store)? {
        eprintln!("cleared the mount of dead process {} on {}", stale.text.process, stale.text.mountpoint);
    }
    let what = match selector.as_str() {
        "store" => What::Store,
        selector => {
            let (selector, path) = selector::split(selector);
            let checkpoint = selector::find(&store.view(), selector)?.record.id;
            What::Tree { checkpoint, path: path.unwrap_or_default().into() }
        }
    };
    let options = Options {
        guard: [std::env::current_exe()?.into_os_string(), GUARD.into()].into(),
        allow_other: std::env::var_os("ALLOW_OTHER").is_some(),
        log: Arc::new(|line| eprintln!("{line}")),
        ..Options::default()
    };
    let mounted = mount(store, what, Path::new(mountpoint), &options)?;
    let stopper = mounted.stopper();
    ctrlc::set_handler(move || stopper.stop())?;
    println!("mounted on {}", mounted.mountpoint().display());
    mounted.wait()?;
    Ok(())
}
