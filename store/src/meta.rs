//! Metadata of an entry: everything about it but its name and its content.

/// A point in time, in nanosecond steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds past `secs`.
    pub nanos: u32,
}

/// An extended attribute's name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// Permissions, owner, time and extended attributes of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits, with setuid, setgid and sticky: `st_mode & 0o7777`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of last modification.
    pub mtime: Time,
    /// Extended attributes, ACLs among them, ordered by name.
    pub xattrs: Vec<Xattr>,
}

/// A range of a file that is a hole: it reads as zeros and takes no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// First byte.
    pub start: u64,
    /// Length of the hole, in bytes.
    pub bytes: u64,
}

impl Hole {
    /// Adds the hole from `start` to `end`, if there is one, behind others. What has no data before it goes on with the last.
    pub fn add(holes: &mut Vec<Hole>, start: u64, end: u64) {
        match holes.last_mut() {
            _ if end <= start => {}
            Some(last) if last.start + last.bytes == start => last.bytes += end - start,
            _ => holes.push(Hole { start, bytes: end - start }),
        }
    }
}
