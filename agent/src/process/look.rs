//! Facts about processes that the kernel tells, beside their identity.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use super::identity::{Identity, Stat};

/// The numbers of the processes that can be seen from here.
fn numbers() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The live processes that can be seen from here.
pub fn all() -> Vec<Identity> {
    let mut found: Vec<Identity> =
        numbers().filter_map(|process| Identity::of(process).ok()).filter(Identity::is_alive).collect();
    found.sort_by_key(|identity| identity.process);
    found
}

/// The live process that has a number in a container's namespace, and began at this time.
pub fn within_container(number: i32, start_time: u64) -> Option<Identity> {
    // The time leaves few of them, so that no more is read of the others.
    let began_then = numbers().filter(|process| Stat::of(*process).is_some_and(|stat| stat.start_time == start_time));
    let mut found = began_then.filter_map(|process| Identity::of(process).ok()).filter(Identity::is_alive);
    found.find(|identity| {
        let status = fs::read_to_string(format!("/proc/{}/status", identity.process)).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        identity.start_time == start_time
            && numbers.split_whitespace().skip(1).last().and_then(|text| text.parse().ok()) == Some(number)
    })
}

/// The command line of a process, as it has it now.
pub fn command_of(process: i32) -> Vec<OsString> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// The program that a process runs.
pub fn program_of(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/exe")).ok()
}

/// The folder that a process works in.
pub fn folder_of(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/cwd")).ok()
}

/// True if a process has one of these files open for writing. The paths are canonical.
pub fn writes_to(process: i32, files: &[PathBuf]) -> bool {
    let folder = PathBuf::from(format!("/proc/{process}/fd"));
    let open = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut open = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|path| files.contains(&path)));
    open.any(|entry| is_for_writing(process, Path::new(&entry.file_name())))
}

fn is_for_writing(process: i32, descriptor: &Path) -> bool {
    /// The bits of a descriptor's flags that tell reading from writing.
    const ACCESS: u32 = 0o3;
    let said = fs::read_to_string(Path::new(&format!("/proc/{process}/fdinfo")).join(descriptor)).unwrap_or_default();
    let flags = said.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|flags| flags & ACCESS != 0)
}
