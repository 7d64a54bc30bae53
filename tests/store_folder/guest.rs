//! Root as a guest in the store of another user.

use super::*;

/// A store of an ordinary user, who may run the binary.
struct Guest {
    s: Scratch,
    program: PathBuf,
}

impl Guest {
    fn new() -> Self {
        let s = Scratch::new();
        fs::set_permissions(s.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        let program = s.path("parhelia");
        // By another process: one that is forked here meanwhile would hold it open for writing, so that it could not be run.
        assert!(Command::new("cp").args([&binary(), &program]).status().unwrap().success());
        for folder in ["home", "work"] {
            fs::create_dir(s.path(folder)).unwrap();
            chown(s.path(folder), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let guest = Guest { s, program };
        guest.change(1);
        guest
    }

    fn change(&self, seed: u64) {
        let path = self.s.path("work/f");
        write(&path, &noise(5000, seed)).unwrap();
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }

    fn store(&self) -> PathBuf {
        self.s.path("home/store")
    }

    fn command(&self, uid: u32, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("HOME", self.s.path("home")).env("PARHELIA_STORE", self.store()).env("NO_COLOR", "1");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null()).args(arguments);
        command.current_dir("/").uid(uid).gid(uid);
        command
    }

    fn run(&self, uid: u32, arguments: &[&str]) -> String {
        let output = must_end(&mut self.command(uid, arguments));
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "uid {uid}, {arguments:?}: {text}");
        text
    }

    fn create(&self, uid: u32) -> String {
        let work = self.s.path("work").to_string_lossy().into_owned();
        let said = self.run(uid, &["checkpoint", "create", "s", "--workspace", &work, "--json"]);
        let summary: serde_json::Value =
            serde_json::from_str(said.lines().rfind(|line| line.contains("\"id\"")).unwrap()).unwrap();
        summary["id"].as_str().unwrap().to_owned()
    }

    /// Everything that root does with a store.
    fn everything(&self, uid: u32) {
        self.run(uid, &["init"]);
        let first = self.create(uid);
        self.change(u64::from(uid) + 2);
        let second = self.create(uid);
        let out = self.s.path(&format!("out-{uid}"));
        fs::create_dir_all(&out).unwrap();
        chown(&out, Some(NOBODY), Some(NOBODY)).unwrap();
        let out = out.join(&second).to_string_lossy().into_owned();
        self.run(uid, &["checkpoint", "restore", &second, "--to", &out]);
        self.run(uid, &["checkpoint", "verify", &second, "--deep"]);
        self.run(uid, &["checkpoint", "delete", &first]);
        self.run(uid, &["gc"]);
        self.run(uid, &["check", "--read-data"]);
    }

    fn strangers(&self) -> Vec<PathBuf> {
        entries(&self.store()).into_iter().filter(|path| fs::symlink_metadata(path).unwrap().uid() != NOBODY).collect()
    }
}

#[test]
fn root_in_the_store_of_another_user_leaves_nothing_that_locks_its_owner_out() {
    // In a store that the owner has made, and in an empty folder of his.
    for is_made in [true, false] {
        let guest = Guest::new();
        if is_made {
            guest.everything(NOBODY);
        } else {
            fs::create_dir(guest.store()).unwrap();
            chown(guest.store(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        guest.everything(0);
        assert_eq!(guest.strangers(), Vec::<PathBuf>::new());
        // Enough for the index to be brought up to date, which is left to the owner.
        for n in 0..40 {
            guest.change(100 + n);
            guest.create(0);
        }
        guest.change(99);
        assert!(is_made || !guest.store().join("view/CURRENT").exists());
        assert_eq!(guest.strangers(), Vec::<PathBuf>::new());
        guest.everything(NOBODY);
        guest.run(NOBODY, &["check", "--rebuild-index"]);
        guest.everything(0);
        for verb in [&["check", "--rebuild-index"][..], &["check", "--repair"]] {
            let output = must_end(&mut guest.command(0, verb));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!output.status.success() && said.contains("uid 65534"), "{said}");
        }
        assert_eq!(guest.strangers(), Vec::<PathBuf>::new());
        guest.everything(NOBODY);
    }
}

#[test]
fn what_root_owns_in_the_store_of_another_user_is_named_and_not_given_away() {
    let guest = Guest::new();
    guest.everything(NOBODY);
    let lock = guest.store().join("lock");
    chown(&lock, Some(0), Some(0)).unwrap();
    for uid in [0, NOBODY] {
        let output = must_end(&mut guest.command(uid, &["gc"]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("lock"), "{said}");
        assert_eq!(said.contains("chown"), uid == 0, "{said}");
    }
    chown(&lock, Some(NOBODY), Some(NOBODY)).unwrap();
    guest.everything(0);
    guest.everything(NOBODY);
}

/// Ways for somebody to have root write to a file of root's.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trick {
    Link,
    HardLink,
    Move,
}

/// Puts something of root's in the place of a file of the store: no verb of root's changes it or gives it away.
fn meets_no_victim(guest: &Guest, name: &str, trick: Trick) {
    let victim_bytes = b"root's own\n".repeat(300);
    let (victim, place) = (guest.s.path("victim"), guest.store().join(name));
    let aside = guest.s.path("aside");
    let is_folder = place.is_dir();
    if is_folder && trick != Trick::Link {
        return;
    }
    remove(&victim);
    if is_folder {
        fs::create_dir(&victim).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o700)).unwrap();
    } else {
        fs::write(&victim, &victim_bytes).unwrap();
    }
    if place.exists() {
        fs::rename(&place, &aside).unwrap();
    }
    match trick {
        Trick::Link => symlink(&victim, &place).unwrap(),
        Trick::HardLink => fs::hard_link(&victim, &place).unwrap(),
        Trick::Move => fs::rename(&victim, &place).unwrap(),
    }
    let work = guest.s.path("work").to_string_lossy().into_owned();
    guest.change(trick as u64 + 7);
    for verb in [
        &["checkpoint", "create", "s", "--workspace", &work][..],
        &["gc"],
        &["check"],
        &["checkpoint", "list"],
        &["check", "--rebuild-index"],
    ] {
        must_end(&mut guest.command(0, verb));
    }
    // What was moved here may have been removed, as anybody may who owns the folder.
    let victim = if trick == Trick::Move { place.clone() } else { victim };
    if trick == Trick::Move && !victim.exists() {
        fs::write(&victim, &victim_bytes).unwrap();
    }
    match is_folder {
        true => assert_eq!(fs::read_dir(&victim).unwrap().count(), 0, "{name}"),
        false => assert_eq!(fs::read(&victim).unwrap(), victim_bytes, "{name}, {trick:?}"),
    }
    let owner = fs::metadata(&victim).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (0, 0), "{name} was given away");
    remove(&place);
    if aside.exists() {
        fs::rename(&aside, &place).unwrap();
    }
}

#[test]
fn root_follows_no_link_in_the_store_of_another_user() {
    let guest = Guest::new();
    guest.everything(NOBODY);
    let names = [
        "pins/0123456789abcdef01234567.pin",
        "lock",
        "lock.index",
        "journal/synced",
        "ballast",
        "store.json",
        "packs",
        "journal",
        "pins",
        "cache",
        "view",
        "view/LOCK",
    ];
    for name in names {
        for trick in [Trick::Link, Trick::HardLink, Trick::Move] {
            meets_no_victim(&guest, name, trick);
        }
    }
    guest.everything(NOBODY);
    guest.everything(0);
}

/// Folders beside packs and journal, which come when they are needed.
const BESIDE: [&str; 6] = ["memory", "outbox", "outbox/deliveries", "sessions", "turns", "mcp"];

impl Guest {
    /// What fills the folders beside packs and journal. Verbs may fail.
    fn fill_beside(&self, uid: u32, text: &str) -> Vec<bool> {
        let work = self.s.path("work").to_string_lossy().into_owned();
        self.change(text.len() as u64 + 1000);
        let verbs = [
            &["memory", "save", "gotchas", text, "--workspace", &work][..],
            &["session", "run", "--workspace", &work, "-q", "--", "true"],
            &["outbox", "deliver"],
        ];
        // Nobody listens where messages go: who tries to deliver one says so, unless a process in the background has done that already.
        let is_done = |verb: &[&str]| match must_end(&mut self.command(uid, verb)).status.code() {
            Some(0) => true,
            Some(3) => verb[0] == "outbox",
            _ => false,
        };
        verbs.map(is_done).to_vec()
    }
}

#[test]
fn root_writes_beside_packs_and_journal_for_the_owner_and_through_no_link() {
    let guest = Guest::new();
    guest.everything(NOBODY);
    let channel = b"[notifications.channels.own]\ntype = \"ntfy\"\nserver = \"https://127.0.0.1:9\"\ntopic = \"a\"\n\
        [notifications.routing]\ninfo = [\"own\"]\nnotice = [\"own\"]\nwarning = [\"own\"]\n";
    write(&guest.s.path("home/.config/parhelia/parhelia.toml"), channel).unwrap();
    assert_eq!(guest.fill_beside(0, "root knows it"), [true; 3]);
    for name in ["memory", "outbox/deliveries", "turns"] {
        assert!(guest.store().join(name).is_dir(), "{name}");
    }
    assert_eq!(guest.strangers(), Vec::<PathBuf>::new());
    let work = guest.s.path("work").to_string_lossy().into_owned();
    assert!(guest.run(NOBODY, &["memory", "list", "--workspace", &work]).contains("root knows it"));
    assert_eq!(guest.fill_beside(NOBODY, "so does its owner"), [true; 3]);
    for name in BESIDE {
        let (place, aside, victim) = (guest.store().join(name), guest.s.path("aside"), guest.s.path("victim"));
        let is_there = place.exists();
        if is_there {
            fs::rename(&place, &aside).unwrap();
        }
        fs::create_dir_all(victim.join("deliveries")).unwrap();
        symlink(&victim, &place).unwrap();
        guest.fill_beside(0, &format!("by a link in place of {name}"));
        let found = entries(&victim);
        assert!(found.iter().all(|path| path.is_dir()), "{name}: {found:?}");
        fs::remove_file(&place).unwrap();
        fs::remove_dir_all(&victim).unwrap();
        if is_there {
            fs::rename(&aside, &place).unwrap();
        }
    }
    // Files that lead to one of root's.
    let victim = guest.s.path("victim");
    for name in ["outbox/lock", "outbox/changes.lock", "outbox/wanted", "outbox/state.json", "outbox/deliveries/writable.tmp"] {
        let place = guest.store().join(name);
        fs::write(&victim, "root's own").unwrap();
        remove(&place);
        symlink(&victim, &place).unwrap();
        guest.fill_beside(0, &format!("by a link in place of {name}"));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "root's own", "{name}");
        remove(&place);
    }
    assert_eq!(guest.strangers(), Vec::<PathBuf>::new());
    assert_eq!(guest.fill_beside(NOBODY, "and again"), [true; 3]);
}
