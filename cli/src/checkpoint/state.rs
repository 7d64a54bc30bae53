//! What of a session is captured beside its workspace, by the command line and by what is known of the session.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use parhelia_agent::{environment::Request, folder::ConfigFolder, git, kind::KINDS, transcript::Located};
use parhelia_session::{
    capture::{Capture, Source, Wanted, environment_job, git_job, session_state},
    config::Config,
    run,
};
use parhelia_store::{
    Store,
    files::{self, How},
    fold::Session,
    id::Ulid,
};

use crate::{
    exit::{Failure, Result},
    session::agent::config_of,
};

/// Where the conversation is.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The conversation")]
pub struct Args {
    /// The agent's transcript [default: of the session's last conversation, where one is known]
    #[arg(long, value_name = "FILE", group = "conversation")]
    transcript: Option<PathBuf>,
    /// The agent's own id of the conversation, which is then looked for in its configuration folder
    #[arg(long, value_name = "ID", group = "conversation")]
    agent_session: Option<String>,
    /// What a headless agent printed with `--output-format stream-json`; `-` reads standard input
    #[arg(long, value_name = "FILE", group = "conversation")]
    stream_json: Option<PathBuf>,
    /// Capture no conversation
    #[arg(long, group = "conversation")]
    no_conversation: bool,
}

/// A capture that is set up, and the file that lives as long as it.
pub struct Prepared {
    /// The capture.
    pub capture: Capture,
    _spooled: Option<Spooled>,
}

/// A copy of standard input.
struct Spooled(PathBuf);

impl Drop for Spooled {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Sets up the capture of a session in a workspace.
pub fn prepare(
    args: &Args,
    store: &Store,
    session: &str,
    workspace: &Path,
    config: &Config,
    environment: Request,
) -> Result<Prepared> {
    let known = store.view().session(session)?;
    let mut spooled = None;
    let conversation = match (&args.transcript, &args.agent_session, &args.stream_json) {
        (Some(transcript), ..) => Some(Ok(Source::Transcript(Located::from_hook(&absolute(transcript)?)?))),
        (_, Some(id), _) => Some(Ok(by_id(id, KINDS.into_iter().filter_map(|kind| Some(ConfigFolder::of(kind, env)?.path)))?)),
        (.., Some(log)) if log.as_os_str() == "-" => {
            let path = spool(store)?;
            spooled = Some(Spooled(path.clone()));
            Some(Ok(Source::Stream { log: path, is_copy: true }))
        }
        (.., Some(log)) => Some(Ok(Source::Stream { log: absolute(log)?, is_copy: false })),
        _ if args.no_conversation => None,
        _ => match &known {
            Some(session) => last_conversation(session, config_of(store, session)?.map(|config| config.path)),
            None => None,
        },
    };
    let git = git::Environment::new(&env, workspace, &store.layout().cache());
    let mut jobs = vec![git_job(workspace.to_owned(), git, config.capture.git_timeout())];
    let is_agents = conversation.is_some() || known.as_ref().is_some_and(|s| s.run.is_some());
    let run = known.as_ref().and_then(|session| Some((session.run.as_deref()?, session.epoch)));
    let session_state = is_agents.then(|| session_state(session, workspace, run, known.as_ref()));
    if is_agents {
        jobs.push(environment_job(environment));
    }
    if let Some(session) = &known {
        jobs.extend(run::tmux_of(store, session)?.map(|place| run::tmux_job(place, workspace)));
    }
    let listed = is_agents.then(|| (workspace.to_owned(), config.context.clone()));
    let wanted = Wanted { conversation, session_state, jobs, context: listed, cache: store.layout().cache() };
    Ok(Prepared { capture: Capture::new(wanted), _spooled: spooled })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|source| Failure::File { action: "find", path: path.to_owned(), source })
}

/// A conversation by its id, in the first of these folders that has it.
fn by_id(id: &str, configs: impl IntoIterator<Item = PathBuf>) -> parhelia_session::Result<Source> {
    let mut found = Located::by_session(Path::new(""), id);
    for config in configs {
        found = found.or_else(|_| Located::by_session(&config, id));
    }
    Ok(Source::Transcript(found?))
}

/// The conversation that the session had last: where it was, or where the agent keeps it by now. Not finding one that had turns is no reason
/// to make no checkpoint; the part fails.
fn last_conversation(session: &Session, config: Option<PathBuf>) -> Option<Result<Source, String>> {
    let conversation = session.conversations.last()?;
    let transcript = conversation.seen_at().filter(|path| path.exists());
    let located = transcript.and_then(|path| Located::from_hook(&path).ok());
    match located {
        Some(located) => Some(Ok(Source::Transcript(located))),
        None => match by_id(&conversation.id, config) {
            // The agent has not begun to write it.
            Err(parhelia_session::Error::Agent(parhelia_agent::Error::NoTranscript { .. }))
                if conversation.turn_count.unwrap_or(0) == 0 =>
            {
                None
            }
            found => {
                Some(found.map_err(|e| format!("{e}; name it with --transcript or --stream-json, or give --no-conversation")))
            }
        },
    }
}

/// Copies standard input into a file, because it is looked at twice.
fn spool(store: &Store) -> Result<PathBuf> {
    let path = store.layout().cache().join(format!("{}.stream.tmp", Ulid::generate()));
    let copied = files::open(&path, How::New).and_then(|mut file| {
        io::copy(&mut io::stdin().lock(), &mut file)?;
        Ok(())
    });
    match copied {
        Ok(()) => Ok(path),
        Err(source) => {
            let _ = fs::remove_file(&path);
            Err(Failure::File { action: "copy standard input to", path, source })
        }
    }
}
