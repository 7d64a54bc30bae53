//! Attaching a filesystem to a mountpoint, and answering the kernel in threads of its own.

#![expect(clippy::disallowed_methods, reason = "opens the kernel's device")]

use parhelia_store::name::step::Step;
use std::{
    ffi::CString,
    fs::{self, File},
    io,
    mem::{self, ManuallyDrop},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::Path,
    thread::{self, JoinHandle},
};

use fuser::{Config, MountOption, Notifier, Session, SessionACL};
use rustix::{
    io::Errno,
    mount::{MountFlags, mount},
};

use crate::{
    error::{Error, Result},
    kernel::requests::FuseServer,
    mount::{Options, identity::Identity, unmount::detach_if},
};

/// The source that `mount` and `/proc/self/mountinfo` show.
const SOURCE: &str = "parhelia";
const DEVICE: &str = "/dev/fuse";

/// A filesystem that is mounted, but does not answer yet.
pub(crate) struct KernelMount {
    /// The identity of the mount.
    pub(crate) identity: Identity,
    session: Session<FuseServer>,
    /// True if `fusermount3` mounted it.
    by_helper: bool,
}

impl KernelMount {
    /// Mounts a filesystem: by the system call where we may, by `fusermount3` where only it may.
    pub(crate) fn new(filesystem: FuseServer, mountpoint: &Path, options: &Options) -> Result<Self> {
        let refused = |source| refused(mountpoint, source, options);
        let config = config(options);
        let (session, by_helper) = match attach(mountpoint, options).map_err(refused)? {
            Some(device) => {
                let identity = Identity::at(mountpoint).map_err(refused)?;
                let session = Session::from_fd(filesystem, device, config.acl, config).inspect_err(|_| {
                    let _ = detach_if(mountpoint, |_, found| found == identity);
                });
                (session, false)
            }
            None => (Session::new(filesystem, mountpoint, &config), true),
        };
        let session = session.map_err(refused)?;
        let identity = Identity::at(mountpoint).map_err(refused)?;
        Ok(KernelMount { identity, session, by_helper })
    }

    /// A descriptor of its own of the connection to the kernel.
    pub(crate) fn device(&self) -> io::Result<OwnedFd> {
        self.session.as_fd().try_clone_to_owned()
    }

    /// The means to tell the kernel of changes.
    pub(crate) fn notifier(&self) -> Notifier {
        self.session.notifier()
    }

    /// Answers the kernel in threads of its own, until the session ends.
    pub(crate) fn serve(self, mountpoint: &Path) -> Result<JoinHandle<io::Result<()>>> {
        let failed = |source| Error::Io { action: "start a thread for", path: mountpoint.to_owned(), source };
        if !self.by_helper {
            return Ok(self.session.spawn().map_err(failed)?.guard);
        }
        // A session that fuser has mounted unmounts its mountpoint when it is over, whatever is mounted there by then. So its handle is
        // taken from it, and the rest is forgotten: with it stays one descriptor of a connection that is over.
        let stand_in = thread::Builder::new().spawn(|| Ok(())).map_err(failed)?;
        let mut session = ManuallyDrop::new(self.session.spawn().map_err(failed)?);
        Ok(mem::replace(&mut session.guard, stand_in))
    }
}

/// Mounts by the system call. Returns the connection to the kernel; `None` where this user may not mount.
fn attach(mountpoint: &Path, options: &Options) -> io::Result<Option<OwnedFd>> {
    let device = File::options().read(true).write(true).open(DEVICE)?;
    let mode = fs::metadata(mountpoint)?.permissions().mode();
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let fd = device.as_raw_fd();
    let mut data = format!("fd={fd},rootmode={mode:o},user_id={user},group_id={group},default_permissions,subtype={SOURCE}");
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let flags = MountFlags::RDONLY | MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID;
    match mount(SOURCE, mountpoint, "fuse", flags, CString::new(data)?.as_c_str()) {
        Ok(()) => Ok(Some(device.into())),
        Err(Errno::PERM) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Fails, with the next step, where this user may not use FUSE at all.
pub(crate) fn check_device() -> Result<()> {
    let hint = |e: &io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root may mount here; to let users, `chmod 666 /dev/fuse` as root (udev rules make it last), \
             and install fuse3 for fusermount3"
        }
        _ => "load the module with `modprobe fuse` as root; in a container, give it the device (--device /dev/fuse)",
    };
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::NoFuse { hint: hint(&source), source }),
    }
}

/// True if fusermount3, which mounts for users, is installed.
fn has_helper() -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join("fusermount3").exists())
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoAtime,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::DefaultPermissions,
        MountOption::FSName(SOURCE.into()),
        // As a custom option it reaches the kernel by both ways of mounting.
        MountOption::CUSTOM(format!("subtype={SOURCE}")),
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(2, usize::from).min(8),
        n => n,
    };
    config.n_threads = Some(threads.max(2));
    config
}

fn refused(mountpoint: &Path, source: io::Error, options: &Options) -> Error {
    let said = source.to_string();
    let hint = if said.contains("user_allow_other") {
        format!("; let root add `user_allow_other` to /etc/fuse.conf, or mount without {}", Step::AllowOther)
    } else if !has_helper() && !rustix::process::geteuid().is_root() {
        "; install fuse3 for fusermount3, by which users mount".to_owned()
    } else if options.allow_other {
        format!("; {} may be what is refused", Step::AllowOther)
    } else {
        String::new()
    };
    Error::Refused { mountpoint: mountpoint.to_owned(), source, hint }
}
