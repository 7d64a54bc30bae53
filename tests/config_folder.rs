//! The agent's own folder: a session goes on with the conversation that it had, whatever folder the shell names that resumes it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parhelia_tests::{Scratch, live::shown, scripted::AGENT, write, write_program};

struct Work {
    scratch: Scratch,
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        write_program(&scratch.path("bin/claude"), AGENT);
        write(&scratch.path("work/file"), b"work").unwrap();
        Work { scratch }
    }

    fn command(&self, arguments: &[&str], home: &str, config: Option<&str>) -> Command {
        let mut command = self.scratch.command(arguments);
        command.env("HOME", self.scratch.path(home)).stdin(Stdio::null());
        command.envs(config.map(|config| ("CLAUDE_CONFIG_DIR", self.scratch.path(config))));
        command
    }

    fn expect(&self, arguments: &[&str], home: &str, config: Option<&str>) -> String {
        let output = self.command(arguments, home, config).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
        shown(&output)
    }

    /// A session that an agent has begun.
    fn begin(&self, home: &str, config: Option<&str>) {
        let (work, agent) = (self.scratch.path("work"), self.scratch.path("bin/claude"));
        let arguments = ["session", "run", "--name", "it", "--workspace", work.to_str().unwrap(), "--", agent.to_str().unwrap()];
        self.expect(&arguments, home, config);
    }

    /// The turns of the one conversation in a folder; none where there is no conversation.
    fn turns(&self, config: &str) -> Option<usize> {
        let projects = fs::read_dir(self.scratch.path(config).join("projects")).into_iter().flatten().flatten();
        let files = projects.flat_map(|project| fs::read_dir(project.path()).into_iter().flatten().flatten());
        let transcripts: Vec<PathBuf> =
            files.map(|file| file.path()).filter(|path| path.extension() == Some("jsonl".as_ref())).collect();
        assert!(transcripts.len() < 2, "{transcripts:?}");
        transcripts.first().map(|path| lines(path))
    }

    fn seen(&self) -> String {
        fs::read_to_string(self.scratch.path("work/environment")).unwrap().lines().last().unwrap().to_owned()
    }
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn a_session_keeps_its_folder_when_another_one_is_named() {
    let work = Work::new();
    work.begin("home", Some("one"));
    let text = work.expect(&["session", "resume", "it"], "home", Some("two"));
    assert_eq!((work.turns("one"), work.turns("two"), work.turns("home/.claude")), (Some(2), None, None), "{text}");
    assert!(text.contains("the agent's own folder is") && text.contains("this shell has"), "{text}");
    // None at all.
    let text = work.expect(&["session", "resume", "it"], "home", None);
    assert_eq!((work.turns("one"), work.turns("home/.claude")), (Some(3), None), "{text}");
    let text = work.expect(&["session", "resume", "it"], "home", Some("one"));
    assert_eq!(work.turns("one"), Some(4));
    assert!(!text.contains("the agent's own folder"), "{text}");

    // A rollback goes back there, too.
    let text = work.expect(&["checkpoint", "rollback", "it@latest~2", "--yes"], "home", Some("two"));
    assert_eq!((work.turns("one"), work.turns("two")), (Some(2), None), "{text}");
    assert!(text.contains("The conversation is at the checkpoint's position"), "{text}");
}

#[test]
fn a_session_goes_on_in_a_home_that_was_moved() {
    let work = Work::new();
    work.begin("old", None);
    fs::rename(work.scratch.path("old"), work.scratch.path("new")).unwrap();
    let text = work.expect(&["session", "resume", "it"], "new", None);
    assert_eq!(work.turns("new/.claude"), Some(2), "{text}");
    assert!(!work.scratch.path("old").exists() && text.contains("is gone; its conversation goes on in"), "{text}");
}

#[test]
fn a_session_keeps_its_home_when_another_one_is_named() {
    let work = Work::new();
    work.begin("home", None);
    let text = work.expect(&["session", "resume", "it"], "elsewhere", None);
    assert_eq!((work.turns("home/.claude"), work.turns("elsewhere/.claude")), (Some(2), None), "{text}");
    assert!(text.contains("the agent's own folder is"), "{text}");
    let text = work.expect(&["session", "resume", "it"], "elsewhere", Some("two"));
    assert_eq!((work.turns("home/.claude"), work.turns("two")), (Some(3), None), "{text}");
    assert_eq!(work.seen(), format!("none {}", work.scratch.path("home").display()));
}

/// The one transcript below a folder of the agent's.
fn transcript(config: &Path) -> PathBuf {
    let projects = fs::read_dir(config.join("projects")).unwrap().flatten();
    let mut files = projects.flat_map(|project| fs::read_dir(project.path()).unwrap().flatten());
    files.find(|file| file.path().extension() == Some("jsonl".as_ref())).unwrap().path()
}

#[test]
fn a_home_that_was_made_again_beside_the_moved_one_is_not_taken_for_it() {
    let work = Work::new();
    work.begin("old", None);
    work.expect(&["session", "resume", "it"], "old", None);
    fs::rename(work.scratch.path("old"), work.scratch.path("new")).unwrap();
    // An agent that lived meanwhile has gone on at the path that it knew.
    let whole = transcript(&work.scratch.path("new/.claude"));
    let rest = fs::read_to_string(&whole).unwrap().lines().last().unwrap().to_owned() + "\n";
    let husk = work.scratch.path("old").join(whole.strip_prefix(work.scratch.path("new")).unwrap());
    write(&husk, rest.as_bytes()).unwrap();
    let text = work.expect(&["session", "resume", "it"], "new", None);
    assert_eq!((work.turns("new/.claude"), work.turns("old/.claude")), (Some(3), Some(1)), "{text}");
    assert!(text.contains("has less of its conversation than"), "{text}");
}

#[test]
fn a_home_that_is_gone_is_not_made_again_where_the_shell_has_another() {
    let work = Work::new();
    work.begin("old", None);
    fs::rename(work.scratch.path("old"), work.scratch.path("away")).unwrap();
    fs::create_dir_all(work.scratch.path("fresh/.claude")).unwrap();
    let text = work.expect(&["session", "resume", "it"], "fresh", None);
    assert!(!work.scratch.path("old").exists() && text.contains("is gone; its conversation goes on in"), "{text}");
    assert_eq!(work.turns("fresh/.claude"), Some(2), "{text}");
}
