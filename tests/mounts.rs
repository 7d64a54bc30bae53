//! Mounts by the real binary: deaths, and users who are not root. They need root and /dev/fuse, and fail without.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use parhelia_tests::{
    Scratch, assert_equal, binary,
    filesystems::{Mountpoint, system, text},
    live::kill,
    noise, write,
};

fn fill(root: &Path, files: u64) {
    for i in 0..files {
        write(&root.join(format!("d{}/f{i}", i % 13)), &noise(500 + (i % 50) as usize * 200, i)).unwrap();
    }
}

/// A store with a checkpoint that is mounted, and the process that serves it.
struct Mounted {
    s: Scratch,
    at: PathBuf,
    process: u64,
}

impl Mounted {
    fn new() -> Self {
        let s = Scratch::new();
        fill(&s.path("work"), 400);
        // Where nothing has an attribute, asking for one is "not supported", and getfattr grumbles.
        assert!(Command::new("setfattr").args(["-n", "user.x", "-v", "y"]).arg(s.path("work/d1/f1")).status().unwrap().success());
        let id = s.create("s", &s.path("work"));
        let at = s.path("mnt");
        fs::create_dir(&at).unwrap();
        let process = s.summary(&["mount", &id, &at.to_string_lossy()])["process"].as_u64().unwrap();
        Mounted { s, at, process }
    }

    fn kill(&self) {
        kill(i32::try_from(self.process).unwrap());
    }

    fn is_mounted(&self) -> bool {
        fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&format!(" {} ", self.at.display()))
    }

    /// Nothing is lost, nothing is stale: what every death must leave behind.
    fn assert_well(&self) {
        eventually("the mount is gone", || !self.is_mounted());
        assert_eq!(fs::read_dir(&self.at).unwrap().count(), 0);
        self.s.expect(0, &["check", "--read-data", "--quiet"]);
        // Its process ends a moment after its mount.
        eventually("nobody lists the mount", || self.s.summary(&["mounts"])["mounts"] == 0);
        self.s.expect(0, &["gc", "--quiet"]);
        assert_eq!(fs::read_dir(self.s.store().join("pins")).unwrap().count(), 0, "dead pins stay");
        let next = self.s.summary(&["mount", "s@latest", &self.at.to_string_lossy()]);
        assert!(next["process"].as_u64().unwrap() != self.process);
        assert_equal(&self.s.path("work"), &self.at);
        self.s.expect(0, &["umount", &self.at.to_string_lossy()]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", "--quiet"]).arg(&self.at).stderr(Stdio::null()).status();
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_mount_leaves_nothing() {
    let m = Mounted::new();
    assert_equal(&m.s.path("work"), &m.at);
    m.kill();
    m.assert_well();
}

#[test]
fn a_mount_of_a_store_that_cannot_be_written_to_names_no_log() {
    let s = Scratch::new();
    write(&s.path("work/file"), b"content").unwrap();
    let id = s.create("s", &s.path("work"));
    let (store, at) = (text(&s.store()), text(&s.path("mnt")));
    fs::create_dir(&at).unwrap();
    system("mount", &["--bind", &store, &store]);
    let _bound = Mountpoint::of(&s.store());
    system("mount", &["-o", "remount,bind,ro", &store]);
    let said = s.expect(0, &["mount", &id, &at]);
    let mounted = said.lines().find(|line| line.contains("Mounted on")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(mounted, format!("Mounted on {at}."));
    s.expect(0, &["umount", &at]);
    let summary = s.summary(&["mount", &id, &at]);
    s.expect(0, &["umount", &at]);
    assert!(summary["log"].is_null() && summary["process"].is_u64(), "{summary}");
}

#[test]
fn a_killed_writer_does_not_disturb_a_mount() {
    let m = Mounted::new();
    fill(&m.s.path("other"), 3000);
    for wait_ms in [20, 60, 120] {
        let other = m.s.path("other");
        let arguments = ["checkpoint", "create", "other", "--quiet", "--workspace", &other.to_string_lossy()];
        let mut writer = m.s.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        let _ = writer.kill();
        writer.wait().unwrap();
        m.s.expect(0, &["gc", "--quiet"]);
        assert_equal(&m.s.path("work"), &m.at);
    }
    m.s.expect(0, &["umount", &m.at.to_string_lossy()]);
    m.assert_well();
}

#[test]
fn a_mount_and_a_writer_killed_at_once_leave_nothing() {
    for wait_ms in [10, 80] {
        let m = Mounted::new();
        fill(&m.s.path("other"), 3000);
        let other = m.s.path("other");
        let arguments = ["checkpoint", "create", "other", "--quiet", "--workspace", &other.to_string_lossy()];
        let mut writer = m.s.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        m.kill();
        let _ = writer.kill();
        writer.wait().unwrap();
        m.assert_well();
    }
}

/// MiB of memory that a process has to itself.
fn memory_of(process: u64) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

#[test]
fn mounts_share_one_budget_of_memory() {
    const MOUNTS: usize = 6;
    const BUDGET_MIB: u64 = 48;
    // Beside its blocks each process keeps trees, recipes, the database's memory, and room for the next blocks.
    const OWN_MIB: u64 = 24;
    let s = Scratch::new();
    for i in 0..900 {
        let words = noise(100_000, i).iter().map(|byte| b'a' + byte % 16).collect::<Vec<_>>();
        write(&s.path(&format!("work/d{}/f{i}", i % 9)), &words).unwrap();
    }
    let id = s.create("s", &s.path("work"));
    let (mut folders, mut processes) = (Vec::new(), Vec::new());
    for i in 0..MOUNTS {
        let at = s.path(&format!("mnt{i}"));
        fs::create_dir(&at).unwrap();
        let arguments = ["mount", "--cache-size", &BUDGET_MIB.to_string(), &id, &at.to_string_lossy()];
        processes.push(s.summary(&arguments)["process"].as_u64().unwrap());
        folders.push(at);
    }
    for at in &folders {
        assert!(Command::new("grep").args(["-rq", "no such words"]).arg(at).status().unwrap().code() == Some(1));
    }
    let sum = || processes.iter().map(|process| memory_of(*process)).sum::<u64>();
    let all_busy = BUDGET_MIB + OWN_MIB * MOUNTS as u64;
    eventually("all together keep within the budget", || sum() <= all_busy);
    // One that reads while the others rest has the memory that they do not need.
    eventually("those that rest give their memory back", || {
        assert!(Command::new("cat").arg(folders[0].join("d0/f0")).stdout(Stdio::null()).status().unwrap().success());
        processes[1..].iter().all(|process| memory_of(*process) <= OWN_MIB + 4)
    });
    for at in &folders {
        s.expect(0, &["umount", &at.to_string_lossy(), "--quiet"]);
    }
    eventually("nothing is left of them", || {
        let left = fs::read_dir(s.store().join("mounts")).unwrap().map(|entry| entry.unwrap().path());
        left.into_iter().all(|path| path.extension().is_some_and(|extension| extension == "log"))
    });
}

/// Makes /etc/mtab, for mounts of one's own: fusermount3 reads it for whoever is not root, and a system that was never booted has none.
const MTAB: &str = "test -e /etc/mtab || { mkdir -p \"$layers\"; mount -t tmpfs none \"$layers\"; mkdir \"$layers/up\" \"$layers/work\"; \
    mount -t overlay none -o lowerdir=/etc,upperdir=\"$layers/up\",workdir=\"$layers/work\" /etc; ln -s /proc/self/mounts /etc/mtab; }";

/// Runs a script as somebody who is not root, in mounts of its own, where /dev/fuse has this mode.
fn as_user(s: &Scratch, device_mode: &str, script: &str) -> (bool, String) {
    let device = s.path(&format!("fuse-{device_mode}"));
    let folder = s.path("user");
    let setup = format!(
        "set -e; layers='{layers}'; {MTAB}; rm -f '{device}'; mknod '{device}' c 10 229; chmod {device_mode} '{device}'; mount --bind '{device}' /dev/fuse; \
         mkdir -p '{folder}'; chown 65534:65534 '{folder}'; cd '{folder}'; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups \
             env -i HOME='{folder}' PATH=\"$PATH\" PARHELIA_STORE='{folder}/store' parhelia='{binary}' sh -ec \"$SCRIPT\" 2>&1",
        layers = s.path("layers").display(),
        device = device.display(),
        folder = folder.display(),
        binary = s.path("bin/parhelia").display(),
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &setup])
        .env("SCRIPT", format!("\"$parhelia\" init -q\n{script}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

/// A scratch folder that anybody may enter, with a binary that anybody may run.
fn open_scratch() -> Scratch {
    let s = Scratch::new();
    fs::create_dir(s.path("bin")).unwrap();
    fs::copy(binary(), s.path("bin/parhelia")).unwrap();
    let folder = s.path("");
    assert!(
        Command::new("chmod").arg("755").arg(&folder).arg(s.path("bin")).arg(s.path("bin/parhelia")).status().unwrap().success()
    );
    s
}

#[test]
fn a_user_mounts_through_fusermount3() {
    let s = open_scratch();
    let script = r#"
        mkdir work mnt; echo content > work/file; mkdir work/folder; ln work/file work/folder/linked
        "$parhelia" checkpoint create s --workspace work --quiet
        "$parhelia" mount latest mnt --quiet
        cmp work/file mnt/folder/linked && diff -r work mnt
        grep -q ' fuse.parhelia .*user_id=65534' /proc/self/mounts
        "$parhelia" mounts | grep -q "$PWD/mnt"
        "$parhelia" umount mnt --quiet
        test -z "$(ls mnt)"
        # Killed, the guard detaches it by way of fusermount3.
        "$parhelia" mount latest mnt --quiet
        kill -9 $("$parhelia" mounts --json | sed -n 's/.*"process":\([0-9]*\).*/\1/p' | head -n 1)
        tries=0; while grep -q "$PWD/mnt" /proc/self/mounts; do tries=$((tries+1)); test $tries -lt 1200; sleep 0.05; done
        "$parhelia" mounts | grep -q Cleared
        echo well
    "#;
    let (ok, said) = as_user(&s, "666", script);
    assert!(ok && said.ends_with("well\n"), "{said}");
}

#[test]
fn a_user_without_the_device_is_told_what_to_do() {
    let s = open_scratch();
    let script = r#"
        mkdir work mnt; echo content > work/file
        "$parhelia" checkpoint create s --workspace work --quiet
        "$parhelia" mount latest mnt && exit 9
        "$parhelia" mounts
        echo well
    "#;
    let (ok, said) = as_user(&s, "600", script);
    assert!(ok && said.ends_with("well\n"), "{said}");
    assert!(said.contains("/dev/fuse") && said.contains("chmod 666 /dev/fuse") && said.contains("fusermount3"), "{said}");
}
