//! Entries that capture left out, or has not as they were: every one by name, with the reason. No restore or rollback deletes what was left
//! out.
//!
//! The list is a table beside the root. One that is too long for that is a file in the folder `state`; the table then names the folders
//! of what was left out, so that whoever knows of tables alone spares too much, and never too little.

use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_uint},
    error::{Error, Result},
    name,
    pack::ObjectKind,
    record::Checkpoint,
    store::Store,
    tree::{Kind, STATE_FOLDER},
};

/// The file of the folder `state` that holds a list too long for a table.
pub const OMISSIONS_FILE: &str = "omissions";

/// The file of the folder `state` that lists entries without some of their attributes. Releases that do not know of it have nothing to do
/// with these entries but to restore what there is of them.
pub const ATTRIBUTES_FILE: &str = "attributes";

pub(crate) const TARGET_OF_CARGO: &str = "target beside Cargo.toml";
pub(crate) const TARGET_OF_MAVEN: &str = "target beside pom.xml";
pub(crate) const NODE_MODULES: &str = "node_modules beside package.json";
pub(crate) const PYCACHE: &str = "__pycache__";
pub(crate) const VENV: &str = ".venv with pyvenv.cfg";
pub(crate) const NOT_TRACKED: &str = "regenerable, and not tracked by git";

/// The rules, as reasons of omissions have them, that go by what an entry is called and what it lies beside.
pub const REGENERABLE: [&str; 6] = [TARGET_OF_CARGO, TARGET_OF_MAVEN, NODE_MODULES, PYCACHE, VENV, NOT_TRACKED];

/// The reason for which an entry is not in a checkpoint as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A rule excluded it, with all that is in it. Says which.
    Excluded(String),
    /// It could not be read, and is not in the checkpoint. Says why.
    Unreadable(String),
    /// It kept changing while it was read. What was read last is in the checkpoint.
    Changing,
    /// It is in the checkpoint, but for extended attributes that could not be read. Says which, and why.
    Attributes(String),
}

impl Reason {
    /// True if the entry is not in the checkpoint. No restore deletes it then.
    pub fn is_left_out(&self) -> bool {
        matches!(self, Reason::Excluded(_) | Reason::Unreadable(_))
    }

    /// True if a rule left the entry out because its name and its neighbours say that it can be made again. A tag that anybody can put in a
    /// folder says nothing of that kind.
    pub fn is_regenerable(&self) -> bool {
        matches!(self, Reason::Excluded(rule) if REGENERABLE.contains(&rule.as_str()))
    }
}

/// One entry that was left out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Omission {
    /// Its path from the workspace folder.
    pub path: Vec<u8>,
    /// The reason, with the rule or the cause.
    pub reason: Reason,
}

/// The omission by which a path is not in a checkpoint: its own, or that of a folder above. The omissions are in order.
pub fn covering<'o>(omissions: &'o [Omission], path: &[u8]) -> Option<&'o Omission> {
    name::with_folders(path).find_map(|path| {
        let first = omissions.partition_point(|omission| omission.path.as_slice() < path);
        let same = omissions[first..].iter().take_while(|omission| omission.path == path);
        same.into_iter().find(|omission| omission.reason.is_left_out())
    })
}

/// A list of omissions as it is stored.
pub struct OmissionList {
    /// The table that the record refers to.
    pub table: Vec<u8>,
    /// The content of [`OMISSIONS_FILE`], where the table only stands in for it.
    pub whole: Option<Vec<u8>>,
}

/// Takes entries without some of their attributes out of a list. What is left is what every release knows.
pub fn split_attributes(omissions: &[Omission]) -> (Vec<Omission>, Vec<Omission>) {
    omissions.iter().cloned().partition(|omission| matches!(omission.reason, Reason::Attributes(_)))
}

/// Encodes a list of omissions, in a table of at most `bytes_max` bytes.
pub fn list(omissions: &[Omission], bytes_max: usize) -> OmissionList {
    let bytes = encode(omissions);
    match bytes.len() <= bytes_max {
        true => OmissionList { table: bytes, whole: None },
        false => OmissionList { table: stand_in(omissions, bytes_max), whole: Some(bytes) },
    }
}

/// A table of the folders that omissions lie in; where that is too long as well, of the folders that those lie in, and so on.
fn stand_in(omissions: &[Omission], bytes_max: usize) -> Vec<u8> {
    let folder = |path: &'_ [u8]| path.iter().rposition(|b| *b == b'/').unwrap_or(0);
    let spared = omissions.iter().filter(|omission| omission.reason.is_left_out());
    let mut folders: Vec<&[u8]> = spared.map(|omission| &omission.path[..folder(&omission.path)]).collect();
    loop {
        folders.sort_unstable();
        folders.dedup();
        let why = || format!("see {STATE_FOLDER}/{OMISSIONS_FILE}");
        let entry = |path: &&[u8]| Omission { path: path.to_vec(), reason: Reason::Excluded(why()) };
        let table = encode(&folders.iter().map(entry).collect::<Vec<_>>());
        if table.len() <= bytes_max || folders.iter().all(|path| path.is_empty()) {
            return table;
        }
        folders.iter_mut().for_each(|path| *path = &path[..folder(path)]);
    }
}

/// Encodes a list of omissions as an object.
pub fn encode(omissions: &[Omission]) -> Vec<u8> {
    let mut bytes = b"omits".to_vec();
    put_uint(&mut bytes, omissions.len() as u64);
    for omission in omissions {
        put_bytes(&mut bytes, &omission.path);
        let (number, text) = match &omission.reason {
            Reason::Excluded(rule) => (0, rule.as_str()),
            Reason::Unreadable(error) => (1, error.as_str()),
            Reason::Changing => (2, ""),
            Reason::Attributes(error) => (3, error.as_str()),
        };
        bytes.push(number);
        put_bytes(&mut bytes, text.as_bytes());
    }
    bytes
}

/// Least memory of a list that says that it is so long, in bytes.
pub fn kept_bytes(bytes: &[u8]) -> u64 {
    let count = bytes.get(5..).map(|rest| Decoder::new(rest).uint("omissions"));
    count.and_then(Result::ok).unwrap_or_default().saturating_mul(size_of::<Omission>() as u64)
}

/// Reads what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Vec<Omission>, DecodeError> {
    let mut d = Decoder::new(bytes);
    if d.take(5, "omissions")? != b"omits" {
        return Err(DecodeError("omissions"));
    }
    let count = d.count(3, "omissions")?;
    let mut omissions: Vec<Omission> = Vec::with_capacity(count);
    for _ in 0..count {
        let path = d.bytes("omission")?.to_vec();
        // The empty path is the workspace folder's.
        if !path.is_empty() && path.split(|byte| *byte == b'/').any(|part| !name::is_valid(part)) {
            return Err(DecodeError("path of an omission"));
        }
        let number = d.byte("omission")?;
        let text = String::from_utf8(d.bytes("omission")?.to_vec()).map_err(|_| DecodeError("text of an omission"))?;
        let reason = match number {
            0 => Reason::Excluded(text),
            1 => Reason::Unreadable(text),
            2 if text.is_empty() => Reason::Changing,
            3 => Reason::Attributes(text),
            _ => return Err(DecodeError("omission")),
        };
        let omission = Omission { path, reason };
        if omissions.last().is_some_and(|last| *last >= omission) {
            return Err(DecodeError("order of omissions"));
        }
        omissions.push(omission);
    }
    d.finish("omissions")?;
    Ok(omissions)
}

impl Store {
    /// Entries that a checkpoint's capture left out, or has not as they were, ordered by path.
    pub fn omissions(&self, checkpoint: &Checkpoint) -> Result<Vec<Omission>> {
        let Some(omitted) = &checkpoint.record.omitted else { return Ok(Vec::new()) };
        let mut omissions = match omitted.in_state {
            true => self.listed_in_state(checkpoint, OMISSIONS_FILE)?,
            false => self.read_object(ObjectKind::Table, omitted.table, decode)?,
        };
        if omitted.attributes > 0 {
            omissions.extend(self.listed_in_state(checkpoint, ATTRIBUTES_FILE)?);
            omissions.sort_unstable();
        }
        Ok(omissions)
    }

    /// A list that is a file of the folder `state`.
    fn listed_in_state(&self, checkpoint: &Checkpoint, file: &str) -> Result<Vec<Omission>> {
        let what = || format!("{STATE_FOLDER}/{file} of checkpoint {}", checkpoint.id());
        let broken = |reason: String| Error::Corrupt { what: what(), place: self.layout().packs(), reason };
        let state = self.entry(checkpoint.record.root, STATE_FOLDER.as_bytes())?;
        let found = match state.as_ref().and_then(|state| state.as_folder()) {
            Some((tree, _)) => self.entry(tree, file.as_bytes())?,
            None => None,
        };
        let Some(Kind::File { size, blob, .. }) = found.map(|file| file.kind) else {
            return Err(broken("it is not there".into()));
        };
        let bytes = self.blob(blob, size)?.read_all()?;
        decode(&bytes).map_err(|e| broken(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omissions_round_trip() {
        let list = vec![
            Omission { path: b"a/\xff".to_vec(), reason: Reason::Unreadable("permission denied".into()) },
            Omission { path: b"log".to_vec(), reason: Reason::Changing },
            Omission { path: b"socket".to_vec(), reason: Reason::Attributes("user.x: input/output error".into()) },
            Omission { path: b"target".to_vec(), reason: Reason::Excluded("target beside Cargo.toml".into()) },
        ];
        assert_eq!(decode(&encode(&list)), Ok(list));
    }

    #[test]
    fn a_path_is_left_out_by_itself_or_with_a_folder_above() {
        let of = |path: &str, reason| Omission { path: path.into(), reason };
        let excluded = || Reason::Excluded("rule".into());
        let mut list =
            vec![of("a/b", Reason::Changing), of("a/b", excluded()), of("a/log", Reason::Changing), of("c", excluded())];
        list.sort_unstable();
        let by = |path: &str| covering(&list, path.as_bytes()).map(|found| String::from_utf8_lossy(&found.path).into_owned());
        for (path, expected) in [
            ("a/b", "a/b"),
            ("a/b/c/d", "a/b"),
            ("c", "c"),
            ("c/x", "c"),
            ("a/log", ""),
            ("a/bc", ""),
            ("a", ""),
            ("", ""),
            ("b", ""),
        ] {
            assert_eq!(by(path).unwrap_or_default(), expected, "{path}");
        }
        let all = [of("", excluded())];
        assert!(covering(&all, b"x/y").is_some() && covering(&all, b"").is_some());
    }

    #[test]
    fn a_table_that_stands_in_spares_all_that_was_left_out_and_fits() {
        let names = (0..900).map(|i| format!("a/{}/b{i}/f{i}", i % 3)).chain(["top".to_owned()]);
        let left_out = |path: String| Omission { path: path.into_bytes(), reason: Reason::Excluded("f".into()) };
        let mut long: Vec<Omission> = names.map(left_out).collect();
        long.push(Omission { path: b"z/log".to_vec(), reason: Reason::Changing });
        let whole = encode(&long);
        assert!(list(&long, whole.len()).whole.is_none());
        for bytes_max in [whole.len() - 1, 4000, 100, 50] {
            let listed = list(&long, bytes_max);
            assert!(listed.table.len() <= bytes_max, "{bytes_max}");
            let spared = decode(&listed.table).unwrap();
            let covers =
                |path: &[u8]| spared.iter().any(|o| o.path.is_empty() || path.starts_with(&[&o.path[..], b"/"].concat()));
            let missed = long.iter().find(|o| o.reason != Reason::Changing && !covers(&o.path));
            assert_eq!(missed, None, "{bytes_max}");
            assert_eq!(listed.whole.as_deref(), (bytes_max < whole.len()).then_some(&whole[..]));
        }
    }

    #[test]
    fn paths_that_lead_out_or_are_spelled_otherwise_are_refused() {
        for path in ["../x", "a/../x", "a//b", "./a", "/a", "a/", "a/.", "/", "a\0b"] {
            let list = vec![Omission { path: path.into(), reason: Reason::Changing }];
            assert!(decode(&encode(&list)).is_err(), "{path}");
        }
    }

    #[test]
    fn one_list_has_one_encoding() {
        let of = |path: &str, reason: Reason| Omission { path: path.into(), reason };
        let (excluded, changing) = (of("a", Reason::Excluded("x".into())), of("a", Reason::Changing));
        let is_taken = |list: &[Omission]| decode(&encode(list)).is_ok();
        assert!(is_taken(&[of("", Reason::Excluded("x".into())), excluded.clone(), changing.clone()]));
        assert!(!is_taken(&[changing.clone(), excluded.clone()]) && !is_taken(&[changing.clone(), changing.clone()]));
        assert!(!is_taken(&[of("b", Reason::Changing), changing.clone()]));
        // The text is UTF-8, and nothing is said of what kept changing.
        for (reason, text) in [(1, &b"\xff"[..]), (2, b"x"), (4, b"")] {
            let mut bytes = b"omits\x01\x01a".to_vec();
            bytes.push(reason);
            put_bytes(&mut bytes, text);
            assert!(decode(&bytes).is_err(), "{reason}");
        }
    }
}
