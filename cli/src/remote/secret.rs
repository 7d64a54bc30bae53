//! The secret that opens an encrypted remote: from a file or a command that the user has configured, or from the terminal.

use std::{
    io::{IsTerminal as _, Read as _},
    process::{Command, Stdio},
};

use parhelia_host::config::Remote;
use parhelia_remote::{RecoveryPhrase, Secret, Wanted};

use crate::{
    context::Context,
    exit::{Failure, Result},
};

/// Longest passphrase, in bytes.
const BYTES_MAX: u64 = 4096;
/// Shortest passphrase for a new bucket, in characters: whoever has the bucket can guess for as long as he likes.
const CHARACTERS_MIN: usize = 12;

/// The secret. A recovery phrase is known by its shape.
pub fn wanted(context: &Context, wanted: Wanted, is_recovery: bool) -> Result<Secret> {
    if is_recovery {
        let phrase = prompted(context, "Recovery phrase: ")?;
        return Ok(Secret::Recovery(RecoveryPhrase::parse(&phrase).map_err(|e| Failure::Remote(e.into()))?));
    }
    let passphrase = match configured(&context.own_config()?.remote)? {
        Some(passphrase) => passphrase,
        None => prompted(
            context,
            if wanted == Wanted::New { "New passphrase of the remote: " } else { "Passphrase of the remote: " },
        )?,
    };
    if wanted == Wanted::New {
        if passphrase.chars().count() < CHARACTERS_MIN {
            return Err(Failure::Usage(format!("the passphrase of a new remote must have {CHARACTERS_MIN} characters or more")));
        }
        if configured(&context.own_config()?.remote)?.is_none() && prompted(context, "Once more: ")? != passphrase {
            return Err(Failure::Usage("the two passphrases differ; nothing was made".into()));
        }
    }
    Ok(Secret::Passphrase(passphrase.into()))
}

/// A new passphrase for a slot, asked for at the terminal, or read from standard input.
pub fn new_passphrase(context: &Context) -> Result<Secret> {
    let passphrase = match std::io::stdin().is_terminal() {
        true => {
            let passphrase = prompted(context, "New passphrase: ")?;
            if prompted(context, "Once more: ")? != passphrase {
                return Err(Failure::Usage("the two passphrases differ; nothing was added".into()));
            }
            passphrase
        }
        false => read(std::io::stdin().lock(), "standard input".as_ref())?,
    };
    if passphrase.chars().count() < CHARACTERS_MIN {
        return Err(Failure::Usage(format!("a passphrase must have {CHARACTERS_MIN} characters or more")));
    }
    Ok(Secret::Passphrase(passphrase.into()))
}

/// The passphrase that a file or a command gives; none where neither is configured.
fn configured(remote: &Remote) -> Result<Option<String>> {
    if let Some(path) = &remote.passphrase_file {
        let file = std::fs::File::open(path);
        let file = file.map_err(|source| Failure::File { action: "read", path: path.clone(), source })?;
        return read(file, path).map(Some);
    }
    let Some((program, arguments)) = remote.passphrase_command.split_first() else { return Ok(None) };
    let failed =
        |why: String| Failure::Refused(format!("cannot get the passphrase: {program} (remote.passphrase_command) {why}"));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| failed(format!("cannot be run: {e}")))?;
    if !output.status.success() {
        return Err(failed(format!("ended with {}", output.status)));
    }
    read(&*output.stdout, program.as_ref()).map(Some)
}

/// The first line.
fn read(from: impl std::io::Read, path: &std::path::Path) -> Result<String> {
    let mut text = String::new();
    let read = from.take(BYTES_MAX).read_to_string(&mut text);
    read.map_err(|source| Failure::File { action: "read", path: path.to_owned(), source })?;
    match text.lines().next().filter(|line| !line.is_empty()) {
        Some(line) => Ok(line.to_owned()),
        None => Err(Failure::Usage(format!("{} has no passphrase in its first line", path.display()))),
    }
}

/// What is typed at the terminal, unseen.
fn prompted(context: &Context, question: &str) -> Result<String> {
    if context.out.json || !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "the remote is encrypted, and there is no terminal to ask for its passphrase: set PARHELIA_REMOTE_PASSPHRASE_FILE, or \
             remote.passphrase_file or remote.passphrase_command in your parhelia.toml"
                .into(),
        ));
    }
    let failed = |source| Failure::File { action: "read", path: "/dev/tty".into(), source };
    rpassword::prompt_password(question).map(|typed| typed.trim().to_owned()).map_err(failed)
}
