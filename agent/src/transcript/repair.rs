//! A conversation whose last record was torn by a crash: cut at the last whole one, with the rest kept aside.

#![expect(clippy::disallowed_methods, reason = "mends a conversation of the agent's")]

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::gather::make_folders;
use crate::{
    error::{Error, IoContext, Result},
    regular,
};

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RepairReport {
    /// Its length now, in bytes.
    pub bytes: u64,
    /// The number of bytes that were cut off.
    pub cut_bytes: u64,
    /// The file that keeps them.
    pub aside: Option<PathBuf>,
    /// True if only the last line's end was missing, and was added.
    pub completed: bool,
}

/// Bytes read at a time.
const WINDOW_BYTES: u64 = 256 << 10;

/// Cuts a conversation after its last whole record. Earlier records are not checked: the agent ignores bad ones.
/// The torn end is written to the folder `aside`, and synced, before the cut.
pub fn repair(transcript: &Path, aside: &Path) -> Result<RepairReport> {
    let file = regular::open(transcript).at("open", transcript)?;
    let size = file.metadata().at("look at", transcript)?.len();
    let end = whole_end(&file, size).at("read", transcript)?;
    if end.bytes == size && !end.lacks_newline {
        return Ok(RepairReport { bytes: size, ..RepairReport::default() });
    }
    let mut file = File::options().read(true).write(true).open(transcript).at("open", transcript)?;
    if end.bytes == size {
        file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(b"\n")).and_then(|()| file.sync_all()).at("write", transcript)?;
        return Ok(RepairReport { bytes: size + 1, completed: true, ..RepairReport::default() });
    }
    let kept = keep_aside(&mut file, transcript, end.bytes, aside)?;
    file.set_len(end.bytes).and_then(|()| file.sync_all()).at("cut", transcript)?;
    Ok(RepairReport { bytes: end.bytes, cut_bytes: size - end.bytes, aside: Some(kept), completed: false })
}

/// The length of a conversation's whole records, in bytes.
pub fn whole_bytes(transcript: &Path) -> Result<u64> {
    let file = regular::open(transcript).at("open", transcript)?;
    let size = file.metadata().at("look at", transcript)?.len();
    Ok(whole_end(&file, size).at("read", transcript)?.bytes)
}

struct End {
    bytes: u64,
    lacks_newline: bool,
}

/// The end of the last whole record.
fn whole_end(file: &File, size: u64) -> std::io::Result<End> {
    let mut end = size;
    loop {
        if end == 0 {
            return Ok(End { bytes: 0, lacks_newline: false });
        }
        let (start, line) = last_line(file, end)?;
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let is_empty = text.iter().all(u8::is_ascii_whitespace);
        let is_record = serde_json::from_slice::<Value>(text).is_ok_and(|value| value.is_object());
        if is_record || (is_empty && line.ends_with(b"\n")) {
            return Ok(End { bytes: end, lacks_newline: !line.ends_with(b"\n") });
        }
        end = start;
    }
}

/// The line that ends at `end`, with its newline where it has one, and where it begins.
fn last_line(file: &File, end: u64) -> std::io::Result<(u64, Vec<u8>)> {
    let mut line = Vec::new();
    let mut start = end;
    loop {
        let from = start.saturating_sub(WINDOW_BYTES);
        let mut window = vec![0; (start - from) as usize];
        file.read_exact_at(&mut window, from)?;
        // The newline at the very end belongs to the line.
        let look_until = if start == end { window.len().saturating_sub(1) } else { window.len() };
        let newline = window[..look_until].iter().rposition(|b| *b == b'\n');
        let begin = newline.map_or(0, |at| at + 1);
        line.splice(0..0, window[begin..].iter().copied());
        start = from + begin as u64;
        if newline.is_some() || from == 0 {
            return Ok((start, line));
        }
    }
}

fn keep_aside(file: &mut File, transcript: &Path, from: u64, aside: &Path) -> Result<PathBuf> {
    make_folders(aside)?;
    let stem = transcript.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for n in 0..10_000u32 {
        let path = aside.join(format!("{stem}.torn-{n}"));
        let mut out = match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => continue,
            other => other.at("create", &path)?,
        };
        let mut copy = || -> std::io::Result<()> {
            file.seek(SeekFrom::Start(from))?;
            std::io::copy(&mut *file, &mut out)?;
            out.sync_all()
        };
        copy().at("write", &path)?;
        crate::durable::sync_names(aside)?;
        return Ok(path);
    }
    Err(Error::Invalid(format!("{} holds too many torn ends", aside.display())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    fn repaired(bytes: &[u8]) -> (RepairReport, Vec<u8>, Option<Vec<u8>>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("id.jsonl");
        fs::write(&path, bytes).unwrap();
        let done = repair(&path, &folder.path().join("aside")).unwrap();
        let aside = done.aside.as_ref().map(|path| fs::read(path).unwrap());
        (done, fs::read(&path).unwrap(), aside)
    }

    #[test]
    fn whole_files_are_left_alone() {
        for text in ["", "{}\n", "{\"a\":1}\nnot json\n{}\n", "{}\n\n"] {
            let (done, now, aside) = repaired(text.as_bytes());
            assert_eq!((now.as_slice(), aside, done.cut_bytes), (text.as_bytes(), None, 0), "{text}");
        }
    }

    #[test]
    fn a_missing_newline_is_put_there() {
        let (done, now, aside) = repaired(b"{}\n{\"a\":1}");
        assert!(done.completed && aside.is_none());
        assert_eq!(now, b"{}\n{\"a\":1}\n");
    }

    #[test]
    fn garbage_at_the_end_goes_too() {
        let mut bytes = b"{\"a\":1}\n{\"b\":2}\n{\"torn\n".to_vec();
        bytes.extend([0; 5000]);
        let (done, now, aside) = repaired(&bytes);
        assert_eq!(now, b"{\"a\":1}\n{\"b\":2}\n");
        assert_eq!(aside.unwrap(), bytes[16..]);
        assert_eq!(done.cut_bytes, bytes.len() as u64 - 16);
    }

    #[test]
    fn records_may_be_longer_than_what_is_looked_at_at_a_time() {
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(700_000));
        let whole = long.repeat(2);
        let torn = format!("{whole}{}", &long[..650_000]);
        let (_, now, aside) = repaired(torn.as_bytes());
        assert_eq!(now, whole.as_bytes());
        assert_eq!(aside.unwrap().len(), 650_000);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn every_cut_leaves_whole_records_and_loses_nothing(lengths in prop::collection::vec(0usize..60, 1..6), cut in 0usize..400) {
            let whole: String = lengths.iter().map(|n| format!("{{\"text\":\"{}\"}}\n", "é".repeat(*n))).collect();
            let bytes = &whole.as_bytes()[..cut.min(whole.len())];
            let (done, now, aside) = repaired(bytes);
            let body = now.strip_suffix(b"\n").unwrap_or(&now);
            prop_assert!(now.is_empty() || body.split(|b| *b == b'\n').all(|line| serde_json::from_slice::<Value>(line).is_ok()));
            let mut all = now.clone();
            if done.completed {
                all.pop();
            }
            all.extend(aside.unwrap_or_default());
            prop_assert_eq!(all, bytes);
        }
    }
}
