//! The outbox: what the journal's events have to be told outside, and does not get lost on the way.
//!
//! Events become deliveries, a file each in the store's folder `outbox`, and only then the cursor behind them moves (`spool`); a delivery is removed
//! when its receiver has it (`deliver`). So each is sent at least once, under the same id. One process at a time does it: the service, or else
//! one of its own that a commit has started. A channel that is slow or down delays no other.

pub mod background;
mod deliver;
mod folder;
mod full_disk;
mod reserve;
mod spool;

use std::{ffi::OsString, sync::atomic::Ordering, thread, time::Duration};

use jiff::Timestamp;
use parhelia_host::{Host, config::Config};
use parhelia_ledger::LedgerView as _;
use parhelia_store::{Store, clock};
use parhelia_wire::notification::{Delivery, Notification};

use crate::{
    notify::{
        channel::{Message, Trouble, send},
        told,
    },
    trackers::{self, Reach},
};

pub use folder::{Error, Folder, Lock};

type Result<T> = std::result::Result<T, Error>;

/// The outbox of a store.
pub struct Outbox<'a> {
    store: &'a Store,
    folder: Folder,
    config: Config,
    /// The first words of commands for this store.
    program: String,
    host: &'a (dyn Host + Sync),
}

/// Everything that has not been delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Number of deliveries that wait.
    pub waiting: u64,
    /// Number of those that are not tried again by themselves.
    pub failed: u64,
    /// Time since which the oldest one waits.
    pub oldest: Option<Timestamp>,
}

impl Backlog {
    /// The backlog of some deliveries.
    pub fn of(deliveries: &[Delivery]) -> Self {
        let (failed, waiting): (Vec<&Delivery>, Vec<&Delivery>) = deliveries.iter().partition(|delivery| delivery.has_failed);
        let oldest = waiting.iter().map(|delivery| delivery.since).min();
        Backlog { waiting: waiting.len() as u64, failed: failed.len() as u64, oldest }
    }
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Deliveries that arrived.
    pub sent: u64,
    /// Tries that failed: where, such as `channel slack`, and the reason.
    pub troubles: Vec<(String, String)>,
    /// The time at which the next delivery is due.
    pub next: Option<Timestamp>,
}

impl Round {
    /// Notes that something failed, once.
    fn trouble(&mut self, place: &str, why: &str) {
        let trouble = (place.to_owned(), why.to_owned());
        if !self.troubles.contains(&trouble) {
            self.troubles.push(trouble);
        }
    }

    /// Adds what was done on one channel.
    fn add(&mut self, part: Round) {
        self.sent += part.sent;
        part.troubles.iter().for_each(|(place, why)| self.trouble(place, why));
    }
}

/// Has this process try at once what it lacked something for, such as a secret: its configuration is read again.
pub fn reload() {
    deliver::RELOADS.fetch_add(1, Ordering::Relaxed);
}

impl<'a> Outbox<'a> {
    /// The outbox of a store, by the configuration of its user.
    pub fn of(store: &'a Store, host: &'a (dyn Host + Sync), program: String) -> parhelia_host::Result<Self> {
        let config = host.config(std::path::Path::new("/"))?;
        Ok(Outbox { folder: Folder::of(store), store, config, program, host })
    }

    /// An environment variable, as of a secret.
    fn variable(&self, name: &str) -> Option<OsString> {
        self.host.variable(name)
    }

    /// Sends a notification for a test on a channel, at once.
    pub fn test(&self, channel: &str) -> std::result::Result<Notification, Trouble> {
        let options = &self.config.notifications;
        let known = || options.channels.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let found = options.channels.get(channel);
        let found = found.ok_or_else(|| match options.are_on() {
            true => Trouble::for_good(format!("there is no channel '{channel}'; there are {}", known())),
            false => Trouble::for_good("no channel is configured; define one as [notifications.channels.NAME]"),
        })?;
        let notification = told::test(self.store, &self.program, clock::timestamp());
        send(options, found, &Message::of(&[&notification]), &|name| self.variable(name))?;
        Ok(notification)
    }

    /// True if something is told somewhere.
    pub fn is_on(&self) -> bool {
        self.config.notifications.are_on() || self.config.integrations.are_on() || self.has_beads()
    }

    /// True if a workspace has issues of Beads, and its program is there.
    fn has_beads(&self) -> bool {
        let sessions = || self.store.view().sessions().unwrap_or_default();
        let mut folders = sessions().into_iter().filter_map(|session| Some(session.workspace?.folder()));
        self.config.integrations.beads.enabled
            && trackers::has_program(self.host)
            && folders.any(|folder| self.reach().beads(&folder).is_some())
    }

    fn reach(&self) -> Reach<'_> {
        Reach { options: &self.config.integrations, host: self.host }
    }

    /// Takes the outbox, to deliver; none where another process has it.
    pub fn lock(&self) -> Result<Option<Lock>> {
        self.folder.lock()
    }

    /// Makes deliveries of new events, and tries those that are due, until none is or `stopped` says so.
    pub fn round(&self, _lock: &Lock, stopped: &dyn Fn() -> bool) -> Result<Round> {
        self.folder.keep_room(self.store.free_bytes());
        deliver::deliver(self, stopped)
    }

    /// Asks the process that has the outbox to leave it to the caller.
    pub fn want(&self) -> Result<()> {
        self.folder.want()
    }

    /// Says that the caller, who has the lock, has it.
    pub fn is_had(&self) {
        self.folder.is_had();
    }

    /// True if somebody wants the outbox who is to have it.
    pub fn is_wanted(&self) -> bool {
        self.folder.is_wanted()
    }

    /// True if there are events of which no deliveries were made yet.
    pub fn is_behind(&self) -> Result<bool> {
        let end = self.store.refresh()?.end().sequence;
        Ok(self.folder.state()?.is_none_or(|state| state.cursor < end))
    }

    /// Does rounds until nothing is to be delivered within some time, or `stopped` says so.
    pub fn run(&self, lock: &Lock, patience: Duration, stopped: &dyn Fn() -> bool, said: &dyn Fn(&str)) -> Result<()> {
        loop {
            let round = self.round(lock, stopped)?;
            for (place, why) in &round.troubles {
                said(&format!("{place}: {why}"));
            }
            let wait = round.next.map(|next| Duration::try_from(next.duration_since(clock::timestamp())).unwrap_or_default());
            match wait.filter(|wait| *wait <= patience) {
                Some(wait) if !stopped() => thread::sleep(wait.min(Duration::from_secs(1))),
                _ => return Ok(()),
            }
        }
    }

    /// Everything that waits, or has failed, oldest first.
    pub fn list(&self) -> Result<Vec<Delivery>> {
        self.folder.list()
    }

    /// Has deliveries tried again now; without ids, all that were tried in vain.
    pub fn retry(&self, ids: &[String]) -> Result<u64> {
        let not_before = clock::timestamp();
        self.each(
            ids,
            |one| one.has_failed || one.attempts > 0,
            |delivery| {
                let again = Delivery { has_failed: false, attempts: 0, not_before, ..delivery };
                Some(Delivery { holds_channel: false, lacking: None, ..again })
            },
        )
    }

    /// Removes deliveries, which are never sent then; without ids, all that have failed for good.
    pub fn drop_all(&self, ids: &[String]) -> Result<u64> {
        self.each(ids, |one| one.has_failed, |_| None)
    }

    fn each(
        &self,
        ids: &[String],
        by_default: impl Fn(&Delivery) -> bool,
        change: impl Fn(Delivery) -> Option<Delivery>,
    ) -> Result<u64> {
        let known = self.list()?;
        if let Some(id) = ids.iter().find(|id| !known.iter().any(|one| one.id == **id)) {
            return Err(Error::Unknown { id: id.clone() });
        }
        let chosen = known.iter().filter(|one| if ids.is_empty() { by_default(one) } else { ids.contains(&one.id) });
        let mut count = 0;
        for delivery in chosen {
            self.folder.change(&delivery.id, &change)?;
            count += 1;
        }
        Ok(count)
    }
}
