//! Output without what differs from run to run.

/// Lines without ids, times, ages, sizes, numbers and the place of temporary folders and homes; spaces, empty lines and repeated lines count
/// for nothing, so that neither a column's width nor an agent that came one step further makes a difference.
pub fn plain(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(line).filter(|line| !line.is_empty()).collect();
    lines.dedup();
    lines
}

fn line(line: &str) -> String {
    let words: Vec<String> = without_ids(line).split_whitespace().map(word).collect();
    let text = format!(" {} ", words.join(" "));
    let aged =
        ["N seconds ago", "N minutes ago", "N second ago", "just now"].iter().fold(text, |text, age| text.replace(age, "AGE"));
    aged.trim().to_owned()
}

/// A line with a name for each id and each hash, wherever it stands.
fn without_ids(line: &str) -> String {
    let mut out = String::new();
    for part in line.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let bare = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_id = bare.len() == 26 && bare.starts_with("01");
        let is_hash = bare.len() >= 20 && bare.bytes().all(|byte| byte.is_ascii_hexdigit());
        let name = if is_id {
            "ID"
        } else if is_hash {
            "HASH"
        } else {
            bare
        };
        out.push_str(name);
        out.push_str(&part[bare.len()..]);
    }
    out
}

fn word(word: &str) -> String {
    let is_edge = |c: char| !c.is_alphanumeric() && !"/~.".contains(c);
    let bare = word.trim_matches(is_edge).trim_end_matches('.').trim_end_matches(is_edge);
    // `KEY=VALUE` and `NAME@latest` keep what does not change.
    if let Some((before, after)) = bare.split_once(['=', '@'])
        && !after.is_empty()
    {
        let mark = &bare[before.len()..=before.len()];
        return word.replace(bare, &format!("{}{mark}{}", self::word(before), self::word(after)));
    }
    match stands_for(bare) {
        Some(name) => word.replacen(bare, &name, 1),
        None => word.to_owned(),
    }
}

/// A name for a word that differs from run to run.
fn stands_for(word: &str) -> Option<String> {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    let (before, tail) = word.rsplit_once('-').unwrap_or(("", word));
    // Sessions are called after their folder, with six digits of its path's hash or eight characters of a ULID, which may all be letters.
    let is_session = !before.is_empty()
        && [6, 8].contains(&tail.len())
        && tail.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && (tail.bytes().any(|byte| byte.is_ascii_digit())
            || tail.len() == 6 && tail.bytes().all(|byte| byte.is_ascii_hexdigit())
            || tail.len() == 8 && !tail.contains(['i', 'l', 'o', 'u']));
    let name = match () {
        () if word.starts_with("/tmp/") || word.starts_with("/home/") => format!("DIR/{}", word.rsplit('/').next()?),
        () if is_session && !word.contains('/') => format!("{before}-SUFFIX"),
        () if ["B", "KiB", "MiB", "GiB"].contains(&word) => "UNIT".to_owned(),
        () if ["second", "seconds"].contains(&word) => "seconds".to_owned(),
        () if is_number && word.len() == 20 && word.ends_with('Z') => "TIME".to_owned(),
        () if is_number => "N".to_owned(),
        () => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_has_a_name() {
        let text = "Session work-w5kkwxq3 goes on from checkpoint 01M8BFXP7DMMXMJKKDSQR5DRF5 (just now) (run 01M8BFXPY58ASHV5XSKT7V6JDR, epoch 2).";
        assert_eq!(plain(text), ["Session work-SUFFIX goes on from checkpoint ID (AGE) (run ID, epoch N)."]);
        assert_eq!(
            plain("agent: wrote chapter 1\nagent: wrote chapter 2\n\nagent: done"),
            ["agent: wrote chapter N", "agent: done"]
        );
        assert_eq!(
            plain("Restored 01M8BFXP7DMMXMJKKDSQR5DRF5 to /tmp/x1/work: 9 files, 437 B written."),
            ["Restored ID to DIR/work: N files, N UNIT written."]
        );
        assert_eq!(plain("01M8BFXP7DMMXMJKKDSQR5DRF5  work-cda78b  manual  7 seconds ago"), ["ID work-SUFFIX manual AGE"]);
        assert_eq!(plain("(session work-108010)."), ["(session work-SUFFIX)."]);
        assert_eq!(plain("Session work-ndzpmsvq begins."), ["Session work-SUFFIX begins."]);
        assert_eq!(plain("log: /home/me/x/01a21700b0481d09c7e95d20.log."), ["log: DIR/HASH.log."]);
        assert_eq!(plain(r#"{"id":"01M8BFXP7DMMXMJKKDSQR5DRF5","path":""#), [r#"{"id":"ID","path":""#]);
    }

    #[test]
    fn other_words_stay() {
        for text in ["M chapter.md", "No difference.", "read-only safety-net in-place", "Rolled back, at last"] {
            assert_eq!(plain(text), [text]);
        }
    }
}
