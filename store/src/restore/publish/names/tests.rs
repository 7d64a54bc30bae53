use std::os::fd::AsFd;

use super::*;

/// A folder with files that hold their names.
fn folder(names: &[&str]) -> (tempfile::TempDir, std::fs::File) {
    let dir = tempfile::tempdir().unwrap();
    names.iter().for_each(|name| std::fs::write(dir.path().join(name), name).unwrap());
    let opened = std::fs::File::open(dir.path()).unwrap();
    (dir, opened)
}

/// Asserts that the entries of these names hold this, and that there are no others.
fn assert_holds(dir: &tempfile::TempDir, expected: &[(&str, &str)]) {
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), expected.len());
    for (name, content) in expected {
        assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), *content);
    }
}

#[test]
fn a_name_that_is_taken_is_not_replaced_whatever_the_filesystem_can() {
    for rename in [rename_new, rename_where_free] {
        let (dir, fd) = folder(&["new", "taken"]);
        assert_eq!(rename(fd.as_fd(), b"new", b"taken"), Err(Errno::EXIST));
        assert_holds(&dir, &[("new", "new"), ("taken", "taken")]);
        assert_eq!(rename(fd.as_fd(), b"new", b"taken/below"), Err(Errno::NOTDIR));
        rename(fd.as_fd(), b"new", b"free").unwrap();
        assert_holds(&dir, &[("free", "new"), ("taken", "taken")]);
    }
}

#[test]
fn an_entry_takes_the_place_of_another_and_gives_it_back_whatever_the_filesystem_can() {
    let (dir, fd) = folder(&["new", "name"]);
    for by_turns in [false, true] {
        let old = match by_turns {
            false => swap(fd.as_fd(), b"new", b"aside", b"name").unwrap(),
            true => put_aside(fd.as_fd(), b"new", b"aside", b"name").map(|()| b"aside".to_vec()).unwrap(),
        };
        let old_name = if by_turns { "aside" } else { "new" };
        assert_eq!(old, old_name.as_bytes());
        assert_holds(&dir, &[("name", "new"), (old_name, "name")]);
        assert!(put_back(fd.as_fd(), &old, b"new", b"name"));
        assert_holds(&dir, &[("name", "name"), ("new", "new")]);
    }
    // Where there is nothing to take the place, nothing is changed.
    assert_eq!(put_aside(fd.as_fd(), b"missing", b"aside", b"name"), Err(Errno::NOENT));
    assert_eq!(swap(fd.as_fd(), b"missing", b"aside", b"name"), Err(Errno::NOENT));
    assert!(!put_back(fd.as_fd(), b"missing", b"missing", b"name") && !put_back(fd.as_fd(), b"missing", b"new", b"missing"));
    assert_holds(&dir, &[("name", "name"), ("new", "new")]);
}
