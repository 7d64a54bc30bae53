//! The verbs that read: list, show, ls, cat, find, version, completions.

use std::os::unix::ffi::OsStringExt;

use crate::common::{Builder, Home, file, folder, follows_schema, symlink};
use parhelia_store::{
    id::Ulid,
    omitted::{Omission, Reason},
};

#[test]
fn list_is_newest_first_and_by_session() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    assert!(home.run(&["checkpoint", "list"]).expect(0).out.contains("No checkpoints"));
    let a = builder.commit("one", "first", vec![file("a", "1")]);
    let b = builder.commit("two", "", vec![file("a", "2")]);
    let c = builder.commit("one", "third\nwith more", vec![file("a", "3")]);
    let run = home.run(&["checkpoint", "list"]).expect(0);
    let at = |id: &str| run.out.find(id).unwrap();
    assert!(at(&c) < at(&b) && at(&b) < at(&a), "{run:?}");
    assert!(run.out.contains(" now ") && run.out.contains("third") && !run.out.contains("with more"));
    assert!(!run.out.contains('\x1b'));
    let lines = home.run(&["checkpoint", "list", "one", "--json"]).expect(0).json();
    let ids: Vec<&str> = lines.iter().filter_map(|l| l["id"].as_str()).collect();
    assert_eq!(ids, [c.as_str(), a.as_str()]);
    assert_eq!(lines.last().unwrap()["checkpoints"], 2);
    assert_eq!(lines[0]["parent"], a.as_str());
    assert_eq!(lines[0]["depth"], 2);
    let lines = home.run(&["checkpoint", "list", "-n", "2", "--json"]).expect(0).json();
    let ids: Vec<&str> = lines.iter().filter_map(|l| l["id"].as_str()).collect();
    assert_eq!(ids, [c.as_str(), b.as_str()]);
}

#[test]
fn a_checkpoint_of_a_later_release_is_named_once_and_hides_no_other() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let kept = builder.commit("demo", "kept", vec![file("a", "1")]);
    let sealed = builder.store.refresh().unwrap().checkpoints().unwrap()[0].sealed.clone();
    let [hidden, odd] = [Ulid::generate().to_string(), Ulid::generate().to_string()];
    builder.append(sealed.replace(&kept, &hidden).replace(r#""schema":1"#, r#""schema":2"#));
    let odd_record = sealed.replace(&kept, &odd).replace(r#""trigger":"manual""#, r#""trigger":"mood""#);
    builder.append(odd_record.replace(r#""consistency":"unknown""#, r#""consistency":"trance""#));
    let run = home.run(&["checkpoint", "list"]).expect(0);
    assert!(run.out.contains(&kept) && run.out.contains(&odd) && run.out.contains("mood"), "{run:?}");
    assert!(!run.out.contains(&hidden) && run.err.matches(&hidden).count() == 1 && run.err.contains("newer parhelia"), "{run:?}");
    assert_eq!(home.run(&["checkpoint", "list", "--quiet"]).expect(0).err, "");
    let lines = home.run(&["checkpoint", "show", &odd, "--json"]).expect(0).json();
    follows_schema(&lines[0]);
    assert_eq!((&lines[0]["trigger"], &lines[0]["consistency"]), (&"mood".into(), &"trance".into()));
    assert_eq!(home.run(&["checkpoint", "cat", "latest:a"]).expect(0).out, "1");
    let lines = home.run(&["check", "--json"]).expect(12).json();
    assert_eq!((&lines[0]["kind"], &lines[0]["touches"][0]["checkpoint"]), (&"record".into(), &hidden.as_str().into()));
    let collected = home.run(&["gc"]).expect(0);
    assert!(collected.err.contains("gc removes nothing"), "{collected:?}");
}

#[test]
fn show_prints_the_manifest_and_what_was_left_out() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let left_out = [
        Omission { path: b"secret".to_vec(), reason: Reason::Unreadable("permission denied".into()) },
        Omission { path: b"target".to_vec(), reason: Reason::Excluded("target beside Cargo.toml".into()) },
    ];
    let id = builder.commit_with("demo", "hello", vec![file("a", "12345")], &left_out);
    let run = home.run(&["checkpoint", "show"]).expect(0);
    for part in
        [&id, "demo", "hello", "5 B in 1 file", "blake3:", "secret: not read: permission denied", "target beside Cargo.toml"]
    {
        assert!(run.out.contains(part), "{part} in {run:?}");
    }
    let lines = home.run(&["checkpoint", "show", &id, "--json"]).expect(0).json();
    assert_eq!(lines[0]["type"], "manifest");
    follows_schema(&lines[0]);
    assert_eq!(lines[0]["version"], "1.2");
    assert_eq!(lines[0]["session_id"], "demo");
    assert_eq!(lines[0]["workspace"]["file_count"], 1);
    assert_eq!(lines[0]["complete"], false);
    assert_eq!(lines[1]["reason"], "unreadable");
    assert_eq!(lines.last().unwrap()["omissions"], 2);
}

#[test]
fn ls_lists_folders_files_and_everything_below() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let inner = folder("src", vec![file("main.rs", "fn main() {}"), file(b"odd\n\xff".to_vec(), "x")]);
    builder.commit("demo", "", vec![inner, symlink("link", b"src/main.rs"), file("README", "hi")]);
    assert_eq!(home.run(&["checkpoint", "ls", "latest"]).expect(0).out, "README\nlink\nsrc/\n");
    assert_eq!(home.run(&["checkpoint", "ls", "latest:src"]).expect(0).out, "src/main.rs\nsrc/odd\\n\\xff\n");
    assert_eq!(home.run(&["checkpoint", "ls", "latest:./src//main.rs"]).expect(0).out, "src/main.rs\n");
    let run = home.run(&["checkpoint", "ls", "-Rl", "latest:"]).expect(0);
    assert_eq!(run.out.lines().count(), 5);
    assert!(run.out.contains("lrwxrwxrwx") && run.out.contains("link -> src/main.rs"), "{run:?}");
    assert!(run.out.contains("2023-11-14 22:13:20"), "{run:?}");
    let lines = home.run(&["checkpoint", "ls", "-R", "latest", "--json"]).expect(0).json();
    assert_eq!(lines.len(), 6);
    let main = lines.iter().find(|l| l["path"] == "src/main.rs").unwrap();
    assert_eq!((&main["size"], &main["mode"]), (&12.into(), &"0644".into()));
    assert_eq!(main["mtime"], "2023-11-14T22:13:20.123456789Z");
    assert_eq!(lines.last().unwrap()["bytes"], 12 + 1 + 2);
}

#[test]
fn cat_prints_bytes_as_they_are() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let content: Vec<u8> = (0..100_000u32).flat_map(|i| (i ^ 0xff).to_le_bytes()).take(200_000).collect();
    let items =
        vec![folder("d", vec![file("f", content.clone())]), file(b"a:\xff".to_vec(), "odd"), symlink("l", b"d"), file("e", "")];
    builder.commit("demo", "", items);
    assert!(home.run(&["checkpoint", "cat", "latest:d/f"]).expect(0).bytes == content);
    assert!(home.run(&["checkpoint", "cat", "latest:e"]).expect(0).bytes.is_empty());
    let mut command = home.command(&["checkpoint", "cat"]);
    let output = command.arg(std::ffi::OsString::from_vec(b"latest:a:\xff".to_vec())).output().unwrap();
    assert_eq!(output.stdout, b"odd");
    for path in ["latest:d", "latest:l"] {
        home.run(&["checkpoint", "cat", path]).expect(2);
    }
    let lines = home.run(&["checkpoint", "cat", "latest:d/f", "--json"]).expect(0).json();
    assert_eq!(lines.last().unwrap()["bytes"], 200_000);
    let pieces: Vec<_> = lines.iter().filter(|l| l["type"] == "content").collect();
    assert_eq!(pieces.len(), 5);
    assert_eq!(pieces[1]["offset"], 48 << 10);
}

#[test]
fn find_names_every_checkpoint_that_has_a_path() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let lib = |content: &str| folder("src", vec![file("lib.rs", content), folder("deep", vec![file("same.rs", "same")])]);
    let a = builder.commit("demo", "", vec![lib("1"), file("top.rs", "t")]);
    let b = builder.commit("demo", "", vec![lib("2"), file("top.rs", "t")]);
    let c = builder.commit("other", "", vec![lib("1")]);
    let d = builder.commit("demo", "", vec![lib("2"), file("top.rs", "t")]);
    let lines = home.run(&["checkpoint", "find", "*.rs", "--json"]).expect(0).json();
    let found: Vec<(String, Vec<String>)> = lines
        .iter()
        .filter(|l| l["type"] == "match")
        .map(|l| (l["path"].as_str().unwrap().into(), serde_json::from_value(l["checkpoints"].clone()).unwrap()))
        .collect();
    let all = vec![d.clone(), c.clone(), b.clone(), a.clone()];
    let expected = [
        ("src/deep/same.rs", all),
        ("src/lib.rs", vec![d.clone(), b.clone()]),
        ("src/lib.rs", vec![c.clone(), a.clone()]),
        ("top.rs", vec![d.clone(), b.clone(), a.clone()]),
    ];
    assert_eq!(found, expected.map(|(path, ids)| (path.to_owned(), ids)));
    assert_eq!(lines.last().unwrap()["versions"], 4);
    let count = |args: &[&str]| {
        home.run(&[&["checkpoint", "find"], args].concat()).expect(0).out.lines().filter(|l| !l.starts_with(' ')).count()
    };
    assert_eq!(count(&["src/*.rs"]), 1);
    assert_eq!(count(&["src/**/*.rs"]), 2);
    assert_eq!(count(&["TOP.RS", "-i"]), 1);
    assert_eq!(count(&["*.rs", "other"]), 2);
    assert!(home.run(&["checkpoint", "find", "nothing"]).expect(0).out.contains("Nothing matches"));
    assert!(home.run(&["checkpoint", "find", "nothing", "-q"]).expect(0).out.is_empty());
}

#[test]
fn version_and_completions() {
    let home = Home::new();
    assert!(home.run(&["version"]).expect(0).out.starts_with("parhelia 0."));
    assert_eq!(home.run(&["version", "--json"]).expect(0).json()[0]["store_format"], 1);
    assert!(home.run(&["--help"]).expect(0).out.contains("checkpoint"));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(home.run(&["completions", shell]).expect(0).out.contains("parhelia"), "{shell}");
    }
}

#[test]
fn the_default_store_is_in_the_users_data_folder() {
    let home = Home::new();
    let run = |command: &mut std::process::Command| crate::common::Run::of(command.output().unwrap()).expect(10).err;
    let mut command = home.command(&["checkpoint", "list"]);
    assert!(run(command.env_remove("PARHELIA_STORE")).contains(".local/share/parhelia"));
    assert!(run(command.env("XDG_DATA_HOME", "/data")).contains("no store at /data/parhelia"));
    assert!(run(command.env("XDG_DATA_HOME", "relative")).contains(".local/share/parhelia"));
}

#[test]
fn what_steers_a_terminal_is_escaped_wherever_text_comes_from() {
    let home = Home::new();
    let evil = "a\u{1b}[2Jb\u{202e}c\u{200b}d\u{2028}e\u{9b}f\u{2066}";
    let workspace = home.folder.path().join(format!("work{evil}"));
    std::fs::create_dir_all(workspace.join(evil)).unwrap();
    for (name, content) in [("file", "1"), (evil, "2")] {
        std::fs::write(workspace.join(evil).join(format!("{name}.txt")), content).unwrap();
    }
    std::os::unix::fs::symlink(evil, workspace.join("link")).unwrap();
    let folder = workspace.to_str().unwrap();
    let message = format!("said {evil}\nand more");
    let (pattern, out) = (format!("{evil}.txt"), format!("out{evil}"));
    let (inside, nowhere) = (format!("latest:{evil}/none"), format!("{evil}/nowhere"));
    let runs = [
        (0, &["-v", "checkpoint", "create", "-w", folder, "-m", &message, "--exclude", &pattern][..]),
        (0, &["checkpoint", "list"]),
        (0, &["checkpoint", "show", "latest"]),
        (0, &["checkpoint", "ls", "-l", "latest"]),
        (0, &["checkpoint", "ls", "-R", "latest"]),
        (0, &["checkpoint", "find", "*.txt"]),
        (0, &["checkpoint", "diff", "latest", "-w", folder]),
        (0, &["checkpoint", "restore", "latest", "-n", "-v", "--to", &out]),
        (4, &["checkpoint", "restore", "latest", "--to", folder]),
        (10, &["checkpoint", "cat", &inside]),
        (10, &["checkpoint", "show", evil]),
        (10, &["checkpoint", "create", "-w", &nowhere]),
    ];
    let steers = |c: char| !matches!(c, '\n' | '\t') && (c.is_control() || "\u{202e}\u{200b}\u{2028}\u{2066}".contains(c));
    let mut shown = 0;
    for (code, args) in runs {
        let run = home.run(args).expect(code);
        let text = [run.out, run.err].concat();
        assert!(!text.contains(steers), "{args:?}: {text:?}");
        shown += usize::from(text.contains(r"a\x1b[2Jb\xe2\x80\xaec"));
    }
    assert!(shown >= 10, "{shown}");
    let lines = home.run(&["checkpoint", "show", "latest", "--json"]).expect(0).json();
    assert_eq!(lines[0]["message"], message);
    let listed = home.run(&["checkpoint", "ls", "-R", "latest", "--json"]).expect(0).json();
    let paths = listed.iter().filter_map(|line| Some(parhelia_store::name::parse(line["path"].as_str()?)));
    assert!(paths.into_iter().any(|path| path == format!("{evil}/file.txt").as_bytes()), "{listed:?}");
}
