//! The place of a conversation, whichever agent's it is. Its id is what names it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    error::{Error, IoContext, Result},
    id::is_session_id,
    kind::TranscriptLocation,
    kinds,
};

impl TranscriptLocation {
    /// From the path that a hook named. The file need not exist yet.
    pub fn from_hook(transcript: &Path) -> Result<Self> {
        let found = kinds::all().into_iter().rev().find_map(|kind| kind.located(transcript)).filter(|_| transcript.is_absolute());
        found.ok_or_else(|| {
            let shown = transcript.display();
            Error::Invalid(format!("{shown} is no transcript: give the absolute path of an `<id>.jsonl` file"))
        })
    }

    /// Finds a conversation by the agent's id, in the agent's own folder; of several, the one that was changed last.
    pub fn by_session(config: &Path, agent_session: &str) -> Result<Self> {
        if !is_session_id(agent_session) {
            return Err(Error::Invalid(format!("'{agent_session}' is no id of a conversation")));
        }
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for path in copies(config, agent_session)? {
            let modified = fs::symlink_metadata(&path).and_then(|metadata| metadata.modified()).at("read", &path)?;
            found.push((modified, path));
        }
        found.sort();
        let Some((_, transcript)) = found.pop() else {
            return Err(Error::NoTranscript { agent_session: agent_session.to_owned(), config: config.to_owned() });
        };
        let others = found.into_iter().rev().map(|(_, path)| path).collect();
        Ok(TranscriptLocation { config: Some(config.to_owned()), others, ..TranscriptLocation::from_hook(&transcript)? })
    }
}

/// All transcripts of a conversation in an agent's own folder, ordered.
pub fn copies(config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for kind in kinds::all() {
        found.extend(kind.copies(config, conversation)?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_a_hooks_path() {
        let found = TranscriptLocation::from_hook(Path::new("/h/.claude/projects/-w/0a-1.jsonl")).unwrap();
        assert_eq!((found.agent_session.as_str(), found.config.as_deref()), ("0a-1", Some(Path::new("/h/.claude"))));
        assert_eq!(TranscriptLocation::from_hook(Path::new("/elsewhere/0a-1.jsonl")).unwrap().config, None);
        for bad in ["", "relative.jsonl", "/a/b.txt", "/a/.jsonl", "/a/b c.jsonl"] {
            assert!(TranscriptLocation::from_hook(Path::new(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn by_id_the_copy_that_was_changed_last() {
        let config = tempfile::tempdir().unwrap();
        let missing = TranscriptLocation::by_session(config.path(), "a").unwrap_err();
        assert!(matches!(missing, Error::NoTranscript { .. }), "{missing}");
        let path = |slug: &str| config.path().join("projects").join(slug).join("a.jsonl");
        for (slug, seconds) in [("-one", 20), ("-two", 30), ("-three", 10)] {
            fs::create_dir_all(path(slug).parent().unwrap()).unwrap();
            let file = fs::File::create(path(slug)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)).unwrap();
        }
        fs::create_dir(config.path().join("projects/-one/b.jsonl")).unwrap();
        let found = TranscriptLocation::by_session(config.path(), "a").unwrap();
        assert_eq!(found.transcript, path("-two"));
        assert_eq!(found.others, [path("-one"), path("-three")]);
        assert!(TranscriptLocation::by_session(config.path(), "b").is_err());
        assert!(TranscriptLocation::by_session(config.path(), "../a").is_err());
    }
}
