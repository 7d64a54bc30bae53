//! The servers' state as a part of a checkpoint. Each server is asked beside the others, within its own time; one that fails is recorded,
//! and the others go on.

use parhelia_store::name::step::Step;
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    ffi::OsString,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use parhelia_agent::{
    environment,
    mcp::{self, Places, ServerConfig, Transport},
    process::{Identity, folder_of, line_of},
    program,
};

use super::{
    ENDED, NOT_ASKED,
    declared::{self, Total},
    last::{self, Last, Whose},
    live::{self, Answer, Proxy, Question},
    saved::{HTTP, MCP, SCHEMA, SERVERS, SavedFile, SavedState, Server, ServerList},
};
use crate::beads;
use parhelia_host::{
    config::Mcp,
    job::{Job, JobOutput},
    mcp::{Client, State, StateReply},
};

/// The time that `bd` has to export its issues.
const EXPORT_LIMIT: Duration = Duration::from_secs(5);
/// The files of all servers together have so many times the bytes that one may have.
const FILES_OF_ALL: u64 = 4;
/// The file with them.
const BEADS: &str = "mcp/beads.jsonl";

/// The surroundings of a session's agent.
#[derive(Clone)]
pub struct Around {
    /// The places where its servers are configured.
    pub environment: environment::Request,
    /// The store's folder.
    pub store: PathBuf,
    /// Id of the session whose servers are asked.
    pub session: String,
    /// The agent's processes as they are recorded; without any, the workspace says which proxies are its.
    pub agents: Vec<Identity>,
    /// The options in force.
    pub settings: Mcp,
    /// The way to servers over HTTP.
    pub client: Option<&'static dyn Client>,
}

impl Around {
    /// True unless an agent is known that lives.
    fn is_over(&self) -> bool {
        !self.agents.iter().any(Identity::is_alive)
    }
}

/// Looks at them.
pub fn job(around: Around) -> Option<Job> {
    around.settings.capture.then(|| Job::new(MCP, move || looked(&around)))
}

/// A server, and its files in `state`.
type CapturedServer = (Server, Vec<(String, Vec<u8>)>);

fn looked(around: &Around) -> Result<Option<JobOutput>, String> {
    let workspace = &around.environment.workspace;
    let variable = |name: &str| variable(&around.environment.variables, name);
    // A server that cannot be told of is no reason to leave the others.
    let (configured, unknown) = match configured(&around.environment) {
        Ok(configured) => (configured, None),
        Err(why) => (BTreeMap::new(), Some(why)),
    };
    let proxies = proxies_of(around);
    let answers = asked(around, &proxies);
    let names = configured.keys().cloned().chain(answers.keys().cloned());
    let names: std::collections::BTreeSet<String> = names.collect();
    let beads = beads(workspace, &variable);
    if names.is_empty() && beads.is_none() && unknown.is_none() {
        return Ok(None);
    }
    let total = Total::of(around.settings.max_state_bytes.saturating_mul(FILES_OF_ALL));
    let one = |name: &String| server(around, name, configured.get(name), answers.get(name), &variable, &total);
    let has_ended = |name: &str| answers.get(name).is_some_and(|answer| answer.told == StateReply::Ended) && !around.is_over();
    let found = beside(&names.iter().collect::<Vec<_>>(), |name| Some(one(name)));
    let mut saved = ServerList { schema: SCHEMA, ..ServerList::default() };
    let mut files = Vec::new();
    let mut failed: Vec<String> = unknown.into_iter().collect();
    for (number, (name, found)) in names.into_iter().zip(found).enumerate() {
        let Some((mut server, contents)) = found else { continue };
        match &server.kept {
            SavedState::Failed { error } => failed.push(format!("{name}: {error}")),
            // Its agent may go on with a new one.
            SavedState::State { as_of: Some(at), .. } if has_ended(&name) => {
                failed.push(format!("{name}: {ENDED}; its state is of {at}"))
            }
            _ => {}
        }
        let place = |file: &str| format!("{MCP}/{number}/{file}");
        rename(&mut server.kept, &place);
        files.extend(contents.into_iter().map(|(file, bytes)| (place(&file), bytes)));
        saved.servers.insert(name, server);
    }
    match beads {
        Some(Ok(bytes)) => {
            saved.beads = Some(BEADS.into());
            files.push((BEADS.into(), bytes));
        }
        Some(Err(why)) => failed.push(format!("the issues of Beads: {why}")),
        None => {}
    }
    files.push((SERVERS.into(), serde_json::to_vec_pretty(&saved).map_err(|e| e.to_string())?));
    let error = (!failed.is_empty()).then(|| failed.join("; "));
    let is_not_asked = saved.beads.is_none()
        && saved.servers.values().all(|server| matches!(server.kept, SavedState::NotAsked { .. }))
        && !saved.servers.is_empty();
    Ok(Some(JobOutput { files, error, is_not_asked, ..JobOutput::default() }))
}

/// The servers that an agent is configured with, where that is known of its kind.
pub fn configured(request: &environment::Request) -> Result<BTreeMap<String, ServerConfig>, String> {
    if request.kind != parhelia_agent::kinds::KINDS[0] {
        return Ok(BTreeMap::new());
    }
    mcp::configured(&Places::of(&request.workspace, &|name| variable(&request.variables, name), &request.mcp_config))
}

fn variable(variables: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    variables.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// The proxies before the agent's servers, the nearest to the agent first: what it starts may start agents, too.
fn proxies_of(around: &Around) -> Vec<Proxy> {
    let distance = |process: i32| {
        let line = line_of(process);
        let is_agent = |above: &Identity| around.agents.iter().any(|agent| agent.is_same(above));
        line.iter().position(is_agent)
    };
    let works_here = |process: i32| folder_of(process).is_some_and(|folder| folder.starts_with(&around.environment.workspace));
    // A proxy outlives its agent by the time that it takes to ask the server once more.
    let is_one = |process: i32| distance(process).is_some() || (around.is_over() && works_here(process));
    let mut proxies = live::proxies(&around.store, &is_one);
    // A server that was started anew takes the place of one that still ends.
    let since = |process: i32| Identity::of(process).map_or(0, |identity| identity.start_time);
    proxies.sort_by_key(|proxy| (distance(proxy.process), Reverse((since(proxy.process), proxy.process))));
    proxies
}

/// The answers of proxies, by the names of their servers. A proxy that is gone by now is none; one that lives and does not answer is one of a
/// server that could not be asked.
fn asked(around: &Around, proxies: &[Proxy]) -> BTreeMap<String, Answer> {
    let question = |proxy: &Proxy| {
        let limit = around.settings.limit(&proxy.name().unwrap_or_default());
        Question { limit_ms: limit.as_millis().try_into().unwrap_or(u64::MAX), bytes_max: around.settings.max_state_bytes }
    };
    let mut answers = BTreeMap::new();
    let silent = |proxy: &Proxy, e: io::Error| {
        // It is gone once its command line is.
        let why = match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "its proxy does not answer: it waits for server or agent".into(),
            _ => format!("its proxy does not answer: {e}"),
        };
        let told = StateReply::Failed { why };
        proxy.name().map(|name| Answer { name, given_back: None, told })
    };
    for answer in
        beside(proxies, |proxy| proxy.ask(question(proxy)).or_else(|e| silent(proxy, e).ok_or(())).ok()).into_iter().flatten()
    {
        answers.entry(answer.name.clone()).or_insert(answer);
    }
    answers
}

/// The state of a server: what it hands out, else its files.
fn server(
    around: &Around,
    name: &str,
    configured: Option<&ServerConfig>,
    answer: Option<&Answer>,
    variable: &dyn Fn(&str) -> Option<OsString>,
    total: &Total,
) -> CapturedServer {
    let workspace = &around.environment.workspace;
    let reached = configured.and_then(|configured| configured.reached(variable));
    let own = around.settings.servers.get(name).cloned().unwrap_or_default();
    let whose = [Whose::Session(&around.session), Whose::Workspace(workspace)];
    // Of one that does not run, or ends with its agent, the state is what it was as it ran last. One over HTTP lives apart from the agent.
    let is_remote = matches!(reached, Some(Transport::Remote(_)));
    let is_over = !is_remote
        && answer.is_none_or(|answer| match answer.told {
            StateReply::Ended => true,
            StateReply::Failed { .. } => around.is_over(),
            StateReply::State(_) | StateReply::Stateless { .. } | StateReply::NotAsked { .. } => false,
        });
    let last = if is_over { last::known(&around.store, &whose, name) } else { None };
    let as_of = last.as_ref().map(|last| last.at);
    let given_back = last.as_ref().map_or_else(|| answer?.given_back.clone(), |last| last.given_back.clone());
    let told =
        last.map_or_else(|| told(around, name, configured, reached.as_ref(), answer), |last| StateReply::State(last.state));
    let home = variable("HOME").map(PathBuf::from);
    let place = reached.as_ref().zip(configured.map(|configured| configured.is_projects));
    let paths = declared::paths(&own.state_files, place, workspace, home.as_deref());
    let is_in_files = !paths.is_empty()
        && match told {
            StateReply::State(_) => false,
            StateReply::Stateless { .. } | StateReply::NotAsked { .. } | StateReply::Ended => true,
            StateReply::Failed { .. } => is_over,
        };
    let (kept, files) = match told {
        _ if is_in_files => files_at(&paths, workspace, around.settings.max_state_bytes, total),
        StateReply::State(state) => {
            if as_of.is_none() {
                let (at, given_back) = (around.environment.now, given_back.clone());
                keep(around, &whose, &Last { name: name.to_owned(), at, state: state.clone(), given_back });
            }
            let State { text, mime_type, is_base64 } = state;
            let bytes = text.len() as u64;
            (
                SavedState::State { file: "state".into(), mime_type, is_base64, bytes, as_of },
                vec![("state".to_owned(), text.into_bytes())],
            )
        }
        StateReply::Stateless { why } => (SavedState::Stateless { why }, Vec::new()),
        StateReply::NotAsked { why } => (SavedState::NotAsked { why }, Vec::new()),
        StateReply::Failed { why } => (SavedState::Failed { error: why }, Vec::new()),
        StateReply::Ended => (SavedState::Failed { error: ENDED.into() }, Vec::new()),
    };
    let transport = reached.map(|reached| match reached {
        Transport::Started { .. } => "stdio".to_owned(),
        Transport::Remote(_) => HTTP.to_owned(),
    });
    let transport = transport.or(answer.map(|_| "stdio".to_owned()));
    let scope = configured.map(|configured| configured.scope.name().to_owned());
    (Server { scope, transport, kept, given_back }, files)
}

/// The answer of a server of which no earlier state is taken: what its proxy says, or the server itself over HTTP.
fn told(
    around: &Around,
    name: &str,
    configured: Option<&ServerConfig>,
    reached: Option<&Transport>,
    answer: Option<&Answer>,
) -> StateReply {
    if let Some(answer) = answer {
        return answer.told.clone();
    }
    let not_asked = |why: &str| StateReply::NotAsked { why: why.into() };
    let failed = |why: &str| StateReply::Failed { why: why.into() };
    let is_asked = around.settings.servers.get(name).is_some_and(|own| own.supports_checkpoint);
    let is_proxied = configured.is_some_and(ServerConfig::is_proxied);
    match reached {
        Some(Transport::Remote(server)) => match around.client.filter(|_| around.settings.asks_over_http(name, configured)) {
            Some(client) => client.state(server, around.settings.limit(name), around.settings.max_state_bytes),
            None => not_asked(&format!("it is reached over HTTP, and {NOT_ASKED}")),
        },
        None if configured.is_some() => not_asked("it is reached in another way than over standard streams or HTTP"),
        _ if is_asked && !is_proxied => {
            failed(&format!("it supports checkpoints, and no proxy stands before it ({})", Step::InstallProxies))
        }
        _ if is_asked && !around.is_over() => failed("its proxy does not run"),
        _ if is_proxied => not_asked("it does not run, and no state of it is known"),
        _ => not_asked("no proxy stands before it"),
    }
}

/// Keeps a state for later checkpoints. The same one is not written again: this checkpoint would wait for the disk.
fn keep(around: &Around, whose: &[Whose<'_>; 2], last: &Last) {
    let is_same = |known: Last| known.state == last.state && known.given_back == last.given_back;
    if !last::known(&around.store, whose, &last.name).is_some_and(is_same) {
        // This checkpoint has it; what is lost by a failure is only what a later one would take over.
        let _ = last::keep(&around.store, whose[0], last);
    }
}

fn files_at(paths: &[PathBuf], workspace: &Path, bytes_max: u64, total: &Total) -> (SavedState, Vec<(String, Vec<u8>)>) {
    let read = match declared::read(paths, workspace, bytes_max, total) {
        Ok(read) => read,
        Err(error) => return (SavedState::Failed { error }, Vec::new()),
    };
    let (mut files, mut contents) = (Vec::new(), Vec::new());
    for (number, (file, bytes)) in read.into_iter().enumerate() {
        let name = format!("file-{number}");
        files.push(SavedFile { file: bytes.is_some().then(|| name.clone()), ..file });
        contents.extend(bytes.map(|bytes| (name, bytes)));
    }
    (SavedState::Files { files }, contents)
}

/// Gives the files of a server the places that they have in `state`.
fn rename(kept: &mut SavedState, place: &dyn Fn(&str) -> String) {
    match kept {
        SavedState::State { file, .. } => *file = place(file),
        SavedState::Files { files } => {
            files.iter_mut().filter_map(|file| file.file.as_mut()).for_each(|file| *file = place(file))
        }
        SavedState::Stateless { .. } | SavedState::NotAsked { .. } | SavedState::Failed { .. } => {}
    }
}

/// The issues of Beads, as its own program exports them; none where the workspace has none, or the program is not there.
fn beads(workspace: &Path, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Result<Vec<u8>, String>> {
    workspace.join(".beads").is_dir().then_some(())?;
    let printed = program::run(beads::command(workspace, variable)?.arg("export"), EXPORT_LIMIT);
    Some(printed.map_err(|e| e.to_string()))
}

/// Does something with each of some things, all at once, and gives what came of them in their order.
fn beside<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<Option<R>> {
    // So many servers answer, or keep their agents waiting, at once.
    const AT_ONCE: usize = 32;
    let mut results = Vec::new();
    for some in things.chunks(AT_ONCE) {
        results.extend(thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = some.iter().map(|thing| scope.spawn(move || work(thing))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
        }));
    }
    results
}
