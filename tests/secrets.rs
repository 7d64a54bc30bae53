//! The agent's own credentials are in no checkpoint, wherever the workspace is, and nothing that goes back removes them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use parhelia_tests::{Scratch, files_in, write};

const SECRET: &str = "sk-ant-this-is-in-no-checkpoint-4711";

struct Home {
    scratch: Scratch,
    config: Option<PathBuf>,
}

impl Home {
    /// A home folder of somebody who uses an agent, whose configuration folder is `config` in it, or the usual one.
    fn new(config: Option<&str>) -> Self {
        let scratch = Scratch::new();
        let home = scratch.path("home");
        let folder = home.join(config.unwrap_or(".claude"));
        let settings = if config.is_some() { folder.clone() } else { home.clone() };
        for path in [
            settings.join(".claude.json"),
            settings.join(".claude.json.backup"),
            folder.join("backups/.claude.json.backup.1700000000"),
            settings.join(".claude.json.tmp.77.1700000000"),
            folder.join(".credentials.json"),
            folder.join("sessions/one.key"),
        ] {
            write(&path, SECRET.as_bytes()).unwrap();
        }
        for path in ["projects/p/1.jsonl", "settings.json", "sessions/one.json"] {
            write(&folder.join(path), b"kept").unwrap();
        }
        for path in ["notes.json", "work/claude.json", "work/.claude.json.example", "work/sessions/mine.key"] {
            write(&home.join(path), b"kept").unwrap();
        }
        Home { config: config.map(|_| folder), scratch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path("home").join(name)
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut command = self.scratch.command(arguments);
        command.envs(self.config.iter().map(|config| ("CLAUDE_CONFIG_DIR", config))).current_dir(self.path(""));
        command.output().unwrap()
    }

    fn create(&self, workspace: &Path, more: &[&str]) -> String {
        let workspace = workspace.to_string_lossy();
        let made = self.run(&[&["checkpoint", "create", "--json", "--workspace", &workspace], more].concat());
        id(&made)
    }

    /// A restored checkpoint holds the secret nowhere, and neither does the store.
    fn assert_clean(&self, id: &str) -> Vec<String> {
        let to = self.scratch.path(&format!("restored-{id}"));
        self.run(&["checkpoint", "restore", id, "--to", &to.to_string_lossy()]);
        let files = files_in(&to);
        for (path, content) in &files {
            let path = String::from_utf8_lossy(path);
            assert!(!String::from_utf8_lossy(content).contains(SECRET), "{path} is in the checkpoint");
        }
        files.keys().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }
}

fn id(printed: &str) -> String {
    let last: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    last["id"].as_str().unwrap_or_else(|| panic!("{printed}")).to_owned()
}

#[test]
fn a_home_a_configuration_folder_and_a_folder_above_hold_none() {
    for config in [None, Some("elsewhere"), Some("work/agent")] {
        let home = Home::new(config);
        let folder = config.unwrap_or(".claude");
        for workspace in [home.path(""), home.scratch.path("home").join(folder), home.path(&format!("{folder}/sessions"))] {
            for more in [&[][..], &["--no-default-excludes"]] {
                let made = home.create(&workspace, more);
                let kept = home.assert_clean(&made);
                assert!(kept.iter().any(|path| path.ends_with("one.json")), "{config:?} {kept:?}");
                let listed = home.run(&["checkpoint", "show", &made, "--json"]);
                assert!(listed.contains("the agent's credentials") && listed.contains("one.key"), "{listed}");
            }
        }
        let kept = home.assert_clean(&home.create(&home.path(""), &[]));
        for path in ["notes.json", "work/claude.json", "work/.claude.json.example", "work/sessions/mine.key"] {
            assert!(kept.iter().any(|found| found == path), "{path} is a project's own: {kept:?}");
        }
    }
}

#[test]
fn no_list_of_files_no_link_and_no_other_environment_brings_them_in() {
    let home = Home::new(Some("elsewhere"));
    let list = home.scratch.path("list");
    fs::write(&list, "elsewhere/.credentials.json\nelsewhere/sessions/one.key\nelsewhere/.claude.json\nnotes.json\n").unwrap();
    let list = list.to_string_lossy().into_owned();
    let made = home.output(&["checkpoint", "create", "--json", "--files-from", &list]);
    let said = String::from_utf8_lossy(&made.stderr);
    assert_eq!(made.status.code(), Some(3), "{said}");
    for path in ["elsewhere/.credentials.json", "elsewhere/sessions/one.key", "elsewhere/.claude.json"] {
        assert!(said.contains(&format!("{path}: not read: it is listed, and ")), "{said}");
    }
    let kept = home.assert_clean(&id(&String::from_utf8_lossy(&made.stdout)));
    assert_eq!(kept, ["notes.json"]);

    fs::hard_link(home.path("elsewhere/.credentials.json"), home.path("work/innocent")).unwrap();
    fs::hard_link(home.path("elsewhere/sessions/one.key"), home.path("work/another")).unwrap();
    symlink("../elsewhere/.credentials.json", home.path("work/link")).unwrap();
    home.assert_clean(&home.create(&home.path(""), &[]));
    home.assert_clean(&home.create(&home.path("work"), &[]));

    // By somebody who does not know of the agent's folder.
    fs::remove_file(home.path("work/innocent")).unwrap();
    fs::remove_file(home.path("work/another")).unwrap();
    let stranger = Home { config: None, ..home };
    stranger.assert_clean(&stranger.create(&stranger.path(""), &[]));
}

#[test]
fn settings_that_are_a_link_into_the_workspace_are_found_where_they_are() {
    let home = Home::new(None);
    fs::rename(home.path(".claude.json"), home.path("work/my-settings")).unwrap();
    symlink("work/my-settings", home.path(".claude.json")).unwrap();
    home.assert_clean(&home.create(&home.path("work"), &[]));
}

#[test]
fn an_archive_brings_none_in() {
    let home = Home::new(None);
    fs::hard_link(home.path(".claude/.credentials.json"), home.path(".claude/z-link")).unwrap();
    let archive = home.scratch.path("archive.tar").to_string_lossy().into_owned();
    let tar = ["--sort=name", "-cf", &archive, "-C", &home.path("").to_string_lossy(), "."].map(str::to_owned);
    assert!(Command::new("tar").args(tar).status().unwrap().success());
    let imported = id(&home.run(&["import", &archive, "--session", "from", "--json"]));
    let kept = home.assert_clean(&imported);
    assert!(kept.iter().any(|path| path == "work/sessions/mine.key"), "{kept:?}");
    let listed = home.run(&["checkpoint", "show", &imported, "--json"]);
    assert!(listed.contains(".claude/sessions/one.key") && listed.contains(".claude/z-link"), "{listed}");
}

#[test]
fn going_back_leaves_them_as_they_are() {
    let home = Home::new(None);
    let secrets = [".claude.json", ".claude/.credentials.json", ".claude/sessions/one.key"];
    let contents = || secrets.map(|path| fs::read_to_string(home.path(path)).ok());
    // A checkpoint of a time before the agent had any.
    let away = secrets.map(|path| (home.path(path), home.scratch.path(&path.replace('/', "-"))));
    away.iter().for_each(|(path, aside)| fs::rename(path, aside).unwrap());
    let before = home.create(&home.path(""), &[]);
    away.iter().for_each(|(path, aside)| fs::rename(aside, path).unwrap());
    let expected = contents();
    write(&home.path("made later/.claude/.credentials.json"), SECRET.as_bytes()).unwrap();
    write(&home.path("made later/x"), b"x").unwrap();

    let work = home.path("").to_string_lossy().into_owned();
    let compared = home.run(&["checkpoint", "diff", &before, "--workspace", &work, "--name-only"]);
    assert!(!compared.contains(".credentials") && !compared.contains(".claude.json\n"), "{compared}");
    home.run(&["checkpoint", "restore", &before, "--to", &work, "--in-place", "--delete"]);
    assert_eq!(contents(), expected);
    assert!(home.path("made later/.claude/.credentials.json").exists() && !home.path("made later/x").exists());
    home.run(&["checkpoint", "rollback", &before, "--yes"]);
    home.run(&["checkpoint", "undo", "--yes"]);
    assert_eq!(contents(), expected);
}
