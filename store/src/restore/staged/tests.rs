use super::{
    super::building::{entry_name, folder_name, is_being_built, is_staged},
    *,
};
use crate::format::NAME_BYTES_MAX;

#[test]
fn only_names_that_a_restore_gives_are_staged() {
    let op = OpId::generate();
    assert!(is_staged(&entry_name(op, 0, 0xfe)));
    assert!(is_staged(&folder_name(op, b"target")));
    assert!(is_staged(&folder_name(op, &[b'x'; 255])));
    assert!(folder_name(op, &[b'x'; 255]).len() <= NAME_BYTES_MAX);
    for other in [".parhelia", ".parhelia-x", ".parhelia-0123456789abcdef01234567", ".x.parhelia-0123", "a.parhelia-"] {
        assert!(!is_staged(other.as_bytes()), "{other}");
    }
    assert!(!is_staged(format!(".parhelia-{op}-0-").as_bytes()));
    assert!(!is_staged(format!("x.parhelia-{op}").as_bytes()));
    assert_eq!(folder_name(op, b"out"), format!(".out.parhelia-{op}").into_bytes());
    assert_eq!(folder_name(op, &[b'x'; 255]).len(), NAME_BYTES_MAX);
    // An entry's name has nothing before the mark, a folder's has; digits are small.
    let big = "ABCDEF0123456789ABCDEF01";
    for other in [
        format!(".parhelia-{op}"),
        format!(".x.parhelia-{op}-0-0"),
        format!(".parhelia-{op}-G-0"),
        format!(".parhelia-{op}-0-F"),
        format!(".parhelia-{op}--0"),
        format!(".parhelia-{op}-0-0-0"),
        format!(".parhelia-{op}x-0-0"),
        format!(".parhelia-{big}-0-0"),
        format!(".x.parhelia-{big}"),
    ] {
        assert!(!is_staged(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_name_is_of_a_restore_that_lives_by_its_pin_or_by_its_lock() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, pins, op) = (std::fs::File::open(dir.path()).unwrap(), dir.path().join("pins"), OpId::generate());
    let names = [folder_name(op, b"out"), entry_name(op, 0, 1), b"out".to_vec()];
    names.iter().for_each(|entry| std::fs::create_dir(dir.path().join(name::as_path(entry))).unwrap());
    std::fs::create_dir(&pins).unwrap();
    let are_built = || names.each_ref().map(|entry| is_being_built(folder.as_fd(), entry, &pins));
    assert_eq!(are_built(), [false; 3]);
    let open = |entry: &[u8]| sys::open_folder_at(folder.as_fd(), entry).unwrap();
    let held = names.each_ref().map(|entry| open(entry));
    held.iter().for_each(|fd| assert!(hold(fd.as_fd()).unwrap()));
    assert!(!hold(open(&names[0]).as_fd()).unwrap());
    // Whoever builds an entry locks its folder, and not the entry.
    assert_eq!(are_built(), [true, false, false]);
    drop(held);
    assert_eq!(are_built(), [false; 3]);
    std::fs::write(pins.join(format!("{op}.pin")), "").unwrap();
    assert_eq!(are_built(), [true, true, false]);
}

#[test]
fn a_restore_is_alone_above_and_below_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    std::fs::create_dir(layout.pins()).unwrap();
    let mut pin = pin::Pin::take(&layout.pins(), false, "restore").unwrap();
    let is_busy = |own, target: &str| match check_alone(&layout, own, Path::new(target)) {
        Err(Error::TargetBusy { path }) => path == Path::new("/a/b"),
        other => other.is_err(),
    };
    let (op, own) = (pin.op, OpId::generate());
    pin.leaves(Leaves::new(b"/a/b", false)).unwrap();
    assert!(!is_busy(own, "/a/b"), "it builds a new folder in it");
    pin.leaves(Leaves::new(b"/a/b", true)).unwrap();
    for (target, expected) in [("/a/b", true), ("/a", true), ("/a/b/c", true), ("/a/bc", false), ("/x", false)] {
        assert_eq!(is_busy(own, target), expected, "{target}");
    }
    assert!(!is_busy(op, "/a/b"), "it is this one");
    pin.leave();
    assert!(!is_busy(own, "/a/b"), "it is over");
}
