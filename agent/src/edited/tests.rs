use std::process::Command;

use super::*;

/// A mount, until this goes.
struct Mounted(PathBuf);

impl Mounted {
    fn new(arguments: &[&str], at: &Path) -> Self {
        let mounted = Command::new("mount").args(arguments).arg(at).status().unwrap();
        assert!(mounted.success(), "this test needs root");
        Mounted(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a child that another test has just forked holds what this one had open, until it is the program that it runs.
        assert!(Command::new("umount").arg("--lazy").arg(&self.0).status().unwrap().success());
    }
}

fn to(text: &str) -> impl Fn(&str) -> Result<EditOutcome, String> {
    move |_| Ok(EditOutcome::Changed(text.to_owned()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_that_is_a_mount_of_its_own_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, inside) = (dir.path().join("outside"), dir.path().join("home/settings.json"));
    fs::create_dir(dir.path().join("home")).unwrap();
    fs::write(&inside, "").unwrap();
    fs::write(&outside, "a long text of before").unwrap();
    let _mounted = Mounted::new(&["--bind", outside.to_str().unwrap()], &inside);
    for text in ["shorter", "and then a text that is longer than each of the others"] {
        assert!(edit(&inside, &to(text)).unwrap().changed);
        assert_eq!(fs::read_to_string(&outside).unwrap(), text);
        assert_eq!(names(&dir.path().join("home")), ["settings.json"]);
    }
}

#[test]
fn a_writable_file_in_a_folder_that_is_read_only_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, home) = (dir.path().join("outside"), dir.path().join("home"));
    fs::create_dir(&home).unwrap();
    let _home = Mounted::new(&["-t", "tmpfs", "none"], &home);
    let inside = home.join("settings.json");
    // By a process of its own: what this one has open for writing may be inherited, and then the mount stays writable.
    assert!(Command::new("touch").arg(&inside).status().unwrap().success());
    fs::write(&outside, "before").unwrap();
    let _file = Mounted::new(&["--bind", outside.to_str().unwrap()], &inside);
    let remounted = Command::new("mount").args(["-o", "remount,ro"]).arg(&home).status().unwrap();
    assert!(remounted.success());
    assert!(edit(&inside, &to("after")).unwrap().changed);
    assert_eq!(fs::read_to_string(&outside).unwrap(), "after");
}

#[test]
fn a_mount_that_is_read_only_is_left_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let (outside, inside) = (dir.path().join("outside"), dir.path().join("settings.json"));
    fs::write(&inside, "").unwrap();
    fs::write(&outside, "before").unwrap();
    let _mounted = Mounted::new(&["--bind", outside.to_str().unwrap()], &inside);
    let remounted = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&inside).status().unwrap();
    assert!(remounted.success());
    let error = edit(&inside, &to("after")).unwrap_err().to_string();
    assert!(error.contains("settings.json: Read-only file system"), "{error}");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "before");
    assert_eq!(names(dir.path()), ["outside", "settings.json"]);
}
