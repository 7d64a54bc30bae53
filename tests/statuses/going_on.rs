//! Recovery, and the checkpoint that a session goes on from.

use super::*;

#[test]
fn recover_says_how_it_is_and_does_what_it_is_told() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let process = wait(|| work.last_run()["pid"].as_i64());
    let checkpoint = work.create("two\n");
    let alive = work.scratch.expect(0, &["session", "recover", "work", "--yes"]);
    assert!(alive.contains(&format!("is alive (process {process})")), "{alive}");
    // From another folder, whose latest is another one.
    let hint = work.scratch.expect(4, &["session", "resume", "work", "--from", "latest", "--yes"]);
    assert!(
        hint.contains("checkpoint rollback work") && hint.contains("@latest --dry-run`") && hint.contains("--stop"),
        "{hint}"
    );
    assert!(work.scratch.expect(4, &["session", "recover"]).contains("no session needs to be recovered"));

    // As after a crash: nobody is left to write down how it ended.
    child.kill().unwrap();
    child.wait().unwrap();
    let process = i32::try_from(process).unwrap();
    kill(process);
    wait(|| (!lives(process)).then_some(()));
    assert_eq!(work.status(), "active");
    let asked = work.scratch.expect(2, &["session", "recover"]);
    for part in ["(wanted running): its agent is dead", "there; it is kept as it is", checkpoint.as_str(), "--yes", "--end"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let told = work.objects(&["session", "recover"], "recovery").remove(0);
    assert_eq!((text(&told, "status"), &told["alive"], text(&told, "from")), ("active", &false.into(), checkpoint.as_str()));
    assert_eq!((&told["workspace_exists"], &told["interrupted_rollback"]), (&true.into(), &Value::Null));
    assert_eq!(work.session()["epoch"], 1, "nothing was done");
    work.scratch.expect(2, &["session", "recover", "--yes", "--end"]);

    work.go();
    fs::remove_dir_all(&work.workspace).unwrap();
    assert!(work.scratch.expect(2, &["session", "recover"]).contains("gone; it is restored"));
    let resumed = work.scratch.expect(0, &["session", "recover", "--yes"]);
    assert!(resumed.contains("the workspace was gone, and was restored"), "{resumed}");
    work.has_started(2);
    assert_eq!((work.file().as_str(), work.status().as_str(), &work.session()["epoch"]), ("two\n", "paused", &2.into()));
    assert!(work.scratch.expect(4, &["session", "recover"]).contains("no session needs to be recovered"));

    let ended = work.scratch.expect(0, &["session", "recover", "work", "--end"]);
    assert!(ended.contains("has ended; its checkpoints stay"), "{ended}");
    work.scratch.expect(0, &["session", "recover", "work", "--yes"]);
    work.has_started(2);
    assert_eq!((work.status().as_str(), work.checkpoints().is_empty()), ("ended", false));
}

#[test]
fn recover_does_not_call_an_agent_dead_that_there_never_was() {
    let work = Work::new();
    work.scratch.create("plain", &work.workspace);
    let told = work.scratch.expect(4, &["session", "recover", "plain"]);
    assert!(told.contains("no agent was started in it") && !told.contains("dead"), "{told}");
    assert!(told.contains("it is not known how session plain was started") && !told.contains("It goes on from"), "{told}");
}

#[test]
fn recover_lets_the_user_choose_a_checkpoint_on_a_terminal() {
    let work = Work::new();
    let mut child = work.start(&work.gate());
    work.has_started(1);
    let process = wait(|| work.last_run()["pid"].as_i64());
    let first = work.create("first\n");
    let second = work.create("second\n");
    child.kill().unwrap();
    child.wait().unwrap();
    let process = i32::try_from(process).unwrap();
    kill(process);
    wait(|| (!lives(process)).then_some(()));
    fs::write(work.workspace.join("file"), "third\n").unwrap();
    let typed = |keys: &str| {
        let recover = work.scratch.command(&["session", "recover", "work"]);
        let program = recover.get_program().to_string_lossy().into_owned();
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &format!("'{program}' session recover work"), "/dev/null"]).env_clear();
        terminal.envs(recover.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::piped());
        let mut running = terminal.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
        let output = running.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    work.go();
    for keys in ["c\n\n", "c\n2\nn\n", "l\n"] {
        let (code, said) = typed(keys);
        assert_eq!((code, work.file().as_str()), (Some(0), "third\n"), "{said}");
    }
    let (code, said) = typed("c\n17\n");
    assert!(code == Some(2) && said.contains("17 is none of the numbers above"), "{said}");
    assert_eq!(work.session()["epoch"], 1, "nothing was done");
    let (code, said) = typed("c\n2\ny\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("1  {second}")) && said.contains(&format!("2  {first}")), "{said}");
    work.has_started(2);
    assert_eq!((work.file().as_str(), &work.session()["epoch"]), ("first\n", &2.into()));
    // Without a terminal a flag says it.
    let resumed = work.scratch.expect(0, &["session", "recover", "work", "--from", &second, "--yes"]);
    assert!(resumed.contains(&format!("put back to checkpoint {second}")), "{resumed}");
    work.has_started(3);
    assert_eq!(work.file(), "second\n");
}

#[test]
fn a_session_goes_on_from_an_earlier_checkpoint() {
    let work = Work::new();
    let seen = work.scratch.path("seen");
    let first = {
        let output = work.run(&format!("cat file >> '{}'", seen.display()));
        assert!(output.status.success(), "{}", shown(&output));
        text(&work.checkpoints()[0], "id").to_owned()
    };
    let resume = ["session", "resume", "work", "--from", first.as_str()];
    for arguments in [&resume[..], &resume] {
        let later = work.create("two\n");
        let refused = work.scratch.expect(2, arguments);
        assert!(refused.contains("--yes"), "{refused}");
        assert_eq!((work.file().as_str(), work.checkpoints()[0]["id"].as_str()), ("two\n", Some(later.as_str())));
        let runs = fs::read_to_string(&seen).unwrap().lines().count();

        let done = work.scratch.expect(0, &[arguments, &["--yes"]].concat());
        assert!(done.contains(&format!("the workspace was put back to checkpoint {first}")), "{done}");
        assert_eq!(work.file(), "one\n");
        assert_eq!(fs::read_to_string(&seen).unwrap(), "one\n".repeat(runs + 1), "the program began with the earlier file");
        let all = work.checkpoints();
        assert_eq!((text(&all[0], "trigger"), text(&all[0], "parent")), ("shutdown", first.as_str()));
        let safety = all.iter().find(|c| text(c, "trigger_detail").starts_with("safety")).unwrap();
        assert_eq!(work.cat(text(safety, "id")), "two\n");
        assert_eq!(text(&work.last_run(), "resumed_from"), first);
    }
    let refused = work.scratch.expect(2, &["checkpoint", "restore", &format!("{first}:file")]);
    assert!(refused.contains("--to DIR"), "{refused}");
    let refused = work.scratch.expect(2, &["checkpoint", "restore", &first]);
    assert!(refused.contains("session resume") && refused.contains(&format!("--from {first}")), "{refused}");
    // Where there is nothing to put back, nobody needs to be asked about that.
    let later = work.create("three\n");
    fs::remove_dir_all(&work.workspace).unwrap();
    work.scratch.expect(0, &["session", "resume", "work", "--from", &later, "--yes"]);
    assert_eq!(work.file(), "three\n");
    assert!(fs::read_to_string(&seen).unwrap().ends_with("three\n"));
}

#[test]
fn what_was_rejected_or_made_for_safety_is_passed_over_and_that_is_said() {
    let work = Work::new();
    work.run("exit 0");
    let (second, third) = (work.create("two\n"), work.create("three\n"));
    let reject = |id: &str| {
        let ann = Actor { user: Some("ann".into()), via: "cli".into(), ..Actor::default() };
        work.append(NewEvent::new(kind::CHECKPOINT_DECIDED, id, ann).with("status", "rejected").with("reason", "not this"));
    };
    let passed_over = |id: &str, why: &str| format!("checkpoint {id} is newer, and was passed over: it {why}");
    reject(&third);
    let refused = work.scratch.expect(4, &["session", "resume", "work", "--yes"]);
    assert!(refused.contains(&format!("as in checkpoint {third}, which was rejected by ann")), "{refused}");
    assert_eq!(work.file(), "three\n", "a live workspace is kept as it is, and nothing goes on in it");
    fs::remove_dir_all(work.scratch.path("work")).unwrap();
    let begun = work.objects(&["session", "resume", "work", "--yes"], "started").remove(0);
    assert_eq!(text(&begun, "from"), second);
    let notices = begun["notices"].to_string();
    assert!(notices.contains(&passed_over(&third, "was rejected by ann")), "{notices}");
    assert_eq!(work.file(), "two\n");

    let refused = work.scratch.expect(4, &["session", "resume", "work", "--from", &third, "--yes"]);
    assert!(refused.contains("was rejected by ann") && refused.contains("--from-rejected"), "{refused}");
    work.scratch.expect(0, &["session", "resume", "work", "--from", &third, "--yes", "--from-rejected"]);
    assert_eq!(text(&work.last_run(), "resumed_from"), third);

    work.create("four\n");
    work.scratch.expect(0, &["checkpoint", "rollback", &second, "--yes"]);
    let safety = {
        let all = work.checkpoints();
        let newest = all.iter().find(|checkpoint| text(checkpoint, "trigger_detail").starts_with("safety"));
        text(newest.unwrap(), "id").to_owned()
    };
    let id = text(&work.session(), "id").to_owned();
    // As where a rollback has not come to its end.
    work.append(NewEvent::new(kind::SESSION_HEAD, &id, Actor::default()).with("checkpoint", safety.as_str()));
    let parent = text(&work.checkpoints().iter().find(|c| c["id"] == safety.as_str()).unwrap().clone(), "parent").to_owned();
    let recover = work.scratch.expect(2, &["session", "recover", "work"]);
    assert!(
        recover.contains(&format!("Checkpoint {safety} is passed over: it was made before something was overwritten.")),
        "{recover}"
    );
    let resumed = work.scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert!(resumed.contains(&passed_over(&safety, "was made before something was overwritten")), "{resumed}");
    assert_eq!(text(&work.last_run(), "resumed_from"), parent);

    for checkpoint in work.checkpoints() {
        reject(text(&checkpoint, "id"));
    }
    let refused = work.scratch.expect(4, &["session", "resume", "work", "--yes"]);
    assert!(refused.contains("was rejected by ann"), "{refused}");
    fs::remove_dir_all(work.scratch.path("work")).unwrap();
    let refused = work.scratch.expect(4, &["session", "resume", "work", "--yes"]);
    assert!(refused.contains("no checkpoint") && !work.scratch.path("work").exists(), "{refused}");
}

#[test]
fn a_finished_command_is_run_again_only_where_somebody_wants_that() {
    let work = Work::new();
    let ran = work.scratch.path("ran");
    assert!(work.run(&format!("echo once >> '{}'", ran.display())).status.success());
    let times = || fs::read_to_string(&ran).unwrap().lines().count();
    let refused = work.scratch.expect(2, &["session", "resume", "work"]);
    assert!(refused.contains("has come to its end") && refused.contains("--yes"), "{refused}");
    assert_eq!(work.session()["epoch"], 1);
    for (answer, runs) in [("n\n", 1), ("y\n", 2)] {
        let mut terminal = on_a_terminal(&work.scratch.command(&["session", "resume", "work"]));
        let mut child = terminal.spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(times(), runs, "{answer}");
    }
    work.scratch.expect(0, &["session", "resume", "work", "--yes"]);
    assert_eq!(times(), 3);
}

#[test]
fn a_live_session_whose_workspace_is_gone_says_so_when_it_is_resumed() {
    let work = Work::new();
    let child = work.start(&work.gate());
    work.has_started(1);
    wait(|| (work.status() == "active").then_some(()));
    fs::remove_dir_all(&work.workspace).unwrap();
    let resumed = work.scratch.expect(0, &["session", "resume", "work"]);
    let gone = format!("the workspace {} of session", work.workspace.display());
    assert!(resumed.contains(&gone) && resumed.contains("is gone") && resumed.contains("`parhelia session stop "), "{resumed}");
    work.go();
    child.wait_with_output().unwrap();
}
