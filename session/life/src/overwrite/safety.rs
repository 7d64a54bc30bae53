//! Safety checkpoints of what is about to be overwritten.

use parhelia_store::name::step::Step;
use std::{
    collections::BTreeSet,
    ops::Bound,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_agent::environment;
use parhelia_ledger::{Session, kind};
use parhelia_store::{
    Store, create,
    event::NewEvent,
    name,
    omitted::{Omission, Reason},
    record::{Cause, Checkpoint, Rules, SAFETY, Trigger},
};

use crate::checkpoint::{self, CheckpointRequest, Conversation};
use parhelia_host::{Error, Host, Observer, Refusal, Result, config::Config, run};
use parhelia_oversight::scan;

/// A safety checkpoint that is asked for.
pub struct SafetyRequest<'a> {
    /// The session that it belongs to.
    pub session: &'a Session,
    /// The folder that is about to be changed.
    pub workspace: &'a Path,
    /// Its cause, one of those of safety checkpoints.
    pub cause: Cause,
    /// The reason, for whoever looks at it later.
    pub message: String,
    /// The rules by which entries are left out; none for the configuration's.
    pub rules: Option<Rules>,
    /// The conversation to capture beside the folder.
    pub conversation: Conversation,
    /// The places to look at for the agent's environment; none where no agent has worked in the session.
    pub environment: Option<environment::Request>,
    /// The configuration in force for the folder.
    pub settings: &'a Config,
}

/// Makes a safety checkpoint, and verifies it. Nothing may be overwritten where this fails.
pub fn safety(store: &Store, host: &dyn Host, wanted: SafetyRequest<'_>, observer: &dyn Observer) -> Result<Checkpoint> {
    let request = CheckpointRequest {
        trigger: Trigger::Manual,
        cause: wanted.cause,
        detail: Some(SAFETY.to_owned()),
        message: Some(wanted.message),
        rules: wanted.rules,
        conversation: wanted.conversation,
        tmux: run::tmux_of(store, wanted.session)?,
        environment: wanted.environment,
        thins: false,
        ..CheckpointRequest::new(&wanted.session.id, wanted.workspace, wanted.settings)
    };
    let made = checkpoint::make(store, host, &request, observer)?;
    let safety = made.outcome.checkpoint;
    match made.verified.transpose()? {
        Some(report) if !report.is_ok() => Err(Error::Damaged(format!(
            "the safety checkpoint {} is damaged, and nothing was changed; {} mends the store",
            safety.id(),
            Step::Repair
        ))),
        _ => Ok(safety),
    }
}

/// Makes safety checkpoints that together hold everything at `paths`: a whole one, and where that leaves some of it out a second one with
/// those paths alone. Neither holds files that the user has left out because of possible secrets: the caller keeps them. Refuses what cannot
/// be read.
pub fn secure(
    store: &Store,
    host: &dyn Host,
    wanted: SafetyRequest<'_>,
    paths: &[PathBuf],
    observer: &dyn Observer,
) -> Result<Vec<Checkpoint>> {
    let (workspace, actor, cause, message) = (wanted.workspace.to_owned(), host.actor(), wanted.cause, wanted.message.clone());
    let judge = scan::judge(store, &wanted.settings.secrets)?;
    let session = wanted.session.id.clone();
    let whole = safety(store, host, wanted, observer)?;
    // An empty path stands for the whole folder, which is replaced together with one that contains it.
    let inside = paths.iter().map(|path| path.strip_prefix(&workspace).unwrap_or(Path::new(""))).collect();
    let omissions: Vec<Omission> = store.omissions(&whole)?.into_iter().filter(|omission| !scan::is_left_out(omission)).collect();
    let left_out = left_out(&omissions, &inside, &store.secrets().reason);
    if left_out.is_empty() {
        return Ok(vec![whole]);
    }
    let options = create::Options {
        workspace: workspace.clone(),
        session,
        actor,
        trigger: Trigger::Manual,
        cause,
        trigger_detail: Some(SAFETY.to_owned()),
        message: Some(format!("{message}: what the checkpoint of all leaves out")),
        rules: Rules { defaults: false, listed_only: true, ..Rules::default() },
        listed: Some(left_out),
        judge,
        keeps_place: true,
        of_another_folder: whole.record.is_of_another_folder(),
        ..create::Options::default()
    };
    let head = NewEvent::new(kind::SESSION_HEAD, &options.session, host.actor()).with("checkpoint", whole.id());
    let rest = create::run(store, &options, observer)?.checkpoint;
    // What comes next follows the whole one: of this nobody goes on.
    store.append_events(&[head], observer)?;
    let unreadable = store.omissions(&rest)?.into_iter().find_map(|omission| match omission.reason {
        Reason::Unreadable(why) | Reason::Attributes(why) => Some((omission.path, why)),
        _ => None,
    });
    match unreadable {
        None => Ok(vec![whole, rest]),
        Some((path, why)) => Err(Refusal::CannotKeep { path: name::display(&path), why }.into()),
    }
}

/// The paths that a checkpoint left out and that are at one of `paths`, above it, or below it. A file that kept changing is in the
/// checkpoint, and `secrets`, the reason that credentials are left out for, keeps them from being overwritten.
fn left_out(omissions: &[Omission], paths: &BTreeSet<&Path>, secrets: &str) -> Vec<Vec<u8>> {
    let is_left_out = |omission: &&Omission| match &omission.reason {
        Reason::Excluded(rule) => rule != secrets,
        Reason::Unreadable(_) | Reason::Attributes(_) => true,
        Reason::Changing => false,
    };
    let mut found = BTreeSet::new();
    for omission in omissions.iter().filter(is_left_out) {
        let path = name::as_path(&omission.path);
        if path.ancestors().any(|above| paths.contains(above)) {
            found.insert(path);
        }
        // In the order of paths, what is in a folder comes right behind it.
        let from_here = paths.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
        found.extend(from_here.copied().take_while(|below| below.starts_with(path)));
    }
    found.into_iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_checkpoint_left_out_is_known_by_the_paths_that_go() {
        let omission = |path: &str, reason: Reason| Omission { path: path.into(), reason };
        let omissions = [
            omission("a/node_modules", Reason::Excluded("defaults".into())),
            omission("b/target", Reason::Excluded("defaults".into())),
            omission("c", Reason::Unreadable("no".into())),
            omission("d", Reason::Changing),
            omission("a/key", Reason::Excluded("credentials".into())),
        ];
        let of = |paths: &[&str]| -> Vec<String> {
            let paths = paths.iter().map(Path::new).collect();
            let found = left_out(&omissions, &paths, "credentials");
            found.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
        };
        assert_eq!(of(&["a/node_modules/x/y", "b/target2", "d"]), ["a/node_modules/x/y"]);
        assert_eq!(of(&["a", "b/target", "c"]), ["a/node_modules", "b/target", "c"]);
        assert_eq!(of(&[""]), ["a/node_modules", "b/target", "c"]);
        assert!(of(&["e", "a/key"]).is_empty());
    }
}
