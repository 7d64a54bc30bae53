//! The identity of a process, by which no other one can be taken for it.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::Path,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext, Result};

/// A process of one boot of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its number.
    pub process: i32,
    /// Its start time, in the kernel's ticks since boot.
    pub start_time: u64,
    /// The boot that both are of.
    pub boot_id: String,
    /// The namespace that the number is of; earlier releases did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<String>,
}

/// The kernel's status of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub name: String,
    pub state: char,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub terminal: i32,
    pub start_time: u64,
}

impl Stat {
    /// `None` where there is no such process.
    pub fn of(process: i32) -> Option<Self> {
        let found = Self::parse(&fs::read(format!("/proc/{process}/stat")).ok()?)?;
        Some(Stat { start_time: found.start_time.wrapping_add_signed(-boot_offset().unwrap_or_default()), ..found })
    }

    /// The name stands in brackets and may hold anything, brackets and spaces too.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Stat {
            name: head.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            terminal: fields.get(4)?.parse().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }

    /// True if it has ended and only waits for its parent (a zombie).
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

impl Identity {
    /// The identity of a process that runs now.
    pub fn of(process: i32) -> Result<Self> {
        let missing = || {
            match Stat::of(std::process::id() as i32) {
            // Not even this one is seen.
            None => Error::Invalid(
                "cannot tell processes apart: /proc cannot be read; have a proc filesystem mounted there, of the namespace that this \
                 process is in"
                    .into(),
            ),
            Some(_) => Error::Invalid(format!("there is no process {process}")),
        }
        };
        let stat = Stat::of(process).ok_or_else(missing)?;
        Ok(Identity { process, start_time: stat.start_time, boot_id: boot_id()?, pid_namespace: pid_namespace() })
    }

    /// True if both are of the same process. One without a namespace matches any namespace.
    pub fn is_same(&self, other: &Self) -> bool {
        let namespaces = self.pid_namespace.as_ref().zip(other.pid_namespace.as_ref());
        (self.process, self.start_time, &self.boot_id) == (other.process, other.start_time, &other.boot_id)
            && namespaces.is_none_or(|(one, another)| one == another)
    }

    /// True if the process can be seen from here while it lives.
    pub fn is_visible(&self) -> bool {
        is_here(&self.boot_id, self.pid_namespace.as_deref())
    }

    /// True if exactly this process still runs.
    pub fn is_alive(&self) -> bool {
        let same = |stat: Stat| stat.start_time == self.start_time && !stat.has_ended();
        self.is_visible() && Stat::of(self.process).is_some_and(same)
    }

    /// The environment variables that the process was started with, in their order. Fails where it is gone, or is another user's.
    pub fn variables(&self) -> io::Result<Vec<(OsString, OsString)>> {
        let bytes = fs::read(format!("/proc/{}/environ", self.process))?;
        // Else the number may be another process's.
        match self.is_alive() {
            true => Ok(variables(&bytes)),
            false => Err(io::Error::new(io::ErrorKind::NotFound, "the process is gone")),
        }
    }
}

/// Variables as the kernel has them. A name may begin with `=`; words without a `=` are left out.
fn variables(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let pair = |word: &[u8]| {
        let at = word.iter().skip(1).position(|byte| *byte == b'=')? + 1;
        Some((OsString::from_vec(word[..at].to_vec()), OsString::from_vec(word[at + 1..].to_vec())))
    };
    bytes.split(|byte| *byte == 0).filter_map(pair).collect()
}

/// This process and those that it descends from, itself first.
pub fn ancestors() -> Vec<Identity> {
    line_of(std::process::id() as i32)
}

/// A process and those that it descends from, itself first; nothing of one that is gone.
pub fn line_of(process: i32) -> Vec<Identity> {
    let mut line: Vec<Identity> = Vec::new();
    let mut next = process;
    while next > 0
        && !line.iter().any(|known| known.process == next)
        && let Ok(identity) = Identity::of(next)
    {
        next = parent(next).unwrap_or(0);
        line.push(identity);
    }
    line
}

/// The parent of a process.
pub fn parent(process: i32) -> Option<i32> {
    Stat::of(process).map(|stat| stat.parent)
}

/// True if a process has a controlling terminal.
pub fn has_terminal(process: i32) -> bool {
    Stat::of(process).is_some_and(|stat| stat.terminal != 0)
}

/// True if standard input and output of a process are a terminal.
pub fn is_at_terminal(process: i32) -> bool {
    let is_terminal = |name: &Path| name.starts_with("/dev/pts") || name.to_string_lossy().starts_with("/dev/tty");
    (0..=1).all(|number| fs::read_link(format!("/proc/{process}/fd/{number}")).is_ok_and(|name| is_terminal(&name)))
}

/// The kernel's id of this boot.
pub fn boot_id() -> Result<String> {
    // It is asked for with each look at a process, and stays the same as long as this one lives.
    static KNOWN: OnceLock<String> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(known.clone());
    }
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let read = fs::read_to_string(path).at("read", path)?;
    Ok(KNOWN.get_or_init(|| read.trim().to_owned()).clone())
}

/// The kernel's name for the namespace in which this process's number counts.
pub fn pid_namespace() -> Option<String> {
    // A process stays in the one in which it began.
    static KNOWN: OnceLock<Option<String>> = OnceLock::new();
    KNOWN.get_or_init(|| fs::read_link("/proc/self/ns/pid").ok().map(|name| name.to_string_lossy().into_owned())).clone()
}

/// True if process numbers of this boot and namespace mean the processes that can be seen from here. If no namespace was recorded, the
/// boot decides.
pub fn is_here(boot: &str, namespace: Option<&str>) -> bool {
    boot_id().is_ok_and(|own| own == boot) && namespace.is_none_or(|namespace| pid_namespace().is_none_or(|own| own == namespace))
}

/// The name of the namespace that a machine begins with, and in which no container is.
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";

/// True of the namespace in which no container is.
pub fn is_initial(namespace: &str) -> bool {
    namespace == INITIAL_NAMESPACE
}

/// True if no process of this machine is hidden from here by a namespace: none has another number here, and none another start time that cannot be
/// told from the machine's own.
pub fn sees_all() -> bool {
    pid_namespace().is_none_or(|own| own == INITIAL_NAMESPACE) && boot_offset().is_some()
}

/// The kernel's ticks in a second, in `/proc`.
const TICKS: i64 = 100;

/// Ticks that a time namespace adds to the start times which are seen from here; none where that cannot be told. See time_namespaces(7).
fn boot_offset() -> Option<i64> {
    static KNOWN: OnceLock<Option<i64>> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let link = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
        // A kernel without such namespaces.
        let Some(own) = link("time") else { return Some(0) };
        // The offsets are those of the children's.
        (Some(own) == link("time_for_children")).then(|| offset_in(&fs::read_to_string("/proc/self/timens_offsets").ok()?))?
    })
}

/// The offset of the clock since boot, in ticks; none where it is no whole number of them, so that rounding hides the true one.
fn offset_in(offsets: &str) -> Option<i64> {
    let line = offsets.lines().map(str::split_whitespace).find(|line| line.clone().next() == Some("boottime"))?;
    let [seconds, nanoseconds]: [i64; 2] =
        line.skip(1).map_while(|word| word.parse().ok()).collect::<Vec<_>>().try_into().ok()?;
    let tick = 1_000_000_000 / TICKS;
    (nanoseconds % tick == 0).then(|| seconds.checked_mul(TICKS)?.checked_add(nanoseconds / tick))?
}

/// The start of this machine, as its clock has it now.
pub fn boot_time() -> Option<SystemTime> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// This machine over all its boots, as a hash of what it calls itself. None in a container, whose identity may be that of its image.
pub fn machine() -> Option<String> {
    if pid_namespace()? != INITIAL_NAMESPACE {
        return None;
    }
    let id = fs::read_to_string("/etc/machine-id").ok()?;
    let id = id.trim();
    (id.len() == 32)
        .then(|| blake3::derive_key("parhelia 2026 machine", id.as_bytes())[..16].iter().map(|b| format!("{b:02x}")).collect())
}

/// Host name of this machine, as `uname` gives it.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_confuse() {
        let rest = "S 7 8 9 34816 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let stat = Stat::parse(format!("42 (a) b (c)) {rest}").as_bytes()).unwrap();
        let (name, start_time) = ("a) b (c)".into(), 987_654);
        assert_eq!(stat, Stat { name, state: 'S', parent: 7, group: 8, session: 9, terminal: 34816, start_time });
        assert_eq!(Stat::parse(b"42 (a) S 7"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn the_offset_of_a_time_namespace_is_whole_ticks_or_not_known() {
        assert_eq!(offset_in("monotonic           1         0\nboottime            0         0\n"), Some(0));
        assert_eq!(offset_in("boottime -2 30000000\n"), Some(-197));
        for odd in ["boottime 1 1\n", "boottime 1\n", "", "boottime 9223372036854775807 0\n"] {
            assert_eq!(offset_in(odd), None, "{odd}");
        }
        assert_eq!(boot_offset(), Some(0));
    }

    #[test]
    fn variables_are_split_at_their_first_equals_sign() {
        let found = variables(b"KEY=a b\0EMPTY=\0ODD==x\0=hidden=1\0none\0");
        let found: Vec<_> = found.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
        assert_eq!(found, [("KEY", "a b"), ("EMPTY", ""), ("ODD", "=x"), ("=hidden", "1")]);
        let me = Identity::of(std::process::id() as i32).unwrap();
        assert!(me.variables().unwrap().iter().any(|(name, _)| name == "PATH"));
        assert!(Identity { start_time: me.start_time + 1, ..me }.variables().is_err());
    }

    #[test]
    fn an_identity_is_of_one_process_of_one_boot() {
        let me = Identity::of(std::process::id() as i32).unwrap();
        assert!(me.is_alive());
        assert!(!Identity { start_time: me.start_time + 1, ..me.clone() }.is_alive());
        assert!(!Identity { boot_id: "another".into(), ..me.clone() }.is_alive());
        assert!(Identity::of(i32::MAX).is_err());
    }

    #[test]
    fn a_process_that_nobody_waited_for_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let identity = Identity::of(child.id() as i32).unwrap();
        assert!(identity.is_alive());
        child.kill().unwrap();
        let fd = rustix::process::pidfd_open(
            rustix::process::Pid::from_raw(identity.process).unwrap(),
            rustix::process::PidfdFlags::empty(),
        )
        .unwrap();
        assert!(crate::program::is_readable_within(&fd, std::time::Duration::from_secs(20)));
        assert!(!identity.is_alive());
        child.wait().unwrap();
    }
}
