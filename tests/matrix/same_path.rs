//! Another filesystem at the path of the one before, and one inside another: what is known of a path is not known of what is there now.

use std::{fs, path::Path};

use parhelia_tests::{
    editor::Editor,
    filesystems::{Kind, Mounted, text},
};
use serde_json::json;

use super::{
    ROOT,
    cell::{Cell, Place},
};

const FILES: u64 = 12;

/// Files of the same names and lengths, with content by a seed.
fn fill(editor: &mut Editor, seed: u64) {
    for i in 0..FILES {
        editor.edit("write", json!([format!("d{}/f{i}", i % 3), 2_000 + i * 10, seed + i]));
    }
}

#[test]
fn two_images_with_fixed_times_take_turns() {
    let Some(mut cell) = Cell::of_workspace(Kind::Squashfs, ROOT, |editor| fill(editor, 100)) else { return };
    cell.check_capture("the first image");
    cell.editor = Editor::new(Path::new("/"), ROOT);
    let sources = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (source, seed) in sources.iter().zip([200, 100]) {
        fs::create_dir(source.path().join("work")).unwrap();
        fill(&mut Editor::new(&source.path().join("work"), ROOT), seed);
    }
    cell.mounted().squash(sources[0].path());
    cell.check_capture("another image");
    cell.mounted().squash(sources[1].path());
    cell.check_capture("the first image again");
    cell.finish();
}

#[test]
fn two_checkpoints_are_mounted_in_turns() {
    let mut cell = Cell::new("our own mounts as the workspace", Place::Beside, Place::Beside, ROOT);
    fill(&mut cell.editor, 100);
    cell.check_capture("before");
    for i in 0..FILES {
        cell.editor.edit("rewrite_old", json!([format!("d{}/f{i}", i % 3), 500 + i]));
    }
    cell.check_capture("after");
    let ids: Vec<String> = cell.held.iter().map(|(id, _)| id.clone()).collect();
    cell.work = cell.work.with_file_name("mountpoint");
    fs::create_dir(&cell.work).unwrap();
    let at = text(&cell.work);
    for (n, id) in [&ids[0], &ids[1], &ids[0]].into_iter().enumerate() {
        // A session works on one mounted checkpoint; what is known of the path is all sessions'.
        cell.session = format!("mounted{n}");
        assert!(cell.run(&["mount", id, &at]).is_some());
        cell.check_capture(&format!("{id} is mounted"));
        assert!(cell.run(&["umount", &at]).is_some());
    }
    cell.finish();
}

/// A filesystem of whole seconds inside a workspace whose stamps are fine.
#[test]
fn one_of_whole_seconds_inside_another() {
    let Some(inner) = Mounted::new(Kind::Ext4Seconds, ROOT, |at| fs::create_dir(at.join("files")).unwrap()) else { return };
    let Some(mut cell) = Cell::of_workspace(Kind::Ext4, ROOT, |editor| editor.edit("mkdir", json!(["inner"]))) else { return };
    let _bound = inner.bind("files", &cell.work.join("inner"));
    fill(&mut cell.editor, 1);
    cell.editor.edit("write", json!(["inner/hidden", 3_000, 1]));
    cell.editor.edit("write", json!(["inner/deep/hidden", 3_000, 1]));
    cell.check_capture("at first");
    cell.check_same_second("inner/hidden", true);
    cell.check_same_second("inner/deep/hidden", true);
    cell.finish();
}
