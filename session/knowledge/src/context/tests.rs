use std::os::unix::fs::symlink;

use super::*;
use parhelia_agent::transcript::Index;

fn settings() -> config::Context {
    config::load(&config::ConfigFiles::default(), &|_| None).unwrap().config.context
}

fn conversation(files: &[(&str, u64, u64, u64)]) -> Conversation {
    let files = files.iter().map(|(path, reads, edits, last_offset)| {
        ((*path).to_owned(), FileUse { reads: *reads, edits: *edits, last_offset: *last_offset, ..FileUse::default() })
    });
    Conversation { main: Index { files: files.collect(), ..Index::default() }, subagents: BTreeMap::new() }
}

fn lines(context: &Context) -> Vec<String> {
    context.files.iter().map(|file| format!("{} {:?} {:?}", file.path, file.reasons[0], file.fit)).collect()
}

struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new(files: &[(&str, usize)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, bytes) in files {
            let path = folder.path().join("work").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b'x'; *bytes]).unwrap();
        }
        Workspace(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("work")
    }
}

#[test]
fn what_matters_most_comes_first_and_the_caps_hold() {
    let workspace = Workspace::new(&[("read", 10), ("old edit", 10), ("new edit", 10), ("big", 100), ("no room", 30)]);
    let conversation = conversation(&[
        ("read", 1, 0, 900),
        ("old edit", 1, 1, 100),
        (workspace.path().join("new edit").to_str().unwrap(), 0, 2, 200),
        ("big", 0, 1, 50),
        ("no room", 1, 0, 950),
        ("gone", 0, 1, 10),
    ]);
    let settings = config::Context { max_file_bytes: 50, max_total_bytes: 35, ..settings() };
    let context = list(&workspace.path(), Some(&conversation), None, &settings, &Ids::default()).unwrap();
    let expected = [
        "new edit Edited Fits",
        "old edit Edited Fits",
        "big Edited OverFileCap",
        "gone Edited Missing",
        "no room Read OverTotalCap",
        "read Read Fits",
    ];
    assert_eq!(lines(&context).iter().collect::<std::collections::BTreeSet<_>>(), expected.map(str::to_owned).iter().collect());
    assert_eq!(lines(&context)[..1], expected[..1]);
    assert_eq!((context.total_bytes, context.warnings.len()), (30, 2));
    let file = &context.files[0];
    assert_eq!(file.blob.as_deref(), Some(blake3::hash(b"xxxxxxxxxx").to_hex().as_str()));
    assert_eq!(file.sha256.as_deref().unwrap().len(), 64);
    assert!(file.modified_at.is_some() && file.size_bytes == Some(10));
}

#[test]
fn nothing_outside_the_workspace_is_read() {
    let workspace = Workspace::new(&[("folder/f", 1), ("a.log", 1), ("node_modules/m/x.js", 1)]);
    fs::write(workspace.0.path().join("secret"), "s").unwrap();
    symlink("../secret", workspace.path().join("link")).unwrap();
    symlink("..", workspace.path().join("up")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, workspace.path().join("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let all = ["../secret", "link", "up/secret", "folder", "fifo", "a.log", "node_modules/m/x.js", "/etc/hostname"];
    let context =
        list(&workspace.path(), Some(&conversation(&all.map(|path| (path, 1, 0, 0)))), None, &settings(), &Ids::default())
            .unwrap();
    let fits: BTreeMap<_, _> = context.files.iter().map(|file| (file.path.rsplit('/').next().unwrap(), file.fit)).collect();
    let expected = [
        ("folder", Eligibility::NotAFile),
        ("fifo", Eligibility::NotAFile),
        ("link", Eligibility::NotAFile),
        ("hostname", Eligibility::Outside),
        ("secret", Eligibility::Outside),
    ];
    for (name, fit) in expected.iter().take(4) {
        assert_eq!(fits.get(name), Some(fit), "{name}");
    }
    assert!(context.files.iter().all(|file| file.blob.is_none()), "{context:?}");
    assert!(!context.files.iter().any(|file| file.path.ends_with(".log") || file.path.contains("node_modules")));
}

#[test]
fn switched_off() {
    let workspace = Workspace::new(&[("f", 1)]);
    let settings = config::Context { capture_files: false, mode: Mode::Summary, ..settings() };
    let context = list(&workspace.path(), Some(&conversation(&[("f", 1, 0, 0)])), None, &settings, &Ids::default()).unwrap();
    assert!(context.files.is_empty() && context.mode == Mode::Summary);
    let bad = config::Context { exclude: vec!["a{".into()], ..self::settings() };
    assert!(
        list(&workspace.path(), None, None, &bad, &Ids::default()).unwrap_err().to_string().contains("context.exclude: 'a{'")
    );
}
