//! Sentences of the library with the flag or the command that leads further: the library knows neither.

pub mod step;

use std::{os::unix::ffi::OsStrExt, path::Path};

use parhelia_agent::briefing::GO_ON;
use parhelia_host::{
    DecisionRefusal, Error, MarkRefusal, MoveRefusal, Refusal,
    notice::{self, Idle, InterruptedRollback, Notice},
    safety::Safety,
};

use parhelia_screen::human;

use crate::caller;

/// An error, and the next step.
pub fn error(error: &Error) -> String {
    match error {
        Error::Refused(refusal) => self::refusal(refusal),
        Error::HalfRolledBack { safety, workspace, .. } => {
            let workspace = human::shell(workspace.as_os_str().as_bytes());
            format!(
                "{error}. `parhelia checkpoint diff {safety} {workspace}` shows what differs; \
                 `parhelia checkpoint restore {safety} --to {workspace} --in-place --delete` brings it back"
            )
        }
        error => error.to_string(),
    }
}

/// An error of the remote, and the next step.
pub fn remote(error: &parhelia_remote::Error) -> String {
    let next = match error {
        parhelia_remote::Error::NoRemote => "; `parhelia remote add URL` joins one",
        parhelia_remote::Error::HasRemote { .. } => "; `parhelia remote status` shows it, and another store can have another one",
        parhelia_remote::Error::NoBucket { .. } => "; check the URL: `parhelia remote add` makes one where none is",
        parhelia_remote::Error::TakenInBefore { .. } => {
            "; a store of its own can be cloned in which it is this one's (docs/remote.md)"
        }
        parhelia_remote::Error::OwnSlot { .. } => {
            "; `parhelia remote remove` leaves the bucket, and another machine removes the slot"
        }
        parhelia_remote::Error::Plain { .. } => "; --no-encryption says that this is meant",
        parhelia_remote::Error::Busy => "; it is done when `parhelia remote status` says so",
        _ => "",
    };
    format!("{error}{next}")
}

/// A notice, and the next step.
pub fn notice(notice: &Notice) -> String {
    let next = match notice {
        Notice::WouldRefuse(refusal) => return self::refusal(refusal),
        Notice::SafetyHolds(safety) => return safety_remark(safety),
        Notice::Damaged { checkpoint } => format!("; `parhelia checkpoint verify {checkpoint}` says where"),
        Notice::ThinnedMeanwhile { .. } => " (`parhelia log --kind checkpoint.deleted`)".into(),
        Notice::AgentEnded { session, .. } => format!(". To go on: parhelia session resume {session}"),
        Notice::Beside(notice::Overlap::Conversation { session }) => {
            format!("; `parhelia session resume {session}` goes on with that")
        }
        Notice::Unfinished(InterruptedRollback::RollbackInterrupted { target, .. }) => {
            format!("; `parhelia checkpoint rollback {target}` finishes it")
        }
        Notice::Unfinished(InterruptedRollback::RollbackGivenUp { target, .. }) => {
            format!(". `parhelia checkpoint rollback {target}` begins it anew")
        }
        Notice::Git(notice::Git::Gone { .. }) => {
            "; where the repository and the branch are there, `git worktree add --no-checkout NEW BRANCH` in it makes a new one: move NEW/.git \
             here; `git worktree repair` with this folder's path, and `git reset` here, do the rest"
                .into()
        }
        Notice::HooksSilent { .. } => "; `parhelia hooks status` shows each layer of settings".into(),
        Notice::HooksNotInstalled { agent } => format!("; `parhelia hooks install --agent {agent}` installs them"),
        Notice::NoPlugin { .. } => " (docs/agents.md, \"Another kind\")".into(),
        Notice::FolderKept { .. } => {
            beyond("; --dry-run shows what a restore there would change", "--other-folder changes it as well")
        }
        Notice::NotSecured { is_interrupted: false, .. } => {
            beyond("; --exclude PATTERN leaves paths as they are", "--no-safety restores without one")
        }
        Notice::RestoreMetDamage { checkpoint } => format!(
            "; `parhelia checkpoint verify {checkpoint} --deep` lists what is damaged, --exclude restores the rest, a mount shows it"
        ),
        Notice::ConversationGone { session } => {
            format!("; `parhelia session resume {session} --new-conversation` begins one that is told what is known")
        }
        Notice::NoNewConversation(Idle::NoPrompt) => "; give --prompt TEXT".into(),
        Notice::NoNewConversation(Idle::NoTerminal) => "; resume the session in one, or with --tmux".into(),
        Notice::OtherCommand { .. } => "; `parhelia session resume` asks about it at a terminal".into(),
        Notice::VariablesLeft { .. } => "; with --launch-variables, a resume sets them as the launch had them".into(),
        Notice::NotBriefed { session } => format!("; `parhelia session show {session}` says what is known"),
        _ => String::new(),
    };
    format!("{notice}{next}")
}

/// The flag that goes on where another machine or process may still be at work.
const TAKE_OVER: &str = "if that is over, --take-over does not wait for it";

/// A safe step, and behind it the flag that goes beyond it. An agent does what it reads, so that it reads the safe step alone.
fn beyond(safe: &str, flag: &str) -> String {
    match caller::is_agents() {
        true => format!("{safe}; anything beyond that is for a person to decide"),
        false => format!("{safe}; {flag}"),
    }
}

/// A refusal, and the next step.
pub fn refusal(refusal: &Refusal) -> String {
    format!("{refusal}{}", next_step(refusal))
}

fn name_of_gone(session: &str, workspace: &Path) -> String {
    let (folder, word) = (human::path(workspace.as_os_str().as_bytes()), human::shell(workspace.as_os_str().as_bytes()));
    format!(
        "; that folder is gone; give another name, or if it is {folder} by now, `parhelia session move {session} {word} --other-folder` says so"
    )
}

fn last_rolled_back(session: &str, place: Option<&str>) -> String {
    let place = place.map(|place| format!(" in {place}")).unwrap_or_default();
    format!("; the last one that was is session {session}{place}: `parhelia checkpoint undo {session}` undoes that")
}

fn next_step(refusal: &Refusal) -> String {
    match refusal {
        Refusal::NameIsTaken { session, is_gone: true, workspace, .. } => name_of_gone(session, workspace),
        Refusal::NameIsTaken { .. } => "; give another name, or that id to make a checkpoint of that one".into(),
        Refusal::HasEnded { .. } => "; `parhelia session run` begins another".into(),
        Refusal::OutOfReach { action: "pause", session, .. } => {
            format!("\n`parhelia session pause {session}` leaves the agent alone")
        }
        Refusal::AgentAlive { session } => {
            format!("; --leave-agent leaves it alone, and `parhelia session stop {session}` ends it")
        }
        Refusal::NoConversation { .. } => "; run it by itself, without `parhelia session run`".into(),
        Refusal::WorksUnseen { .. } => {
            "; leave that flag out, and give `--tmux --detach` to `session run`: the agent goes on in the background, and `parhelia session attach` returns to it".into()
        }
        Refusal::PromptOfNoAgent { session, .. } => format!("; `parhelia session resume {session}` runs it again as it was"),
        Refusal::WorksElsewhere { .. } => "; give `--workspace DIR` to `session run` in its place".into(),
        Refusal::ConversationUnseen { .. } => beyond("; `parhelia session list` shows who has it", TAKE_OVER),
        Refusal::AliveElsewhere { session, .. } => {
            beyond(&format!("; `parhelia session show {session}` says who has it"), TAKE_OVER)
        }
        Refusal::AliveHere { from, .. } => beyond(
            &format!("; `parhelia checkpoint rollback {from} --dry-run` shows what going back changes"),
            "with --stop in its place, it ends the agent and goes back",
        ),
        Refusal::TakenOver { session } => format!("; `parhelia session show {session}` says who"),
        Refusal::UnknownCommand { .. } => "; start it with `parhelia session run`".into(),
        Refusal::Decision(DecisionRefusal::Rejected { .. }) => beyond(
            "; `parhelia session review` shows what was rejected, and --from ID goes on from another",
            "--from-rejected from this one",
        ),
        Refusal::NotMounted { session, .. } => format!(
            ". Mount it, and try again; `parhelia session move {session} FOLDER` records another folder, and with --recreate-workspace \
             `session resume` restores the checkpoint's files there all the same"
        ),
        Refusal::WasMoved { session, to, .. } => format!(
            ". `parhelia session move {session} {}` records that, and everything goes on there; with --recreate-workspace `session resume` goes \
             on at the old path, where it restores a copy if nothing is there",
            human::shell(to.as_os_str().as_bytes())
        ),
        Refusal::Move(MoveRefusal::NotItsFolder { to, .. }) => beyond(
            "; `parhelia session list` shows the folder of each",
            &format!("with --other-folder it goes on in {to} all the same"),
        ),
        Refusal::NewNeedsPrompt => "; give --prompt TEXT".into(),
        Refusal::NobodyAsked { .. } => format!("; say what it is to do, such as --prompt '{GO_ON}'"),
        Refusal::HasFinished { .. } => "; give --yes to run it again".into(),
        Refusal::NoneRolledBack { last: Some((session, place)), .. } => last_rolled_back(session, place.as_deref()),
        Refusal::RestoredSince { newer, safety, .. } => format!(
            ": `parhelia checkpoint diff {newer}` shows what differs; `parhelia checkpoint restore {newer} --to . --in-place --delete` takes \
             that back, `parhelia checkpoint rollback {safety}` the rollback and all since"
        ),
        Refusal::SafetyDeleted { session, .. } => {
            let session = human::shell(session.as_bytes());
            format!("; `parhelia checkpoint list {session}` names those that are left")
        }
        Refusal::NothingToRollBack { target, .. } => {
            format!("; `parhelia checkpoint restore {target} --to DIR` takes the checkpoint out")
        }
        Refusal::LiveElsewhere { session, .. } => {
            beyond(&format!("; `parhelia session show {session}` says who has it"), TAKE_OVER)
        }
        Refusal::MustStop { .. } => "; give --files-only to leave the conversation alone, or --stop to end it".into(),
        Refusal::Unwritable { target, .. } => format!(
            "; `parhelia checkpoint rollback {target} --dry-run` names them all; without that, with --leave PATH for each or \
             --leave-unwritable, it puts the rest back"
        ),
        Refusal::CannotKeep { .. } => {
            beyond("; --exclude PATTERN leaves it as it is and restores the rest", "--no-safety overwrites it without a copy")
        }
        Refusal::GitOfAnother { root, .. } => beyond(
            "; --dry-run shows what would change",
            &format!(
                "`git config --global --add safe.directory {}` says that you trust it, and --any-git-state rolls the files back all the same \
                 (git itself is not touched)",
                human::shell(root.as_os_str().as_bytes())
            ),
        ),
        Refusal::GitUnknown { .. } | Refusal::GitState { .. } => beyond(
            "; --dry-run shows what would change, and `git status` what git is in the middle of",
            "--any-git-state rolls the files back all the same (git itself is not touched)",
        ),
        Refusal::OpenInStranger { .. } => ", or give --files-only".into(),
        Refusal::MayBeOpen { .. } => beyond("; --files-only leaves the conversation alone", TAKE_OVER),
        Refusal::OtherFolder { checkpoint, .. } => {
            beyond("; --dry-run shows what would change", &format!("--other-folder restores {checkpoint} there all the same"))
        }
        Refusal::Mark(MarkRefusal::IsProtected { checkpoint, .. }) => {
            beyond(&format!("; `parhelia checkpoint show {checkpoint}` says by what"), "--protected deletes it all the same")
        }
        Refusal::Decision(DecisionRefusal::AlreadyDecided { checkpoint, .. }) => {
            beyond(&format!("; `parhelia checkpoint show {checkpoint}` has the reason"), "--change decides otherwise")
        }
        Refusal::Decision(DecisionRefusal::MayNotDecide { .. }) => {
            let safe = "; a person decides from a terminal of their own";
            let allowed = "; `approval.self_approval` in your parhelia.toml allows it";
            format!("{safe}{}", if caller::is_agents() { "" } else { allowed })
        }
        Refusal::Decision(
            DecisionRefusal::MayNotAct { .. }
            | DecisionRefusal::MayNotDelete { .. }
            | DecisionRefusal::MayNotPrune { .. }
            | DecisionRefusal::MayNotUnmark { .. },
        ) => "; a person does that from a terminal of their own".into(),
        Refusal::Mark(MarkRefusal::NotTagged { tag, .. }) => {
            format!("; `parhelia checkpoint tags {}` says which checkpoint has it", human::shell(tag.as_bytes()))
        }
        Refusal::Mark(MarkRefusal::NoTag { .. }) => "; `parhelia checkpoint tags` lists those in use".into(),
        Refusal::NothingToRecover => "; `parhelia session list` shows all".into(),
        _ => String::new(),
    }
}

/// A safety checkpoint, and how to get back to it.
pub fn safety_remark(safety: &Safety) -> String {
    let bytes = safety.folder.as_os_str().as_bytes();
    let (id, folder, to) = (&safety.id, human::path(bytes), human::shell(bytes));
    match safety.is_rest {
        false => format!(
            "Safety checkpoint of {folder} (session {}): {id}; `parhelia checkpoint diff {id} {to}` shows what differs from it, and `parhelia checkpoint restore {id} --to {to} --in-place --delete` goes back to it.",
            safety.session
        ),
        true => format!(
            "What that leaves out and was overwritten: {id}; `parhelia checkpoint restore {id} --to {to} --in-place` brings it back."
        ),
    }
}

#[cfg(test)]
mod tests {
    use parhelia_store::id::Ulid;

    use super::*;

    #[test]
    fn a_rollback_that_is_half_done_is_said_with_the_command_that_brings_everything_back() {
        let refused = |session: &str| Box::new(Error::from(Refusal::HasEnded { session: session.into() }));
        let (why, back) = (refused("a"), refused("b"));
        let half = Error::HalfRolledBack { target: Ulid::nil(), safety: Ulid::nil(), workspace: "/my work".into(), why, back };
        let text = error(&half);
        let command = format!("`parhelia checkpoint restore {} --to '/my work' --in-place --delete`", Ulid::nil());
        assert!(text.starts_with("the rollback of /my work") && text.contains(&command), "{text}");
    }

    #[test]
    fn a_repository_of_another_user_is_told_with_what_git_wants() {
        let text = refusal(&Refusal::GitOfAnother { root: "/a b".into(), uid: 7 });
        let (look, trust) = (text.find("--dry-run"), text.find("`git config --global --add safe.directory '/a b'`"));
        assert!(look.is_some() && look < trust && text.contains("uid 7"), "{text}");
    }

    #[test]
    fn a_notice_of_what_would_be_refused_has_the_same_way_out() {
        let refusal = Refusal::MustStop { session: "s".into(), process: 7 };
        assert_eq!(notice(&Notice::WouldRefuse(refusal.clone())), self::refusal(&refusal));
        assert!(self::refusal(&refusal).ends_with("give --files-only to leave the conversation alone, or --stop to end it"));
    }
}
