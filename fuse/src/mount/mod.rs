//! Mounting: from a store and a mountpoint to a session that answers the kernel.

#![expect(clippy::disallowed_methods, reason = "sets an attribute of the kernel's")]

mod attach;
mod guard;
mod identity;
mod keeper;
mod mounted;
mod mountinfo;
mod mountpoint;
mod options;
mod registry;
mod unmount;

use parhelia_store::name::step::Step;
use std::{
    fs, io,
    path::Path,
    sync::{Arc, mpsc::channel},
    thread,
};

use parhelia_store::Store;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

pub use crate::mount::{
    guard::guard,
    mounted::{MountHandle, Stopper},
    mountinfo::holders,
    options::{Options, What},
    registry::{FoundMount, MountText, clear_stale, list, shown_at},
    unmount::{detach, unmount},
};
use crate::{
    counts::Counters,
    error::{Error, Result},
    filesystem::{ReadOnlyFilesystem, checkpoint::CheckpointFilesystem, store::StoreFilesystem},
    kernel::{activity::Activity, requests::FuseServer},
    mount::{
        attach::{KernelMount, check_device},
        guard::Guard,
        keeper::{Keeper, Wakes},
        mounted::Event,
        mountpoint::checked,
        registry::Registration,
    },
    readahead::{Readahead, Source},
};

/// Readahead of the kernel for a sequential reader, in KiB: two of its largest requests, so that one is answered while the reader
/// takes in the other. The default asks eight times as often.
const READ_AHEAD_KIB: u32 = 2048;

/// Mounts a checkpoint, or the whole store, read-only. When this returns, the mount answers.
pub fn mount(store: Arc<Store>, what: What, mountpoint: &Path, options: &Options) -> Result<MountHandle> {
    let mountpoint = checked(&store, mountpoint)?;
    let failed = |source| Error::Io { action: "start a thread for", path: mountpoint.clone(), source };
    check_device()?;
    // A mount of a store that cannot be written to serves as well; only nobody is told of it.
    let registration = Registration::new(&store, &mountpoint, what.text())
        .map_err(|e| (options.log)(&format!("{e}; {} does not list this mount", Step::Mounts)))
        .ok();
    let (readahead, work) = Readahead::new();
    let filesystem = filesystem(&store, what, options, readahead.clone())?;
    let counters = Arc::new(Counters::default());
    let (activity, read) = Activity::new().map_err(failed)?;
    let (stop, keeper) = io::pipe().map_err(failed)?;
    let activity = Arc::new(activity);
    let server = FuseServer::new(filesystem.clone(), counters.clone(), options.log.clone(), readahead, activity.clone());
    let attached = KernelMount::new(server, &mountpoint, options)?;
    let (identity, notifier) = (attached.identity, attached.notifier());
    // From here on the server alone owns it: the mount ends with its last owner.
    let shown = Arc::downgrade(&filesystem);
    let source: Arc<dyn Source> = filesystem;
    let helpers = work.start(&store, Arc::downgrade(&source), attached.device().ok(), &counters);
    drop(source);

    let (events_in, events) = channel();
    let ended = events_in.clone();
    let mounted = MountHandle {
        mountpoint: mountpoint.clone(),
        identity,
        events,
        stopper: Stopper(events_in),
        counters,
        store: store.clone(),
        log: options.log.clone(),
        has_ended: false,
        _keeper: keeper,
        guard: Guard::start(&options.guard, &mountpoint, identity),
        registration,
    };
    let serving = attached.serve(&mountpoint)?;
    let spawned = thread::Builder::new().name("mount".into()).spawn(move || {
        let result = serving.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
        // They may hold the filesystem, and so the pin.
        helpers.into_iter().for_each(|helper| drop(helper.join()));
        let _ = ended.send(Event::Ended(result));
    });
    spawned.map_err(failed)?;
    // Only root may; without it, long reads take more requests.
    let _ = fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", identity.device()), READ_AHEAD_KIB.to_string());
    statx(CWD, &mountpoint, AtFlags::empty(), StatxFlags::BASIC_STATS).map_err(|e| Error::Io {
        action: "stat",
        path: mountpoint.clone(),
        source: e.into(),
    })?;
    let busy_mark = mounted.registration.as_ref().map(Registration::busy_mark);
    let (store, log) = (Arc::downgrade(&store), options.log.clone());
    let kept = Keeper { store, filesystem: shown, notifier, activity, busy_mark, log };
    keeper::start(kept, Wakes { stop, read }).map_err(failed)?;
    Ok(mounted)
}

/// The filesystem that a mount shows.
fn filesystem(
    store: &Arc<Store>,
    what: What,
    options: &Options,
    readahead: Arc<Readahead>,
) -> Result<Arc<dyn ReadOnlyFilesystem>> {
    let (acls, cache_bytes) = (options.allow_other, options.tree_cache_bytes);
    Ok(match what {
        What::Tree { checkpoint, path } => {
            let pin = store.pin_for_reading([checkpoint], "mount", |text| (options.log)(text));
            let none = parhelia_store::Error::NoCheckpoint { selector: checkpoint.to_string() };
            let found = store.refresh()?.checkpoint(checkpoint)?.ok_or(none)?;
            Arc::new(CheckpointFilesystem::new(store, found, &path, cache_bytes, acls, pin, readahead)?)
        }
        What::Store => Arc::new(StoreFilesystem::new(store, cache_bytes, acls, options.manifest, readahead)?),
    })
}
