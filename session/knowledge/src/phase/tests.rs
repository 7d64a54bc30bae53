use std::fs;

use serde_json::json;

use super::*;

struct Fixture {
    _folder: tempfile::TempDir,
    root: PathBuf,
    home: Home,
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_770_000_000 + seconds).unwrap()
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("pai");
        Fixture { _folder: folder, home: Home::at(root.clone()), root }
    }

    fn create(&self, phase: &str, number: u8, seconds: i64) -> PhaseFile {
        let done = self.home.create(request(phase, number), at(seconds)).unwrap();
        assert_eq!(done.troubles, Vec::<String>::new());
        done.what
    }

    fn seed(&self, value: &Value) {
        fs::create_dir_all(&self.root).unwrap();
        fs::write(self.root.join("seed.json"), serde_json::to_string_pretty(value).unwrap()).unwrap();
    }

    fn seed_now(&self) -> Value {
        serde_json::from_slice(&fs::read(self.root.join("seed.json")).unwrap()).unwrap()
    }

    fn log(&self) -> Vec<Value> {
        let Ok(text) = fs::read_to_string(self.root.join("events/events-2026-02-02.jsonl")) else { return Vec::new() };
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.root.join("checkpoints")).unwrap().count()
    }
}

fn request(phase: &str, number: u8) -> PhaseRequest {
    PhaseRequest {
        session: "s1".into(),
        phase: phase.into(),
        number,
        task: "Fix the parser".into(),
        criteria: vec![Criterion {
            id: "1".into(),
            subject: "It parses".into(),
            status: CriterionStatus::Pending,
            extra: Map::new(),
        }],
        metadata: json!({"branch": "fix"}).as_object().unwrap().clone(),
    }
}

fn ids(saved: &[PhaseFile]) -> Vec<&str> {
    saved.iter().map(|saved| saved.phase.id.as_str()).collect()
}

#[test]
fn an_event_behind_a_line_that_was_cut_off_is_a_line_of_its_own() {
    let f = Fixture::new();
    f.create("Plan", 1, 0);
    let path = f.root.join("events/events-2026-02-02.jsonl");
    let mut log = fs::read(&path).unwrap();
    log.extend(b"{\"torn\":");
    fs::write(&path, &log).unwrap();
    let second = f.create("Build", 4, 1);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[1]), (3, "{\"torn\":"));
    assert!(lines[2].contains(&second.phase.id) && serde_json::from_str::<Value>(lines[2]).is_ok(), "{text}");
}

#[test]
fn what_was_created_is_found_again_and_offered_until_it_is_completed() {
    let f = Fixture::new();
    assert!(f.home.incomplete().unwrap().is_none() && !f.root.exists(), "nothing is made to look for it");
    let first = f.create("Observe", 1, 0);
    // In the same second, and of the same phase.
    let second = f.create("Plan", 3, 1);
    let third = f.create("Plan", 3, 1);
    assert_eq!(f.files(), 3);
    assert_eq!(f.home.load(&first.phase.id).unwrap().phase, first.phase);
    assert_eq!(f.home.list(None).unwrap().len(), 3);
    let offered = f.home.incomplete().unwrap().unwrap();
    assert!([&second, &third].map(|saved| &saved.phase.id).contains(&&offered.phase.id));
    let done = f.home.complete(&offered.phase.id, at(2)).unwrap();
    assert!(done.what.phase.completed && done.troubles.is_empty() && done.what.file == offered.file);
    assert_ne!(f.home.incomplete().unwrap().unwrap().phase.id, offered.phase.id);
    assert_eq!(ids(&f.home.list(Some(true)).unwrap()), [offered.phase.id.as_str()]);
    assert_eq!(f.home.list(Some(false)).unwrap().len(), 2);
    let actions: Vec<String> = f.log().iter().map(|event| event["data"]["action"].as_str().unwrap().to_owned()).collect();
    assert_eq!(actions, ["checkpoint_created", "checkpoint_created", "checkpoint_created", "checkpoint_completed"]);
    let event = &f.log()[0];
    assert_eq!((&event["type"], &event["sessionId"], &event["data"]["phaseNumber"]), (&json!("custom"), &json!("s1"), &json!(1)));
    assert_eq!(event["timestamp"], "2026-02-02T02:40:00.000Z");
    let error = f.home.load("nosuch").unwrap_err();
    assert!(error.kind() == parhelia_store::ErrorKind::NotFound && error.to_string().contains("nosuch"), "{error}");
    assert!(f.home.complete("nosuch", at(3)).is_err());
}

#[test]
fn the_seed_follows_and_keeps_what_is_not_ours() {
    let f = Fixture::new();
    let seed = json!({"version": "1", "own": {"list": [1, 2]}, "state": {"other": true}, "later": null});
    f.seed(&seed);
    let first = f.create("Plan", 2, 0);
    let mut wanted = seed.clone();
    wanted["state"]["checkpointRef"] = json!(first.phase.id);
    assert_eq!(f.seed_now(), wanted);
    let second = f.create("Build", 4, 1);
    f.home.complete(&first.phase.id, at(2)).unwrap();
    assert_eq!(f.seed_now()["state"]["checkpointRef"], json!(second.phase.id), "another one is meant");
    f.home.complete(&second.phase.id, at(3)).unwrap();
    assert_eq!(f.seed_now(), seed);
    // Its fields keep their order.
    let text = fs::read_to_string(f.root.join("seed.json")).unwrap();
    let places = ["version", "own", "state", "later"].map(|field| text.find(&format!("\"{field}\"")).unwrap());
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn a_seed_or_a_log_that_cannot_be_written_is_told_of_and_stays_as_it_is() {
    for broken in ["{", "[]", "{\"state\": 7}", "{\"version\": 1}", ""] {
        let f = Fixture::new();
        fs::create_dir_all(&f.root).unwrap();
        fs::write(f.root.join("seed.json"), broken).unwrap();
        fs::write(f.root.join("events"), "a file").unwrap();
        let done = f.home.create(request("Plan", 2), at(0)).unwrap();
        assert_eq!(done.troubles.len(), 2, "{:?}", done.troubles);
        assert_eq!(fs::read_to_string(f.root.join("seed.json")).unwrap(), broken);
        assert_eq!(f.home.incomplete().unwrap().unwrap().phase, done.what.phase);
    }
}

#[test]
fn old_ones_go_and_the_seed_forgets_them() {
    let f = Fixture::new();
    f.seed(&json!({"state": {}}));
    let day = 86_400;
    let (old, done, new) = (f.create("Plan", 2, 0), f.create("Build", 4, day), f.create("Test", 5, 20 * day));
    f.home.complete(&done.phase.id, at(day)).unwrap();
    seed::point(&f.root.join("seed.json"), &old.phase.id).unwrap();
    let days = SignedDuration::from_hours(30 * 24);
    assert!(f.home.clean_up(days, at(30 * day)).unwrap().what.is_empty(), "not older than that");
    let cleaned = f.home.clean_up(days, at(32 * day)).unwrap();
    assert_eq!(ids(&cleaned.what), [done.phase.id.as_str(), old.phase.id.as_str()], "completed ones first");
    assert_eq!(ids(&f.home.list(None).unwrap()), [new.phase.id.as_str()]);
    assert_eq!(f.seed_now(), json!({"state": {}}));
}

#[test]
fn what_is_no_phase_checkpoint_is_passed_over_and_stays() {
    let f = Fixture::new();
    let good = f.create("Plan", 2, 0);
    let folder = f.root.join("checkpoints");
    for (name, text) in [("ckpt-a.json", "{"), ("ckpt-b.json", ""), ("notes.json", "{}"), ("ckpt-c.json.tmp", "{}")] {
        fs::write(folder.join(name), text).unwrap();
    }
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("ckpt-fifo.json"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    // One of another program, whose name has no id.
    let mut other = serde_json::to_value(&good.phase).unwrap();
    (other["id"], other["createdAt"], other["unknown"]) = (json!("other"), json!("2030-01-01T00:00:00.000Z"), json!(1));
    fs::write(folder.join("ckpt-2030-01-01T00-00-00Z-plan.json"), other.to_string()).unwrap();
    assert_eq!(ids(&f.home.list(None).unwrap()), ["other", good.phase.id.as_str()]);
    let completed = f.home.complete("other", at(1)).unwrap().what;
    assert_eq!(completed.file, folder.join("ckpt-2030-01-01T00-00-00Z-plan.json"));
    assert_eq!(completed.phase.extra["unknown"], json!(1));
    let before = f.files();
    f.home.clean_up(SignedDuration::ZERO, at(1)).unwrap();
    assert_eq!(f.files(), before - 1);
}

#[test]
fn nothing_is_written_of_what_makes_no_sense() {
    let f = Fixture::new();
    for wrong in [
        PhaseRequest { number: 0, ..request("Plan", 1) },
        PhaseRequest { number: 8, ..request("Plan", 1) },
        PhaseRequest { phase: String::new(), ..request("Plan", 1) },
        PhaseRequest { session: String::new(), ..request("Plan", 1) },
        PhaseRequest { metadata: json!({"big": "x".repeat(5 << 20)}).as_object().unwrap().clone(), ..request("Plan", 1) },
    ] {
        assert_eq!(f.home.create(wrong, at(0)).unwrap_err().kind(), parhelia_store::ErrorKind::Usage);
    }
    assert!(f.home.list(None).unwrap().is_empty() && f.log().is_empty());
    assert!(!f.root.join("checkpoints").exists() || f.files() == 0);
}

#[test]
fn several_at_once_lose_nothing() {
    let f = Fixture::new();
    f.seed(&json!({"state": {}, "kept": 1}));
    std::thread::scope(|scope| {
        for number in 1..=7 {
            let home = &f.home;
            scope.spawn(move || {
                for second in 0..10 {
                    let saved = home.create(request("Plan", number), at(second)).unwrap().what;
                    if second % 2 == 0 {
                        home.complete(&saved.phase.id, at(second)).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!((f.home.list(Some(true)).unwrap().len(), f.home.list(Some(false)).unwrap().len()), (35, 35));
    assert_eq!((f.files(), f.log().len(), f.seed_now()["kept"].clone()), (70, 105, json!(1)));
}
