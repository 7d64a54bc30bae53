//! POSIX ACLs: the kernel's binary form, and the text that tar headers carry.

use std::fmt::Write;

/// The xattr that holds a file's ACL.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The xattr that holds a folder's default ACL.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;

/// The text of an ACL (numeric ids, one entry a line), or nothing if the bytes are no ACL.
pub(super) fn to_text(bytes: &[u8]) -> Option<String> {
    let (version, entries) = bytes.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.is_empty() || entries.len() % 8 != 0 {
        return None;
    }
    let mut text = String::new();
    for entry in entries.chunks_exact(8) {
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        let mode = u16::from_le_bytes([entry[2], entry[3]]);
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        let (who, named) = match tag {
            0x01 => ("user", false),
            0x02 => ("user", true),
            0x04 => ("group", false),
            0x08 => ("group", true),
            0x10 => ("mask", false),
            0x20 => ("other", false),
            _ => return None,
        };
        let id = if named { id.to_string() } else { String::new() };
        let bit = |bit: u16, c: char| if mode & bit != 0 { c } else { '-' };
        let _ = writeln!(text, "{who}:{id}:{}{}{}", bit(4, 'r'), bit(2, 'w'), bit(1, 'x'));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acls_are_spelled_as_tar_spells_them() {
        let entry = |tag: u16, mode: u16, id: u32| [&tag.to_le_bytes()[..], &mode.to_le_bytes(), &id.to_le_bytes()].concat();
        let none = u32::MAX;
        let entries =
            [entry(1, 6, none), entry(2, 7, 1000), entry(4, 4, none), entry(8, 1, 5), entry(16, 7, none), entry(32, 0, none)];
        let acl = [2u32.to_le_bytes().to_vec(), entries.concat()].concat();
        let text = "user::rw-\nuser:1000:rwx\ngroup::r--\ngroup:5:--x\nmask::rwx\nother::---\n";
        assert_eq!(to_text(&acl).as_deref(), Some(text));
        for cut in 0..acl.len() {
            let _ = to_text(&acl[..cut]);
        }
        assert_eq!(to_text(b"junk"), None);
    }
}
