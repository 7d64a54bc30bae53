//! Extended attributes of live entries. They are read as far as they can be: an attribute that cannot costs nobody the entry.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::{
    fs::XattrFlags,
    io::{Errno, Result},
};

use crate::{
    errno::{self, Call, Presence, Verdict},
    kernel::by_name,
    meta::Xattr,
    name, sys,
};

/// A list of attributes is not read that is longer than this, in bytes; nor is an attribute.
const BYTES_MAX: usize = 1 << 24;
/// An interrupted call is made again this often.
const INTERRUPTIONS_MAX: u32 = 16;

/// The extended attributes of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Those that were read, ordered by name.
    pub known: Vec<Xattr>,
    /// Attributes that could not be read; without a name, the list of them.
    pub unread: Vec<(Option<Vec<u8>>, Errno)>,
}

impl Attributes {
    /// True if all were read.
    pub fn are_complete(&self) -> bool {
        self.unread.is_empty()
    }

    /// The reason for which some were not read, in words. `None` if all were.
    pub fn why_unread(&self) -> Option<String> {
        let one = |(attribute, errno): &(Option<Vec<u8>>, Errno)| {
            let why = match *errno {
                Errno::NOSYS => "this needs /proc, or Linux 6.13".to_owned(),
                errno => std::io::Error::from(errno).to_string(),
            };
            match attribute {
                Some(attribute) => format!("{}: {why}", name::display(attribute)),
                None => format!("the list of attributes: {why}"),
            }
        };
        (!self.are_complete()).then(|| self.unread.iter().map(one).collect::<Vec<_>>().join("; "))
    }

    fn unlisted(errno: Errno) -> Self {
        Attributes { known: Vec::new(), unread: vec![(None, errno)] }
    }
}

/// A call that fills a buffer, and says how many bytes of it.
type Fill<'c> = dyn Fn(&mut [u8]) -> Result<usize> + 'c;
/// A call that fills a buffer with the attribute of a name.
type FillNamed<'c> = dyn Fn(&[u8], &mut [u8]) -> Result<usize> + 'c;

/// Calls that read attributes of one entry.
struct Calls<'c> {
    list: &'c Fill<'c>,
    get: &'c FillNamed<'c>,
}

impl Calls<'_> {
    fn names(&self) -> Result<Vec<Vec<u8>>> {
        let listed = match grow(self.list) {
            Err(e) if errno::verdict(Call::ReadAttributes, e, Presence::Unknown) == Verdict::None => Vec::new(),
            listed => listed?,
        };
        Ok(listed.split(|b| *b == 0).filter(|name| !name.is_empty()).map(<[u8]>::to_vec).collect())
    }

    fn read(&self) -> Attributes {
        let names = match self.names() {
            Ok(names) => names,
            Err(e) => return Attributes::unlisted(e),
        };
        let mut found = Attributes::default();
        for name in names {
            match grow(&|buffer| (self.get)(&name, buffer)) {
                Ok(value) => found.known.push((name, value)),
                // It went between the list and the read, unless it is listed still.
                Err(Errno::NODATA) if self.names().is_ok_and(|names| !names.contains(&name)) => {}
                Err(e) => found.unread.push((Some(name), e)),
            }
        }
        found.known.sort_unstable();
        found.unread.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        found
    }
}

/// Calls `read` with a longer buffer until what there is fits.
fn grow(read: &Fill<'_>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 512];
    let mut interrupted = 0;
    loop {
        match read(&mut buffer) {
            Ok(filled) => {
                buffer.truncate(filled);
                return Ok(buffer);
            }
            Err(Errno::INTR) if interrupted < INTERRUPTIONS_MAX => interrupted += 1,
            Err(Errno::RANGE) if buffer.len() < BYTES_MAX => buffer.resize(buffer.len() * 8, 0),
            Err(e) => return Err(e),
        }
    }
}

/// The attributes of an open file or folder.
pub fn of_open(fd: BorrowedFd<'_>) -> Attributes {
    let list = |buffer: &mut [u8]| rustix::fs::flistxattr(fd, buffer);
    let get = |name: &[u8], buffer: &mut [u8]| rustix::fs::fgetxattr(fd, name, buffer);
    Calls { list: &list, get: &get }.read()
}

/// The attributes of an entry that is not opened, such as a symlink or a fifo.
pub fn of_entry(folder: BorrowedFd<'_>, name: &[u8]) -> Attributes {
    read_by(Way::best(), folder, name)
}

fn read_by(way: Way, folder: BorrowedFd<'_>, name: &[u8]) -> Attributes {
    match way {
        Way::Name => {
            let list = |buffer: &mut [u8]| by_name::list_xattrs_at(folder, name, buffer);
            let get = |attribute: &[u8], buffer: &mut [u8]| by_name::get_xattr_at(folder, name, attribute, buffer);
            Calls { list: &list, get: &get }.read()
        }
        Way::Proc => {
            let path = proc_path(folder, name);
            let list = |buffer: &mut [u8]| rustix::fs::llistxattr(path.as_slice(), buffer);
            let get = |name: &[u8], buffer: &mut [u8]| rustix::fs::lgetxattr(path.as_slice(), name, buffer);
            Calls { list: &list, get: &get }.read()
        }
        Way::Opened => match sys::stat_at(folder, name) {
            // Opening anything else may have effects of its own.
            Ok(stat) if stat.is_file() || stat.is_folder() => match sys::open_file_at(folder, name) {
                Ok(fd) => of_open(std::os::fd::AsFd::as_fd(&fd)),
                Err(e) => Attributes::unlisted(e),
            },
            Ok(_) => Attributes::unlisted(Errno::NOSYS),
            Err(e) => Attributes::unlisted(e),
        },
    }
}

/// Sets an attribute of an entry that is not opened.
pub fn set(folder: BorrowedFd<'_>, name: &[u8], attribute: &[u8], value: &[u8]) -> Result<()> {
    match Way::best() {
        Way::Name => by_name::set_xattr_at(folder, name, attribute, value),
        Way::Proc => rustix::fs::lsetxattr(proc_path(folder, name), attribute, value, XattrFlags::empty()),
        Way::Opened => Err(Errno::NOSYS),
    }
}

/// Removes an attribute of an entry that is not opened.
pub fn remove(folder: BorrowedFd<'_>, name: &[u8], attribute: &[u8]) -> Result<()> {
    match Way::best() {
        Way::Name => by_name::remove_xattr_at(folder, name, attribute),
        Way::Proc => rustix::fs::lremovexattr(proc_path(folder, name), attribute),
        Way::Opened => Err(Errno::NOSYS),
    }
}

/// Ways to the attributes of an entry that is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By its folder and its name.
    Name,
    /// By a path through `/proc`.
    Proc,
    /// By opening it, which only files and folders allow.
    Opened,
}

impl Way {
    fn best() -> Self {
        match (by_name::has_xattrs_at(), sys::has_proc()) {
            (true, _) => Way::Name,
            (false, true) => Way::Proc,
            (false, false) => Way::Opened,
        }
    }
}

/// A path that names an entry of an open folder without following it, for calls that have no variant relative to a folder.
fn proc_path(folder: BorrowedFd<'_>, name: &[u8]) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs, os::fd::AsFd};

    use super::*;

    #[test]
    fn each_way_reads_the_same_and_the_last_one_says_what_it_cannot() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let folder = fs::File::open(dir.path()).unwrap();
        let expected = |value: &[u8]| Attributes { known: vec![(b"trusted.a".to_vec(), value.to_vec())], unread: Vec::new() };
        let long = vec![7; 3000];
        for name in [&b"file"[..], b"link"] {
            set(folder.as_fd(), name, b"trusted.a", &long).unwrap();
            for way in [Way::Name, Way::Proc] {
                if way == Way::Name && !by_name::has_xattrs_at() {
                    continue;
                }
                assert_eq!(read_by(way, folder.as_fd(), name), expected(&long), "{way:?}");
            }
        }
        assert_eq!(read_by(Way::Opened, folder.as_fd(), b"file"), expected(&long));
        let unread = read_by(Way::Opened, folder.as_fd(), b"link");
        assert_eq!(unread, Attributes::unlisted(Errno::NOSYS));
        assert_eq!(unread.why_unread().unwrap(), "the list of attributes: this needs /proc, or Linux 6.13");
        remove(folder.as_fd(), b"link", b"trusted.a").unwrap();
        assert_eq!(of_entry(folder.as_fd(), b"link"), Attributes::default());
    }

    #[test]
    fn one_attribute_that_cannot_be_read_leaves_the_others() {
        let listed = Cell::new(0);
        let fill = |buffer: &mut [u8], bytes: &[u8]| {
            buffer.get_mut(..bytes.len()).ok_or(Errno::RANGE)?.copy_from_slice(bytes);
            Ok(bytes.len())
        };
        let list = |buffer: &mut [u8]| {
            listed.set(listed.get() + 1);
            // `gone` is there when it is listed first.
            fill(buffer, if listed.get() == 1 { b"good\0bad\0gone\0stays\0" } else { b"good\0bad\0stays\0" })
        };
        let get = |name: &[u8], buffer: &mut [u8]| match name {
            b"good" => fill(buffer, b"value"),
            b"bad" => Err(Errno::NOENT),
            _ => Err(Errno::NODATA),
        };
        let found = Calls { list: &list, get: &get }.read();
        assert_eq!(found.known, [(b"good".to_vec(), b"value".to_vec())]);
        assert_eq!(found.unread, [(Some(b"bad".to_vec()), Errno::NOENT), (Some(b"stays".to_vec()), Errno::NODATA)]);
        assert!(found.why_unread().unwrap().starts_with("bad: No such file"));
        let get = |_: &[u8], _: &mut [u8]| Ok(0);
        for (errno, is_complete) in [(Errno::OPNOTSUPP, true), (Errno::TOOBIG, false), (Errno::NOENT, false)] {
            assert_eq!(Calls { list: &move |_| Err(errno), get: &get }.read().are_complete(), is_complete, "{errno}");
        }
    }
}
