//! `checkpoint show`: everything about one checkpoint.

use parhelia_ledger::{LedgerView as _, Marks, VerifyLevel};
use parhelia_life::{
    manifest::Manifest,
    mcp::{self, SavedState, Server, live::GivenBack},
};
use parhelia_oversight::review::unseen::Exclusions;
use parhelia_screen::human;
use parhelia_screen::words;
use parhelia_store::{
    Error, Store, clock,
    record::{Checkpoint, Consistency, Part, Rules},
};
use parhelia_wire::{Line, Summary};
use serde_json::Value;

use super::{marks, secrets};
use crate::{
    changed, complete,
    context::Context,
    exit::{Code, Failure, Result},
    output::Style,
    session,
};

/// Omissions that are shown without `--verbose`.
pub const OMISSIONS_SHOWN: usize = 10;

/// Flags of `checkpoint show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint, or a session by its id or name
    #[arg(default_value = "latest", value_name = "CHECKPOINT|SESSION", add = complete::checkpoints_and_sessions())]
    checkpoint: String,
}

/// Prints it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let view = store.view();
    let checkpoint = &match context.find(&store, &args.checkpoint) {
        Err(none @ (Failure::Store(Error::NoCheckpoint { .. } | Error::Invalid(_)) | Failure::NotFound(_))) => {
            return match view.session_named(&args.checkpoint) {
                Ok(session) => session::show::print(context, &store, &session),
                Err(Error::NoSession { .. }) => Err(none),
                Err(e) => Err(e.into()),
            };
        }
        found => found?,
    };
    let marks = view.marks(checkpoint.record.id)?;
    let omissions = match store.omissions(checkpoint) {
        // Deleted meanwhile, and collected.
        Err(e) if e.is_damage() && store.refresh()?.checkpoint(checkpoint.record.id)?.is_none() => {
            return Err(Error::NoCheckpoint { selector: args.checkpoint.clone() }.into());
        }
        other => other?,
    };
    if context.out.json {
        if let Value::Object(manifest) = Manifest::with(&store, checkpoint, &marks).to_json() {
            context.out.object(Line::Manifest(manifest))?;
        }
        for omission in &omissions {
            context.out.object(Line::Omission(omission.into()))?;
        }
        let omissions = omissions.len() as u64;
        context.out.summary(Summary::CheckpointShow { id: checkpoint.id(), omissions })?;
        return Ok(Code::Done);
    }
    context.out.page()?;
    let unseen = Exclusions::of(&store, None, checkpoint)?;
    for by in &unseen.by_rule {
        let line = format!("Left out by {}: {}", human::path(by.rule.as_bytes()), words::left_out(by));
        let line = context.out.styled(Style::Red, line);
        context.out.line(line)?;
    }
    context.out.facts(facts(checkpoint), 12)?;
    context.out.facts(servers(&store, checkpoint)?, 12)?;
    let shown = if context.global.verbose { omissions.len() } else { OMISSIONS_SHOWN };
    for omission in omissions.iter().take(shown) {
        context.out.line(format!("  {}", changed::omission_text(omission)))?;
    }
    if omissions.len() > shown {
        context.out.line(format!("  and {} more; -v names them", human::number((omissions.len() - shown) as u64)))?;
    }
    context.out.facts(said(&marks), 12)?;
    Ok(Code::Done)
}

fn facts(checkpoint: &Checkpoint) -> Vec<(&'static str, String)> {
    let record = &checkpoint.record;
    let workspace = &record.workspace;
    let mut facts = vec![
        ("Checkpoint", checkpoint.id()),
        ("Session", format!("{}, its {}", human::path(record.session.as_bytes()), ordinal(record.depth))),
        ("Created", format!("{} ({})", human::local(record.created_at), human::ago(record.created_at, clock::timestamp()))),
        (
            "Trigger",
            record.trigger_detail.as_ref().map_or_else(
                || record.trigger.name().to_owned(),
                |detail| format!("{} ({})", record.trigger.name(), human::path(detail.as_bytes())),
            ),
        ),
    ];
    if let Some(message) = &record.message {
        facts.push(("Message", human::path(message.as_bytes())));
    }
    if let Some(parent) = record.parent {
        facts.push(("Parent", parent.to_string()));
    }
    if let Some(from) = record.imported_from() {
        let text = |value: &Value| value.as_str().map(|text| human::path(text.as_bytes()));
        let approval = text(&from["approval"]["status"]).map(|status| format!(", {status} there")).unwrap_or_default();
        let version = text(&from["version"]).unwrap_or_default();
        facts.push(("Imported", format!("from a manifest of schema {version}{approval}")));
    }
    let another = if record.is_of_another_folder() { ", another folder than the session's" } else { "" };
    facts.push(("Workspace", format!("{}{another}", workspace.path)));
    let (files, folders) = (human::count(workspace.files, "file"), human::count(workspace.folders, "folder"));
    facts.push(("Size", format!("{} in {files}, {folders}", human::size(workspace.bytes))));
    if let Some(run) = &record.run {
        facts.push(("Run", format!("{run}, epoch {}{}", record.epoch, if record.fenced { "; fenced" } else { "" })));
    }
    let captured: Vec<&str> =
        record.parts.iter().filter(|(_, part)| **part == Part::Captured).map(|(name, _)| name.as_str()).collect();
    facts.push(("Parts", captured.join(", ")));
    for (name, part) in &record.parts {
        if let Part::Failed { error } = part {
            facts.push(("Failed", format!("{name}: {error}")));
        }
    }
    if record.conversation.is_some() {
        let during = match record.consistency {
            Consistency::TurnBoundary => ", between two turns".to_owned(),
            Consistency::MidTool => ", while a tool was running".to_owned(),
            Consistency::Unknown => String::new(),
            Consistency::Other(word) => format!(", {}", word.as_str()),
        };
        facts.push(("Turns", format!("{}{during}", shown(&record.conversation, "turn_count"))));
        facts.push(("Tokens", shown(&record.conversation, "tokens_used")));
        facts.push(("Cost", shown(&record.usage, "cost_estimate_usd")));
    }
    if record.git.is_some() {
        facts.push(("Git", format!("{} at {}", shown(&record.git, "branch"), shown(&record.git, "head"))));
    }
    facts.push(("Excludes", rules_text(&record.rules)));
    facts.push(("Root", record.root.to_string()));
    facts.push(("Checksum", checkpoint.checksum()));
    if let Some(omitted) = &record.omitted {
        let mut text = format!("{} excluded, {} unreadable, {} changing", omitted.excluded, omitted.unreadable, omitted.changing);
        if omitted.attributes > 0 {
            text.push_str(&format!(", {} without some attributes", omitted.attributes));
        }
        facts.push(("Left out", text));
    }
    facts
}

/// The MCP servers, and what is kept of each.
fn servers(store: &Store, checkpoint: &Checkpoint) -> Result<Vec<(&'static str, String)>> {
    let saved = mcp::saved(store, checkpoint)?.unwrap_or_default();
    let kept = |kept: &SavedState| match kept {
        SavedState::State { bytes, as_of: None, .. } => format!("its state, {}", human::size(*bytes)),
        SavedState::State { bytes, as_of: Some(at), .. } => {
            format!("its state of {}, {}", human::local(*at), human::size(*bytes))
        }
        SavedState::Files { files } => human::count(files.iter().filter(|file| file.file.is_some()).count() as u64, "file"),
        SavedState::Stateless { why } => format!("nothing: {}", human::path(why.as_bytes())),
        SavedState::NotAsked { why } => format!("not asked: {}", human::path(why.as_bytes())),
        SavedState::Failed { error } => format!("failed: {}", human::path(error.as_bytes())),
    };
    let servers = saved.servers.iter();
    Ok(servers
        .map(|(name, server)| {
            ("MCP server", format!("{}: {}{}", human::path(name.as_bytes()), kept(&server.kept), not_taken(server)))
        })
        .collect())
}

/// The state that a server did not take back as it was started, in words.
fn not_taken(server: &Server) -> String {
    match &server.given_back {
        Some(GivenBack { checkpoint, error: Some(why) }) => {
            format!("; it did not take back that of checkpoint {checkpoint}: {}", human::path(why.as_bytes()))
        }
        _ => String::new(),
    }
}

/// A field of what was captured; a dash where it is not known.
fn shown(value: &Option<Value>, name: &str) -> String {
    match value.as_ref().and_then(|value| value.get(name)) {
        None | Some(Value::Null) => "–".to_owned(),
        Some(Value::String(text)) => human::path(text.as_bytes()),
        Some(other) => other.to_string(),
    }
}

/// The marks that were added to the checkpoint later, as labels and texts.
fn said(marks: &Marks) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(verification) = &marks.verification {
        let level = match verification.level {
            VerifyLevel::New => {
                "every chunk that its parent does not have was in the index, and no content was read; the parent had been verified before"
            }
            VerifyLevel::Index => "every chunk was in the index, and no content was read",
            VerifyLevel::Part => "every chunk was there, and a part of the content was read",
            VerifyLevel::Deep => "every byte was read",
        };
        let found = if verification.ok { level } else { "it was damaged" };
        let lacks = match verification.incomplete.as_slice() {
            [] => String::new(),
            parts => human::path(format!("; it is incomplete: {}", parts.join(", ")).as_bytes()),
        };
        facts.push(("Verified", format!("{}: {found}{lacks}", human::local(verification.at))));
    }
    facts.extend(marks.scan.iter().flat_map(secrets::facts));
    if let Some(approval) = &marks.approval {
        let by = match (approval.who(), approval.policy.as_deref()) {
            (Some(who), _) => human::path(who.as_bytes()),
            (None, policy) => format!("policy {}", human::path(policy.unwrap_or("that is not named").as_bytes())),
        };
        let why = approval.reason.as_ref().map(|reason| format!(": {}", human::path(reason.as_bytes()))).unwrap_or_default();
        let rule = approval.rule.as_ref().map(|rule| format!(" ({})", human::path(rule.as_bytes()))).unwrap_or_default();
        facts.push(("Approval", format!("{} by {by}{rule}{why}", approval.status.name())));
    }
    if !marks.tags.is_empty() {
        facts.push(("Tags", marks::listed(&marks.tags)));
    }
    facts.extend(marks.links.iter().map(|issue| {
        let asked = if marks.is_asked(issue) { "  (asked for; no person has confirmed it)" } else { "" };
        ("Issue", format!("{}{asked}", marks::issue_at(issue)))
    }));
    for annotation in &marks.annotations {
        facts.extend(
            marks::annotation(annotation).into_iter().enumerate().map(|(i, line)| (if i == 0 { "Note" } else { "" }, line)),
        );
    }
    facts
}

fn ordinal(number: u64) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

fn rules_text(rules: &Rules) -> String {
    let mut parts = Vec::new();
    parts.push(if rules.defaults { "what can be regenerated" } else { "no defaults" }.to_owned());
    parts.extend(rules.patterns.iter().map(|pattern| human::path(pattern.as_bytes())));
    parts.extend(rules.if_present.iter().map(|name| format!("folders with {}", human::path(name.as_bytes()))));
    if rules.caches {
        parts.push("caches".into());
    }
    if rules.one_file_system {
        parts.push("other filesystems".into());
    }
    if rules.listed_only {
        parts.push("what was not listed".into());
    }
    parts.join(", ")
}
