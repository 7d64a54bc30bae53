//! The real binary is killed, at every call that changes something and at random moments, and nothing that was committed is lost.
//!
//! The ordinary run takes one call in three, and twelve rounds; `PARHELIA_LONG=N` takes each call, and N hundred rounds;
//! `PARHELIA_SEED=N` rolls the same moments and bytes again, of which the system's own haste is no part.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::{Duration, Instant},
};

use parhelia_store::OpenOptions;
use parhelia_tests::{
    Files, Scratch, assert_equal, files_in, given_seed, long, make_store, noise,
    recorder::{Dice, Fault, Recorder, Trap},
    repeated_by,
    story::leftovers,
    write,
};

/// Of the calls at which a restore can be killed, the ordinary run takes one in so many.
const SAMPLED: u64 = 3;

/// A store, a target folder, and two checkpoints to restore, on a recorder; every try works on a copy.
struct Lab {
    scratch: Scratch,
    recorder: Recorder,
    ids: Vec<String>,
}

impl Lab {
    fn new() -> Self {
        let lab = Lab { scratch: Scratch::new(), recorder: Recorder::mount(), ids: Vec::new() };
        lab.recorder.stop_logging();
        fs::create_dir(lab.recorder.path().join("base")).unwrap();
        make_store(&lab.recorder.path().join("base/store"));
        let work = lab.scratch.path("work");
        write(&work.join("same"), b"the same in both").unwrap();
        write(&work.join("changed"), &noise(5000, 1)).unwrap();
        write(&work.join("folder/gone"), b"only in the first").unwrap();
        write(&work.join("old/a/b"), b"a whole folder that goes").unwrap();
        write(&work.join("to folder"), b"a file that becomes a folder").unwrap();
        write(&work.join("to file/inner"), b"a folder that becomes a file").unwrap();
        std::os::unix::fs::symlink("same", work.join("link")).unwrap();
        fs::hard_link(work.join("same"), work.join("second name")).unwrap();
        let first = lab.create("base", &work);
        write(&work.join("changed"), &noise(6000, 2)).unwrap();
        fs::remove_file(work.join("folder/gone")).unwrap();
        fs::remove_dir_all(work.join("old")).unwrap();
        fs::remove_file(work.join("to folder")).unwrap();
        fs::remove_dir_all(work.join("to file")).unwrap();
        write(&work.join("to folder/inner"), b"the folder that was a file").unwrap();
        write(&work.join("to file"), b"the file that was a folder").unwrap();
        write(&work.join("new/c/d"), b"a whole folder that comes").unwrap();
        write(&work.join("folder/other"), b"only in the second").unwrap();
        let second = lab.create("base", &work);
        Lab { ids: vec![first, second], ..lab }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.recorder.path().join(name)
    }

    fn run(&self, place: &str, arguments: &[&str]) -> Output {
        let store = self.place(place).join("store").to_string_lossy().into_owned();
        self.scratch.run(&[arguments, &["--store", &store]].concat())
    }

    fn expect(&self, place: &str, arguments: &[&str]) -> String {
        let output = self.run(place, arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !text.contains("panicked"), "{place}: {arguments:?}: {text}");
        text
    }

    fn create(&self, place: &str, work: &Path) -> String {
        let session = work.file_name().unwrap().to_string_lossy().into_owned();
        let work = work.to_string_lossy().into_owned();
        let text =
            self.expect(place, &["checkpoint", "create", &session, "--workspace", &work, "--no-default-excludes", "--json"]);
        let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        summary["id"].as_str().unwrap().to_owned()
    }

    fn restore(&self, place: &str, id: &str, in_place: bool) -> Output {
        let to = self.place(place).join("out").to_string_lossy().into_owned();
        // What it left was captured, so that the folder is a session's by then.
        let flags: &[&str] = if in_place { &["--in-place", "--delete", "--other-folder", "--no-safety"] } else { &[] };
        self.run(place, &[&["checkpoint", "restore", id, "--quiet", "--to", &to], flags].concat())
    }

    /// Kills a restore at each of its changes, and has `after` look at what is left. Returns at how many.
    fn kill_everywhere(&self, id: &str, in_place: bool, after: impl Fn(&str)) -> u64 {
        for tried in 0.. {
            let at = if long() > 0 { tried } else { tried * SAMPLED };
            let place = format!("try{at}");
            self.recorder.copy("base", &place);
            self.recorder.arm(Trap::new(Trap::CHANGES, at, Fault::Kill));
            let output = self.restore(&place, id, in_place);
            let (_, has_gone_off) = self.recorder.disarm();
            if has_gone_off {
                // The last calls are made when there is nothing left to be killed.
                assert!(output.status.signal() == Some(9) || output.status.success(), "step {at}: {output:?}");
                after(&place);
            }
            self.recorder.forget(&place);
            if !has_gone_off {
                assert!(output.status.success(), "{output:?}");
                return tried;
            }
        }
        unreachable!()
    }

    fn assert_store_is_whole(&self, place: &str) {
        self.expect(place, &["check", "--read-data", "--quiet"]);
        for id in &self.ids {
            self.expect(place, &["checkpoint", "verify", id, "--deep", "--quiet"]);
        }
    }
}

fn staged_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().contains(".parhelia-") {
            found.push(entry.path());
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(staged_below(&entry.path()));
        }
    }
    found
}

#[test]
fn a_restore_that_is_killed_at_any_step_is_finished_by_the_next() {
    let lab = Lab::new();
    let work = lab.scratch.path("work");
    let steps = lab.kill_everywhere(&lab.ids[1], false, |place| {
        let out = lab.place(place).join("out");
        if out.exists() {
            assert_equal_but_for_xattrs(&work, &out);
        } else {
            assert!(lab.restore(place, &lab.ids[1], false).status.success());
            assert_equal_but_for_xattrs(&work, &out);
            assert_eq!(staged_below(&lab.place(place)), Vec::<PathBuf>::new());
        }
        lab.expect(place, &["gc", "--quiet"]);
        assert_eq!(staged_below(&lab.place(place)), Vec::<PathBuf>::new());
        lab.assert_store_is_whole(place);
    });
    println!("killed at {steps} steps of a restore into a new folder");
    assert!(steps > 10, "{steps}");
}

#[test]
fn a_restore_in_place_that_is_killed_at_any_step_leaves_nothing_behind() {
    let lab = Lab::new();
    let work = lab.scratch.path("work");
    let out = lab.place("base").join("out");
    assert!(lab.restore("base", &lab.ids[0], false).status.success());
    fs::write(out.join("mine"), "an extra").unwrap();
    let steps = lab.kill_everywhere(&lab.ids[1], true, |place| {
        let out = lab.place(place).join("out");
        let left = !staged_below(&out).is_empty();
        assert_has_either(&files_in(&out), place);
        // What was being built is in no checkpoint.
        let between = lab.create(place, &out);
        let listed = lab.expect(place, &["checkpoint", "ls", &between, "--recursive"]);
        assert!(!listed.contains(".parhelia-"), "{place}: {listed}");
        if left && place.ends_with(['0', '3', '6']) {
            lab.expect(place, &["gc", "--quiet"]);
            assert_eq!(staged_below(&out), Vec::<PathBuf>::new(), "{place}: gc left them");
        }
        let again = lab.restore(place, &lab.ids[1], true);
        assert!(again.status.success(), "{place}: {again:?}");
        assert_equal_but_for_xattrs(&work, &out);
        lab.expect(place, &["gc", "--quiet"]);
        lab.assert_store_is_whole(place);
        let store = parhelia_ledger::open(&lab.place(place).join("store"), &OpenOptions::default()).unwrap();
        assert_eq!(leftovers(&store), Vec::<PathBuf>::new(), "{place}");
    });
    println!("killed at {steps} steps of a restore in place");
    assert!(steps > 10, "{steps}");
}

/// Asserts that an entry that changes its type is there as one or as the other.
fn assert_has_either(found: &Files, when: &str) {
    for name in ["to folder", "to file"] {
        let inner = format!("{name}/inner");
        let has_either = [name, &inner].iter().any(|path| found.contains_key(path.as_bytes()));
        assert!(has_either, "{when}: '{name}' is neither what it was nor what it shall be");
    }
}

/// The recorder has no extended attributes, so that `find` and `rsync` compare.
fn assert_equal_but_for_xattrs(a: &Path, b: &Path) {
    assert_equal(a, b);
}

/// Fills three workspaces.
fn fill_three(s: &Scratch) {
    for n in 0..3u64 {
        for i in 0..60u64 {
            write(&s.path(&format!("work{n}/d{}/f{i}", i % 7)), &noise(300 + (i * 97 % 4000) as usize, n * 1000 + i)).unwrap();
        }
    }
}

/// Every promised checkpoint has what was copied beside it, and gc leaves a sound store without leftovers.
fn assert_kept(s: &Scratch, promised: &[(String, PathBuf)]) {
    for (id, kept) in promised {
        let out = s.path(&format!("out/{id}"));
        fs::create_dir_all(out.parent().unwrap()).unwrap();
        s.restore(id, &out);
        assert_eq!(files_in(&out), files_in(kept), "{id}");
    }
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    let store = parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    assert_eq!(leftovers(&store), Vec::<PathBuf>::new());
}

#[test]
fn killed_at_random_beside_others_nothing_is_lost() {
    let s = Scratch::new();
    let seed = given_seed().unwrap_or_else(|| std::process::id().into());
    let mut dice = Dice(seed);
    println!("{}", repeated_by(seed));
    fill_three(&s);
    let rounds = if long() > 0 { long() * 100 } else { 12 };
    let mut promised: Vec<(String, PathBuf)> = Vec::new();
    for round in 0..rounds {
        let works: Vec<PathBuf> = (0..3).map(|n| s.path(&format!("work{n}"))).collect();
        let name = |n: usize| format!("d{}/f{}", n % 7, n % 60);
        for work in &works {
            write(&work.join(name(dice.roll() as usize)), &noise((dice.roll() % 6000) as usize, dice.roll())).unwrap();
        }
        let mut commands: Vec<Vec<String>> = works
            .iter()
            .enumerate()
            .map(|(n, work)| {
                ["checkpoint", "create", &format!("s{n}"), "--workspace", &work.to_string_lossy(), "--json"]
                    .map(str::to_owned)
                    .to_vec()
            })
            .collect();
        commands.push(vec!["gc".into(), "--json".into()]);
        if let Some((id, _)) = promised.first().filter(|_| promised.len() > 6) {
            commands.push(vec!["checkpoint".into(), "delete".into(), id.clone(), "--json".into()]);
            promised.remove(0);
        }
        let began = Instant::now();
        let mut running: Vec<_> =
            commands.iter().map(|c| s.command(c).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()).collect();
        let moments: Vec<u64> = running.iter().map(|_| dice.roll() % 120).collect();
        let mut order: Vec<usize> = (0..running.len()).collect();
        order.sort_by_key(|i| moments[*i]);
        for i in order.into_iter().filter(|i| moments[*i] < 90) {
            let wait = Duration::from_millis(moments[i]).saturating_sub(began.elapsed());
            std::thread::sleep(wait);
            let _ = running[i].kill();
        }
        for (n, process) in running.into_iter().enumerate() {
            let output = process.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let id = text.lines().last().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            if let (Some(work), Some(id)) = (works.get(n), id.and_then(|s| s["id"].as_str().map(str::to_owned))) {
                let kept = s.path(&format!("kept/{id}"));
                copy(work, &kept);
                promised.push((id, kept));
            }
        }
        if s.store().join("store.json").exists() && round % 4 == 3 {
            s.expect(0, &["check", "--read-data", "--quiet"]);
        }
    }
    assert!(promised.len() > 1, "all were killed");
    assert_kept(&s, &promised);
    println!("{rounds} rounds, {} checkpoints at the end", promised.len());
}

fn copy(from: &Path, to: &Path) {
    for (name, bytes) in files_in(from) {
        write(&to.join(parhelia_store::name::as_path(&name)), &bytes).unwrap();
    }
}
