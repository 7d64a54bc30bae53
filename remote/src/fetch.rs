//! Taking in what other machines have recorded.

use parhelia_bucket::{
    layout::{self, MachineId},
    transfer::{self, Extent},
};
use parhelia_store::{
    Store,
    exchange::{Incoming, TakenIn},
    progress::Progress,
};

use crate::{
    connect::{ConnectOptions, Connection},
    error::{Error, Result},
    folder::RemoteFolder,
    target::LocalTarget,
};

/// Options of fetching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchOptions {
    /// What the connection takes.
    pub connect: ConnectOptions,
    /// Machines that were this one before its store was lost: what they recorded is this machine's own.
    pub take_over: Vec<String>,
    /// True if a bucket that was set back to an older state is taken as it is now.
    pub accepts_older: bool,
}

/// Count of what was taken in.
pub type Fetched = TakenIn;

/// Takes in everything that the bucket has and the store has not: packs, checkpoints, events. Goes on where an earlier one was interrupted.
///
/// Fails with [`Error::Busy`] while another process of this machine pushes or fetches.
pub fn fetch(store: &Store, options: &FetchOptions, progress: &dyn Progress) -> Result<Fetched> {
    // Held from here on: what was taken in is read once, and added to.
    let folder = RemoteFolder::of(store.layout());
    folder.wanted()?;
    let _lock = folder.lock_within(store.lock_timeout(), progress)?.ok_or(Error::Busy)?;
    let connection = Connection::open_locked(store, &options.connect, progress)?;
    let own = connection.folder.machine()?.map(|state| state.machine);
    let mut incoming = Incoming::open(store, &connection.joined.bucket, progress)?;
    for told in &options.take_over {
        let machine = machine_told(&connection, told, own, progress)?.to_string();
        if incoming.heads().contains_key(&machine) {
            return Err(Error::TakenInBefore { machine });
        }
        incoming.take_over(&machine);
    }
    let mut target = LocalTarget::new(incoming, &connection.folder, own, progress);
    target.accepts_older = options.accepts_older;
    connection.wait(progress, transfer::fetch(&connection.bucket, &mut target, Extent::Full, &()))?;
    Ok(target.taken)
}

/// The machine that is meant by its id, or by the beginning of one.
fn machine_told(connection: &Connection, told: &str, own: Option<MachineId>, progress: &dyn Progress) -> Result<MachineId> {
    let bucket = &connection.bucket;
    let names = connection.wait(progress, bucket.client.folders(layout::JOURNAL, &bucket.effort))?;
    let machines =
        names.iter().filter(|name| !told.is_empty() && name.starts_with(told)).filter_map(|name| MachineId::parse(name));
    match machines.collect::<Vec<_>>()[..] {
        [machine] if Some(machine) != own => Ok(machine),
        [_] => Err(parhelia_bucket::Error::Invalid(format!("'{told}' is this machine")).into()),
        [] => Err(parhelia_bucket::Error::Invalid(format!("no machine's id begins with '{told}'")).into()),
        _ => Err(parhelia_bucket::Error::Invalid(format!("the ids of several machines begin with '{told}'")).into()),
    }
}
