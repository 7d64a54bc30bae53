//! The fold of a store: what whoever uses it makes of the journal's commits and events. The store feeds it each entry in order, asks it where a checkpoint
//! or an event may stand, and keeps its keys and values in the index. It reads none of them. This is the seam between the two: nothing here knows the store.

use std::{any::Any, borrow::Cow, fmt, path::Path};

use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    event::{Event, NewEvent},
    id::{TreeId, Ulid},
    maker::Maker,
    record::{Checkpoint, Record},
};

/// An empty fold, made anew each time that a journal is read.
pub type NewFold = fn() -> Box<dyn Fold>;

/// The checkpoints of a store, as a fold asks for them.
pub trait Checkpoints {
    /// The checkpoint of an id; none where none is, or it was deleted.
    fn checkpoint(&self, id: Ulid) -> Result<Option<Checkpoint>>;

    /// The parent of a deleted checkpoint; none where it had none, or nothing tells.
    fn origin(&self, id: Ulid) -> Result<Option<Ulid>>;
}

/// The tree of a checkpoint's workspace, for whoever asks; none where that is damaged.
pub type Contents<'a> = &'a dyn Fn(&Checkpoint) -> Result<Option<TreeId>>;

/// Visits a key and its value.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// Keys and values of a fold in an index.
pub trait Index: fmt::Debug {
    /// The value of a key.
    fn value(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Calls `visit` with each key that begins so, and its value, in order.
    fn each(&self, begins: &str, visit: Visit<'_>) -> Result<()>;

    /// A chosen name or id as keys have it.
    fn name<'n>(&self, name: &'n str) -> Cow<'n, str>;
}

/// Changes of a fold's keys and values in an index.
pub trait Changes {
    /// Sets the value of a key.
    fn set(&mut self, key: &str, value: Vec<u8>);

    /// Removes a key.
    fn remove(&mut self, key: &str);
}

/// What is made of the journal beside checkpoints and packs.
pub trait Fold: Any + fmt::Debug + Send + Sync {
    /// Name and version of what it keeps. An index with another one is derived anew.
    fn shape(&self) -> &'static str;

    /// A copy, for taking in what is not appended yet.
    fn copy(&self) -> Box<dyn Fold>;

    /// Takes in a commit. `sequence` is that of the journal's entry, `machine` the one that made it, where it came from a remote.
    fn commit(&mut self, kept: Projection<'_>, sequence: u64, record: &Record, machine: Option<&str>) -> Result<()>;

    /// Takes in an event; `sequence` is 0 for one that is about to be appended. What makes no sense changes nothing: the journal may hold what a later release
    /// understands. `machine` is the one that recorded it, where it came from a remote.
    fn event(&mut self, kept: Projection<'_>, sequence: u64, event: &Event, machine: Option<&str>) -> Result<(), Unfit>;

    /// Puts what differs from what is kept into the index.
    fn keep(&self, kept: Projection<'_>, keys: &mut Keys<'_>) -> Result<()>;

    /// True if another one, of the same journal, tells the same.
    fn is_same(&self, kept: Projection<'_>, other: (&dyn Fold, Projection<'_>)) -> Result<bool>;

    /// The epoch with which an event is recorded. Fails where it may not be, as with [`Error::Fenced`] and [`Error::NoCheckpoint`].
    fn epoch(&self, kept: Projection<'_>, checkpoints: &dyn Checkpoints, event: &NewEvent) -> Result<u64>;

    /// The place of a session's next checkpoint.
    fn standing(&self, kept: Projection<'_>, session: &str) -> Result<SessionHead>;

    /// Fails where a session has no checkpoint of what its maker has.
    fn check_maker(&self, kept: Projection<'_>, session: &str, maker: &Maker) -> Result<()>;

    /// Events that are appended in front of a commit.
    fn events_of(&self, kept: Projection<'_>, record: &Record, maker: &Maker) -> Result<Vec<NewEvent>>;

    /// Facts about a checkpoint that the event of its deletion keeps.
    fn facts_of(
        &self,
        kept: Projection<'_>,
        contents: Contents<'_>,
        checkpoints: &dyn Checkpoints,
        checkpoint: &Checkpoint,
    ) -> Map<String, Value>;

    /// The session of an import: the one that is asked for, if it may have one, or else one like that of the exported checkpoint.
    fn import_session(&self, kept: Projection<'_>, asked: Option<&str>, exported: &str) -> Result<String>;

    /// Removes what lies in the store's folder for nothing any more.
    fn sweep(&self, kept: Projection<'_>, root: &Path) -> Result<()>;
}

/// The place of a session's next checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionHead {
    /// The session's epoch; 0 where no run of it ever began.
    pub epoch: u64,
    /// The checkpoint that it goes on from; none for the newest one that is not fenced.
    pub head: Option<Ulid>,
    /// True if the session works in a folder.
    pub has_folder: bool,
}

/// The reason for which an event changes nothing.
#[derive(Debug)]
pub enum Unfit {
    /// What is kept could not be read.
    Store(Error),
    /// It makes no sense.
    Refused(Error),
}

impl From<Error> for Unfit {
    fn from(error: Error) -> Self {
        Unfit::Store(error)
    }
}

impl From<String> for Unfit {
    fn from(reason: String) -> Self {
        Unfit::Refused(Error::Invalid(reason))
    }
}

impl Unfit {
    /// The error, where it makes no difference which of the two it is.
    pub fn into_error(self) -> Error {
        match self {
            Unfit::Store(error) | Unfit::Refused(error) => error,
        }
    }
}

/// The keys and values that the index has of a fold: its state before the journal's tail. Without an index there are none.
#[derive(Clone, Copy, Debug)]
pub struct Projection<'a>(pub(crate) Option<&'a dyn Index>);

impl<'a> Projection<'a> {
    /// The value of a key.
    pub fn get(self, key: &str) -> Result<Option<Vec<u8>>> {
        self.0.map_or(Ok(None), |index| index.value(key))
    }

    /// Calls `visit` with each key that begins so, and its value, in order.
    pub fn scan(self, begins: &str, mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        self.0.map_or(Ok(()), |index| index.each(begins, &mut visit))
    }

    /// A chosen name or id as keys have it: in a store with keys of its own it cannot be read there.
    pub fn name<'n>(self, name: &'n str) -> Cow<'n, str> {
        self.0.map_or(Cow::Borrowed(name), |index| index.name(name))
    }
}

/// The keys of a fold in the index, for changing them.
pub struct Keys<'a>(pub(crate) &'a mut dyn Changes);

impl Keys<'_> {
    /// Sets the value of a key.
    pub fn put(&mut self, key: &str, value: impl Into<Vec<u8>>) {
        self.0.set(key, value.into());
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &str) {
        self.0.remove(key);
    }
}

/// The fold of whoever reads content alone: nothing is made of events, and each checkpoint goes on from the one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoFold;

impl NoFold {
    pub(crate) fn make() -> Box<dyn Fold> {
        Box::new(NoFold)
    }
}

impl Fold for NoFold {
    fn shape(&self) -> &'static str {
        ""
    }

    fn copy(&self) -> Box<dyn Fold> {
        Box::new(*self)
    }

    fn commit(&mut self, _: Projection<'_>, _: u64, _: &Record, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    fn event(&mut self, _: Projection<'_>, _: u64, _: &Event, _: Option<&str>) -> Result<(), Unfit> {
        Ok(())
    }

    fn keep(&self, _: Projection<'_>, _: &mut Keys<'_>) -> Result<()> {
        Ok(())
    }

    fn is_same(&self, _: Projection<'_>, _: (&dyn Fold, Projection<'_>)) -> Result<bool> {
        Ok(true)
    }

    /// A checkpoint that an event is about has to exist: a deletion is an event.
    fn epoch(&self, _: Projection<'_>, checkpoints: &dyn Checkpoints, event: &NewEvent) -> Result<u64> {
        if event.kind.starts_with("checkpoint.") {
            let none = || Error::NoCheckpoint { selector: event.subject.clone() };
            let id: Ulid = event.subject.parse().map_err(|_| none())?;
            checkpoints.checkpoint(id)?.ok_or_else(none)?;
        }
        Ok(event.epoch.unwrap_or(0))
    }

    fn standing(&self, _: Projection<'_>, _: &str) -> Result<SessionHead> {
        Ok(SessionHead::default())
    }

    fn check_maker(&self, _: Projection<'_>, _: &str, _: &Maker) -> Result<()> {
        Ok(())
    }

    fn events_of(&self, _: Projection<'_>, _: &Record, _: &Maker) -> Result<Vec<NewEvent>> {
        Ok(Vec::new())
    }

    fn facts_of(&self, _: Projection<'_>, _: Contents<'_>, _: &dyn Checkpoints, _: &Checkpoint) -> Map<String, Value> {
        Map::new()
    }

    fn import_session(&self, _: Projection<'_>, asked: Option<&str>, exported: &str) -> Result<String> {
        Ok(asked.unwrap_or(exported).to_owned())
    }

    fn sweep(&self, _: Projection<'_>, _: &Path) -> Result<()> {
        Ok(())
    }
}
