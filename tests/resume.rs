//! A session whose agent was killed goes on: the real agent, the real binary, against an API of ours.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parhelia_agent::process::{Owner, found};
use parhelia_host::run::{Current, WATCHED, renew};
use parhelia_ledger::{Lease, LedgerView as _};
use parhelia_store::pin::{Leaves, Pin};
use parhelia_tests::{
    Scratch,
    agent::{Reply, tool},
    binary,
    live::{Live, kill, shown, wait},
    tmux::Tmux,
    write, write_program,
};
use serde_json::{Value, json};

/// A turn in which the agent writes a file, and then runs a command that never ends.
fn endless(workspace: &Path) -> [Reply; 2] {
    let path = |name: &str| workspace.join(name).to_string_lossy().into_owned();
    let endless = format!("while :; do echo more >> '{}'; sleep 0.05; done", path("growing.txt"));
    [
        Reply::of([tool("Write", json!({ "file_path": path("made.txt"), "content": "by the agent\n" }))]),
        Reply::of([tool("Bash", json!({ "command": endless, "timeout": 600_000 }))]),
    ]
}

/// A session whose agent was killed in the middle of a tool, and that session's id.
fn killed(live: &Live) -> String {
    let workspace = live.agent.workspace();
    live.api.then(endless(&workspace));
    let child = live.start("make something and keep at it");
    wait(|| fs::read_to_string(workspace.join("growing.txt")).ok().filter(|text| text.lines().count() > 5));
    let conversation = live.api.wait_for(2)[0].session.clone().unwrap();
    wait(|| fs::read_to_string(live.agent.transcript(&conversation)).ok().filter(|said| said.contains("growing.txt")));
    kill(live.agent_process());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    assert!(shown(&output).contains("left behind by the agent"), "{}", shown(&output));
    live.session()
}

fn runs_processes(session: &str, live: &Live) -> usize {
    let store = parhelia_ledger::open(&live.store(), &Default::default()).unwrap();
    let runs = store.view().session(session).unwrap().unwrap().runs;
    let of = |run: &String| found(run, &Default::default(), &live.agent.workspace()).unwrap();
    runs.iter().flat_map(of).filter(|found| found.owner == Owner::Run).count()
}

/// The whole conversation so far, as the agent said it to the API.
fn said(live: &Live, number: usize) -> String {
    live.api.wait_for(number).last().unwrap().request["messages"].to_string()
}

#[test]
fn killed_in_a_tool_it_goes_on_after_a_reboot_without_its_workspace() {
    let Some(live) = Live::new() else { return };
    let session = killed(&live);
    assert!(runs_processes(&session, &live) > 0, "the tool's shell outlives the agent");
    let head = format!("{session}@latest");
    let kept = live.expect(&["checkpoint", "cat", &format!("{head}:growing.txt")]);
    fs::remove_dir_all(live.agent.config()).unwrap();
    // The tool's shell goes on writing there.
    while live.agent.workspace().exists() {
        let _ = fs::remove_dir_all(live.agent.workspace());
    }

    live.api.then([Reply::text("I go on.")]);
    let seen = live.api.exchanges().len();
    let text = live.expect(&["session", "resume", &session, "--prompt", "Continue from where you left off."]);
    assert!(text.contains("I go on.") && text.contains("was restored"), "{text}");
    assert!(text.contains("of an earlier run was stopped"), "{text}");
    let said = said(&live, seen + 1);
    for part in ["make something and keep at it", "made.txt", "Continue from where you left off"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.contains("was interrupted and is resumed from checkpoint"), "the hook's text is missing: {said}");
    assert_eq!(fs::read_to_string(live.agent.workspace().join("made.txt")).unwrap(), "by the agent\n");
    assert_eq!(fs::read_to_string(live.agent.workspace().join("growing.txt")).unwrap(), kept);
    assert_eq!(runs_processes(&session, &live), 0);
    let after = live.objects(&["checkpoint", "list", &session], "checkpoint");
    assert_eq!(after[0]["trigger"], "complete");
}

#[test]
fn a_conversation_that_the_agent_does_not_know_is_told_anew() {
    let Some(live) = Live::new() else { return };
    let session = killed(&live);
    let transcripts = live.agent.config().join("projects");
    for project in fs::read_dir(transcripts).unwrap().flatten() {
        for file in fs::read_dir(project.path()).unwrap().flatten().filter(|file| file.path().extension().is_some()) {
            fs::write(file.path(), "{\"type\":\"mode\",\"mode\":\"normal\"}\n").unwrap();
        }
    }
    live.api.then([Reply::text("I begin again.")]);
    let seen = live.api.exchanges().len();
    let text = live.expect(&["session", "resume", &session, "--prompt", "go on with what you know"]);
    assert!(text.contains("does not know conversation") && text.contains("a new conversation begins"), "{text}");
    let said = said(&live, seen + 1);
    for part in [
        "You are resuming a previous session",
        "make something and keep at it",
        "go on with what you know",
        "## Changes in this session\\nA made.txt +1 -0\\nA growing.txt",
        "### made.txt (edited)\\n```\\nby the agent\\n```",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn of_two_resumes_at_once_one_wins_and_the_other_is_told() {
    let Some(live) = Live::new() else { return };
    let session = killed(&live);
    live.api.then([Reply::of([tool("Bash", json!({ "command": "sleep 3" }))]), Reply::text("Only one of us.")]);
    let children: Vec<_> = (0..2).map(|_| live.resume(&session, "go on")).collect();
    let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let texts: Vec<_> = outputs.iter().map(shown).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("Only one of us.")).count(), 1, "{texts:?}");
    let told = |text: &&String| text.contains("somebody else has just resumed") || text.contains("is alive already");
    assert_eq!(texts.iter().filter(told).count(), 1, "{texts:?}");
}

/// The agent's transcript of its only conversation.
fn transcript(live: &Live) -> PathBuf {
    let conversation = fs::read_dir(live.agent.config().join("projects")).unwrap().flatten().find_map(|project| {
        let mut files = fs::read_dir(project.path()).unwrap().flatten().map(|file| file.path());
        files.find(|path| path.extension().is_some_and(|e| e == "jsonl"))
    });
    conversation.unwrap()
}

#[test]
fn where_a_crash_has_left_nothing_of_a_conversation_the_checkpoints_goes_on() {
    let Some(live) = Live::new() else { return };
    let session = killed(&live);
    let path = transcript(&live);
    for left in [Vec::new(), vec![0; 70_000]] {
        fs::write(&path, &left).unwrap();
        live.api.then([Reply::text("I go on.")]);
        let seen = live.api.exchanges().len();
        let text = live.expect(&["session", "resume", &session, "--prompt", "go on"]);
        assert!(text.contains("I go on.") && text.contains("kept aside of the conversation"), "{text}");
        let said = said(&live, seen + 1);
        assert!(said.contains("make something and keep at it") && said.contains("made.txt"), "{said}");
    }
}

#[test]
fn a_torn_conversation_is_cut_at_its_last_whole_record() {
    let Some(live) = Live::new() else { return };
    let session = killed(&live);
    let path = transcript(&live);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [whole.as_slice(), b"{\"type\":\"assistant\",\"torn"].concat()).unwrap();
    live.api.then([Reply::text("I go on.")]);
    let text = live.expect(&["session", "resume", &session, "--prompt", "go on"]);
    assert!(text.contains("last record was torn"), "{text}");
    let now = fs::read_to_string(&path).unwrap();
    assert!(now.as_bytes().starts_with(&whole));
    assert!(now.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

/// A command line of ours behind another one.
fn behind(words: &[&str], ours: &Command) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(ours.get_program()).args(ours.get_args());
    command.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// A command line of ours on what believes to be another machine.
fn elsewhere(scratch: &Scratch, arguments: &[&str]) -> Command {
    let (boot, machine) = (scratch.path("boot"), scratch.path("machine"));
    write(&boot, b"00000000-1111-4222-8333-444444444444\n").unwrap();
    write(&machine, b"00000000111142228333444444444444\n").unwrap();
    let script = format!(
        "hostname elsewhere && mount --bind {} /proc/sys/kernel/random/boot_id && \
         {{ test ! -e /etc/machine-id || mount --bind {} /etc/machine-id; }} && exec \"$@\"",
        boot.display(),
        machine.display()
    );
    let words = ["unshare", "--uts", "--mount", "sh", "-c", &script, "sh"];
    let mut command = behind(&words, &scratch.command(arguments));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn what_a_program_makes_is_the_users_to_share() {
    let (scratch, tmux) = (Scratch::new(), Tmux::new());
    let workspace = scratch.path("work");
    write(&workspace.join("file"), b"work").unwrap();
    let by_umask = |mask: &str, arguments: &[&str]| {
        let ours = scratch.command(arguments);
        let words = format!("umask {mask}; ulimit -S -n 512; exec \"$@\"");
        let output = behind(&["sh", "-c", &words, "sh"], &ours).output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
    };
    let mode = |name: &str| fs::metadata(workspace.join(name)).unwrap().permissions().mode() & 0o777;
    let place = workspace.to_string_lossy().into_owned();
    let script = |n: u32| format!("mkdir folder{n}; ulimit -S -n > limit{n}; echo done > made{n}");
    by_umask("022", &["session", "run", "--name", "one", "--workspace", &place, "--", "sh", "-c", &script(1)]);
    assert_eq!((mode("made1"), mode("folder1")), (0o644, 0o755));
    assert_eq!(fs::read_to_string(workspace.join("limit1")).unwrap(), "512\n");
    // In tmux as well, whatever the server has.
    let socket = tmux.socket().to_string_lossy().into_owned();
    let in_tmux = ["session", "run", "--name", "two", "--tmux", "--tmux-socket", &socket, "--detach", "--workspace", &place];
    by_umask("002", &[&in_tmux[..], &["--", "sh", "-c", &script(2)]].concat());
    wait(|| fs::read_to_string(workspace.join("made2")).ok().filter(|text| !text.is_empty()));
    assert_eq!((mode("made2"), mode("folder2")), (0o664, 0o775));
}

#[test]
fn a_session_that_another_machine_has_is_left_to_it_until_its_lease_runs_out() {
    let scratch = Scratch::new();
    let again = scratch.path("again").to_string_lossy().into_owned();
    write(&scratch.path("work/file"), b"work").unwrap();
    let workspace = scratch.path("work").to_string_lossy().into_owned();
    let script = format!("test -e {again} || {{ touch {again}; exec sleep 100000; }}");
    let there = ["session", "run", "--workspace", &workspace, "--", "sh", "-c", &script];
    let mut child = elsewhere(&scratch, &there).spawn().unwrap();
    let runs = || parhelia_ledger::open(&scratch.store(), &Default::default()).ok()?.view().runs().ok();
    let run = wait(|| runs()?.into_values().find(|run| run.pid.is_some() && run.lease.is_some() && Path::new(&again).exists()));
    assert!(run.lease.unwrap().holder.starts_with("elsewhere/"));
    scratch.expect(0, &["checkpoint", "create", &run.session, "--workspace", &workspace]);
    let goes_on = ["session", "resume", run.session.as_str()];
    let latest = format!("{}@latest", run.session);
    for arguments in [&goes_on[..], &["checkpoint", "rollback", &latest, "--yes"]] {
        let text = scratch.expect(4, arguments);
        assert!(text.contains("alive on elsewhere until") && text.contains("--take-over"), "{text}");
    }
    let forced = ["checkpoint", "rollback", &latest, "--dry-run", "--files-only", "--take-over"];
    assert!(scratch.expect(0, &forced).contains("elsewhere may still have the session"));
    // Not even when it is dead: that cannot be seen from here.
    child.kill().unwrap();
    child.wait().unwrap();
    kill(i32::try_from(run.pid.unwrap()).unwrap());
    scratch.expect(4, &goes_on);
    let store = parhelia_ledger::open(&scratch.store(), &Default::default()).unwrap();
    parhelia_ledger::renew_lease(&store, &run.id, run.epoch, &Lease::default()).unwrap();
    let text = scratch.expect(0, &goes_on);
    let epochs: Vec<u64> =
        runs().unwrap().into_values().filter(|found| found.session == run.session).map(|run| run.epoch).collect();
    assert_eq!(epochs.len(), 2, "{epochs:?}: {text}");
    // The old one has nothing to renew any more.
    let late = Current { session: run.session, run: run.id, epoch: run.epoch, workspace: workspace.into() };
    let late = renew(&store, &late, WATCHED).unwrap_err();
    assert!(late.to_string().contains("epoch"), "{late}");
}

#[test]
fn variables_of_the_launch_come_back_and_those_of_a_recording_do_not() {
    let scratch = Scratch::new();
    write(&scratch.path("work/file"), b"work").unwrap();
    let (workspace, seen) = (scratch.path("work").to_string_lossy().into_owned(), scratch.path("seen"));
    let script = format!("echo \"$NODE_ENV $LANG $NODE_OPTIONS $ANTHROPIC_BASE_URL\" >> {}", seen.display());
    let run = ["session", "run", "--name", "work", "--workspace", &workspace, "--", "sh", "-c", &script];
    let mut launched = scratch.command(&run);
    launched.env("NODE_ENV", "of-the-launch").env("LANG", "C").env("TERM", "of-the-terminal").env("NODE_OPTIONS", "--trace-gc");
    assert!(launched.status().unwrap().success());
    // As a hook or a tool of a project might bring it.
    let mut create = scratch.command(&["checkpoint", "create", "work", "--workspace", &workspace]);
    create.env("NODE_ENV", "planted").env("ANTHROPIC_BASE_URL", "http://evil.example").env("NODE_OPTIONS", "--require ./evil.js");
    let created = create.output().unwrap();
    assert!(created.status.success(), "{}", shown(&created));
    let resume = |flags: &[&str]| {
        let arguments = [&["session", "resume", "work", "--yes"], flags].concat();
        let resumed = scratch.command(&arguments).env("LANG", "mine").output().unwrap();
        assert!(resumed.status.success(), "{}", shown(&resumed));
        shown(&resumed)
    };
    let said = resume(&[]);
    assert!(said.contains("not set here: NODE_ENV\n"), "{said}");
    assert!(said.contains("what it loads and runs: NODE_OPTIONS; with --launch-variables"), "{said}");
    // It is known at a later resume, too.
    let said = resume(&["--launch-variables"]);
    assert!(said.contains("not set here: NODE_ENV, NODE_OPTIONS\n"), "{said}");
    let lines = fs::read_to_string(seen).unwrap();
    assert_eq!(lines, "of-the-launch C --trace-gc \nof-the-launch mine  \nof-the-launch mine --trace-gc \n");
}

#[test]
fn another_sessions_checkpoint_is_refused_and_a_half_restored_workspace_is_restored() {
    let scratch = Scratch::new();
    let place = |name: &str| scratch.path(name).to_string_lossy().into_owned();
    for name in ["one", "two"] {
        write(&scratch.path(name).join("file"), name.as_bytes()).unwrap();
        scratch.expect(0, &["session", "run", "--name", name, "--workspace", &place(name), "--", "true"]);
    }
    fs::write(scratch.path("one/file"), "later").unwrap();
    let of_two = scratch.summary(&["checkpoint", "show", "latest"])["id"].as_str().unwrap().to_owned();
    let text = scratch.expect(2, &["session", "resume", "one", "--from", &of_two, "--yes"]);
    assert!(text.contains("is of session two-"), "{text}");
    assert_eq!(fs::read(scratch.path("one/file")).unwrap(), b"later");
    scratch.expect(0, &["session", "resume", "one", "--from", "latest", "--yes"]);
    assert_eq!(fs::read(scratch.path("one/file")).unwrap(), b"one");
    // As a restore leaves it that was killed.
    fs::remove_dir_all(scratch.path("one")).unwrap();
    let mut pin = Pin::take(&scratch.store().join("pins"), false, "restore").unwrap();
    pin.leaves(Leaves::new(scratch.path("one").as_os_str().as_bytes(), true)).unwrap();
    let staged = format!("one/.parhelia-{}-0-1", pin.op);
    pin.leave();
    write(&scratch.path(&staged), b"half").unwrap();
    assert!(scratch.expect(0, &["session", "resume", "one", "--yes"]).contains("was gone, and was restored"));
    assert_eq!(fs::read(scratch.path("one/file")).unwrap(), b"one");
    assert!(!scratch.path(&staged).exists());
}

#[test]
fn what_is_left_of_a_broken_repository_is_kept() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("file"), b"work").unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&workspace).args(arguments).env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
        for (name, value) in [("NAME", "n"), ("EMAIL", "e@x")] {
            command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "file"]);
    git(&["commit", "-q", "-m", "first"]);
    let first = git(&["rev-parse", "HEAD"]);
    scratch.expect(0, &["session", "run", "--name", "work", "--workspace", &workspace.to_string_lossy(), "--", "true"]);
    git(&["commit", "-q", "--allow-empty", "-m", "later"]);
    let later = git(&["rev-parse", "HEAD"]);
    fs::remove_file(workspace.join(".git/HEAD")).unwrap();
    let text = scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert!(text.contains("no usable .git") && text.contains("what was left of it is in"), "{text}");
    assert_eq!(git(&["rev-parse", "HEAD"]), first);
    let kept = fs::read_dir(&workspace).unwrap().flatten().find(|entry| entry.file_name().to_string_lossy().contains(".broken-"));
    let refs = kept.unwrap().path().join("refs/heads");
    let branch = fs::read_dir(refs).unwrap().flatten().next().unwrap().path();
    assert_eq!(fs::read_to_string(branch).unwrap().trim(), later);
}

#[test]
fn a_resumed_agent_keeps_its_checkpoint_from_nobody() {
    let scratch = Scratch::new();
    write(&scratch.path("work/file"), b"work").unwrap();
    let workspace = scratch.path("work").to_string_lossy().into_owned();
    // Each start notes the pins that there are while it lives.
    let script = format!("cat {}/*.pin > pins.txt; echo started >> starts.txt", scratch.store().join("pins").display());
    scratch.expect(0, &["session", "run", "--name", "work", "--workspace", &workspace, "--", "sh", "-c", &script]);
    scratch.expect(0, &["checkpoint", "create", "work", "--workspace", &workspace]);
    scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert_eq!(fs::read_to_string(scratch.path("work/starts.txt")).unwrap().lines().count(), 2);
    let pins = fs::read_to_string(scratch.path("work/pins.txt")).unwrap();
    assert!(!pins.contains("resume"), "{pins}");
}

#[test]
fn what_cannot_be_started_is_over() {
    let scratch = Scratch::new();
    write(&scratch.path("work/file"), b"work").unwrap();
    let workspace = scratch.path("work").to_string_lossy().into_owned();
    let run = |program: &str| {
        let output = scratch.run(&["session", "run", "--name", "work", "--workspace", &workspace, "--", program]);
        assert!(!output.status.success() && shown(&output).contains(program), "{}", shown(&output));
        scratch.expect(0, &["session", "list", "--json"])
    };
    // Of a program that is not there, no session stays behind.
    for program in ["/no/such/program", "no-such-program", "./file"] {
        assert!(!run(program).contains("\"session\""), "{program}");
    }
    // That an interpreter is not there is known only when it is started.
    write_program(&scratch.path("work/script"), "#!/no/such/interpreter\n");
    let listed = run("./script");
    let session: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let session = scratch.expect(0, &["session", "show", session["id"].as_str().unwrap(), "--json"]);
    assert!(session.contains("\"status\":\"error\"") && session.contains("could not be started"), "{session}");
}

#[test]
fn what_a_run_captures_by_itself_belongs_to_its_session() {
    let scratch = Scratch::new();
    write(&scratch.path("work/file"), b"work").unwrap();
    let workspace = scratch.path("work").to_string_lossy().into_owned();
    let program = binary().to_string_lossy().into_owned();
    let inner = [program.as_str(), "checkpoint", "create", "--workspace", &workspace, "-m", "by the program"];
    scratch.expect(0, &[&["session", "run", "--name", "mine", "--workspace", &workspace, "--"][..], &inner].concat());
    scratch.expect(0, &["checkpoint", "create", "mine", "--workspace", &workspace]);
    let list = scratch.expect(0, &["checkpoint", "list", "--json"]);
    let made: Vec<Value> = list
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "checkpoint")
        .collect();
    assert_eq!(made.len(), 4, "{list}");
    assert!(made.iter().all(|checkpoint| checkpoint["session"] == made[0]["session"]), "{list}");
    assert!(made.iter().any(|checkpoint| checkpoint["message"] == "by the program" && checkpoint["epoch"] == 1), "{list}");
    // In another folder a session of that id would hide this one.
    write(&scratch.path("other/file"), b"work").unwrap();
    let other = scratch.path("other").to_string_lossy().into_owned();
    let refused = scratch.expect(4, &["checkpoint", "create", "mine", "--workspace", &other]);
    assert!(refused.contains("'mine' is the name of session work-"), "{refused}");
}
