//! Captures the state of a session beside the workspace. The conversation is cut at a record boundary first; then the workspace is walked,
//! while everything that does not depend on it is read; then the conversation is read again, to tell whether a tool was active in between.
//! The checkpoint keeps the conversation of the first read: it is never younger than the files.

mod take;
#[cfg(test)]
mod tests;
mod tmux;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use parhelia_ledger::{BY_PRICES, PRINTED, Session};
use parhelia_store::{
    create::{CapturedState, CapturedWorkspace, State},
    name,
    record::{Consistency, Part},
    tree::Kind,
};
use serde_json::{Value, json};
pub(crate) use take::{take, warn_if_large, warn_if_shorter};
use tmux::tmux_job;
pub use tmux::{AGENT_PANE, TMUX_FILE, TMUX_FOLDER};

use parhelia_agent::{git, threads, transcript::Conversation};
use parhelia_host::{
    config,
    conversation::{
        Source,
        current::{self, LiveConversation},
    },
    job::{Job, RunningJob},
    state::{CONTEXT, CONVERSATION, SESSION_STATE, file, set_part},
};
use parhelia_knowledge::{
    context::{self, Eligibility},
    summary,
};

/// The content of `session_state.json`: the session, its run, and its recorded facts.
pub fn session_state(session: &str, workspace: &Path, run: Option<(&str, u64)>, known: Option<&Session>) -> Value {
    json!({
        "schema": 1,
        "session": session,
        "workspace": name::display(workspace.as_os_str().as_encoded_bytes()),
        "run": run.map(|(run, _)| run),
        "epoch": run.map_or(0, |(_, epoch)| epoch),
        "status": known.map(|session| session.status),
        "project": known.and_then(|session| session.project.clone()),
        "policy": known.and_then(|session| session.policy.clone()),
    })
}

/// The parts to capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureParts {
    /// The conversation, or the reason why it was not found, with which the part fails; none if the session has no conversation.
    pub conversation: Option<Result<Source, String>>,
    /// The content of `session_state.json`. None for a folder that no agent works in.
    pub session_state: Option<Value>,
    /// Jobs that run while the workspace is walked.
    pub jobs: Vec<Job>,
    /// Files that the session worked on are listed for whoever takes up the work: of this workspace, by these settings. None for a
    /// folder that no agent works in.
    pub context: Option<(PathBuf, config::Context)>,
    /// The last summary by a model, which the session's summary takes in.
    pub by_model: Option<summary::ModelSummary>,
    /// Costs that the agent has printed, by conversation.
    pub printed: BTreeMap<String, f64>,
    /// Prices of models.
    pub cost: config::Cost,
    /// Folder in which indexes of conversations are kept from one capture to the next.
    pub cache: PathBuf,
}

/// Captures a session's state, together with a workspace.
#[derive(Debug)]
pub struct Capture {
    wanted: CaptureParts,
    before: Option<Result<LiveConversation, String>>,
    running: Vec<RunningJob>,
    warnings: Vec<String>,
}

impl State for Capture {
    fn begin(&mut self) {
        self.running = self.wanted.jobs.iter().map(Job::start).collect();
        let look = |source: &Source| LiveConversation::look(source, &self.wanted.cache).map_err(|e| e.to_string());
        let conversation = self.wanted.conversation.as_ref();
        self.before = conversation.map(|source| source.as_ref().map_err(String::clone).and_then(look));
    }

    fn finish(&mut self, seen: &CapturedWorkspace<'_>) -> CapturedState {
        let mut captured = CapturedState::default();
        let running = std::mem::take(&mut self.running);
        let (conversation, later) = self.take_conversation(&mut captured);
        let wanted = &self.wanted;
        if let Some(conversation) = &conversation {
            wanted.tell_printed(&mut captured);
            wanted.price(conversation, &mut captured);
        }
        self.warnings = std::thread::scope(|scope| {
            if let (Some(Ok(source)), Some(index)) = (&wanted.conversation, later.as_ref().or(conversation.as_ref())) {
                // For the next capture; nothing of this one waits for it, where there is a thread for it.
                threads::beside_or_here(scope, || current::keep(index, source, &wanted.cache));
            }
            let git = running.into_iter().fold(None, |git, running| running.take(&mut captured).or(git));
            if let Some(git) = git.as_ref().filter(|_| !seen.omissions.is_empty()) {
                captured.git = Some(git.record_without(&|path| seen.is_left_out(path)));
            }
            wanted.summarize(conversation.as_ref(), git.as_ref(), &mut captured);
            wanted.list_context(conversation.as_ref(), git.as_ref(), seen, &mut captured)
        });
        if let Some(state) = &self.wanted.session_state {
            let state = serde_json::to_vec_pretty(state).unwrap_or_default();
            captured.files.push(file(SESSION_STATE, "session_state.json", state));
            captured.parts.insert(SESSION_STATE.to_owned(), Part::Captured);
        }
        captured
    }
}

impl CaptureParts {
    /// Tells the cost that the agent has printed, where its transcript has none, or one of less.
    fn tell_printed(&self, captured: &mut CapturedState) {
        let id = captured.conversation.as_ref().and_then(|record| record["agent_session_id"].as_str());
        let Some(printed) = id.and_then(|id| self.printed.get(id)) else { return };
        let Some(usage) = captured.usage.as_mut() else { return };
        if usage["cost_estimate_usd"].as_f64().is_none_or(|cost| cost < *printed) {
            usage["cost_estimate_usd"] = json!(printed);
            usage["cost_source"] = json!(PRINTED);
        }
    }

    /// Tells the cost by the prices of the models, where the agent does not.
    fn price(&self, conversation: &Conversation, captured: &mut CapturedState) {
        let Some(usage) = captured.usage.as_mut().filter(|usage| usage["cost_estimate_usd"].is_null()) else { return };
        if let Some(cost) = self.cost.of(&conversation.usage_by_model()) {
            usage["cost_estimate_usd"] = json!(cost);
            usage["cost_source"] = json!(BY_PRICES);
        }
    }

    /// Sums up the session. A session whose user does not want to have it told what was done has no summary.
    fn summarize(&self, conversation: Option<&Conversation>, git: Option<&git::State>, captured: &mut CapturedState) {
        let (Some((workspace, settings)), Some(conversation)) = (&self.context, conversation) else { return };
        let session = self.session_state.as_ref().and_then(|state| state["session"].as_str());
        let Some(session) = session.filter(|_| settings.capture_analysis) else { return };
        let id = conversation.main.facts.agent_session.as_deref();
        let model = self.by_model.clone().filter(|model| model.is_of(id));
        let summary = summary::Summary { model, ..summary::of(summary::Sources { session, workspace, conversation, git }) };
        let json = serde_json::to_vec_pretty(&summary).unwrap_or_default();
        captured.files.push(file(summary::PART, summary::JSON_FILE, json));
        captured.files.push(file(summary::PART, summary::MARKDOWN_FILE, summary::markdown(&summary).into_bytes()));
        captured.parts.insert(summary::PART.to_owned(), Part::Captured);
    }

    /// Lists the files that the session worked on. Returns what is to be said of it.
    fn list_context(
        &self,
        conversation: Option<&Conversation>,
        git: Option<&git::State>,
        seen: &CapturedWorkspace<'_>,
        captured: &mut CapturedState,
    ) -> Vec<String> {
        let Some((workspace, settings)) = &self.context else { return Vec::new() };
        let mut warnings = Vec::new();
        let listed = context::list(workspace, conversation, git, settings, seen.ids).map(|mut listed| {
            agree(&mut listed, seen);
            warnings.clone_from(&listed.warnings);
            captured.files.push(file(CONTEXT, "context.json", serde_json::to_vec_pretty(&listed).unwrap_or_default()));
            true
        });
        set_part(&mut captured.parts, CONTEXT, listed.map_err(|e| e.to_string()));
        warnings
    }
}

impl Capture {
    /// Captures this.
    pub fn new(wanted: CaptureParts) -> Self {
        Capture { wanted, before: None, running: Vec::new(), warnings: Vec::new() }
    }

    /// Warnings about the list of files for the user, once it is captured.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The conversation as it was cut, and its index as it is now, where that is another one.
    fn take_conversation(&mut self, captured: &mut CapturedState) -> (Option<Conversation>, Option<Conversation>) {
        let looked = self.before.take();
        let outcome = looked.as_ref().map_or(Ok(false), |looked| looked.as_ref().map(|_| true).map_err(String::clone));
        set_part(&mut captured.parts, CONVERSATION, outcome);
        let Some(Ok(mut before)) = looked else { return (None, None) };
        let again = match &self.wanted.conversation {
            Some(Ok(source)) => before.again(source).ok(),
            _ => None,
        };
        let (consistency, later) = again.unwrap_or((Consistency::Unknown, None));
        captured.consistency = consistency;
        (Some(before.take(captured)), later)
    }
}

/// Names the blobs that the checkpoint holds: a file may have changed between the walk and the listing, and one that is too large to be shown
/// was not read for the listing at all.
fn agree(listed: &mut context::Context, seen: &CapturedWorkspace<'_>) {
    let may_be_held =
        |fit| matches!(fit, Eligibility::Fits | Eligibility::OverFileCap | Eligibility::OverTotalCap | Eligibility::Unreadable);
    let files = listed.files.iter_mut().filter(|file| may_be_held(file.fit));
    let mut files: Vec<(Vec<u8>, &mut context::File)> = files.map(|file| (name::parse(&file.path), file)).collect();
    // In this order each folder is read once, however many of its files are listed.
    files.sort_unstable_by(|a, b| a.0.split(|&byte| byte == b'/').cmp(b.0.split(|&byte| byte == b'/')));
    for (path, file) in files {
        if seen.is_left_out(&path) {
            (file.blob, file.sha256) = (None, None);
            continue;
        }
        let Some(Kind::File { size, blob, .. }) = seen.entry(&path).map(|node| node.kind) else { continue };
        let blob = Some(blob.to_string());
        if file.blob != blob {
            (file.blob, file.size_bytes, file.sha256) = (blob, Some(size), None);
        }
    }
}
