//! Asking a model about a session, by a process that nobody waits for.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use parhelia_ledger::LedgerView as _;
use parhelia_store::{Store, files::Folder, record::Checkpoint};

use super::{
    super::{kept, quoted},
    By, ModelSummary,
    answer::{self, BYTES_MAX},
    attempt::{self, Attempt, Turn},
    command, input,
    input::Question,
    is_due, keep,
};
use parhelia_host::{Error, Host, Observer, Result, config, error::IoContext};

/// The folder in the store's cache in which commands run. There is nothing in it.
const FOLDER: &str = "model";
/// Longest reason of a failure, in characters.
const WHY_CHARACTERS_MAX: usize = 400;

/// The result of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// Nothing was to be asked.
    Nothing,
    /// Another process asks about this session.
    ByAnother,
    /// The model was asked the same before.
    Same,
    /// The answer.
    Answered(ModelSummary),
}

/// Asks about a session's head, and about the next one if that has come meanwhile. `api` asks an API; it fails with a reason.
pub fn ask(
    store: &Store,
    host: &dyn Host,
    options: &config::Summary,
    session: &str,
    api: &dyn Fn(&Question) -> std::result::Result<String, String>,
    observer: &dyn Observer,
) -> Result<AskOutcome> {
    let mut asked = Ok(AskOutcome::Nothing);
    loop {
        // Whoever finds the turn taken leaves the rest to this process: it looks again once it has let go of it.
        let Some(mut turn) = Turn::take(store, session)? else {
            return if matches!(asked, Ok(AskOutcome::Nothing)) { Ok(AskOutcome::ByAnother) } else { asked };
        };
        let head = store.refresh()?.head(session)?;
        let Some(head) = head.filter(|head| is_due(store, options, head, host.now())) else { return asked };
        asked = about(store, host, options, &head, &mut turn, api);
        match &asked {
            Ok(AskOutcome::Answered(_)) => kept::renew(store, session, observer),
            Ok(_) | Err(Error::Background(_)) => {}
            // The attempt may not be noted, and would be made again.
            Err(_) => return asked,
        }
    }
}

/// Asks about a checkpoint.
fn about(
    store: &Store,
    host: &dyn Host,
    options: &config::Summary,
    head: &Checkpoint,
    turn: &mut Turn,
    api: &dyn Fn(&Question) -> std::result::Result<String, String>,
) -> Result<AskOutcome> {
    let session = &head.record.session;
    let answered = attempt::last(store, session).and_then(|last| last.answered);
    let mut attempt = Attempt { checkpoint: Some(head.record.id), at: Some(host.now()), answered };
    // One that fails counts as well: nobody is asked again and again.
    turn.note(&attempt)?;
    let _pin = store.pin_for_reading([head.record.id], "summary", |_| {});
    let Some(question) = input::of_checkpoint(store, head, options)? else { return Ok(AskOutcome::Nothing) };
    let conversation = head.record.conversation.as_ref().and_then(|record| record["agent_session_id"].as_str());
    let hash = blake3::hash(format!("{}\n{}", conversation.unwrap_or_default(), question.whole()).as_bytes());
    let hash = hash.to_hex().to_string();
    if attempt.answered.as_ref() == Some(&hash) {
        return Ok(AskOutcome::Same);
    }
    let failed = |why: String| {
        Error::Background(format!("no model has summed up session {session}: {}", quoted(&why, WHY_CHARACTERS_MAX)))
    };
    let answer = match options.url {
        Some(_) => api(&question),
        None => by_command(store, host, options, session, &question),
    };
    let answer = answer.map_err(failed)?;
    if answer.len() > BYTES_MAX {
        return Err(failed(format!("the answer is longer than {} KiB", BYTES_MAX >> 10)));
    }
    let tokens_max = usize::try_from(options.max_output_tokens).unwrap_or(usize::MAX);
    let text = answer::kept(&answer, tokens_max).ok_or_else(|| failed("the answer is empty".into()))?;
    let summary = ModelSummary {
        checkpoint: head.record.id,
        generated_by: By::of(options),
        at: host.now(),
        conversation: conversation.map(str::to_owned),
        text,
    };
    // It may have been deleted meanwhile, and its words with it.
    if store.refresh()?.checkpoint(head.record.id)?.is_none() {
        return Ok(AskOutcome::Nothing);
    }
    keep(store, session, &summary)?;
    attempt.answered = Some(hash);
    turn.note(&attempt)?;
    Ok(AskOutcome::Answered(summary))
}

fn by_command(
    store: &Store,
    host: &dyn Host,
    options: &config::Summary,
    session: &str,
    question: &Question,
) -> std::result::Result<String, String> {
    let known = store.view().session(session).map_err(|e| e.to_string())?;
    let workspace = known.and_then(|known| known.workspace).map_or_else(|| PathBuf::from("/"), |place| place.folder());
    let folder = folder(store).map_err(|e| e.to_string())?;
    let asked =
        command::Invocation { words: &options.command, folder: &folder, workspace: &workspace, limit: options.timeout(), host };
    command::answer(&asked, &question.whole())
}

/// The folder in which a command runs: an agent may read whatever is in its own.
fn folder(store: &Store) -> Result<PathBuf> {
    let cache = store.layout().cache();
    let folder: PathBuf = Path::new(&cache).join(FOLDER);
    Folder::below(&cache).and_then(|cache| cache.make_folder(OsStr::new(FOLDER))).at("create folder", &folder)?;
    Ok(folder)
}
