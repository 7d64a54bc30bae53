//! References to issues: in a session's name, in its first prompt, in the branch of git, and in Beads.

use std::path::Path;

use parhelia_ledger::Issue;
use parhelia_oversight::review::link::{are_same, parse};

/// Issues of a session that are taken from texts.
const ISSUES_MAX: usize = 10;
/// The part of a prompt that is read, in bytes.
const PROMPT_BYTES_MAX: usize = 16 << 10;
/// A longer number is a date, a colour, or another number.
const DIGITS_MAX: usize = 6;
/// Words before a number in a branch that say that it is an issue's.
const WORDS: [&str; 3] = ["issue", "issues", "gh"];

/// Texts of a session, and what short references in them mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Texts<'a> {
    /// The name that it was given.
    pub name: Option<&'a str>,
    /// The first prompt of the session's user.
    pub prompt: Option<&'a str>,
    /// The branch of git.
    pub branch: Option<&'a str>,
    /// The repository of `#123`; none where GitHub is off, or none is configured.
    pub repository: Option<&'a str>,
    /// The team of `ABC-123`; none where Linear is off, or none is configured.
    pub team: Option<&'a str>,
    /// True if GitHub is on.
    pub github: bool,
    /// True if Linear is on.
    pub linear: bool,
}

impl Texts<'_> {
    /// The issues that the texts name, each once.
    pub fn issues(&self) -> Vec<Issue> {
        let prompt = self.prompt.map(|prompt| self.in_prompt(prompt)).unwrap_or_default();
        let of_name = self.name.and_then(|name| self.at_end(name));
        let of_branch = self.branch.map(|branch| self.in_branch(branch)).unwrap_or_default();
        let mut issues: Vec<Issue> = Vec::new();
        for issue in of_name.into_iter().chain(of_branch).chain(prompt) {
            let is_on = match issue.tracker.as_str() {
                // Whoever writes a prompt, or what is pasted into one, does not choose in whose repository is written.
                "github" => self.github && self.repository.is_some_and(|own| is_in(&issue, own)),
                "linear" => self.linear && self.team.is_some_and(|own| is_of(&issue, own)),
                _ => false,
            };
            if is_on && !issues.iter().any(|known| are_same(known, &issue)) {
                issues.push(issue);
            }
        }
        issues.truncate(ISSUES_MAX);
        issues
    }

    fn numbered(&self, number: &str) -> Option<Issue> {
        let is_number = (1..=DIGITS_MAX).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
        let repository = self.repository.filter(|_| is_number)?;
        parse(&format!("{repository}#{number}")).ok()
    }

    /// The issue of a key, where it is one of the team.
    fn keyed(&self, team: &str, number: &str) -> Option<Issue> {
        let known = self.team.filter(|known| known.eq_ignore_ascii_case(team))?;
        parse(&format!("https://linear.app/issue/{known}-{number}")).ok()
    }

    /// The issue of a name's last number: `fix-auth-123`, `fix-eng-123`.
    fn at_end(&self, name: &str) -> Option<Issue> {
        let (rest, number) = name.trim().rsplit_once(['-', '_', '#', ' ', '/'])?;
        let word = rest.rsplit(['-', '_', ' ', '/']).next().unwrap_or_default();
        self.keyed(word, number).or_else(|| self.numbered(number))
    }

    /// The issues of a branch: `fix/issue-123`, `feature/abc-123`, `123-fix-auth`.
    fn in_branch(&self, branch: &str) -> Vec<Issue> {
        let mut issues = Vec::new();
        for part in branch.split('/') {
            let words: Vec<&str> = part.split(['-', '_']).collect();
            for pair in words.windows(2) {
                let is_named = WORDS.iter().any(|word| word.eq_ignore_ascii_case(pair[0]));
                issues.extend(self.keyed(pair[0], pair[1]));
                issues.extend(is_named.then(|| self.numbered(pair[1])).flatten());
            }
            // As GitHub names branches of issues. What a number follows is a date.
            if let [number, next, ..] = words.as_slice()
                && next.starts_with(|c: char| c.is_ascii_alphabetic())
            {
                issues.extend(self.numbered(number));
            }
        }
        issues
    }

    /// The issues of a text: `#123`, `OWNER/REPO#123`, `ABC-123`, an address.
    fn in_prompt(&self, prompt: &str) -> Vec<Issue> {
        let end = (0..=prompt.len().min(PROMPT_BYTES_MAX)).rev().find(|end| prompt.is_char_boundary(*end));
        let prompt = &prompt[..end.unwrap_or_default()];
        let is_around = |c: char| c.is_whitespace() || "()[]{}<>\"'`,;".contains(c);
        prompt.split(is_around).filter_map(|word| self.word(word.trim_end_matches(['.', ':', '!', '?']))).collect()
    }

    fn word(&self, word: &str) -> Option<Issue> {
        if word.starts_with("https://") || word.starts_with("http://") {
            return parse(word).ok();
        }
        let word = word.trim_start_matches(':');
        if let Some((place, number)) = word.split_once('#') {
            return match place {
                "" => self.numbered(number),
                _ => parse(word).ok().filter(|issue| issue.tracker == "github"),
            };
        }
        let (team, number) = word.split_once('-')?;
        self.keyed(team, number)
    }
}

/// True of an issue of a repository.
fn is_in(issue: &Issue, repository: &str) -> bool {
    issue.id.split_once('#').is_some_and(|(place, _)| place.eq_ignore_ascii_case(repository))
}

/// True of an issue of a team.
fn is_of(issue: &Issue, team: &str) -> bool {
    issue.id.split_once('-').is_some_and(|(place, _)| place.eq_ignore_ascii_case(team))
}

/// The issues of Beads that are in progress.
pub fn in_beads(reach: &super::Reach, workspace: &Path) -> Vec<Issue> {
    let Some(beads) = reach.beads(workspace) else { return Vec::new() };
    // Where it fails, nothing is linked: an issue may be linked by hand at any time.
    let ids = beads.in_progress().unwrap_or_default();
    ids.iter().filter_map(|id| parse(&format!("beads:{id}")).ok()).take(ISSUES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Texts =
        Texts { name: None, prompt: None, branch: None, repository: Some("o/r"), team: Some("ENG"), github: true, linear: true };

    fn ids(texts: Texts) -> String {
        texts.issues().into_iter().map(|issue| issue.id).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_name_ends_with_a_number() {
        let of = |name| ids(Texts { name: Some(name), ..ALL });
        for (name, found) in [
            ("fix-auth-123", "o/r#123"),
            ("fix auth #7", "o/r#7"),
            ("eng-12", "ENG-12"),
            ("fix-eng-12", "ENG-12"),
            ("fix-auth", ""),
            ("fix-auth-0", ""),
            ("123", ""),
            ("auth-20261127", ""),
            ("v1.2", ""),
        ] {
            assert_eq!(of(name), found, "{name}");
        }
    }

    #[test]
    fn a_branch_names_its_issue() {
        let of = |branch| ids(Texts { branch: Some(branch), ..ALL });
        for (branch, found) in [
            ("fix/issue-123", "o/r#123"),
            ("gh-5", "o/r#5"),
            ("feature/eng-123", "ENG-123"),
            ("me/ENG-9-slow-start", "ENG-9"),
            ("45-fix-the-thing", "o/r#45"),
            ("2026-01-20-notes", ""),
            ("release/1.2", ""),
            ("feature/abc-123", ""),
            ("main", ""),
        ] {
            assert_eq!(of(branch), found, "{branch}");
        }
    }

    #[test]
    fn a_prompt_names_issues_in_every_way() {
        let of = |prompt| ids(Texts { prompt: Some(prompt), ..ALL });
        for (prompt, found) in [
            ("Fix #12, and (O/R#3).", "o/r#12 O/R#3"),
            ("see https://github.com/o/r/issues/4#issuecomment-1!", "o/r#4"),
            ("as in a/b#3 and https://github.com/x/y/issues/4, which are others'", ""),
            ("https://linear.app/acme/issue/OPS-7/slow https://linear.app/acme/issue/ENG-7/slow", "ENG-7"),
            ("do ENG-5: now, then eng-5 again", "ENG-5"),
            ("UTF-8, SHA-256 and CVE-2024-1 with #fff and #1234567", ""),
            ("a#1 b/c/d#2 https://example.com/#12 C# 5", ""),
            ("ünï #9", "o/r#9"),
        ] {
            assert_eq!(of(prompt), found, "{prompt}");
        }
        let many: String = (1..100).map(|n| format!("#{n} ")).collect();
        assert_eq!(Texts { prompt: Some(&many), ..ALL }.issues().len(), ISSUES_MAX);
    }

    #[test]
    fn trackers_that_are_off_have_no_issues() {
        let texts = Texts { prompt: Some("#1 o/r#2 ENG-3 https://linear.app/issue/ENG-4"), ..ALL };
        assert_eq!(ids(Texts { github: false, repository: None, ..texts }), "ENG-3 ENG-4");
        assert_eq!(ids(Texts { linear: false, team: None, ..texts }), "o/r#1 o/r#2");
    }
}
