//! Persons and programs that act, as the kernel says: variables can be set by anybody.

use std::fs;

use nix::unistd::{Uid, User};
use parhelia_store::event::Actor;

/// The way by which somebody acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A call of the program at a command line.
    CommandLine,
    /// The service.
    Api,
    /// A program of an agent: whatever it does is not done by the person whose name it bears.
    Agent,
}

impl Via {
    /// Its name, as it is recorded.
    pub fn name(self) -> &'static str {
        match self {
            Via::CommandLine => "cli",
            Via::Api => "api",
            Via::Agent => "agent",
        }
    }
}

/// The actor behind a user's number, as it is seen from this process, and a process; of none, the login is not known.
pub fn actor(uid: u32, process: Option<i32>, via: Via) -> Actor {
    let uid = outside(uid);
    let login = process.and_then(login_uid).filter(|login| *login != uid).map(user_name);
    Actor { user: Some(user_name(uid)), via: via.name().into(), uid: Some(uid), login }
}

/// The home of the account that has a number here; none where the system knows no such account.
pub fn home_of(uid: u32) -> Option<std::path::PathBuf> {
    Some(User::from_uid(Uid::from_raw(outside(uid))).ok()??.dir)
}

/// The number that a user has outside of the user namespace that this process is in: inside, anybody can have any.
fn outside(uid: u32) -> u32 {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        Some((numbers.next()?, numbers.next()?, numbers.next()?))
    });
    let mut found = ranges.filter(|(inside, _, count)| uid >= *inside && uid - inside < *count);
    found.next().map_or(uid, |(inside, outside, _)| outside.saturating_add(uid - inside))
}

/// The name of a user, where the system knows one.
fn user_name(uid: u32) -> String {
    let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    known.map_or_else(|| format!("uid {uid}"), |user| user.name)
}

/// The number of the user who logged in, which stays when they become another one; none where nobody did, as in containers and daemons.
fn login_uid(process: i32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/loginuid")).ok()?;
    text.trim().parse().ok().filter(|uid| *uid != u32::MAX)
}
