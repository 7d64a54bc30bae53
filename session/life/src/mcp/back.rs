//! The servers' state, given back: files are written where the servers look for them; a state that was handed out waits for the proxy
//! before the server, or goes to the server at once where that is reached over HTTP.

use parhelia_store::name::step::Step;
use std::path::{Path, PathBuf};

use parhelia_agent::{
    environment::Request,
    mcp::{ServerConfig, Transport},
};
use parhelia_store::{Store, name, record::Checkpoint};

use super::{
    ENDED, NOT_ASKED, capture,
    declared::{self, Total},
    inside,
    last::{self, Last, Whose},
    live::GivenBack,
    pending::{self, PendingState},
    saved::{HTTP, SavedFile, SavedState, Server, saved},
};
use crate::environment;
use parhelia_host::{
    Host, Result,
    config::Mcp,
    error::IoContext,
    mcp::{State, StateReply},
    notice::Notice,
    state::state_bytes,
};

/// The files that are written back.
#[derive(Clone, Copy, Debug)]
pub enum Back<'a> {
    /// All of them, but those that replace something that this safety checkpoint does not have.
    Exactly(&'a Checkpoint),
    /// All of them: what they replace is from a checkpoint.
    Again,
    /// Those that are not there: what is there may be newer. For the same reason a server over HTTP, which has lived on, keeps what it has.
    Missing,
    /// The same of a checkpoint that somebody has named: a server over HTTP takes its state.
    Chosen,
}

/// Gives the servers of a session the state of a checkpoint back, for the agent that works in `workspace` next. Returns what is to be said
/// of servers that do not get theirs: no reason to leave the rest undone.
pub fn give_back(store: &Store, host: &dyn Host, workspace: &Path, checkpoint: &Checkpoint, back: Back<'_>) -> Vec<Notice> {
    let given = environment::request_to_act(host, store, workspace, &checkpoint.record.session)
        .and_then(|request| give(store, host, &request, checkpoint, back));
    given.unwrap_or_else(|e| vec![Notice::ServerWithoutState { server: "any".into(), why: e.to_string() }])
}

fn give(store: &Store, host: &dyn Host, request: &Request, checkpoint: &Checkpoint, back: Back<'_>) -> Result<Vec<Notice>> {
    let (session, folder) = (&checkpoint.record.session, &store.layout().root);
    let Some(saved) = saved(store, checkpoint)? else {
        pending::leave(folder, session, &[]).at("empty", folder)?;
        return Ok(Vec::new());
    };
    let servers = &saved.servers;
    let settings = host.config(&request.workspace)?.mcp;
    let configured = capture::configured(request);
    let (mut waiting, mut notices) = (Vec::new(), Vec::new());
    for (name, server) in servers {
        let one = One { store, host, request, settings: &settings, checkpoint, name, back };
        let known = configured.as_ref().ok().map(|configured| configured.get(name));
        if let (Some(GivenBack { checkpoint, error: Some(why) }), Back::Missing) = (&server.given_back, back) {
            let why = format!(
                "that of checkpoint {checkpoint} was not taken when it was started last ({why}), and it goes on with what it has had since\n\
                 {} goes back to that one",
                Step::ResumeFrom(checkpoint.to_string())
            );
            notices.push(Notice::ServerWithoutState { server: name.clone(), why });
        }
        match one.give_back(server, known) {
            Ok(pending) => waiting.extend(pending),
            Err(why) => notices.push(Notice::ServerWithoutState { server: name.clone(), why }),
        }
    }
    if let Err(e) = pending::leave(folder, session, &waiting) {
        let names = waiting.iter().map(|pending| pending.name.as_str()).collect::<Vec<_>>().join(", ");
        notices.push(Notice::ServerWithoutState { server: names, why: format!("it cannot be left in the store: {e}") });
    }
    Ok(notices)
}

/// A server that is to have its state back.
struct One<'a> {
    store: &'a Store,
    host: &'a dyn Host,
    request: &'a Request,
    settings: &'a Mcp,
    checkpoint: &'a Checkpoint,
    name: &'a str,
    back: Back<'a>,
}

impl One<'_> {
    /// Gives it back, or tells what waits. `known` is its configuration, none where that is not known, and `Some(None)` where it has none.
    fn give_back(&self, server: &Server, known: Option<Option<&ServerConfig>>) -> Result<Option<PendingState>, String> {
        if let SavedState::Failed { error } = &server.kept {
            return Err(format!("it could not be captured ({error})"));
        }
        if matches!(server.kept, SavedState::Stateless { .. } | SavedState::NotAsked { .. }) {
            return Ok(None);
        }
        // One that only its proxy was known by is configured where this does not look.
        if known == Some(None) && server.scope.is_some() {
            return Err("it is no longer configured".into());
        }
        let variables = &self.request.variables;
        let variable = |name: &str| variables.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        let configured = known.flatten();
        let reached = configured.and_then(|configured| configured.reached(&variable));
        match &server.kept {
            SavedState::State { file, mime_type, is_base64, .. } => {
                let text = self.bytes(file)?;
                let text = String::from_utf8(text).map_err(|_| "it is no text in the checkpoint".to_owned())?;
                let state = State { text, mime_type: mime_type.clone(), is_base64: *is_base64 };
                let is_remote = matches!(reached, Some(Transport::Remote(_)));
                if reached.is_some() && server.transport.is_some() && is_remote != (server.transport.as_deref() == Some(HTTP)) {
                    return Err("it was reached in another way when the checkpoint was made".into());
                }
                if is_remote && !self.settings.asks_over_http(self.name, configured) {
                    return Err(format!("it is reached over HTTP, and {NOT_ASKED}"));
                }
                self.hand_over(state, reached)
            }
            SavedState::Files { files } => {
                let home = variable("HOME").map(PathBuf::from);
                let own = self.settings.servers.get(self.name).map(|own| &own.state_files[..]).unwrap_or_default();
                let place = reached.as_ref().zip(configured.map(|configured| configured.is_projects));
                let declared = declared::paths(own, place, &self.request.workspace, home.as_deref());
                self.write(files, &declared).map(|()| None)
            }
            SavedState::Stateless { .. } | SavedState::NotAsked { .. } | SavedState::Failed { .. } => Ok(None),
        }
    }

    fn bytes(&self, file: &str) -> Result<Vec<u8>, String> {
        let found = state_bytes(self.store, self.checkpoint, file).map_err(|e| e.to_string())?;
        found.ok_or_else(|| format!("the checkpoint has no {file}"))
    }

    fn hand_over(&self, state: State, reached: Option<Transport>) -> Result<Option<PendingState>, String> {
        if let Some(Transport::Remote(server)) = reached {
            let client = self.host.mcp_client().ok_or("nothing here talks with servers over HTTP")?;
            let limit = self.settings.limit(self.name);
            if matches!(self.back, Back::Missing) {
                let id = &self.checkpoint.record.id;
                return match client.state(&server, limit, self.settings.max_state_bytes) {
                    StateReply::State(now) if now == state => Ok(None),
                    StateReply::State(_) => Err(format!(
                        "what it has is another one, and may be newer\n{} gives this one back",
                        Step::ResumeFrom(id.to_string())
                    )),
                    StateReply::Stateless { why } | StateReply::NotAsked { why } | StateReply::Failed { why } => Err(why),
                    StateReply::Ended => Err(ENDED.into()),
                };
            }
            return client.give_back(&server, &state, limit).map(|()| None);
        }
        // What is captured before the server runs again is this.
        let last = Last { name: self.name.to_owned(), at: self.host.now(), state: state.clone(), given_back: None };
        last::keep(&self.store.layout().root, Whose::Session(&self.checkpoint.record.session), &last)
            .map_err(|e| e.to_string())?;
        Ok(Some(PendingState {
            name: self.name.to_owned(),
            session: self.checkpoint.record.session.clone(),
            workspace: self.request.workspace.clone(),
            checkpoint: self.checkpoint.record.id.to_string(),
            since: self.host.now(),
            state,
        }))
    }

    /// Writes files back. Only what is declared for the server today is written or removed, whatever the checkpoint says.
    fn write(&self, files: &[SavedFile], declared: &[PathBuf]) -> Result<(), String> {
        let workspace = &self.request.workspace;
        let path_of = |file: &SavedFile| workspace.join(name::as_path(&name::parse(&file.path)));
        let is_declared = |path: &Path| declared.iter().any(|declared| path.starts_with(declared));
        let mut wanted = Vec::new();
        for file in files {
            let path = path_of(file);
            let Some(source) = &file.file else { continue };
            if !is_declared(&path) || !declared::is_plain(&path) || declared::leads_out(&path, workspace) {
                return Err(format!("{} is no longer declared as its state (`mcp.servers`)", file.path));
            }
            let is_there = path.symlink_metadata().is_ok();
            if !(is_there && matches!(self.back, Back::Missing | Back::Chosen)) {
                wanted.push((file, path, self.bytes(source)?));
            }
        }
        if let Back::Exactly(_) | Back::Again = self.back {
            let there = declared::read(declared, workspace, u64::MAX, &Total::of(u64::MAX))?;
            // Of a path of which the checkpoint has nothing at all it does not say what was there.
            let is_known = |path: &Path| {
                let mut around = declared.iter().filter(|declared| path.starts_with(declared));
                around.any(|declared| files.iter().any(|file| path_of(file).starts_with(declared)))
            };
            let (mut extra, mut replaced) = (Vec::new(), Vec::new());
            for (file, bytes) in there.iter().filter_map(|(file, bytes)| Some((file, bytes.as_ref()?))) {
                match wanted.iter().find(|(wanted, ..)| wanted.path == file.path) {
                    Some((.., new)) if new == bytes => {}
                    Some(_) => replaced.push(file),
                    None if is_known(&path_of(file)) => extra.push(file),
                    None => {}
                }
            }
            self.ensure_kept(&[&replaced[..], &extra].concat())?;
            for file in extra {
                inside::remove(&path_of(file), workspace).map_err(|e| e.to_string())?;
            }
        }
        for (file, path, bytes) in wanted {
            inside::write(&path, workspace, &bytes, file.mode).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Fails where the safety checkpoint does not have what is to be replaced or removed.
    fn ensure_kept(&self, files: &[&SavedFile]) -> Result<(), String> {
        let Back::Exactly(safety) = self.back else { return Ok(()) };
        let saved = saved(self.store, safety).map_err(|e| e.to_string())?.unwrap_or_default();
        let kept = match saved.servers.get(self.name).map(|server| &server.kept) {
            Some(SavedState::Files { files }) => &files[..],
            _ => &[],
        };
        let is_kept = |file: &SavedFile| kept.iter().any(|kept| kept.path == file.path && kept.file.is_some());
        match files.iter().copied().find(|&file| !is_kept(file)) {
            Some(file) => Err(format!("safety checkpoint {} does not have {} as it is now", safety.record.id, file.path)),
            None => Ok(()),
        }
    }
}
