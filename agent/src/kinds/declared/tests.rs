use std::{ffi::OsString, path::Path};

use super::*;
use crate::{
    command::Agent,
    kind::Kind,
    kinds::{self, check, declare},
};

/// opencode, as the documentation declares it.
fn opencode() -> Declaration {
    let declaration = serde_json::json!({
        "name": "opencode",
        "programs": ["opencode", "opencode-ai"],
        "resume": ["--session", "{id}"],
        "prompt": ["--prompt={prompt}"],
        "headless": ["run"],
        "takes": ["-s", "--session", "-m", "--model", "--prompt", "--dir"],
        "choosing": ["-s", "--session", "-c", "--continue"],
        "once": ["--fork", "--prompt"],
        "unchecked": ["--auto"],
        "elsewhere": ["--dir"],
        "commands": ["serve", "session", "-v"],
        "data": { "variable": "XDG_DATA_HOME", "inside": "opencode", "home": ".local/share/opencode" },
        "credentials": ["auth.json"],
        "unknown": ["Session not found"],
        "hooks": "~/.config/opencode/plugin/parhelia.js",
    });
    serde_json::from_value(declaration).unwrap()
}

fn argv(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

/// The kind, known to the whole process: no other test has a word of it.
fn declared() -> Kind {
    declare(&[opencode()], Some(Path::new("/h")));
    kinds::all()[3]
}

/// Understands a command line.
fn agent(text: &str) -> Agent {
    declared();
    Agent::of(&argv(text)).unwrap()
}

const ID: &str = "ses_dd515046effevmkTuf63eXsi1y";

#[test]
fn a_command_line_tells_what_it_starts() {
    let kind = declared();
    for word in ["opencode", "/usr/bin/opencode", "opencode-ai", "opencode-ai@1.18.33"] {
        assert!(kind.is_program(word.as_ref()), "{word}");
    }
    for word in ["opencodex", "-opencode", "xopencode-ai@1"] {
        assert!(!kind.is_program(word.as_ref()), "{word}");
    }
    assert!(agent("opencode run fix").is_headless() && !agent("opencode").is_headless());
    assert!(agent("opencode run -m a/b fix").is_headless() && !agent("opencode -m run").is_headless());
    assert_eq!(agent("npx opencode-ai run serve").kind().name(), "opencode");
    assert_eq!(agent("/usr/bin/python3 /usr/bin/opencode run x").kind().name(), "opencode");
    for text in ["python3 -c opencode", "sh opencode", "vi /usr/bin/opencode", "sh /x/claude"] {
        assert!(Agent::of(&argv(text)).is_none(), "{text}");
    }
    for text in ["opencode serve", "opencode session list", "opencode --help", "opencode run -v"] {
        assert!(Agent::of(&argv(text)).is_none() && Agent::managing(&argv(text)).is_some(), "{text}");
    }
    assert_eq!(agent(&format!("opencode -s {ID}")).conversation().as_deref(), Some(ID));
    assert_eq!(agent(&format!("opencode run --session={ID} fix")).conversation().as_deref(), Some(ID));
    assert!(agent("opencode -c").chooses_itself() && !agent("opencode").chooses_itself());
    assert_eq!(agent("opencode run --dir /x fix").works_elsewhere(), Some("--dir"));
    assert_eq!((agent("opencode --auto").bypass(), agent("opencode").bypass()), (Some(Bypass::On), None));
}

#[test]
fn a_resume_says_everything_again_but_the_conversation_and_the_prompt() {
    let of = |text: &str, conversation: Option<&str>, prompt: Option<&str>| {
        let resume =
            Resume { conversation: conversation.map(str::to_owned), prompt: prompt.map(str::to_owned), ..Resume::default() };
        let words: Vec<_> = agent(text).resume_argv(&resume).iter().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join("|")
    };
    let known = Some(ID);
    assert_eq!(of("opencode -m a/b --prompt first", known, None), format!("opencode|--session|{ID}|-m|a/b"));
    assert_eq!(of("opencode -c --fork", known, Some("go on")), format!("opencode|--session|{ID}|--prompt=go on"));
    assert_eq!(of("opencode run -m a/b first thing", known, Some("go on")), format!("opencode|run|--session|{ID}|-m|a/b|go on"));
    assert_eq!(of("opencode run first", known, Some("-x")), format!("opencode|run|--session|{ID}| -x"));
    assert_eq!(of("opencode run --session=old first --new", None, Some("go")), "opencode|run|--new|go");
    assert_eq!(of("opencode -m=x", Some("--evil"), None), "opencode|-m=x");
}

#[test]
fn its_folder_is_found_again_in_another_environment() {
    declared();
    let of = |name: &'static str, value: &'static str| {
        ConfigFolder::of(declared(), move |asked| (asked == name).then(|| value.into())).unwrap()
    };
    let (by_home, by_name) = (of("HOME", "/h"), of("XDG_DATA_HOME", "/d"));
    assert_eq!(by_home.path, Path::new("/h/.local/share/opencode"));
    assert_eq!(by_name.path, Path::new("/d/opencode"));
    assert!(by_home.kind().name() == "opencode" && by_name.kind().name() == "opencode");
    assert!(by_home.environment(Some(&by_home)).is_empty());
    assert_eq!(by_home.environment(None), [("XDG_DATA_HOME".to_owned(), Some("/h/.local/share".into()))]);
    assert_eq!(by_name.environment(Some(&by_home)), [("XDG_DATA_HOME".to_owned(), Some("/d".into()))]);
    let same = of("XDG_DATA_HOME", "/h/.local/share");
    assert!(same.is_same(&by_home) && same.environment(Some(&by_home)).is_empty());
    // Another program's folder that the same variable names is not its own.
    let other = ConfigFolder { path: "/d/goose".into(), variable: "XDG_DATA_HOME".into() };
    assert_ne!(other.kind().name(), "opencode");
    let found = declared().secrets(&|name| (name == "HOME").then(|| "/h".into()));
    assert!(found.files.contains(&"/h/.local/share/opencode/auth.json".into()), "{found:?}");
    assert!(
        found.folders.iter().any(|folder| folder.path_end == Path::new("opencode") && folder.names.contains(&"auth.json".into()))
    );
}

#[test]
fn a_conversation_that_it_does_not_know_is_told_by_its_own_words() {
    assert_eq!(declared().trouble("\u{1b}[91mError: \u{1b}[0mSession not found"), Some(Trouble::NoConversation));
    assert_eq!(declared().trouble("> build"), None);
    assert!(declared().does_not_know("Error: Session not found", ID));
}

#[test]
fn what_is_no_declaration_is_refused_with_the_reason() {
    let faults = |change: fn(&mut Declaration)| {
        let mut changed = opencode();
        change(&mut changed);
        check(&[changed]).unwrap_or_default()
    };
    assert_eq!(faults(|_| {}), "");
    for (change, word) in [
        ((|d| d.name = "claude-code".into()) as fn(&mut Declaration), "built in"),
        (|d| d.name = "a b".into(), "no name"),
        (|d| d.programs.clear(), "names none"),
        (|d| d.programs = vec!["claude".into()], "built in"),
        (|d| d.programs = vec!["-x".into()], "no program"),
        (|d| d.resume = vec!["--session".into()], "{id}"),
        (|d| d.prompt = vec!["--prompt".into()], "{prompt}"),
        (|d| d.takes = vec!["model".into()], "no flag"),
        (|d| d.data.home = "/abs".into(), "into it"),
        (|d| d.data.inside = Some("../x".into()), "into it"),
        (|d| d.data.variable = None, "no variable"),
        (|d| d.data.variable = Some("HOME".into()), "no variable"),
        (|d| d.credentials = vec!["a/b".into()], "no name of a file"),
        (|d| d.hooks = Some("plugin.js".into()), "from the root"),
    ] {
        assert!(faults(change).contains(word), "{word}: {}", faults(change));
    }
    assert!(check(&[opencode(), opencode()]).unwrap().contains("twice"));
    let other = Declaration { name: "other".into(), ..opencode() };
    assert!(check(&[opencode(), other]).unwrap().contains("two kinds"));
}
