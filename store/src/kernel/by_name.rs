//! Calls at an entry by its folder and name that no library wraps: attributes of what cannot be opened (Linux 6.13), and the mode of what was
//! only found (Linux 6.6). Before that, a path through `/proc/self/fd` leads there, where that is mounted.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    os::fd::{AsRawFd, BorrowedFd},
    sync::OnceLock,
};

use rustix::{
    fs::{AtFlags, CWD},
    io::{Errno, Result},
};

/// Numbers of calls, which newer ones have in common on every architecture.
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const GETXATTRAT: libc::c_long = 464;
const LISTXATTRAT: libc::c_long = 465;
const REMOVEXATTRAT: libc::c_long = 466;

/// `struct xattr_args` of `linux/xattr.h`.
#[repr(C, align(8))]
struct XattrArgs {
    value: u64,
    size: u32,
    flags: u32,
}

fn result(returned: libc::c_long) -> Result<usize> {
    match usize::try_from(returned) {
        Ok(value) => Ok(value),
        Err(_) => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

fn text(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

const NOFOLLOW: libc::c_int = AtFlags::SYMLINK_NOFOLLOW.bits() as libc::c_int;

/// True if the kernel has the calls for attributes below, and lets this process make them: sandboxes refuse what they do not know.
pub fn has_xattrs_at() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| !matches!(list_xattrs_at(CWD, b"/", &mut []), Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS)))
}

/// The names of the attributes of an entry, which is not followed, each with a NUL behind it.
pub fn list_xattrs_at(folder: BorrowedFd<'_>, name: &[u8], buffer: &mut [u8]) -> Result<usize> {
    let name = text(name)?;
    // SAFETY: the kernel reads the name up to its NUL, and writes at most as many bytes as the buffer has.
    result(unsafe { libc::syscall(LISTXATTRAT, folder.as_raw_fd(), name.as_ptr(), NOFOLLOW, buffer.as_mut_ptr(), buffer.len()) })
}

/// An attribute of an entry, which is not followed.
pub fn get_xattr_at(folder: BorrowedFd<'_>, name: &[u8], attribute: &[u8], buffer: &mut [u8]) -> Result<usize> {
    let (name, attribute) = (text(name)?, text(attribute)?);
    let size = u32::try_from(buffer.len()).map_err(|_| Errno::INVAL)?;
    let args = XattrArgs { value: buffer.as_mut_ptr() as u64, size, flags: 0 };
    // SAFETY: the kernel reads both names up to their NULs and the arguments, and writes at most `size` bytes to the buffer.
    result(unsafe {
        libc::syscall(
            GETXATTRAT,
            folder.as_raw_fd(),
            name.as_ptr(),
            NOFOLLOW,
            attribute.as_ptr(),
            &raw const args,
            size_of::<XattrArgs>(),
        )
    })
}

/// Sets an attribute of an entry, which is not followed.
pub fn set_xattr_at(folder: BorrowedFd<'_>, name: &[u8], attribute: &[u8], value: &[u8]) -> Result<()> {
    let (name, attribute) = (text(name)?, text(attribute)?);
    let size = u32::try_from(value.len()).map_err(|_| Errno::INVAL)?;
    let args = XattrArgs { value: value.as_ptr() as u64, size, flags: 0 };
    // SAFETY: the kernel reads both names up to their NULs, the arguments, and `size` bytes of the value.
    let returned = unsafe {
        libc::syscall(
            SETXATTRAT,
            folder.as_raw_fd(),
            name.as_ptr(),
            NOFOLLOW,
            attribute.as_ptr(),
            &raw const args,
            size_of::<XattrArgs>(),
        )
    };
    result(returned).map(drop)
}

/// Removes an attribute of an entry, which is not followed.
pub fn remove_xattr_at(folder: BorrowedFd<'_>, name: &[u8], attribute: &[u8]) -> Result<()> {
    let (name, attribute) = (text(name)?, text(attribute)?);
    // SAFETY: the kernel reads both names up to their NULs.
    result(unsafe { libc::syscall(REMOVEXATTRAT, folder.as_raw_fd(), name.as_ptr(), NOFOLLOW, attribute.as_ptr()) }).map(drop)
}

/// Sets the mode of an entry that was found (`O_PATH`) and not opened. `NOSYS` before Linux 6.6.
pub fn chmod_found(found: BorrowedFd<'_>, mode: u32) -> Result<()> {
    let flags = AtFlags::EMPTY_PATH.bits() as libc::c_int;
    // SAFETY: the kernel reads an empty path, which ends with its NUL.
    result(unsafe { libc::syscall(FCHMODAT2, found.as_raw_fd(), c"".as_ptr(), mode, flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsFd, os::unix::fs::PermissionsExt};

    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn entries_are_reached_by_their_names_where_the_kernel_can() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let folder = fs::File::open(dir.path()).unwrap();
        let found = rustix::fs::openat(&folder, "file", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        match chmod_found(found.as_fd(), 0o640) {
            Err(Errno::NOSYS) => println!("NOT TESTED: this kernel has no fchmodat2"),
            done => {
                done.unwrap();
                assert_eq!(fs::metadata(dir.path().join("file")).unwrap().permissions().mode() & 0o777, 0o640);
            }
        }
        if !has_xattrs_at() {
            println!("NOT TESTED: this kernel has no getxattrat");
            return;
        }
        let mut buffer = [0; 64];
        for (name, attribute) in [(b"file", b"trusted.a"), (b"link", b"trusted.b")] {
            set_xattr_at(folder.as_fd(), name, attribute, b"value").unwrap();
            let listed = list_xattrs_at(folder.as_fd(), name, &mut buffer).unwrap();
            assert_eq!(&buffer[..listed], [&attribute[..], b"\0"].concat());
            let read = get_xattr_at(folder.as_fd(), name, attribute, &mut buffer).unwrap();
            assert_eq!(&buffer[..read], b"value");
            assert_eq!(get_xattr_at(folder.as_fd(), name, attribute, &mut buffer[..1]), Err(Errno::RANGE));
            remove_xattr_at(folder.as_fd(), name, attribute).unwrap();
            assert_eq!(get_xattr_at(folder.as_fd(), name, attribute, &mut buffer), Err(Errno::NODATA));
        }
        assert_eq!(list_xattrs_at(folder.as_fd(), b"none", &mut buffer), Err(Errno::NOENT));
        assert_eq!(list_xattrs_at(folder.as_fd(), b"a\0b", &mut buffer), Err(Errno::INVAL));
    }
}
