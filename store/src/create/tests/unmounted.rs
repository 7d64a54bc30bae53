//! Packs that are not there as a whole, and packs of which parity gives back what was cut off.

use super::*;
use crate::{
    error::ErrorKind,
    layout::Layout,
    testing::{Notices, content_of},
};

#[test]
fn nothing_is_stored_beside_packs_of_which_none_is_there() {
    for is_folder_gone in [false, true] {
        let f = fixture();
        f.write("a", b"something");
        f.create();
        f.write("b", b"something else");
        f.create();
        let packs = f.store.layout().packs();
        let away = packs.with_file_name("unmounted");
        fs::rename(&packs, &away).unwrap();
        if !is_folder_gone {
            fs::create_dir(&packs).unwrap();
        }
        let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
        for _ in 0..2 {
            let refused = run(&store, &f.options(), &()).unwrap_err();
            assert!(refused.kind() == ErrorKind::Corrupt && refused.to_string().contains("mount it"), "{refused}");
        }
        let _ = fs::remove_dir_all(&packs);
        fs::rename(&away, &packs).unwrap();
        run(&store, &f.options(), &()).unwrap();
    }
}

#[test]
fn a_pack_of_which_the_parity_makes_up_for_a_cut_is_not_stored_again() {
    let f = fixture();
    let options = OpenOptions { create: true, parity: true, ..OpenOptions::default() };
    let store = Store::open(&f._dir.path().join("parity"), &options).unwrap();
    let f = Fixture { store, ..f };
    f.write("a", &noise(200_000, 3));
    let first = f.create();
    let pack = fs::read_dir(f.store.layout().packs()).unwrap().next().unwrap().unwrap().path();
    let length = fs::metadata(&pack).unwrap().len();
    File::options().write(true).open(&pack).unwrap().set_len(length - 10).unwrap();
    f.write("b", b"new");
    let notices = Notices::default();
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    let made = run(&store, &f.options(), &notices).unwrap();
    let said = notices.0.into_inner().unwrap();
    assert!(said.is_empty() && made.stored_bytes < length / 4, "{said:?} {} of {length}", made.stored_bytes);
    let id = Layout::pack_of(&pack).unwrap();
    assert!(crate::healed::list(store.layout()).contains(&id));
    assert!(!content_of(&store, &first.checkpoint).unwrap().is_empty());
}
