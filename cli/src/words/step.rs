//! The commands and flags by which steps are taken that libraries name.

use std::{os::unix::ffi::OsStrExt, path::Path};

use parhelia_screen::human;
use parhelia_store::name::step::Step;

/// The command or the flag for a step.
pub fn name(step: &Step) -> String {
    let path = |path: &Path| human::shell(path.as_os_str().as_bytes());
    let words = match step {
        Step::Check => "check",
        Step::CheckData => "check --read-data",
        Step::Repair => "check --repair",
        Step::PlanRepair => "check --repair --dry-run",
        Step::RepairFrom(None) => "check --repair --from COPY",
        Step::RepairFrom(Some(from)) => &format!("check --repair --from {}", path(from)),
        Step::RepairOf(store) => &format!("--store {} check --repair", path(store)),
        Step::Salvage => "check --salvage",
        Step::SalvageOf(store) => &format!("--store {} check --salvage", path(store)),
        Step::RebuildIndex => "check --rebuild-index",
        Step::Init => "init",
        Step::InitAnew => "init --new",
        Step::AcceptOlder => "init --accept-older",
        Step::CopyFirst => "copy-store DEST --init",
        Step::CaptureFolder(word) => &format!("checkpoint create {}", human::shell(word.as_bytes())),
        Step::CaptureHere(word) => &format!("checkpoint create {} --workspace .", human::shell(word.as_bytes())),
        Step::CaptureFor => "checkpoint create SESSION --workspace DIR",
        Step::CaptureList => "checkpoint create --files-from LIST",
        Step::Checkpoints => "checkpoint list",
        Step::Paths(checkpoint) => &format!("checkpoint ls {checkpoint} --recursive"),
        Step::Sessions => "session list",
        Step::Events => "log",
        Step::Tags => "checkpoint tags",
        Step::Options => "config show",
        Step::Projects => "memory list --projects",
        Step::Memories => "memory list",
        Step::Recall => "memory recall WORDS",
        Step::ConfirmProject => "memory confirm",
        Step::Deliveries => "outbox list",
        Step::Mounts => "mounts",
        Step::Unmount => "umount",
        Step::Verify(checkpoint) => &format!("checkpoint verify {checkpoint}"),
        Step::MoveSession(words) if words.is_empty() => "session move",
        Step::MoveSession(words) => &format!("session move {words}"),
        Step::MoveSessionHere((session, folder)) => &format!("session move {session} {}", path(folder)),
        Step::Resume(session) => &format!("session resume {session}"),
        Step::InstallProxies => "hooks install --mcp",
        other => return part(other),
    };
    format!("`parhelia {words}`")
}

/// Words for what is no whole command: a flag of the one at hand, or a verb that people complete.
fn part(step: &Step) -> String {
    let words = match step {
        Step::Copy => "a `copy-store`",
        Step::RestorePrivileged => "`checkpoint restore --to DIR --preserve-special`",
        Step::ImportBehind(unpacks) => &format!("`{unpacks} | parhelia import -`"),
        Step::ResumeFrom(checkpoint) => &format!("`session resume --from {checkpoint}`"),
        Step::CaptureFile((folder, listed)) => &of_file(folder.as_deref(), listed),
        Step::Nulls => "--null (-0)",
        Step::LockTimeout => "--lock-timeout",
        Step::StoreOption => "--store",
        Step::Exclude => "--exclude",
        Step::DryRun => "--dry-run",
        Step::To => "--to",
        Step::InPlace => "--in-place",
        Step::Delete => "--delete",
        Step::FilesFrom => "--files-from",
        Step::SessionOption => "--session",
        Step::Workspace(folder) => &format!("`--workspace {}`", human::shell(folder.as_os_str().as_bytes())),
        Step::From => "--from",
        Step::Transcript => "--transcript",
        Step::TmuxSocket => "--tmux-socket",
        Step::Socket => "--socket",
        Step::Listen => "--listen",
        Step::TlsCertificate => "--tls-cert",
        Step::TlsKey => "--tls-key",
        Step::AllowOther => "--allow-other",
        Step::RebuildInCheck => "--rebuild-index",
        other => return name(other),
    };
    words.to_owned()
}

/// The command that captures one file alone: of the current folder, or of another one.
fn of_file(folder: Option<&Path>, listed: &[u8]) -> String {
    let folder = folder.map(|folder| format!(" --workspace {}", human::shell(folder.as_os_str().as_bytes()))).unwrap_or_default();
    let shell = human::shell(listed);
    // `echo` may take a dash for its own, and a backslash for more than itself.
    match listed.starts_with(b"-") || listed.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        false => format!("`echo {shell} | parhelia checkpoint create{folder} --files-from -`"),
        true => format!("`printf '%s\\0' {shell} | parhelia checkpoint create{folder} --null --files-from -`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args::command, hints::fault};

    #[test]
    fn the_command_of_each_step_exists() {
        for named in Step::each().iter().map(name).filter(|named| named.starts_with("`parhelia ")) {
            assert_eq!(fault(&command(), named.trim_matches('`')), None, "{named}");
        }
    }
}
