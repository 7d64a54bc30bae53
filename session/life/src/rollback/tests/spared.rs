//! Paths that a rollback spares, and rollbacks that are refused because of them.

use std::{ffi::OsString, fs, path::PathBuf, process::Command};

use parhelia_store::{
    OpenOptions,
    create::{self, Options as CreateOptions},
    record::{Cause, Checkpoint, Rules, Trigger},
    restore::Why,
};
use serde_json::json;

use super::{AtCommit, Fixture, actor, fixture, interrupted, wanted};
use crate::{
    retention::SAFETY,
    rollback::{
        Options, RollbackReport, RollbackRequest, Stash, execute, execute::rules, finish::has_moved, foresee, last, look, open,
        refuse_early, whole,
    },
};
use parhelia_host::{Error, Refusal, config::Config, intent};
use parhelia_session_testing::Caller;

fn write(f: &Fixture, files: &[&str]) {
    for name in files {
        let path = f.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, *name).unwrap();
    }
}

fn is_there(f: &Fixture, name: &str) -> bool {
    f.workspace.join(name).exists()
}

fn captured(f: &Fixture, detail: Option<&str>, patterns: &[&str]) -> Checkpoint {
    let options = CreateOptions {
        workspace: f.workspace.clone(),
        session: "s".into(),
        trigger: Trigger::Manual,
        cause: detail.and_then(|detail| Cause::ALL.into_iter().find(|cause| cause.name() == detail)).unwrap_or_default(),
        trigger_detail: detail.map(str::to_owned),
        rules: Rules { patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(), ..Rules::default() },
        ..CreateOptions::default()
    };
    create::run(&f.store, &options, &()).unwrap().checkpoint
}

/// A rollback that does not ask for git.
fn forced<'a>(target: &'a Checkpoint, settings: &'a Config) -> RollbackRequest<'a> {
    let options = Options { any_git_state: true, ..Options::default() };
    RollbackRequest { options, ..wanted(target, settings) }
}

fn rolled_back(f: &Fixture, target: &Checkpoint, settings: &Config) -> Result<RollbackReport, Error> {
    let wanted = forced(target, settings);
    execute(&f.store, &look(&f.store, &wanted)?, &wanted, None, &())
}

#[test]
fn what_was_left_out_then_or_is_left_out_now_stays_and_so_does_git() {
    let f = fixture();
    write(&f, &["file", "a.then", ".git/HEAD"]);
    let first = captured(&f, None, &["*.then"]);
    let mut settings = Config::default();
    settings.capture.exclude = vec!["*.now".into()];
    write(&f, &["b.then", "b.now", "c.new", "d/e.now", "d/f.new", ".git/new"]);
    let wanted = forced(&first, &settings);
    let (plan, omitted) = foresee(&f.store, &look(&f.store, &wanted).unwrap(), &wanted, &()).unwrap();
    let mut named = Vec::new();
    plan.each_change(&mut |_, path| named.push(String::from_utf8_lossy(path).into_owned())).unwrap();
    named.retain(|name| !name.is_empty());
    assert_eq!(named, ["c.new", "d"]);
    assert_eq!(omitted.len(), 4, "{omitted:?}");
    rolled_back(&f, &first, &settings).unwrap();
    for (name, stays) in [
        ("a.then", true),
        ("b.then", true),
        ("b.now", true),
        ("d/e.now", true),
        ("c.new", false),
        ("d/f.new", false),
        (".git/new", true),
    ] {
        assert_eq!(is_there(&f, name), stays, "{name}");
    }
}

#[test]
fn rules_of_then_and_now_are_taken_together() {
    let of = |name: &str, is_on: bool| Rules {
        defaults: is_on,
        caches: is_on,
        one_file_system: is_on,
        patterns: vec![format!("{name}.pattern")],
        if_present: vec![format!("{name}.present")],
        listed_only: name == "then",
    };
    for (then, now) in [(false, false), (false, true), (true, false)] {
        let both = rules(&of("then", then), &of("now", now));
        assert_eq!((both.defaults, both.caches, both.one_file_system), (then || now, then || now, then || now));
        // The last pattern that matches counts.
        assert_eq!(both.patterns, ["now.pattern", "then.pattern"]);
        assert_eq!((both.if_present.join(" ").as_str(), both.listed_only), ("now.present then.present", true));
    }
}

#[test]
fn a_spared_file_in_the_way_is_seen_before_anything_is_changed() {
    let f = fixture();
    write(&f, &["file", "place"]);
    let first = captured(&f, None, &[]);
    fs::remove_file(f.workspace.join("place")).unwrap();
    write(&f, &["file", "place/kept.now", "new"]);
    let mut settings = Config::default();
    settings.capture.exclude = vec!["*.now".into()];
    let is_told =
        |e: &Error| matches!(e, Error::Refused(Refusal::Unwritable { named, .. }) if named[0].contains("place/kept.now"));
    let wanted = wanted(&first, &settings);
    let looked = look(&f.store, &wanted).unwrap();
    let (plan, _) = foresee(&f.store, &looked, &wanted, &()).unwrap();
    assert_eq!(plan.blocked().map(|blocked| (blocked.path, blocked.why)).collect::<Vec<_>>(), [(b"place".to_vec(), Why::Held)]);
    // That is known before a safety checkpoint is made.
    let early = refuse_early(&f.store, &looked, &wanted, &()).map_err(Error::from);
    assert!(early.as_ref().is_err_and(is_told), "{early:?}");
    let done = rolled_back(&f, &first, &settings);
    assert!(done.as_ref().is_err_and(is_told), "{done:?}");
    assert!(
        is_there(&f, "new") && is_there(&f, "place/kept.now") && open(&f.session()).is_none() && last(&f.session()).is_none()
    );
    // Taking one back meets the same.
    let safety = captured(&f, Some(SAFETY), &["*.now"]);
    let spare = vec!["place/kept.now".bytes().map(|byte| format!("{byte:02x}")).collect()];
    let (target, spare) = (f.intent(&safety, &first), spare);
    intent::commit(&f.store, "s", &intent::Intent { goes_back: true, spare, ..target }, &actor()).unwrap();
    let (settled, _) = f.take_turn();
    assert!(matches!(&settled, Err(Error::NotRestored { path, .. }) if path == "place"), "{settled:?}");
    assert!(open(&f.session()).is_some() && is_there(&f, "place/kept.now"));
}

#[test]
fn what_an_interrupted_rollback_had_left_out_stays_and_its_state_is_saved_first() {
    let f = fixture();
    write(&f, &["file"]);
    let first = captured(&f, None, &[]);
    write(&f, &["a.then", "new"]);
    let safety = captured(&f, Some(SAFETY), &["*.then"]);
    intent::commit(&f.store, "s", &f.intent(&first, &safety), &actor()).unwrap();
    write(&f, &["b.then"]);
    f.take_turn().0.unwrap();
    assert!(is_there(&f, "a.then") && is_there(&f, "b.then") && !is_there(&f, "new"));
    let made = f.store.view().newest_first().unwrap().next().unwrap().unwrap().record;
    let message = format!("before the interrupted rollback to {} was finished", first.record.id);
    assert_eq!((made.message, made.trigger, made.trigger_detail.as_deref()), (Some(message), Trigger::Manual, Some(SAFETY)));
}

#[test]
fn another_folder_in_the_place_of_the_workspace_is_not_rolled_back() {
    let (f, first, _) = interrupted(|_| {});
    let away = f.workspace.with_extension("away");
    fs::rename(&f.workspace, &away).unwrap();
    write(&f, &["somebody else's"]);
    f.take_turn().0.unwrap_err();
    let settings = Config::default();
    let mut wanted = wanted(&first, &settings);
    look(&f.store, &wanted).unwrap_err();
    assert!(is_there(&f, "somebody else's") && open(&f.session()).is_some());
    // Unless somebody has said that this is the workspace by now.
    wanted.options.recreate_workspace = true;
    look(&f.store, &wanted).unwrap();
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let f = fixture();
    let first = f.create("first", None);
    whole(&f.store, &first, None, &()).unwrap();
    let second = f.create("second", None);
    whole(&f.store, &first, Some(&second), &()).unwrap();
    let packs: Vec<PathBuf> = fs::read_dir(f.store.path().join("packs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for pack in &packs {
        let mut bytes = fs::read(pack).unwrap();
        let end = bytes.len() - 8;
        bytes[8..end].fill(0xa5);
        fs::write(pack, bytes).unwrap();
    }
    assert_eq!(packs.len(), 2);
    let store = parhelia_ledger::open(f.store.path(), &OpenOptions::default()).unwrap();
    let said = format!("checkpoint {} is damaged, and nothing was changed", first.id());
    for now in [None, Some(&second)] {
        let checked = whole(&store, &first, now, &());
        assert!(matches!(&checked, Err(Error::Damaged(text)) if text.contains(&said)), "{checked:?}");
    }
}

#[test]
fn a_rollback_that_cannot_be_taken_back_is_noted_as_one() {
    let f = fixture();
    write(&f, &["file"]);
    let (first, safety) = (captured(&f, None, &[]), captured(&f, Some(SAFETY), &[]));
    f.deleted(&[&first]);
    let workspace = f.workspace.join("file/none");
    intent::commit(&f.store, "s", &intent::Intent { workspace, ..f.intent(&first, &safety) }, &actor()).unwrap();
    let (settled, _) = f.take_turn();
    assert!(matches!(settled, Err(Error::HalfRolledBack { .. })), "{settled:?}");
    assert!(open(&f.session()).unwrap().goes_back);
}

fn git(f: &Fixture, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]).args(arguments);
    let out = command.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").current_dir(&f.workspace).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn the_intent_knows_the_stash_entry_and_taking_back_drops_it() {
    let f = fixture();
    git(&f, &["init"]);
    fs::write(f.workspace.join("file"), "first").unwrap();
    git(&f, &["add", "-A"]);
    git(&f, &["commit", "-m", "first"]);
    let first = f.create("first", None);
    fs::write(f.workspace.join("file"), "second").unwrap();
    let settings = Config::default();
    let path = |name: &str| {
        std::env::var_os(name).filter(|_| name == "PATH").or_else(|| Some(OsString::from("/")).filter(|_| name == "HOME"))
    };
    let mut wanted = wanted(&first, &settings);
    let caller = Caller(path);
    wanted.host = &caller;
    let seen = std::sync::Mutex::new(None);
    let note = AtCommit(std::sync::atomic::AtomicUsize::new(0), |_: usize| {
        let noted = open(&f.session()).and_then(|intent| intent.stash);
        noted.into_iter().for_each(|commit| *seen.lock().unwrap() = Some(commit));
    });
    let done = execute(&f.store, &look(&f.store, &wanted).unwrap(), &wanted, None, &note).unwrap();
    let Stash::Made(commit) = done.stash else { panic!("{:?}", done.stash) };
    assert_eq!(seen.into_inner().unwrap().as_ref(), Some(&commit));
    assert_eq!((git(&f, &["stash", "list", "--format=%H"]), f.content().as_str()), (commit.clone(), "first"));
    // Of one that is taken back nothing is left.
    let safety = f.store.view().checkpoint(done.safety).unwrap().unwrap();
    let intent = intent::Intent { goes_back: true, stash: Some(commit), ..f.intent(&first, &safety) };
    intent::commit(&f.store, "s", &intent, &actor()).unwrap();
    f.take_turn().0.unwrap();
    assert_eq!((git(&f, &["stash", "list"]), f.content().as_str()), (String::new(), "second"));
}

#[test]
fn git_has_moved_where_commit_branch_or_operation_are_others() {
    let f = fixture();
    let then = |head: &str, branch: Option<&str>, operation: Option<&str>| json!({ "head": head, "branch": branch, "operation": operation });
    assert!(!has_moved(&f.workspace, &then("", None, None)), "there is no repository");
    git(&f, &["init"]);
    assert!(!has_moved(&f.workspace, &then("gone", Some("main"), None)), "which commit cannot be told");
    assert!(!has_moved(&f.workspace, &json!({ "branch": "main" })), "no commit yet");
    git(&f, &["commit", "--allow-empty", "-m", "1"]);
    let head = git(&f, &["rev-parse", "HEAD"]);
    let now = then(&head, Some("main"), None);
    assert!(!has_moved(&f.workspace, &now) && !has_moved(&f.workspace, &json!({ "head": head, "branch": "main" })));
    assert!(has_moved(&f.workspace, &json!({ "branch": "main" })), "the first commit");
    assert!(has_moved(&f.workspace, &then(&head, Some("other"), None)));
    assert!(has_moved(&f.workspace, &then(&head, Some("main"), Some("merge"))));
    git(&f, &["commit", "--allow-empty", "-m", "2"]);
    assert!(has_moved(&f.workspace, &now));
    fs::write(f.workspace.join(".git/MERGE_HEAD"), &head).unwrap();
    let head = git(&f, &["rev-parse", "HEAD"]);
    assert!(has_moved(&f.workspace, &then(&head, Some("main"), None)));
    assert!(!has_moved(&f.workspace, &then(&head, Some("main"), Some("merge"))));
    // A repository around the workspace is its repository as well.
    let inner = f.workspace.join("inner");
    fs::create_dir(&inner).unwrap();
    assert!(has_moved(&inner, &now));
}
