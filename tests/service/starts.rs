//! Sessions that begin over HTTP, prompts for them, and runs of machines that this one does not see.

use jiff::SignedDuration;
use parhelia_ledger::Lease;
use parhelia_store::{OpenOptions, Store, clock::timestamp};

use super::*;

impl Service {
    /// The path of a scripted agent.
    fn program(&self) -> String {
        write_program(&self.scratch.path("bin/claude"), scripted::AGENT);
        self.at("bin/claude")
    }

    fn at(&self, name: &str) -> String {
        self.scratch.path(name).to_string_lossy().into_owned()
    }

    /// The process of a session's newest run, of so many or more, once its agent has nothing to do.
    fn idle(&self, session: &str, number: usize) -> i32 {
        wait(|| {
            let shown = self.get(&format!("/v1/sessions/{session}")).expect(200);
            let is_idle = shown["session"]["observed"] == "idle";
            let runs = shown["runs"].as_array()?;
            let pid = runs.last()?["pid"].as_i64()?;
            (is_idle && runs.len() >= number).then_some(pid as i32)
        })
    }

    fn store(&self) -> Store {
        parhelia_ledger::open(&self.scratch.store(), &OpenOptions::default()).unwrap()
    }
}

fn command_of(process: i32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{process}/cmdline")).unwrap()).replace('\0', " ")
}

#[test]
fn a_session_begins_in_a_folder_and_takes_prompts() {
    let s = Service::new();
    write(&s.scratch.path("place/stay"), b"").unwrap();
    let body = json!({"name": "new", "policy": "review", "workspace": s.at("place"), "command": [s.program()]});
    let begun = s.post("/v1/sessions", &body).expect(201)["session"].clone();
    assert_eq!((&begun["name"], &begun["policy"]), (&json!("new"), &json!("review")), "{begun}");
    let first = s.idle("new", 1);
    let prompted = s.post("/v1/sessions/new/prompt", &json!({"text": "two\nlines"})).expect(200);
    assert_eq!(prompted["resumed"], false);
    let shown = || {
        let captured = s.tmux.capture(&s.tmux.session());
        captured.scrollback.iter().map(|text| String::from_utf8_lossy(&text.bytes).into_owned()).collect::<String>()
    };
    wait(|| (shown().contains("two") && shown().contains("lines")).then_some(()));
    s.scratch.expect(0, &["session", "prompt", "new", "from a script"]);
    wait(|| shown().contains("from a script").then_some(()));
    // One that would press keys is none.
    let refused = s.post("/v1/sessions/new/prompt", &json!({"text": "\u{1b}[201~rm"})).expect(400);
    assert!(refused["detail"].as_str().unwrap().contains("U+001B"), "{refused}");
    // Neither is anything typed where another program would read it, or nobody.
    let reasons = |why: &str| {
        let refused = s.post("/v1/sessions/new/prompt", &json!({"text": "rm -r ."})).expect(409);
        assert!(refused["detail"].as_str().unwrap().contains(why), "{refused}");
    };
    let process = Pid::from_raw(first).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    wait(|| fs::read_to_string(format!("/proc/{first}/stat")).ok()?.contains(") T ").then_some(()));
    reasons("in the foreground");
    kill_process(process, Signal::CONT).unwrap();
    let session = s.tmux.session();
    s.tmux.ask(&["copy-mode", "-t", &session]);
    reasons("copy mode");
    s.tmux.ask(&["send-keys", "-t", &session, "-X", "cancel"]);
    // An agent that is at work is not disturbed.
    let status = wait(|| {
        let mut said = fs::read_dir(s.scratch.path("home/.claude/sessions")).ok()?.flatten();
        said.find(|entry| entry.file_name().to_string_lossy().starts_with(&first.to_string())).map(|entry| entry.path())
    });
    fs::write(&status, fs::read_to_string(&status).unwrap().replace("idle", "busy")).unwrap();
    let busy = s.post("/v1/sessions/new/prompt", &json!({"text": "now"})).expect(409);
    assert!(busy["detail"].as_str().unwrap().contains("at work"), "{busy}");
    s.scratch.expect(4, &["session", "prompt", "new", "now"]);
    // A dead one is started with it.
    s.post("/v1/sessions/new/pause", &json!({"end_agent": true})).expect(200);
    let prompted = s.post("/v1/sessions/new/prompt", &json!({"text": "go on, please"})).expect(200);
    assert_eq!(prompted["resumed"], true);
    assert!(command_of(s.idle("new", 2)).contains("go on, please"));
    // Whoever pauses and resumes again and again has no agent that dies again and again.
    for number in 3..=5 {
        s.post("/v1/sessions/new/pause", &json!({"end_agent": true})).expect(200);
        s.post("/v1/sessions/new/resume", &json!({})).expect(200);
        s.idle("new", number);
    }
    kill(s.idle("new", 5));
    wait(|| ["is resumed\n", "is left alone"].iter().any(|said| s.said().contains(said)).then_some(()));
    assert!(!s.said().contains("is left alone"), "{} {}", s.said(), s.get("/v1/sessions/new").expect(200));
    s.idle("new", 6);
}

#[test]
fn a_session_begins_with_a_first_prompt() {
    let s = Service::new();
    write(&s.scratch.path("place/stay"), b"").unwrap();
    let body =
        |command: Value, prompt: &str| json!({"name": "new", "workspace": s.at("place"), "command": command, "prompt": prompt});
    for (command, prompt, why) in [
        (json!(["sh", "-c", "true"]), "fix it", "no agent"),
        (json!([s.program(), "another one"]), "fix it", "words of its own"),
        (json!([s.program(), "-p"]), "fix it", "one prompt"),
        (json!([s.program()]), "\u{1b}[201~rm", "U+001B"),
    ] {
        let refused = s.post("/v1/sessions", &body(command, prompt)).expect(400);
        assert!(refused["detail"].as_str().unwrap().contains(why), "{refused}");
    }
    s.post("/v1/sessions", &body(json!([s.program()]), "-fix\nthe parser")).expect(201);
    let process = s.idle("new", 1);
    assert!(command_of(process).ends_with(" -- -fix\nthe parser "), "{}", command_of(process));
    let parent = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let parent = parent.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    assert!(!command_of(parent).contains("parser"), "a command line of ours does not show it: {}", command_of(parent));
    // A resume does not give it again.
    kill(process);
    let resumed = s.idle("new", 2);
    assert!(!command_of(resumed).contains("parser"), "{}", command_of(resumed));
}

#[test]
fn the_kinds_of_agents_are_told() {
    let s = Service::new();
    let listed = s.get("/v1/agents").expect(200);
    let programs: Vec<&str> = listed["agents"].as_array().unwrap().iter().map(|one| one["program"].as_str().unwrap()).collect();
    assert_eq!(programs, ["claude", "codex", "gemini"], "{listed}");
    assert!(listed["agents"][0]["installed"].is_boolean() && listed["agents"][0]["title"] == "Claude Code", "{listed}");
}

#[test]
fn an_agent_folder_is_copied_for_a_new_session_and_again_where_all_is_gone() {
    let s = Service::new();
    write(&s.scratch.path("agent/CLAUDE.md"), b"Be kind.\n").unwrap();
    write(&s.scratch.path("agent/stay"), b"").unwrap();
    let body = json!({"agent_folder": s.at("agent"), "command": [s.program()]});
    let begun = s.post("/v1/sessions", &body).expect(201)["session"].clone();
    let (id, workspace) = (begun["id"].as_str().unwrap(), PathBuf::from(begun["workspace"]["path"].as_str().unwrap()));
    assert_eq!(begun["name"], "agent", "{begun}");
    assert!(workspace.ends_with(format!("parhelia-workspaces/{id}")), "{begun}");
    assert_eq!(fs::read_to_string(workspace.join("CLAUDE.md")).unwrap(), "Be kind.\n");
    s.idle(id, 1);
    s.post(&format!("/v1/sessions/{id}/pause"), &json!({"end_agent": true})).expect(200);
    // Nothing was kept of it.
    let listed = s.get(&format!("/v1/sessions/{id}/checkpoints")).expect(200);
    for checkpoint in listed["checkpoints"].as_array().unwrap() {
        s.scratch.expect(0, &["checkpoint", "delete", checkpoint["id"].as_str().unwrap()]);
    }
    fs::remove_dir_all(&workspace).unwrap();
    s.post(&format!("/v1/sessions/{id}/resume"), &json!({})).expect(200);
    s.idle(id, 2);
    assert_eq!(fs::read_to_string(workspace.join("CLAUDE.md")).unwrap(), "Be kind.\n");
}

#[test]
fn what_cannot_begin_is_refused_by_name_and_leaves_nothing() {
    let s = Service::new();
    let program = s.program();
    for (body, status, why) in [
        (json!({"command": [&program]}), 400, "either a workspace or an agent_folder"),
        (json!({"command": [&program], "workspace": "/", "agent_folder": "/"}), 400, "either a workspace or an agent_folder"),
        (json!({"command": [], "workspace": s.at("work")}), 400, "no command line"),
        (json!({"command": [&program], "workspace": s.at("work"), "interval_seconds": u64::MAX}), 400, "a year"),
        (json!({"command": ["a\u{0}b"], "workspace": s.at("work")}), 400, "zero byte"),
        (json!({"command": [&program], "workspace": "work"}), 400, "no absolute path"),
        (json!({"command": [&program], "workspace": s.at("none")}), 404, "none"),
        (json!({"command": [&program], "workspace": s.at("work"), "policy": "lax"}), 400, "no policy 'lax'"),
        (json!({"command": [s.at("bin/missing")], "agent_folder": s.at("work")}), 409, "bin/missing"),
    ] {
        let refused = s.post("/v1/sessions", &body).expect(status);
        assert!(refused["detail"].as_str().unwrap().contains(why), "{body}: {refused}");
    }
    let sessions = s.get("/v1/sessions").expect(200);
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions}");
    let copies = s.scratch.path("home/.local/share/parhelia-workspaces");
    assert!(fs::read_dir(copies).is_ok_and(|mut all| all.next().is_none()));
}

/// A variable of the service's that is no agent's business, and one that is its own.
const OTHERS: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "hidden-key");
const OWN: (&str, &str) = ("ANTHROPIC_API_KEY", "its-own");

#[test]
fn an_agent_of_the_service_gets_what_it_needs_and_no_other_variable_and_its_name_is_its_own() {
    let mut s = Service::new();
    let config = "[service]\nagent_variables = [\"SHOWN\", \"HOOK_*\"]\n\n[notifications.channels.mine]\ntype = \"webhook\"\nurl = \"https://127.0.0.1:9/${HOOK_PATH}\"\nsecret = \"${HOOK_SECRET}\"\n";
    write(&s.scratch.path("home/.config/parhelia/parhelia.toml"), config.as_bytes()).unwrap();
    s.signal(Signal::TERM);
    s.variables = &[("HOOK_PATH", "hidden-path"), ("HOOK_SECRET", "hidden-secret"), ("SHOWN", "shown"), OTHERS, OWN];
    s.start();
    write(&s.scratch.path("new/stay"), b"").unwrap();
    let body = json!({"name": "work", "workspace": s.at("new"), "command": [s.program()]});
    let begun = s.post("/v1/sessions", &body).expect(201);
    let warning = begun["warnings"][0].as_str().unwrap();
    assert!(warning.contains("is called work as well"), "{begun}");
    let process = s.idle(begun["session"]["id"].as_str().unwrap(), 1);
    let environment = fs::read_to_string(format!("/proc/{process}/environ")).unwrap();
    assert!(environment.contains("SHOWN=shown") && environment.contains("ANTHROPIC_API_KEY=its-own"), "{environment}");
    assert!(!environment.contains("hidden"), "{environment}");
    let said = s.said();
    assert!(said.contains("do not get these of its variables") && said.contains("AWS_SECRET_ACCESS_KEY"), "{said}");
    assert!(!said.contains("hidden"), "{said}");
    let server = fs::read_to_string(format!("/proc/{}/environ", s.tmux.ask(&["display-message", "-p", "#{pid}"]))).unwrap();
    assert!(!server.contains("hidden"), "{server}");
}

/// Has a run be heard of for the last time so long ago that it counts as dead.
fn silence(s: &Service, run: &str, epoch: &Value) {
    let renewed = Some(timestamp() - SignedDuration::from_secs(91));
    let lease = Lease { holder: "build-7".into(), renewed, ttl_seconds: 90, said: None };
    parhelia_ledger::renew_lease(&s.store(), run, epoch.as_u64().unwrap(), &lease).unwrap();
}

#[test]
fn a_run_elsewhere_lives_as_long_as_it_is_heard_of() {
    let s = Service::new();
    write(&s.scratch.path("far/stay"), b"").unwrap();
    let body = json!({
        "session": "far", "host": "build-7", "container": "c1", "workspace": s.at("far"), "command": [s.program()],
    });
    let answer = s.post("/v1/runs", &body);
    let begun = answer.expect(201);
    let (run, epoch) = (begun["run"]["id"].as_str().unwrap().to_owned(), begun["run"]["epoch"].clone());
    assert!(answer.head.contains(&format!("\r\nlocation: /v1/runs/{run}").to_lowercase()), "{}", answer.head);
    assert_eq!(s.get(&format!("/v1/runs/{run}")).expect(200)["run"]["session"], begun["run"]["session"]);
    s.get("/v1/runs/none").expect(404);
    assert_eq!((&begun["ttl_seconds"], &begun["run"]["lease"]["holder"]), (&json!(90), &json!("build-7/c1")), "{begun}");
    let beat = json!({"epoch": epoch, "state": "idle", "metrics": {"tokens": 7}});
    let heard = s.post(&format!("/v1/runs/{run}/heartbeat"), &beat).expect(200);
    assert_eq!(heard["lease"]["said"]["metrics"]["tokens"], 7, "{heard}");
    let session = || s.get("/v1/sessions/far").expect(200)["session"].clone();
    assert_eq!(session()["observed"], "elsewhere", "{}", session());
    let twice = s.post("/v1/runs", &body).expect(409);
    assert!(twice["detail"].as_str().unwrap().contains("build-7"), "{twice}");
    for (path, body, status) in [
        (format!("/v1/runs/{run}/heartbeat"), json!({"epoch": 99}), 409),
        ("/v1/runs/none/heartbeat".to_owned(), json!({"epoch": 1}), 404),
        (format!("/v1/runs/{run}/heartbeat"), json!({"epoch": epoch, "last_activity": "noon"}), 400),
        (format!("/v1/runs/{run}/end"), json!({"epoch": 99, "exit_code": 0}), 409),
    ] {
        s.post(&path, &body).expect(status);
    }
    // Its sender falls silent.
    silence(&s, &run, &epoch);
    s.idle("far", 2);
    // Whoever comes back is told that it was taken over from.
    let late = s.post(&format!("/v1/runs/{run}/heartbeat"), &beat).expect(409);
    assert!(late["detail"].as_str().unwrap().contains("epoch"), "{late}");
    s.post(&format!("/v1/runs/{run}/end"), &json!({"epoch": epoch, "exit_code": 0})).expect(409);
    let named = |name: &str| s.post("/v1/runs", &json!({"session": name, "host": "h"})).expect(400);
    named(&"x".repeat(900_000));
    named("a\u{1b}[2Jb");
}

#[test]
fn a_late_heartbeat_calls_the_resume_off_and_an_end_is_one() {
    let s = Service::new();
    let body = json!({"session": "far", "host": "build-7", "workspace": s.at("far"), "command": ["claude"]});
    let begun = s.post("/v1/runs", &body).expect(201);
    let (run, epoch) = (begun["run"]["id"].as_str().unwrap(), &begun["run"]["epoch"]);
    silence(&s, run, epoch);
    wait(|| s.said().contains("is dead; in 4 s").then_some(()));
    s.post(&format!("/v1/runs/{run}/heartbeat"), &json!({"epoch": epoch})).expect(200);
    wait(|| s.said().contains("lives again; it is not resumed").then_some(()));
    let ended = s.post(&format!("/v1/runs/{run}/end"), &json!({"epoch": epoch, "exit_code": 0})).expect(200);
    assert_eq!(ended["run"]["exit_reason"], "ended with exit code 0", "{ended}");
    let shown = s.get("/v1/sessions/far").expect(200);
    assert_eq!((&shown["session"]["status"], &shown["session"]["wanted"]), (&json!("paused"), &json!("paused")), "{shown}");
    s.post(&format!("/v1/runs/{run}/heartbeat"), &json!({"epoch": epoch})).expect(409);
    // A run that watches over itself takes no heartbeats of others.
    s.agent();
    let own = s.get("/v1/sessions/agent").expect(200)["runs"][0].clone();
    let path = format!("/v1/runs/{}/heartbeat", own["id"].as_str().unwrap());
    s.post(&path, &json!({"epoch": own["epoch"]})).expect(409);
    // The same session again, as it was.
    let again = s.post("/v1/runs", &json!({"session": "far", "host": "build-8"})).expect(201);
    assert_eq!((&again["run"]["argv"], &again["run"]["epoch"]), (&json!(["claude"]), &json!(2)), "{again}");
}

#[test]
fn a_container_that_ends_soon_hands_its_sessions_over_to_the_next() {
    let mut s = Service::new();
    s.signal(Signal::TERM);
    write(&s.scratch.path("inside/stay"), b"").unwrap();
    let (program, tmux) = (s.program(), s.tmux.socket().to_string_lossy().into_owned());
    let (workspace, socket) = (s.at("inside"), s.at("run/inside.sock"));
    let run =
        ["session", "run", "--name", "inside", "--tmux", "--detach", "--tmux-socket", &tmux, "-w", &workspace, "--", &program];
    let serve = ["serve", "--socket", &socket, "--tmux-socket", &tmux];
    let quoted = |words: &[&str]| {
        let ours = s.scratch.command(words);
        let words: Vec<_> = ours.get_args().map(|word| format!("'{}'", word.to_str().unwrap())).collect();
        format!("'{}' {}", ours.get_program().to_str().unwrap(), words.join(" "))
    };
    let script = format!("{} && exec {}", quoted(&run), quoted(&serve));
    let said = fs::File::create(s.scratch.path("said")).unwrap();
    let mut container = std::process::Command::new("unshare");
    container.args(["--fork", "--pid", "--mount-proc", "--kill-child", "sh", "-c", &script]).env_clear();
    container.envs(s.scratch.command::<&str>(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    container.env("TMPDIR", s.scratch.path("home")).env("PARHELIA_MAX_LIFETIME_HOURS", "0.0001");
    s.child = Some(container.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).process_group(0).spawn().unwrap());
    wait(|| s.said().contains("is handed over").then_some(()));
    // Nothing is resumed in there any more.
    assert!(!s.said().contains("is dead; in 4 s"), "{}", s.said());
    s.signal(Signal::KILL);
    let logged = s.scratch.run(&["log", "--kind", "session.handover", "--json"]);
    assert!(String::from_utf8_lossy(&logged.stdout).contains("its container ends soon"), "{logged:?}");
    // The kernel ends what is in the container behind that.
    wait(|| (!is_locked(&s.scratch.store().join("lock.service"))).then_some(()));
    s.start();
    s.idle("inside", 2);
    let shown = s.get("/v1/sessions/inside/checkpoints").expect(200);
    let details = shown["checkpoints"].as_array().unwrap().iter().map(|one| one["trigger_detail"].as_str().unwrap_or_default());
    assert!(details.clone().any(|detail| detail == "its container ends soon"), "{shown}");
}

#[test]
fn retention_and_gc_run_while_nothing_else_is_to_be_done() {
    let mut s = Service::new();
    s.signal(Signal::TERM);
    let config = s.scratch.path("upkeep.toml");
    fs::write(&config, "[service]\nupkeep_hours = 0.0003\n").unwrap();
    // Content that is nobody's any more.
    let mut random = fs::File::open("/dev/urandom").unwrap().take(2 << 20);
    std::io::copy(&mut random, &mut fs::File::create(s.scratch.path("work/random")).unwrap()).unwrap();
    let gone = s.scratch.create("work", &s.scratch.path("work"));
    s.scratch.expect(0, &["checkpoint", "delete", &gone]);
    let mut command = s.command();
    command.env("PARHELIA_CONFIG", &config);
    let said = fs::File::create(s.scratch.path("said")).unwrap();
    s.child = Some(command.stdout(Stdio::null()).stderr(said).process_group(0).spawn().unwrap());
    let freed = wait(|| s.said().split_once("gc has freed ")?.1.split(' ').next()?.parse::<u64>().ok());
    assert!(freed > 1 << 20, "{freed}");
}

#[test]
fn the_check_of_the_day_runs_while_something_is_lost() {
    let mut s = Service::new();
    s.signal(Signal::TERM);
    let mut random = fs::File::open("/dev/urandom").unwrap().take(1 << 20);
    std::io::copy(&mut random, &mut fs::File::create(s.scratch.path("work/random")).unwrap()).unwrap();
    s.scratch.create("work", &s.scratch.path("work"));
    let packs = fs::read_dir(s.scratch.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    fs::remove_file(packs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap()).unwrap();
    let config = s.scratch.path("upkeep.toml");
    fs::write(&config, "[service]\nupkeep_hours = 0.0003\ncheck_percent = 100\n").unwrap();
    let mut command = s.command();
    command.env("PARHELIA_CONFIG", &config);
    let said = fs::File::create(s.scratch.path("said")).unwrap();
    s.child = Some(command.stdout(Stdio::null()).stderr(said).process_group(0).spawn().unwrap());
    let found = wait(|| s.said().split_once("of data and found ")?.1.split(' ').next()?.parse::<u64>().ok());
    assert!(found > 0, "{found}");
    // Of the folder itself it cannot tell what has changed, with what is lost.
    let elsewhere = s.scratch.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let status = s.scratch.expect(0, &["status", "--workspace", &elsewhere.to_string_lossy()]);
    assert!(status.contains("found in the store"), "{status}");
}
