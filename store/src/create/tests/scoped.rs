//! A source that says exactly what changed leads to what a full walk finds.

use std::{os::unix::fs::symlink, process::Command};

use proptest::prelude::*;

use super::*;

const FOLDERS: [&str; 7] = ["a", "a/b", "target", "a/node_modules", ".venv", "a/b/__pycache__", "a-b"];
const FILES: [&str; 10] =
    ["f", "g", "x.log", "Cargo.toml", "package.json", "CACHEDIR.TAG", "pyvenv.cfg", ".nobackup", "h", "pom.xml"];

#[derive(Clone, Debug)]
enum Edit {
    Write(usize, usize, u8),
    Remove(usize, usize),
    RemoveFolder(usize),
    Rename(usize, usize),
    Link(usize, usize, usize),
    Symlink(usize, usize),
    Git(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    // The last folder is the workspace itself.
    let (folder, file) = (|| 0..=FOLDERS.len(), || 0..FILES.len());
    prop_oneof![
        8 => (folder(), file(), any::<u8>()).prop_map(|(d, f, content)| Edit::Write(d, f, content)),
        3 => (folder(), file()).prop_map(|(d, f)| Edit::Remove(d, f)),
        1 => (0..FOLDERS.len()).prop_map(Edit::RemoveFolder),
        1 => (0..FOLDERS.len(), 0..FOLDERS.len()).prop_map(|(from, to)| Edit::Rename(from, to)),
        1 => (folder(), file(), file()).prop_map(|(d, f, g)| Edit::Link(d, f, g)),
        1 => (folder(), file()).prop_map(|(d, f)| Edit::Symlink(d, f)),
        1 => folder().prop_map(Edit::Git),
    ]
}

fn folder_of(workspace: &Path, number: usize) -> PathBuf {
    FOLDERS.get(number).map_or(workspace.to_owned(), |folder| workspace.join(folder))
}

fn git(workspace: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(workspace).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(git.args(args).output().is_ok());
}

impl Edit {
    /// Some edits have nothing to act on, and do nothing.
    fn apply(&self, workspace: &Path) {
        let path = |folder: usize, file: usize| folder_of(workspace, folder).join(FILES[file]);
        let _ = match self {
            Edit::Write(folder, file, content) => {
                let _ = fs::create_dir_all(folder_of(workspace, *folder));
                let tag = if FILES[*file] == "CACHEDIR.TAG" && content % 2 == 0 {
                    "Signature: 8a477f597d28d172789f06886806bc55"
                } else {
                    ""
                };
                let _ = fs::remove_file(path(*folder, *file));
                fs::write(path(*folder, *file), format!("{tag}\n{content}"))
            }
            Edit::Remove(folder, file) => fs::remove_file(path(*folder, *file)),
            Edit::RemoveFolder(folder) => fs::remove_dir_all(folder_of(workspace, *folder)),
            Edit::Rename(from, to) => fs::rename(folder_of(workspace, *from), folder_of(workspace, *to)),
            Edit::Link(folder, from, to) => fs::hard_link(path(*folder, *from), path(*folder, *to)),
            Edit::Symlink(folder, file) => symlink("f", path(*folder, *file)),
            Edit::Git(folder) => {
                git(workspace, &["init", "--template="]);
                git(workspace, &["add", "-f", "--", FOLDERS.get(*folder).unwrap_or(&".")]);
                Ok(())
            }
        };
    }
}

/// Looks of each folder's entries, told apart by all that a walk can see of them and of what is below.
type Looks = BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, String>>;

fn looks(folder: &Path, path: &[u8], all: &mut Looks) -> String {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (inner, own) = (entry.path(), entry.file_name().as_bytes().to_vec());
        let meta = fs::symlink_metadata(&inner).unwrap();
        let below = if meta.is_dir() { looks(&inner, &name::join(path, &own), all) } else { String::new() };
        let times = (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
        found.insert(own, format!("{} {} {} {} {times:?} {below}", meta.ino(), meta.mode(), meta.nlink(), meta.size()));
    }
    let sum = format!("{}", blake3::hash(format!("{found:?}").as_bytes()));
    all.insert(path.to_vec(), found);
    sum
}

/// Says exactly what differs between two looks.
struct Exact {
    before: Looks,
    after: Looks,
}

impl Source for Exact {
    fn scope(&self, folder: &[u8]) -> Scope {
        let (Some(before), Some(after)) = (self.before.get(folder), self.after.get(folder)) else { return Scope::Everything };
        let differs = |name: &&Vec<u8>| before.get(*name) != after.get(*name);
        let changed: Vec<Vec<u8>> = before.keys().chain(after.keys()).filter(differs).cloned().collect();
        if changed.is_empty() { Scope::Nothing } else { Scope::Names(changed) }
    }
}

fn compare(edits: &[Vec<Edit>], rules: &Rules) -> Result<(), TestCaseError> {
    let (f, full) = (fixture(), fixture());
    let options = Options { rules: rules.clone(), ..f.options() };
    let mut before = Looks::new();
    for step in edits {
        step.iter().for_each(|edit| edit.apply(&f.workspace));
        let mut after = Looks::new();
        looks(&f.workspace, b"", &mut after);
        let source = Exact { before: std::mem::replace(&mut before, after.clone()), after };
        let exact = run_with(&f.store, &options, &source, &mut NoState, &()).unwrap();
        let walked = run(&full.store, &options, &()).unwrap();
        prop_assert_eq!(&exact.omissions, &walked.omissions);
        let (exact, walked) = (exact.checkpoint.record, walked.checkpoint.record);
        prop_assert_eq!((exact.root, exact.links), (walked.root, walked.links));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_source_that_says_exactly_what_changed_is_as_good_as_a_walk(
        edits in proptest::collection::vec(proptest::collection::vec(edit(), 1..12), 2..6),
        defaults in any::<bool>(),
        patterns in any::<bool>(),
    ) {
        let patterns = if patterns { vec!["*.log".to_owned(), "/a/b/g".into(), "/Cargo.toml".into()] } else { Vec::new() };
        compare(&edits, &Rules { defaults, patterns, if_present: vec![".nobackup".into()], ..Rules::default() })?;
    }
}

#[test]
fn what_was_left_out_of_a_folder_is_named_again_although_something_else_in_it_changed() {
    let write = |folder, file| Edit::Write(folder, file, 1);
    let log = FILES.iter().position(|name| *name == "x.log").unwrap();
    let edits = [vec![write(0, log), write(0, 0), write(1, log)], vec![write(0, 1)], vec![write(FOLDERS.len(), 0)]];
    compare(&edits, &Rules { patterns: vec!["*.log".into()], ..Rules::default() }).unwrap();
}

#[test]
fn other_rules_are_applied_to_what_did_not_change() {
    let f = fixture();
    f.write("a/f", b"1");
    f.write("a/x.log", b"2");
    let with = |patterns: &[&str]| Rules { patterns: patterns.iter().map(|p| (*p).to_owned()).collect(), ..Rules::default() };
    let unchanged = || {
        let mut seen = Looks::new();
        looks(&f.workspace, b"", &mut seen);
        Exact { before: seen.clone(), after: seen }
    };
    let create = |rules| {
        let options = Options { rules, ..f.options() };
        let outcome = run_with(&f.store, &options, &unchanged(), &mut NoState, &()).unwrap();
        f.tree(&outcome.checkpoint).into_keys().map(|path| name::display(&path)).collect::<Vec<_>>()
    };
    assert_eq!(create(with(&["*.log"])), ["a", "a/f"]);
    assert_eq!(create(with(&[])), ["a", "a/f", "a/x.log"]);
    assert_eq!(create(with(&["f"])), ["a", "a/x.log"]);
}

#[test]
fn what_stays_as_it_was_has_its_hard_links_where_they_were() {
    let write = |folder, file| Edit::Write(folder, file, 1);
    // In `a` the names of one file stand behind two folders, of which one has such a file as well, and one has none.
    let files = vec![write(0, 0), Edit::Link(0, 0, 8), write(1, 0), write(1, 1), Edit::Link(1, 0, 8), write(3, 0), write(3, 1)];
    compare(&[files, vec![write(6, 0)], vec![write(FOLDERS.len(), 1)]], &Rules::default()).unwrap();
    let apart = vec![write(1, 0), write(1, 1), write(0, 0), Edit::Link(0, 0, 1)];
    compare(&[apart, vec![write(6, 0)], vec![write(6, 1)]], &Rules::default()).unwrap();
}

#[test]
fn what_decides_on_others_is_seen_although_it_was_there_before() {
    let write = |folder, file, content| Edit::Write(folder, file, content);
    let (top, tag, manifest) = (FOLDERS.len(), 5, 3);
    let defaults = Rules { defaults: true, ..Rules::default() };
    // A tag that becomes one, and is one no more.
    let tags = [vec![write(0, tag, 1), write(0, 0, 1), write(1, 0, 1)], vec![write(0, tag, 2)], vec![write(0, tag, 3)]];
    compare(&tags, &defaults).unwrap();
    // What git tracks in a folder that is left out otherwise.
    let tracked =
        [vec![write(top, manifest, 1), write(2, 0, 1), write(0, 0, 1), Edit::Git(0)], vec![Edit::Git(2)], vec![write(0, 1, 1)]];
    compare(&tracked, &defaults).unwrap();
}
