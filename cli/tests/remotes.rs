//! Remotes: buckets in folders, joined by machines that are homes of their own.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::common::*;

/// A home whose store may join a bucket with a passphrase.
struct Machine {
    home: Home,
    bucket: PathBuf,
    passphrase: &'static str,
}

impl Machine {
    fn of(home: Home, bucket: &Path) -> Self {
        fs::create_dir(home.folder.path().join("work")).unwrap();
        Machine { home, bucket: bucket.to_owned(), passphrase: "correct horse battery" }
    }

    fn new(bucket: &Path) -> Self {
        Self::of(Home::new(), bucket)
    }

    fn url(&self) -> String {
        format!("file://{}", self.bucket.display())
    }

    fn command(&self, args: &[&str]) -> Command {
        let file = self.home.folder.path().join("passphrase");
        fs::write(&file, format!("{}\n", self.passphrase)).unwrap();
        let mut command = self.home.command(args);
        // What is pushed is said by the test, and not by whichever verb came before.
        command.env("PARHELIA_REMOTE_PASSPHRASE_FILE", file).env("PARHELIA_REMOTE_PUSH", "false");
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }

    fn last(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).expect(0).json().pop().unwrap()
    }

    /// Makes a checkpoint of the folder `work`, with a file of this content, and gives its id.
    fn create(&self, content: &str) -> String {
        fs::write(self.home.folder.path().join("work/file"), content).unwrap();
        self.run(&["-q", "create", "-w", "work"]).expect(0).out.trim().to_owned()
    }
}

fn bucket() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn checkpoints_of_one_machine_are_read_on_another() {
    let bucket = bucket();
    let first = Machine::new(bucket.path());
    let run = first.run(&["remote", "add", &first.url()]).expect(0);
    assert!(run.out.contains("Made a bucket") && run.out.contains("Recovery phrase") && run.out.contains("encrypted"), "{run:?}");
    let (old, new) = (first.create("one\n"), first.create("two\n"));
    let status = first.last(&["remote", "status"]);
    assert_eq!((&status["waiting_checkpoints"], &status["last_push_at"]), (&2.into(), &Value::Null));
    assert!(first.last(&["remote", "push"])["packs"].as_u64().unwrap() >= 2);
    let status = first.run(&["remote", "status"]).expect(0).out;
    assert!(status.contains("nothing: it has everything") && status.contains("encrypted"), "{status}");

    let second = Machine::of(Home::without_store(), bucket.path());
    let cloned = second.last(&["remote", "clone", &second.url()]);
    assert_eq!((&cloned["checkpoints"], cloned["packs"].as_u64().unwrap() >= 2), (&2.into(), true));
    for id in [&old, &new] {
        assert!(second.run(&["list"]).expect(0).out.contains(id.as_str()));
        second.run(&["show", id]).expect(0);
        second.run(&["verify", id, "--deep"]).expect(0);
    }
    assert_eq!(second.run(&["cat", &format!("{new}:file")]).expect(0).out, "two\n");
    assert!(second.run(&["diff", &old, &new]).expect(0).out.contains("file"));
    second.run(&["restore", &old, "--to", "there"]).expect(0);
    assert_eq!(fs::read(second.home.folder.path().join("there/file")).unwrap(), b"one\n");
    second.run(&["check", "--read-data"]).expect(0);
    second.run(&["audit", "verify"]).expect(0);
    assert_eq!(second.last(&["remote", "clone", &second.url()])["checkpoints"], 0, "a clone is gone on with");

    // Their session is listed as theirs, and is not this folder's.
    let sessions = second.run(&["session", "list", "--json"]).expect(0).json();
    assert!(sessions[0]["machine"].is_string() && sessions[0]["observed"] == "elsewhere", "{sessions:?}");
    let own = second.create("mine\n");
    let parent = second.run(&["show", &own, "--json"]).expect(0).json().remove(0)["parent_checkpoint_id"].clone();
    assert_eq!(parent, Value::Null);
    second.run(&["remote", "push"]).expect(0);
    assert_eq!(first.last(&["remote", "fetch"])["checkpoints"], 1);
    assert!(first.run(&["list", "--all"]).out.contains(&own) || first.run(&["list"]).expect(0).out.contains(&own));

    // What is deleted here is deleted there.
    first.run(&["delete", &old]).expect(0);
    first.run(&["remote", "push"]).expect(0);
    second.run(&["remote", "fetch"]).expect(0);
    second.run(&["show", &old]).expect(10);
    second.run(&["audit", "verify"]).expect(0);
    let machines = first.run(&["remote", "list"]).expect(0).out;
    assert!(machines.lines().count() == 2 && machines.contains("(this machine)"), "{machines}");
    first.run(&["remote", "gc"]).expect(0);
}

#[test]
fn a_checkpoint_is_sent_in_the_background() {
    let bucket = bucket();
    let machine = Machine::new(bucket.path());
    let create = |content: &str| {
        fs::write(machine.home.folder.path().join("work/file"), content).unwrap();
        let mut command = machine.command(&["create", "-w", "work"]);
        // Nobody has joined it: the variable alone suffices.
        command.env("PARHELIA_REMOTE_PUSH", "true").env("PARHELIA_REMOTE_URL", machine.url());
        Run::of(command.output().unwrap()).expect(0)
    };
    create("one\n");
    let began = Instant::now();
    let is_sent = || {
        let status = machine.run(&["remote", "status"]);
        status.code == 0 && status.out.contains("nothing: it has everything") && status.out.contains("Machine")
    };
    while !is_sent() {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", machine.run(&["remote", "status"]));
        std::thread::sleep(Duration::from_millis(100));
    }
    let other = Machine::of(Home::without_store(), bucket.path());
    assert_eq!(other.last(&["remote", "clone", &other.url()])["checkpoints"], 1);

    // Whoever must know waits.
    fs::write(machine.home.folder.path().join("work/file"), "waited\n").unwrap();
    machine.run(&["create", "-w", "work", "--wait-remote"]).expect(0);
    assert_eq!(machine.last(&["remote", "status"])["waiting_checkpoints"], 0);
    let away = bucket.path().with_extension("away");
    fs::rename(bucket.path(), &away).unwrap();
    let run = machine.run(&["create", "-w", "work", "--wait-remote"]).expect(3);
    assert!(run.out.contains("created") && run.err.contains("the remote does not have it"), "{run:?}");
    assert!(machine.run(&["status", "-w", "work"]).expect(0).err.contains("1 checkpoint not sent"));
    let _ = fs::remove_dir_all(bucket.path());
    fs::rename(&away, bucket.path()).unwrap();

    // A run sends what was made in it, its last checkpoint as well.
    let mut run = machine.command(&["session", "run", "-w", "work", "--", "sh", "-c", "echo two > file"]);
    Run::of(run.env("PARHELIA_REMOTE_PUSH", "true").output().unwrap()).expect(0);
    let made = || machine.run(&["list", "--json"]).expect(0).json().pop().unwrap()["checkpoints"].as_u64().unwrap();
    let sent = || machine.last(&["remote", "status"])["waiting_checkpoints"].as_u64().unwrap();
    assert!(made() > 1);
    let began = Instant::now();
    while sent() > 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", machine.run(&["remote", "status"]));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_cannot_be_joined_is_refused_and_nothing_is_made() {
    let bucket = bucket();
    let machine = Machine::new(bucket.path());
    for (url, said) in [
        ("s3://key:SECRET@bucket", "a user, a password"),
        ("ftp://x/y", "its scheme is none of"),
        ("file://relative", "absolute folder"),
        ("", "no scheme"),
    ] {
        let run = machine.run(&["remote", "add", url]).expect(2);
        assert!(run.err.contains(said) && !run.err.contains("SECRET"), "{run:?}");
    }
    machine.run(&["remote", "add"]).expect(2);
    for verb in ["status", "push", "fetch", "list", "gc", "remove"] {
        let run = machine.run(&["remote", verb]).expect(10);
        assert!(run.err.contains("no remote") && run.err.contains("parhelia remote add"), "{verb}: {run:?}");
    }
    // Nobody was there to be told why the configured one could not be joined.
    let missing = machine.home.folder.path().join("missing/folder");
    let url = format!("file://{}", missing.display());
    let mut create = machine.command(&["create", "-w", "work"]);
    create.env("PARHELIA_REMOTE_PUSH", "true").env("PARHELIA_REMOTE_URL", &url);
    Run::of(create.output().unwrap()).expect(0);
    let began = Instant::now();
    let status = || Run::of(machine.command(&["remote", "status"]).env("PARHELIA_REMOTE_URL", &url).output().unwrap()).expect(10);
    while !status().err.contains("could not be joined: ") {
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", status());
        std::thread::sleep(Duration::from_millis(100));
    }
    let run = machine.run(&["remote", "add", &format!("file://{}", missing.display())]);
    assert!(run.code != 0 && !missing.exists(), "{run:?}");
    let short = Machine { passphrase: "short", ..Machine::new(bucket.path()) };
    let run = short.run(&["remote", "add", &short.url()]).expect(2);
    assert!(run.err.contains("12 characters"), "{run:?}");
    let run = Run::of(machine.home.command(&["remote", "add", &machine.url()]).output().unwrap()).expect(2);
    assert!(run.err.contains("PARHELIA_REMOTE_PASSPHRASE_FILE"), "{run:?}");
    assert!(!bucket.path().join("store.json").exists());
}

#[test]
fn keys_are_listed_added_and_removed() {
    let bucket = bucket();
    let machine = Machine::new(bucket.path());
    let added = machine.last(&["remote", "add", &machine.url()]);
    assert_eq!((&added["made"], &added["encrypted"]), (&true.into(), &true.into()));
    assert_eq!(added["recovery_phrase"].as_str().unwrap().replace('-', "").len(), 36);
    machine.run(&["remote", "add", &machine.url()]).expect(4);
    let slots = machine.run(&["remote", "key", "list", "--json"]).expect(0).json();
    let kinds: Vec<&str> = slots.iter().filter_map(|slot| slot["kind"].as_str()).collect();
    assert_eq!(kinds, ["passphrase", "recovery phrase", "key"]);
    machine.run(&["remote", "key", "add", "paper", "--recovery-phrase"]).expect(0);
    // A passphrase of a script's, which another machine's command prints.
    let mut add = machine.command(&["remote", "key", "add", "team"]);
    let mut adding = add.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    adding.stdin.take().unwrap().write_all(b"another passphrase\n").unwrap();
    assert!(adding.wait().unwrap().success());
    let home = Home::without_store();
    let mut clone = home.command(&["remote", "clone", &machine.url()]);
    clone.env("PARHELIA_REMOTE_PASSPHRASE_COMMAND", "echo,another passphrase");
    Run::of(clone.output().unwrap()).expect(0);
    machine.run(&["remote", "key", "remove", "team"]).expect(0);
    machine.run(&["remote", "key", "remove", "first"]).expect(0);
    machine.run(&["remote", "key", "remove", "nobody"]).expect(2);
    machine.run(&["remote", "key", "rotate"]).expect(0);
    machine.create("after\n");
    machine.run(&["remote", "push"]).expect(0);
    let shut_out = Machine::of(Home::without_store(), bucket.path());
    let run = shut_out.run(&["remote", "clone", &shut_out.url()]).expect(4);
    assert!(run.err.contains("no slot opens"), "{run:?}");
    machine.run(&["remote", "remove"]).expect(0);
    machine.run(&["remote", "push"]).expect(10);
}

#[test]
fn a_bucket_without_encryption_is_one_only_where_that_was_said() {
    let bucket = bucket();
    let machine = Machine::new(bucket.path());
    let run = machine.run(&["remote", "add", &machine.url(), "--no-encryption"]).expect(0);
    assert!(run.out.contains("not encrypted") && !run.out.contains("Recovery"), "{run:?}");
    machine.create("one\n");
    machine.run(&["remote", "push"]).expect(0);
    // Another machine reads it without being asked for anything.
    let other = Machine::of(Home::without_store(), bucket.path());
    let run = other.run(&["remote", "clone", &other.url()]).expect(4);
    assert!(run.err.contains("--no-encryption"), "{run:?}");
    assert_eq!(other.last(&["remote", "clone", &other.url(), "--no-encryption"])["checkpoints"], 1);
    machine.run(&["remote", "key", "list"]).expect(4);
    // A store that is in use is not cloned into.
    let used = Machine::new(bucket.path());
    used.create("x\n");
    let run = used.run(&["remote", "clone", &used.url()]).expect(4);
    assert!(run.err.contains("parhelia remote fetch"), "{run:?}");
}
