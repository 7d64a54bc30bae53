//! A journaled ext4 filesystem in a file, mounted for the time of a run.
//!
//! Without one the figures depend on what the machine's own filesystem is and what was deleted on
//! it before.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;

use crate::error::{Context, Error, Result};
use crate::process::{self, remove, run};

/// The place where everything of a run happens; gone when this value is dropped.
#[derive(Debug)]
pub struct Place {
    /// The folder to work in.
    pub root: PathBuf,
    image: Option<PathBuf>,
    _lock: File,
}

impl Place {
    /// Makes and mounts an image of `gib` GiB (the file is sparse), with room for so many `inodes`, in the folder `dir`.
    pub fn image(dir: &Path, gib: u64, inodes: Option<u64>) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::new(
                "mounting the image needs root; run as root, or try the harness with --no-image \
                 (whose figures are worth little)",
            ));
        }
        process::need(&["mkfs.ext4", "mount", "umount"])?;
        let lock = lock(dir)?;
        let (root, image) = (dir.join("side-by-side"), dir.join("side-by-side.img"));
        clear(&root, Some(&image))?;
        process::make_dir(&root)?;
        let file = File::create(&image).context(|| format!("create {}", image.display()))?;
        file.set_len(gib << 30).context(|| format!("size {}", image.display()))?;
        // From here on, dropping `place` cleans up.
        let place = Self { root, image: Some(image.clone()), _lock: lock };
        let mut mkfs = Command::new("mkfs.ext4");
        mkfs.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
        if let Some(inodes) = inodes {
            mkfs.args(["-N", &inodes.to_string()]);
        }
        run(mkfs.arg(&image))?;
        run(Command::new("mount").args(["-o", "loop,noatime"]).arg(&image).arg(&place.root))?;
        Ok(place)
    }

    /// A plain folder in `dir`, for trying the harness.
    pub fn folder(dir: &Path) -> Result<Self> {
        let lock = lock(dir)?;
        let root = dir.join("side-by-side");
        clear(&root, None)?;
        process::make_dir(&root)?;
        Ok(Self { root, image: None, _lock: lock })
    }

    /// True if this is an image of its own.
    pub fn is_image(&self) -> bool {
        self.image.is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = clear(&self.root, self.image.as_deref()) {
            eprintln!("side-by-side: cleaning up: {}", error.chain());
        }
    }
}

fn lock(dir: &Path) -> Result<File> {
    process::make_dir(dir)?;
    if dir.to_str().is_none() {
        return Err(Error::new("the benchmark folder's path must be UTF-8"));
    }
    let path = dir.join("side-by-side.lock");
    let file = File::create(&path).context(|| format!("create {}", path.display()))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
        .context(|| format!("another side-by-side run holds {}", path.display()))?;
    Ok(file)
}

/// Unmounts and removes what this or an earlier, killed run left.
fn clear(root: &Path, image: Option<&Path>) -> Result<()> {
    while is_mounted(root)? {
        let mut umount = Command::new("umount");
        if run(umount.arg(root)).is_err() {
            run(Command::new("umount").arg("--lazy").arg(root))?;
        }
    }
    remove(root)?;
    image.map_or(Ok(()), remove)
}

/// Checks whether something is mounted exactly here.
fn is_mounted(root: &Path) -> Result<bool> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").context(|| "read the mounts")?;
    let root = root.to_string_lossy();
    Ok(mounts.lines().any(|line| line.split(' ').nth(4).map(unescape).as_deref() == Some(&*root)))
}

/// The kernel writes spaces in a mount's path as `\040`.
fn unescape(path: &str) -> String {
    path.replace("\\040", " ")
}
