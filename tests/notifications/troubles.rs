//! Channels that are down, slow, or closed for the night.

use std::time::Instant;

use parhelia_tests::{filesystems::Disk, receiver::Answer};

use super::*;

/// One channel, for people.
const SLACK: &str = r#"
[notifications]
default_channel = "slack"
insecure_loopback = true
[notifications.channels.slack]
webhook_url = "${HOOK}/slack/very-secret"
"#;

fn due(told: &Told) {
    for delivery in told.outbox() {
        told.expect(0, &["outbox", "retry", delivery["id"].as_str().unwrap()]);
    }
}

#[test]
fn what_a_channel_does_not_take_is_kept_and_sent_again_under_the_same_id() {
    let told = Told::with(&SLACK.replace("type", "").replace(
        "[notifications.channels.slack]\nwebhook_url = \"${HOOK}/slack/very-secret\"",
        "[notifications.channels.slack]\ntype = \"webhook\"\nurl = \"URL/mine\"",
    ));
    let wait_long = Answer::Status(429, "Retry-After: 1800\r\n".into(), "slow down".into());
    told.receiver.will_answer([Answer::status(500), Answer::Cut, wait_long]);
    told.session("job", 0);
    let first = told.first("/mine");
    let failed = |why: &str| {
        let kept = wait(|| told.outbox().into_iter().find(|one| one["error"].as_str().is_some_and(|error| error.contains(why))));
        assert_eq!((&kept["attempts"], &kept["has_failed"]), (&1.into(), &false.into()), "{kept}");
        kept
    };
    failed("status 500");
    due(&told);
    failed("the connection failed");
    due(&told);
    let kept = failed("status 429");
    let time = |name: &str| kept[name].as_str().unwrap().to_owned();
    let pause = time("not_before").parse::<jiff::Timestamp>().unwrap().duration_since(time("since").parse().unwrap());
    assert!(pause.as_secs() >= 1800, "as the receiver asks: {kept}");
    told.expect(0, &["outbox", "retry"]);
    wait(|| told.outbox().is_empty().then_some(()));
    let ids: Vec<_> = told.receiver.requests_to("/mine").iter().map(|one| one.json()["id"].clone()).collect();
    assert!(ids.len() >= 4 && ids[..4].iter().all(|id| *id == first.json()["id"]), "{ids:?}");
}

#[test]
fn what_failed_for_good_is_listed_until_somebody_decides() {
    let told = Told::with(SLACK);
    told.receiver.will_answer([Answer::status(403), Answer::status(403)]);
    told.session("job", 0);
    told.first("/slack/very-secret");
    told.settled();
    let failed = told.expect(0, &["outbox", "list", "--failed"]);
    assert!(failed.contains("failed  (it answered with status 403)") && !failed.contains("very-secret"), "{failed}");
    told.expect(0, &["outbox", "deliver"]);
    assert_eq!(told.receiver.requests().len(), 1, "it is not tried by itself");
    told.expect(0, &["outbox", "retry"]);
    wait(|| (told.receiver.requests().len() == 2).then_some(()));
    let id = told.outbox()[0]["id"].as_str().unwrap().to_owned();
    assert!(told.expect(10, &["outbox", "drop", "none"]).contains("outbox list"));
    assert!(told.expect(0, &["outbox", "drop", &id]).contains("Removed 1"));
    let left = told.outbox().len();
    told.expect(0, &["outbox", "drop"]);
    assert!(left <= 1 && told.outbox().is_empty());
    let log = fs::read_to_string(told.scratch.path("home/.local/state/parhelia/hook.log")).unwrap();
    assert!(log.contains("channel slack: it answered with status 403") && !log.contains("very-secret"), "{log}");
}

#[test]
fn a_channel_that_does_not_answer_delays_neither_a_verb_nor_another_channel() {
    let config = CHANNELS.replace("info = [\"mine\"]", "info = []");
    let told = Told::with(&config);
    told.receiver.will_answer(vec![Answer::Silence; 3]);
    let began = Instant::now();
    told.session("job", 0);
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
    // Three of the four channels hang; the fourth has its message before any of them gives up.
    wait(|| (told.receiver.requests().len() >= 4).then_some(()));
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
}

#[test]
fn what_happens_while_a_channel_hangs_is_told_on_the_others() {
    // Connections are taken by the kernel, and never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let told = Told::with(&format!(
        "[notifications]\ninsecure_loopback = true\n[notifications.routing]\nnotice = [\"silent\", \"mine\"]\n\
         [notifications.channels.silent]\ntype = \"webhook\"\nurl = \"http://{}/\"\n\
         [notifications.channels.mine]\ntype = \"webhook\"\nurl = \"URL/mine\"\n",
        silent.local_addr().unwrap()
    ));
    let began = Instant::now();
    told.session("first", 0);
    told.first("/mine");
    told.session("second", 0);
    let is_second = |request: &Request| request.json()["session_name"] == "second";
    wait(|| told.receiver.requests_to("/mine").iter().any(is_second).then_some(()));
    // A request is given up after 30 seconds.
    assert!(began.elapsed().as_secs() < 28, "{:?}", began.elapsed());
    wait(|| told.outbox().iter().all(|one| one["channel"] == "silent").then_some(()));
}

#[test]
fn at_night_only_what_is_critical_is_sent() {
    let now = parhelia_store::clock::timestamp();
    let hour = |offset: i64| (now + jiff::SignedDuration::from_hours(offset)).to_string()[11..16].to_owned();
    let quiet = format!("quiet_hours = \"{}-{}\"\n[notifications.channels.slack]", hour(-1), hour(2));
    let told = Told::with(&SLACK.replace("[notifications.channels.slack]", &quiet));
    told.session("job", 0);
    told.settled();
    let held = wait(|| Some(told.outbox()).filter(|held| !held.is_empty()));
    assert!(held.iter().all(|one| one["attempts"] == 0), "{held:?}");
    assert_eq!(told.receiver.requests().len(), 0);
    // A session that a signal ends before it has a checkpoint, or an agent that tries to decide, cannot wait until the morning.
    let workspace = told.scratch.path("secret");
    write(&workspace.join("key"), b"AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY\n").unwrap();
    told.expect(0, &["checkpoint", "create", "--workspace", &workspace.to_string_lossy()]);
    let sent = told.first("/slack/very-secret").json();
    assert!(sent["text"].as_str().unwrap().contains("Possible secrets"), "{sent}");
    told.settled();
    assert_eq!(told.outbox().len(), held.len());
    // Without quiet hours, all of it is one message.
    told.configure(SLACK);
    told.expect(0, &["outbox", "deliver"]);
    let all = told.receiver.requests_to("/slack/very-secret");
    assert_eq!(all.len(), 2);
    assert!(held.len() == 1 || all[1].body.contains(&format!("{} notifications", held.len())), "{}", all[1].body);
}

#[test]
fn the_same_of_a_session_is_not_told_again_and_again() {
    for (repeat_minutes, expected) in [(10, 1), (0, 3)] {
        let routing = format!("repeat_minutes = {repeat_minutes}\n[notifications.routing]\ninfo = [\"slack\"]\n");
        let told = Told::with(&SLACK.replace("[notifications.channels", &format!("{routing}[notifications.channels")));
        let workspace = told.scratch.path("work");
        for round in 0..3 {
            write(&workspace.join("file"), format!("{round}").as_bytes()).unwrap();
            told.expect(0, &["checkpoint", "create", "job", "--workspace", &workspace.to_string_lossy()]);
            wait(|| {
                told.settled();
                let state = fs::read_to_string(told.scratch.store().join("outbox/state.json")).ok()?;
                let state: Value = serde_json::from_str(&state).unwrap();
                let log = told.expect(0, &["log", "--json", "-n", "1"]);
                let last: Value = serde_json::from_str(log.lines().next()?).unwrap();
                (state["cursor"].as_u64() >= last["sequence"].as_u64()).then_some(())
            });
        }
        assert!(told.outbox().is_empty());
        assert_eq!(told.receiver.requests().len(), expected, "{:?}", told.receiver.requests());
    }
}

#[test]
fn a_process_that_is_killed_while_it_delivers_loses_nothing() {
    let told = Told::with(SLACK);
    told.receiver.will_answer([Answer::Silence]);
    told.session("job", 0);
    told.first("/slack/very-secret");
    let killed = std::process::Command::new("pkill").args(["-KILL", "-f"]).arg(told.scratch.store().as_os_str()).status();
    assert!(killed.unwrap().success());
    told.settled();
    let waiting = told.outbox();
    assert!(!waiting.is_empty() && waiting.iter().all(|one| one["attempts"] == 0), "{waiting:?}");
    told.expect(0, &["outbox", "deliver"]);
    assert_eq!(told.receiver.requests().len(), 2);
    assert!(told.outbox().is_empty());
}

#[test]
fn no_project_says_where_notifications_go_and_old_events_are_not_told() {
    let told = Told::with("");
    told.session("before", 0);
    write(&told.scratch.path("work/parhelia.toml"), SLACK.as_bytes()).unwrap();
    let workspace = told.scratch.path("work").to_string_lossy().into_owned();
    let (code, said) = told.run(&["session", "run", "--workspace", &workspace, "--", "true"]);
    assert!(code == Some(0) && said.contains("cannot be set by a project"), "{said}");
    assert_eq!(told.receiver.requests().len(), 0);
    assert!(!told.scratch.store().join("outbox").exists(), "without channels there is no outbox");
}

#[test]
fn a_full_disk_keeps_back_nothing_that_is_to_be_told() {
    let mut told = Told::with(SLACK);
    let disk = Disk::mount(told.scratch.path("disk"), 64 << 10);
    told.scratch.put_store(disk.0.join("store"));
    told.receiver.will_answer([Answer::status(403)]);
    told.session("waits", 0);
    told.first("/slack/very-secret");
    told.settled();
    let waiting = told.outbox().len();
    assert!(waiting > 0);
    // Nobody delivers without channels, so that there are events that were never written down as deliveries.
    told.configure("");
    told.session("new", 1);
    told.configure(SLACK);
    disk.fill(0);
    let is_full = fs::write(told.scratch.store().join("outbox/another"), [1]);
    assert!(is_full.is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull));
    told.expect(0, &["outbox", "retry"]);
    told.expect(0, &["outbox", "deliver"]);
    assert!(told.outbox().is_empty(), "{:?}", told.outbox());
    let texts = told.receiver.requests_to("/slack/very-secret").iter().map(|one| one.json().to_string()).collect::<Vec<_>>();
    assert!(["waits", "new"].iter().all(|name| texts.iter().any(|text| text.contains(name))), "{texts:?}");
    disk.unfill();
    told.expect(0, &["outbox", "deliver"]);
    let reserve = told.scratch.store().join("outbox/reserve");
    assert!(reserve.exists(), "the room is kept again");
    // Where somebody else has taken it as well, what was queued before is sent.
    told.receiver.will_answer([Answer::status(403)]);
    told.session("third", 1);
    wait(|| told.outbox().iter().any(|one| one["has_failed"] == true).then_some(()));
    told.settled();
    told.expect(0, &["outbox", "retry"]);
    fs::remove_file(reserve).unwrap();
    disk.fill(0);
    told.expect(0, &["outbox", "deliver"]);
    assert!(told.outbox().is_empty(), "{:?}", told.outbox());
}
