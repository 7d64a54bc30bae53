//! What an agent may say and delete: no word of it makes a checkpoint good or hides one, and a rejection is not washed off by deleting what was
//! rejected.

use std::fs;

use parhelia_tests::{Scratch, live::wait};
use serde_json::Value;

use super::{acts, checkpoints, id, lines, session, status};

#[test]
fn words_about_a_checkpoint_decide_nothing() {
    let s = Scratch::new();
    let binary = parhelia_tests::binary();
    let words = ["safety", "was ended by signal 9", "import", "pre_compact"];
    let script: String = words
        .iter()
        .enumerate()
        .map(|(n, word)| format!("echo {n} > file; {} create -q -m m{n} --trigger-detail '{word}'; ", binary.display()))
        .collect();
    let made = session(&s, &["--policy", "strict"], &script);
    for (n, word) in words.iter().enumerate() {
        let found = made.iter().find(|one| one["message"] == format!("m{n}")).unwrap();
        assert_eq!((&found["trigger_detail"], &found["approval"]["status"]), (&(*word).into(), &"pending".into()), "{found}");
    }
    fs::write(s.path("work/file"), "of a person").unwrap();
    let work = s.path("work");
    let arguments = ["create", "s", "-w", work.to_str().unwrap(), "-q", "--trigger-detail", "safety"];
    let by_hand = s.expect(0, &arguments).trim().to_owned();
    assert_eq!((status(&s, &by_hand).as_str(), id(&lines(&s, &["show", "s@latest"])[0])), ("pending", by_hand.as_str()));
    // One that the product itself has made for safety is what it says.
    s.expect(0, &["checkpoint", "rollback", id(&made[1]), "--yes"]);
    let is_safety = |one: &Value| one["trigger_detail"] == "safety" && id(one) != by_hand && one["message"] != "m0";
    let safety = checkpoints(&s).into_iter().find(is_safety).unwrap();
    assert_eq!(safety["approval"]["status"], "auto_approved", "{safety}");
    // Programs see what rules go by.
    let cause =
        |checkpoint: &str| lines(&s, &["list", "s"]).into_iter().find(|one| one["id"] == checkpoint).unwrap()["cause"].clone();
    assert_eq!((cause(id(&safety)), cause(&by_hand)), ("safety".into(), "asked".into()));
    let run = lines(&s, &["session", "show", "s"]).into_iter().find(|line| line["type"] == "run").unwrap();
    assert_eq!((&run["end"]["kind"], &run["end"]["code"], &run["end"]["by"]), (&"exited".into(), &0.into(), &Value::Null));
}

#[test]
fn an_agent_deletes_no_evidence_and_a_rejection_outlives_what_was_rejected() {
    let s = Scratch::new();
    let work = s.path("work");
    let script = format!(
        "p={}; $p create -q -m good; echo evil > evil; $p create -q -m evil; touch made; while [ ! -e go ]; do sleep 0.05; done
         bad=$(cat bad); $p create -q -m after
         $p delete $bad 2>> said; echo $? >> codes; $p delete $bad --protected 2>> said; echo $? >> codes
         env -i PARHELIA_STORE=\"$PARHELIA_STORE\" $p delete $bad --protected 2>> said; echo $? >> codes
         $p delete $(cat other) 2>> said; echo $? >> codes
         $p session prune --max-store-bytes 1 2>> said; echo $? >> codes
         $p restore latest > refused 2>&1; echo $? >> refused
         $p session prune -n --max-store-bytes 1 > planned 2>&1; echo $? >> planned
         $p tag $(cat kept) mine > /dev/null; $p untag $(cat kept) mine 2>> said > /dev/null; echo $? >> marks
         $p untag $(cat kept) keep 2>> said; echo $? >> marks
         $p unlink $(cat kept) o/r#7 2>> said; echo $? >> marks
         touch tried; while [ ! -e end ]; do sleep 0.05; done",
        parhelia_tests::binary().display()
    );
    fs::create_dir(s.path("others")).unwrap();
    let other = s.create("other", &s.path("others"));
    fs::create_dir(&work).unwrap();
    fs::write(work.join("other"), &other).unwrap();
    let run = ["session", "run", "--name", "s", "-w", work.to_str().unwrap(), "--", "sh", "-c", &script];
    let mut agent = s.command(&run).spawn().unwrap();
    let find = |message: &str| checkpoints(&s).into_iter().find(|one| one["message"] == message).map(|one| id(&one).to_owned());
    wait(|| work.join("made").exists().then_some(()));
    let evil = find("evil").unwrap();
    s.expect(0, &["session", "reject", &evil, "--reason", "evil"]);
    fs::write(work.join("bad"), &evil).unwrap();
    let kept = find("good").unwrap();
    s.expect(0, &["tag", &kept, "keep"]);
    s.expect(0, &["link", &kept, "o/r#7"]);
    fs::write(work.join("kept"), &kept).unwrap();
    fs::write(work.join("go"), "").unwrap();
    wait(|| work.join("tried").exists().then_some(()));
    let said = fs::read_to_string(work.join("said")).unwrap();
    assert_eq!(fs::read_to_string(work.join("codes")).unwrap(), "4\n4\n4\n4\n4\n", "{said}");
    // A tag of its own it may take off, and none that keeps a checkpoint for somebody.
    assert_eq!(fs::read_to_string(work.join("marks")).unwrap(), "0\n4\n4\n", "{said}");
    assert_eq!(lines(&s, &["show", &kept])[0]["tags"], serde_json::json!(["keep"]));
    assert!(!said.contains("--protected") && said.contains("the attempt is recorded"), "{said}");
    assert_eq!((status(&s, &evil).as_str(), checkpoints(&s).len() > 3), ("rejected", true));
    for (act, field, mark) in
        [("checkpoint.untag_refused", "tag", "keep"), ("checkpoint.unlink_refused", "url", "https://github.com/o/r/issues/7")]
    {
        let refused = acts(&s, act);
        assert_eq!(refused.len(), 1, "{act}: {refused:?}");
        assert_eq!((&refused[0]["via"], &refused[0]["data"][field]), (&"agent".into(), &mark.into()), "{refused:?}");
    }
    let refused = fs::read_to_string(work.join("refused")).unwrap();
    assert!(refused.contains("give --to DIR") && !refused.contains("rollback") && refused.ends_with("\n2\n"), "{refused}");
    // What it would remove is not shown to it, and asking is no attempt.
    let planned = fs::read_to_string(work.join("planned")).unwrap();
    assert!(planned.ends_with("\n4\n") && !planned.contains("remove  ") && !planned.contains("recorded"), "{planned}");
    let attempts = acts(&s, "checkpoint.delete_refused");
    assert_eq!(attempts.len(), 5, "{attempts:?}");
    assert!(attempts.iter().all(|attempt| attempt["via"] == "agent" && !attempt["rule"].is_null()), "{attempts:?}");
    s.expect(0, &["show", &other]);
    // A person may; what was rejected stays rejected all the same.
    let copy = s.path("copy");
    s.expect(0, &["restore", &evil, "--to", copy.to_str().unwrap()]);
    s.expect(0, &["delete", &evil, "--protected"]);
    fs::write(work.join("end"), "").unwrap();
    agent.wait().unwrap();
    let rule = |checkpoint: &str| lines(&s, &["show", checkpoint])[0]["approval"]["rule"].as_str().unwrap_or_default().to_owned();
    let work_folder = work.to_str().unwrap();
    s.expect(0, &["create", "s", "-w", work_folder, "-q", "-m", "later"]);
    assert_eq!(rule("s@latest"), format!("builds on {evil}, which was rejected"));
    // Neither does another session make the same files good.
    s.expect(0, &["session", "run", "--name", "t", "-w", copy.to_str().unwrap(), "--", "true"]);
    s.expect(0, &["create", "t", "-w", copy.to_str().unwrap(), "-q", "-m", "later"]);
    assert_eq!(rule("t@latest"), format!("has the content of {evil}, which was rejected"));
    let decided: Vec<Value> = acts(&s, "checkpoint.reject");
    assert!(decided[0]["data"]["rejected"]["content"].is_string(), "{decided:?}");
}

#[test]
fn what_follows_a_rejected_head_waits_though_that_was_deleted() {
    let s = Scratch::new();
    let work = s.path("work");
    let made = session(&s, &[], "sleep 0.2; echo bad >> before");
    let bad = id(made.last().unwrap());
    s.expect(0, &["session", "reject", bad]);
    s.expect(0, &["delete", bad, "--protected"]);
    let more = |text: &str| {
        fs::write(work.join("more"), text).unwrap();
        s.expect(0, &["create", "s", "-w", work.to_str().unwrap(), "-q"]).trim().to_owned()
    };
    let next = more("first");
    assert_eq!(status(&s, &next), "pending", "its folder still has what was rejected");
    assert_eq!(status(&s, &more("second")), "pending");
    s.expect(0, &["session", "approve", &next]);
    assert_eq!(status(&s, &more("third")), "auto_approved");
}

#[test]
fn what_builds_on_rejected_content_waits_in_another_session_too() {
    let s = Scratch::new();
    let work = s.path("work");
    let made = session(&s, &[], "sleep 0.2; echo bad >> before");
    s.expect(0, &["session", "reject", id(made.last().unwrap())]);
    let run = ["session", "run", "--name", "other", "-w", work.to_str().unwrap(), "--", "sh", "-c", "sleep 0.2; echo x > extra"];
    s.expect(0, &run);
    let found = lines(&s, &["list", "other"]);
    let others: Vec<_> = found.iter().filter(|one| one["type"] == "checkpoint").collect();
    assert!(others.len() >= 2 && others.iter().all(|one| one["approval"]["status"] == "pending"), "{others:?}");
}

#[test]
fn rejected_content_that_a_person_approves_later_is_good_from_then_on() {
    let s = Scratch::new();
    let work = s.path("work");
    let made = session(&s, &[], "sleep 0.2; echo bad >> before");
    s.expect(0, &["session", "reject", id(made.last().unwrap())]);
    let same = |message: &str| {
        let words = ["create", "s", "-w", work.to_str().unwrap(), "-q", "-m", message];
        s.expect(0, &words).trim().to_owned()
    };
    let second = same("the same once more");
    assert_eq!(status(&s, &second), "pending");
    s.expect(0, &["session", "approve", &second]);
    // Neither the same content nor what builds on it waits again.
    assert_eq!(status(&s, &same("unchanged")), "auto_approved");
    fs::write(work.join("more"), "more").unwrap();
    assert_eq!(status(&s, &same("on top")), "auto_approved");
}
