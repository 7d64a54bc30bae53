//! Every kind of filesystem, as the workspace and as the store, as root and as an ordinary user: each edit that a program can make is
//! captured, compared and restored. What a tree holds is read byte by byte, by no stamp.
//!
//! The ordinary run is a part of the product; `PARHELIA_LONG=N` takes all of it, with N hundred random steps in each cell.
//! `PARHELIA_SEED=N` repeats a random life.

mod cell;
mod clocks;
mod edits;
mod life;
mod mappings;
mod same_path;

use parhelia_tests::{
    filesystems::{Kind, Mounted, ORDINARY},
    given_seed, long,
};

use cell::{Cell, Place, Times};

const ROOT: u32 = 0;

fn steps() -> u64 {
    if long() > 0 { 100 * long() } else { 12 }
}

fn seed() -> u64 {
    given_seed().unwrap_or_else(|| if long() > 0 { u64::from(std::process::id()) } else { 1 })
}

fn edited(kind: Kind, user: u32) {
    let Some(cell) = Cell::of_workspace(kind, user, edits::fill) else { return };
    edits::story(cell, Some(kind));
}

fn mapped(kind: Kind, user: u32) {
    let Some(cell) = Cell::of_workspace(kind, user, mappings::fill) else { return };
    mappings::story(cell, kind);
}

fn lived(kind: Kind, user: u32) {
    let Some(mut cell) = Cell::of_workspace(kind, user, life::fill) else { return };
    cell.times = Times::of(kind, true);
    life::story(cell, seed(), steps());
}

fn stored(kind: Kind, user: u32) {
    let Some(cell) = Cell::of_store(kind, user, edits::fill) else { return };
    edits::story(cell, None);
}

macro_rules! cells {
    ($($name:ident: $kind:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn edited_by_root() {
                edited($kind, ROOT);
            }

            #[test]
            fn edited_by_an_ordinary_user() {
                // The ordinary run has it once, and random lives and stores of such a user on each.
                if $kind == Kind::Ext4 || long() > 0 {
                    edited($kind, ORDINARY);
                }
            }

            #[test]
            fn edited_through_mappings() {
                mapped($kind, ROOT);
            }

            #[test]
            fn edited_at_random() {
                lived($kind, ORDINARY);
            }

            #[test]
            fn as_the_store() {
                stored($kind, if long() > 0 { ROOT } else { ORDINARY });
            }
        }
    )*};
}

cells! {
    ext4: Kind::Ext4;
    ext4_of_whole_seconds: Kind::Ext4Seconds;
    xfs: Kind::Xfs;
    btrfs: Kind::Btrfs;
    tmpfs: Kind::Tmpfs;
    overlay: Kind::Overlay;
    overlay_of_whole_seconds: Kind::OverlaySeconds;
    fuse: Kind::Fuse;
}

/// Each workspace with each store, as root and as an ordinary user.
#[test]
fn the_whole_product() {
    if long() == 0 {
        return;
    }
    let mut failed = Vec::new();
    for workspace in Kind::WRITABLE {
        for store in Kind::WRITABLE {
            for user in [ROOT, ORDINARY] {
                let name = format!("workspace on {workspace:?}, store on {store:?}, user {user}");
                let cell = || {
                    let on = Mounted::new(workspace, user, |_| {}).zip(Mounted::new(store, user, |_| {}));
                    on.map(|(work, store)| Cell::new(&name, Place::On(work), Place::On(store), user))
                };
                let edited = || {
                    let Some(mut cell) = cell() else { return };
                    cell.times = Times::of(workspace, false);
                    edits::fill(&mut cell.editor);
                    edits::story(cell, Some(workspace));
                };
                let lived = || {
                    let Some(mut cell) = cell() else { return };
                    cell.times = Times::of(workspace, true);
                    life::fill(&mut cell.editor);
                    life::story(cell, seed(), steps());
                };
                let faults = [std::panic::catch_unwind(edited).is_err(), std::panic::catch_unwind(lived).is_err()];
                failed.extend(faults.iter().any(|is_fault| *is_fault).then_some(name));
            }
        }
    }
    assert!(failed.is_empty(), "{} of the cells failed:\n{}", failed.len(), failed.join("\n"));
}
