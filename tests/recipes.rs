//! Recipes of the documents, as they are written, when a disk is missing, full or read-only, or has an older store on it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use parhelia_tests::{
    binary, noise,
    pages::{self, Kind},
    write,
};

/// Somebody with documents, a disk for the store and another one for its copy.
struct Person {
    home: tempfile::TempDir,
}

/// Files of a store that matter, by path.
type Content = std::collections::BTreeMap<Vec<u8>, Vec<u8>>;

impl Person {
    /// One who has followed the page, and has made three backups.
    fn new() -> Self {
        let person = Person { home: tempfile::tempdir().unwrap() };
        for name in ["disk", "second", "documents"] {
            fs::create_dir(person.path(name)).unwrap();
        }
        write(&person.path("documents/plans.md"), b"Plans\n").unwrap();
        person.mount("disk");
        person.mount("second");
        for block in ["parhelia init", "cat > backup.sh", "--init"] {
            person.expect(0, &recipe(block));
        }
        for day in 0..2 {
            person.next_day(day);
            person.expect(0, "./backup.sh");
            person.expect(0, &recipe("-q copy-store"));
        }
        person
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn mount(&self, name: &str) {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(self.path(name)).status();
        assert!(mounted.unwrap().success(), "this test needs root");
    }

    fn unmount(&self, name: &str) {
        assert!(Command::new("umount").arg(self.path(name)).status().unwrap().success());
    }

    fn remount(&self, name: &str, how: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(self.path(name)).status();
        assert!(done.unwrap().success());
    }

    fn next_day(&self, day: u64) {
        write(&self.path("documents/more"), &noise(50_000, day)).unwrap();
    }

    /// Runs a script of the page, whose stores are on the disks.
    fn sh(&self, script: &str) -> Output {
        let script = script.replace("$HOME/backup-store", "$HOME/disk/store").replace("$HOME/second-store", "$HOME/second/store");
        let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.args(["-ec", &script]).env_clear().env("HOME", self.home.path()).env("PATH", path).current_dir(self.home.path());
        command.output().unwrap()
    }

    fn expect(&self, code: i32, script: &str) -> String {
        let output = self.sh(script);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{script}\n{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }

    /// The packs and the journal of a store.
    fn content(&self, store: &str) -> Content {
        let folder = |name: &str| parhelia_tests::files_in(&self.path(store).join(name));
        folder("packs").into_iter().chain(folder("journal")).collect()
    }

    /// Fails unless a store has so many checkpoints, and the documents can be restored from it as they were last.
    fn assert_restores(&self, store: &str, checkpoints: usize) {
        let on = format!("parhelia --store {store}");
        let listed = self.expect(0, &format!("{on} list --json"));
        assert_eq!(listed.matches("\"type\":\"checkpoint\"").count(), checkpoints, "{listed}");
        self.expect(0, &format!("rm -rf drill; {on} check --read-data && {on} restore documents@latest --to drill --verify"));
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        for name in ["disk", "second"] {
            let _ = Command::new("umount").arg("-l").arg(self.path(name)).status();
        }
    }
}

/// The block of the page on backups that has some words in it.
fn recipe(words: &str) -> String {
    let page = pages::text(&pages::repository().join("docs/backups.md"));
    let mut blocks = pages::blocks(&page).into_iter().filter(|block| block.kind == Kind::Script && block.text.contains(words));
    blocks.next().unwrap_or_else(|| panic!("the page has no recipe with {words}")).text
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_store_whose_disk_is_not_mounted_is_missed_and_its_copy_stays() {
    let person = Person::new();
    let copy = person.content("second/store");
    person.unmount("disk");
    person.next_day(7);
    assert!(person.expect(10, "./backup.sh").contains("`parhelia init`"));
    person.expect(10, &recipe("-q copy-store"));
    for verb in [
        "session prune documents --keep-last 1",
        "gc",
        "check",
        "stats",
        "list",
        "status",
        "create -n",
        "export documents@latest -o x",
    ] {
        person.expect(10, &format!("export PARHELIA_STORE=\"$HOME/backup-store\"; parhelia -q {verb}"));
    }
    assert!(is_empty(&person.path("disk")), "nothing is made on the mount point");
    assert!(person.content("second/store") == copy);
    person.assert_restores("second/store", 3);
}

#[test]
fn an_older_store_in_the_place_of_the_disk_loses_nothing_and_is_copied_over_nothing() {
    let person = Person::new();
    person.expect(0, "cp -a disk/store aside");
    person.next_day(7);
    person.expect(0, "./backup.sh");
    person.expect(0, &recipe("-q copy-store"));
    let copy = person.content("second/store");
    person.unmount("disk");
    person.expect(0, "mv aside disk/store");
    let old = person.content("disk/store");
    person.next_day(8);
    let said = person.expect(4, "./backup.sh");
    assert!(said.contains("an older copy seems to be in its place") && said.contains("mount it"), "{said}");
    assert!(old.keys().all(|path| person.content("disk/store").contains_key(path)), "what was there is there");
    let on = "export PARHELIA_STORE=\"$HOME/backup-store\"; parhelia -q ";
    for verb in ["session prune documents --keep-last 1", "gc"] {
        person.expect(4, &format!("{on}{verb}"));
    }
    assert!(person.expect(4, &recipe("-q copy-store")).contains("Nothing was changed") || person.content("second/store") == copy);
    assert!(person.content("second/store") == copy);
    person.assert_restores("second/store", 4);
    // Whoever means it says so.
    person.expect(0, &format!("{on}init --accept-older && {on}gc"));
}

#[test]
fn a_new_store_in_the_place_of_the_disk_is_copied_over_nothing() {
    let person = Person::new();
    let copy = person.content("second/store");
    person.unmount("disk");
    let said = person.expect(10, &recipe("parhelia init"));
    assert!(said.contains("where one went up to journal entry") && said.contains("mount it"), "{said}");
    assert!(is_empty(&person.path("disk")), "nothing is made on the mount point");
    person.expect(0, "export PARHELIA_STORE=\"$HOME/backup-store\"; parhelia init --new");
    person.expect(0, "./backup.sh");
    assert!(person.expect(4, &recipe("-q copy-store")).contains("another store"));
    assert!(person.content("second/store") == copy);
    person.assert_restores("second/store", 3);
}

#[test]
fn a_copy_whose_disk_is_not_mounted_is_missed() {
    let person = Person::new();
    person.unmount("second");
    assert!(person.expect(10, &recipe("-q copy-store")).contains("--init"));
    assert!(is_empty(&person.path("second")));
    person.expect(0, "./backup.sh");
}

#[test]
fn a_full_disk_leaves_the_store_and_the_copy_whole() {
    let person = Person::new();
    fs::write(person.path("documents/large"), noise(30 << 20, 1)).unwrap();
    let said = person.expect(1, "./backup.sh");
    assert!(said.to_lowercase().contains("no space") && said.contains("backup failed"), "{said}");
    person.assert_restores("disk/store", 3);
    fs::remove_file(person.path("documents/large")).unwrap();
    person.next_day(7);
    person.expect(0, "./backup.sh");
    // The copy's disk is full.
    let most = person.path("second/most");
    let fill = format!("head -c 40000000 /dev/zero > {} || true", most.display());
    person.sh(&fill);
    let said = person.expect(1, &recipe("-q copy-store"));
    assert!(said.to_lowercase().contains("no space"), "{said}");
    fs::remove_file(most).unwrap();
    person.assert_restores("second/store", 3);
    person.expect(0, &recipe("-q copy-store"));
    person.assert_restores("second/store", 4);
}

#[test]
fn a_read_only_disk_is_said_and_can_be_copied_from() {
    let person = Person::new();
    person.next_day(7);
    person.expect(0, "./backup.sh");
    person.remount("disk", "ro");
    person.next_day(8);
    let said = person.expect(1, "./backup.sh");
    assert!(said.contains("Read-only file system"), "{said}");
    person.expect(0, "export PARHELIA_STORE=\"$HOME/backup-store\"; parhelia -q copy-store \"$HOME/second-store\"");
    person.assert_restores("second/store", 4);
    person.remount("second", "ro");
    let said = person.expect(1, "export PARHELIA_STORE=\"$HOME/backup-store\"; parhelia -q copy-store \"$HOME/second-store\"");
    assert!(said.contains("Read-only file system"), "{said}");
    person.assert_restores("second/store", 4);
}

/// Damages bytes in the middle of a store's longest pack, more than its parity gives back.
fn damage(person: &Person, store: &str) {
    let packs = fs::read_dir(person.path(store).join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    let (from, to) = (bytes.len() / 4, bytes.len() / 4 * 3);
    bytes[from..to].iter_mut().for_each(|byte| *byte ^= 0xff);
    fs::write(pack, bytes).unwrap();
}

#[test]
fn a_repair_that_gives_something_up_spreads_to_no_copy() {
    let person = Person::new();
    fs::write(person.path("documents/large"), noise(900_000, 5)).unwrap();
    person.expect(0, "./backup.sh");
    person.expect(0, &recipe("-q copy-store"));
    let copy = person.content("second/store");
    damage(&person, "disk/store");
    let said = person.expect(12, "parhelia --store disk/store check --read-data");
    let (from, bare) = (said.find("--repair --from").unwrap(), said.find("`parhelia check --repair` moves").unwrap());
    assert!(from < bare, "{said}");
    person.expect(12, "parhelia --store disk/store check --repair");
    for flags in ["", " --remove-freed"] {
        let said = person.expect(12, &format!("parhelia --store disk/store copy-store second/store{flags}"));
        assert!(said.contains("check --repair --from") && !said.contains("Brought up to date"), "{said}");
        assert!(person.content("second/store") == copy);
    }
    // The disk on which the copy lies is not the copy.
    let said = person.expect(12, "parhelia --store disk/store check --repair --from second");
    assert!(said.contains("second is no store") && said.contains("--from second/store"), "{said}");
    person.expect(0, "parhelia --store disk/store check --repair --from second/store");
    person.assert_restores("disk/store", 4);
    person.expect(0, &recipe("-q copy-store"));
    person.assert_restores("second/store", 4);
}

#[test]
fn a_drill_on_the_copy_and_its_repair_end_no_later_copies() {
    let person = Person::new();
    person.expect(0, "parhelia --store second/store verify documents@latest --deep");
    person.expect(0, &recipe("-q copy-store"));
    damage(&person, "second/store");
    person.expect(12, "parhelia --store second/store check --read-data");
    person.expect(0, &recipe("-q copy-store"));
    damage(&person, "second/store");
    person.expect(0, "parhelia --store second/store check --repair --from disk/store");
    person.next_day(7);
    person.expect(0, "./backup.sh");
    let said = person.expect(0, &recipe("-q copy-store"));
    assert!(!said.contains("older copy"), "{said}");
    person.assert_restores("second/store", 4);
}

#[test]
fn the_drill_passes_with_something_left_out_and_can_be_repeated() {
    let person = Person::new();
    fs::create_dir_all(person.path("documents/web/node_modules/left")).unwrap();
    write(&person.path("documents/web/package.json"), b"{}").unwrap();
    write(&person.path("documents/web/node_modules/left/index.js"), b"left out").unwrap();
    person.expect(0, "./backup.sh");
    for _ in 0..2 {
        let said = person.expect(0, &recipe("drill=$(mktemp"));
        assert!(!said.contains("node_modules") && !said.contains("Only in"), "{said}");
    }
    person.next_day(9);
    assert!(person.expect(0, &recipe("drill=$(mktemp")).contains("M more"));
}

#[test]
fn the_copy_takes_the_place_of_a_store_that_is_lost() {
    let person = Person::new();
    person.unmount("disk");
    person.mount("disk");
    person.expect(0, "parhelia --store second/store copy-store disk/store --init");
    person.assert_restores("disk/store", 3);
    person.next_day(7);
    person.expect(0, "./backup.sh");
    person.expect(0, &recipe("-q copy-store"));
    person.assert_restores("second/store", 4);
}
