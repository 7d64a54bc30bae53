//! An entry of a tree, as JSON and as a line of `ls -l`.

use parhelia_screen::human;
use parhelia_store::tree::{Kind, Node};

/// Kind and permissions, as `ls -l` shows them.
pub fn mode_text(node: &Node) -> String {
    let mode = node.meta.mode;
    let mut text = String::with_capacity(11);
    text.push(match node.kind {
        Kind::File { .. } => '-',
        Kind::Folder { .. } => 'd',
        Kind::Symlink { .. } => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice { .. } => 'c',
        Kind::BlockDevice { .. } => 'b',
    });
    for (shift, special, with, without) in [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => with,
            (false, true) => without,
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    if !node.meta.xattrs.is_empty() {
        text.push('+');
    }
    text
}

/// The cells of a line of `ls -l`, the path aside.
pub fn long_cells(node: &Node) -> Vec<String> {
    let size = match &node.kind {
        Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => format!("{major}, {minor}"),
        Kind::Folder { totals, .. } => human::size(totals.bytes),
        _ => human::size(node.size()),
    };
    let owner = format!("{}:{}", node.meta.uid, node.meta.gid);
    vec![mode_text(node), node.links.to_string(), owner, size, human::file_time(node.meta.mtime)]
}

#[cfg(test)]
mod tests {
    use parhelia_store::tree::Meta;

    use super::*;

    #[test]
    fn modes_are_shown_as_ls_shows_them() {
        let node = |mode, kind| Node { name: b"x".to_vec(), meta: Meta { mode, ..Meta::default() }, links: 1, kind };
        assert_eq!(mode_text(&node(0o4755, Kind::Fifo)), "prwsr-xr-x");
        assert_eq!(mode_text(&node(0o1777, Kind::Socket)), "srwxrwxrwt");
        assert_eq!(mode_text(&node(0o2640, Kind::Symlink { target: vec![] })), "lrw-r-S---");
    }
}
