//! The checkpoints of a view: those of RocksDB, and those of the journal's tail.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, mpsc},
};

use super::{
    Db, Family, View, broken_view,
    stored::{UNREADABLE, checkpoints_key, decode_checkpoint, decode_sequence, origin_key, sequence_key},
};
use crate::{
    error::Result,
    id::Ulid,
    record::{Brief, Checkpoint, Outline, Unreadable},
    threads,
};

impl View {
    /// The nearest checkpoint that exists and that another one came from, over those that were deleted.
    pub fn ancestor(&self, checkpoint: &Checkpoint) -> Result<Option<Checkpoint>> {
        let mut next = checkpoint.record.parent;
        while let Some(id) = next {
            if let Some(found) = self.checkpoint(id)? {
                return Ok(Some(found));
            }
            next = self.origin(id)?;
        }
        Ok(None)
    }

    /// The checkpoints that exist, in order of commit.
    pub fn checkpoints(&self) -> Result<&[Checkpoint]> {
        if let Some(found) = self.all_checkpoints.get() {
            return Ok(found);
        }
        let mut found = Vec::new();
        if let Some(db) = &self.db {
            for entry in db.scan(Family::Checkpoints)? {
                let (key, sealed) = entry?;
                found.push(decode_checkpoint(self.ids(), &key, sealed.into_vec())?);
            }
        }
        found.extend(self.changes.checkpoints.values().cloned());
        found.retain(|c| !self.changes.deleted.contains(&c.record.id));
        Ok(self.all_checkpoints.get_or_init(|| found))
    }

    /// The checkpoint that a deleted one came from; none of one that was the first, and where its deletion does not tell.
    pub fn origin(&self, deleted: Ulid) -> Result<Option<Ulid>> {
        if let Some(origin) = self.changes.origins.get(&deleted) {
            return Ok(Some(*origin));
        }
        let Some(db) = &self.db else { return Ok(None) };
        let origin = db.get(Family::Projections, &origin_key(deleted))?;
        Ok(origin.and_then(|origin| std::str::from_utf8(&origin).ok()?.parse().ok()))
    }

    /// Checkpoints that were deleted since RocksDB was brought up to date: of a view without it, all.
    pub(crate) fn deleted(&self) -> &HashSet<Ulid> {
        &self.changes.deleted
    }

    /// The checkpoints that exist and that this release cannot read, in order of commit.
    pub fn unreadable(&self) -> Result<Vec<Unreadable>> {
        let mut sealed = BTreeMap::new();
        if let Some(db) = &self.db {
            for entry in db.scan_prefix(Family::Projections, UNREADABLE)? {
                let (key, record) = entry?;
                let sequence = decode_sequence(key.get(UNREADABLE.len()..).unwrap_or_default())?;
                sealed.insert(sequence, String::from_utf8_lossy(&record).into_owned());
            }
        }
        sealed.extend(self.changes.unreadable.iter().map(|(sequence, record)| (*sequence, record.clone())));
        let found = sealed.into_iter().filter_map(|(sequence, record)| Unreadable::of(sequence, &record));
        Ok(found.filter(|one| one.id.is_none_or(|id| !self.changes.deleted.contains(&id))).collect())
    }

    /// The checkpoints that exist as lists show them, in order of commit. Of many this costs a fraction of reading them whole.
    pub fn outlines(&self) -> Result<Vec<Outline>> {
        let mut found = match &self.db {
            Some(db) => stored_outlines(db)?,
            None => Vec::new(),
        };
        found.extend(self.changes.checkpoints.values().map(Outline::from));
        found.retain(|outline| !self.changes.deleted.contains(&outline.id));
        Ok(found)
    }

    /// The checkpoints that exist, newest first, each read when it is asked for.
    pub fn newest_first(&self) -> Result<impl Iterator<Item = Result<Checkpoint>> + '_> {
        let tail = self.changes.checkpoints.values().rev().map(|c| Ok(c.clone()));
        let stored = self.db.as_ref().map(|db| db.scan_back(Family::Checkpoints)).transpose()?;
        let stored = stored.into_iter().flatten().map(|entry| {
            let (key, sealed) = entry?;
            decode_checkpoint(self.ids(), &key, sealed.into_vec())
        });
        let exists = |c: &Result<Checkpoint>| c.as_ref().map_or(true, |c| !self.changes.deleted.contains(&c.record.id));
        Ok(tail.chain(stored).filter(exists))
    }

    /// A session's checkpoints that exist, newest first, each found and read when it is asked for. Those of other sessions are not read.
    pub fn newest_first_of(&self, session: &str) -> Result<impl Iterator<Item = Result<Checkpoint>> + '_> {
        let stored = match &self.db {
            Some(db) => Some(db.keys_back(Family::Projections, checkpoints_key(db, session))?),
            None => None,
        };
        let read = |key: Result<Box<[u8]>>| {
            let sequence = sequence_of(&key?)?;
            let sealed = self.db.as_ref().map(|db| db.get(Family::Checkpoints, &sequence)).transpose()?.flatten();
            sealed.map(|sealed| decode_checkpoint(self.ids(), &sequence, sealed)).transpose()
        };
        let stored = stored.into_iter().flatten().filter_map(move |key| read(key).transpose());
        let tail = self.changes.checkpoints.values().rev().filter(|c| c.record.session == session);
        let tail: Vec<Result<Checkpoint>> = tail.map(|c| Ok(c.clone())).collect();
        let exists = |c: &Result<Checkpoint>| c.as_ref().map_or(true, |c| !self.changes.deleted.contains(&c.record.id));
        Ok(tail.into_iter().chain(stored).filter(exists))
    }

    /// Briefs of a session's checkpoints that exist and were committed behind a sequence, in order of commit. No record is read.
    pub fn briefs_of(&self, session: &str, behind: u64) -> Result<Vec<Brief>> {
        let mut found = Vec::new();
        if let Some(db) = &self.db {
            let name: Arc<str> = session.into();
            let prefix = checkpoints_key(db, session);
            let from = [&prefix[..], &behind.saturating_add(1).to_be_bytes()].concat();
            for entry in db.scan_prefix_from(Family::Projections, &prefix, &from)? {
                let (key, brief) = entry?;
                let sequence = u64::from_be_bytes(sequence_of(&key)?);
                found.push(Brief::decode(name.clone(), sequence, &brief).map_err(|e| broken_view(e.to_string()))?);
            }
        }
        found.extend(
            self.changes.checkpoints.values().filter(|c| c.record.session == session && c.sequence > behind).map(Brief::from),
        );
        found.retain(|brief| !self.changes.deleted.contains(&brief.id));
        Ok(found)
    }

    /// The number of a session's checkpoints that exist. No record is read.
    pub fn count_of(&self, session: &str) -> Result<u64> {
        if !self.changes.deleted.is_empty() {
            return Ok(self.briefs_of(session, 0)?.len() as u64);
        }
        let mut count = self.changes.checkpoints.values().filter(|c| c.record.session == session).count() as u64;
        if let Some(db) = &self.db {
            for key in db.keys_back(Family::Projections, checkpoints_key(db, session))? {
                key?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// The sequence of a checkpoint's commit, if it exists. Its record is not read.
    pub fn sequence(&self, id: Ulid) -> Result<Option<u64>> {
        if self.changes.deleted.contains(&id) {
            return Ok(None);
        }
        if let Some((sequence, _)) = self.changes.checkpoints.iter().find(|(_, c)| c.record.id == id) {
            return Ok(Some(*sequence));
        }
        let Some(db) = &self.db else { return Ok(None) };
        db.get(Family::Projections, &sequence_key(id))?.map(|sequence| decode_sequence(&sequence)).transpose()
    }

    /// The first checkpoint of a session that exists. Reads no other ones.
    pub fn oldest_of(&self, session: &str) -> Result<Option<Checkpoint>> {
        if let Some(db) = &self.db {
            for entry in db.scan_prefix(Family::Projections, &checkpoints_key(db, session))? {
                let (key, _) = entry?;
                let sequence = sequence_of(&key)?;
                let sealed = db.get(Family::Checkpoints, &sequence)?;
                let sealed = sealed.map(|sealed| decode_checkpoint(self.ids(), &sequence, sealed)).transpose()?;
                if let Some(found) = sealed.filter(|c| !self.changes.deleted.contains(&c.record.id)) {
                    return Ok(Some(found));
                }
            }
        }
        let is_wanted = |c: &&Checkpoint| c.record.session == session && !self.changes.deleted.contains(&c.record.id);
        Ok(self.changes.checkpoints.values().find(is_wanted).cloned())
    }

    /// The checkpoint of an id, if it exists. Reads no other one.
    pub fn checkpoint(&self, id: Ulid) -> Result<Option<Checkpoint>> {
        if self.changes.deleted.contains(&id) {
            return Ok(None);
        }
        if let Some(found) = self.changes.checkpoints.values().find(|c| c.record.id == id) {
            return Ok(Some(found.clone()));
        }
        let Some(db) = &self.db else { return Ok(None) };
        let Some(sequence) = db.get(Family::Projections, &sequence_key(id))? else { return Ok(None) };
        let sealed = db.get(Family::Checkpoints, &sequence)?;
        sealed.map(|sealed| decode_checkpoint(self.ids(), &sequence, sealed)).transpose()
    }

    /// A session's head: what the next checkpoint's parent will be. Where that was deleted, the newest one that exists and is not
    /// fenced.
    pub fn head(&self, session: &str) -> Result<Option<Checkpoint>> {
        let head = self.standing(session)?.head.map(|id| self.checkpoint(id)).transpose()?.flatten();
        match head {
            Some(head) => Ok(Some(head)),
            None => self.newest_first_of(session)?.find(|c| c.as_ref().map_or(true, |c| !c.record.fenced)).transpose(),
        }
    }
}

/// The sequence at the end of a key.
fn sequence_of(key: &[u8]) -> Result<[u8; 8]> {
    key.last_chunk().copied().ok_or_else(|| broken_view("a sequence does not decode".into()))
}

/// Reading them takes as long as decoding them, so that it is done side by side, where there is a thread to be had.
fn stored_outlines(db: &Db) -> Result<Vec<Outline>> {
    const AT_ONCE: usize = 64;
    let decode = |(key, sealed): (Box<[u8]>, Box<[u8]>)| {
        Outline::decode(decode_sequence(&key)?, &sealed).map_err(|e| broken_view(e.to_string()))
    };
    let (send, receive) = mpsc::sync_channel::<Vec<(Box<[u8]>, Box<[u8]>)>>(4);
    std::thread::scope(|scope| {
        let beside = threads::beside(scope, move || receive.into_iter().flatten().map(decode).collect::<Result<Vec<_>>>());
        let Some(decoded) = beside else {
            return db.scan(Family::Checkpoints)?.map(|entry| decode(entry?)).collect();
        };
        let mut entries = db.scan(Family::Checkpoints)?;
        loop {
            let some = entries.by_ref().take(AT_ONCE).collect::<Result<Vec<_>>>()?;
            // Whoever decodes has stopped where something does not decode.
            if some.is_empty() || send.send(some).is_err() {
                break;
            }
        }
        drop(send);
        decoded.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
