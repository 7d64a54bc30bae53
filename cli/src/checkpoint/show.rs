//! `checkpoint show`: everything about one checkpoint.

use jiff::Timestamp;
use parhelia_store::{
    manifest::Manifest,
    omitted::{Omission, Reason},
    record::{Checkpoint, Part, Rules},
    selector::select,
};
use serde_json::{Value, json};

use crate::{
    context::Context,
    exit::{Code, Result},
    human,
    output::Style,
};

/// Omissions that are shown without `--verbose`.
const OMISSIONS_SHOWN: usize = 10;

/// Flags of `checkpoint show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(default_value = "latest")]
    checkpoint: String,
}

/// Prints it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let checkpoints = store.checkpoints()?;
    let checkpoint = select(&checkpoints, &args.checkpoint)?;
    let omissions = store.omissions(checkpoint)?;
    if context.out.json {
        context.out.object("manifest", Manifest::of(checkpoint).to_json())?;
        for omission in &omissions {
            context.out.object("omission", omission_json(omission))?;
        }
        context.out.summary(json!({ "id": checkpoint.id(), "omissions": omissions.len() }))?;
        return Ok(Code::Done);
    }
    for (label, value) in facts(checkpoint) {
        let label = context.out.styled(Style::Bold, format!("{label:<12}"));
        context.out.line(format!("{label}{value}"))?;
    }
    let shown = if context.global.verbose { omissions.len() } else { OMISSIONS_SHOWN };
    for omission in omissions.iter().take(shown) {
        context.out.line(format!("  {}", omission_text(omission)))?;
    }
    if omissions.len() > shown {
        context.out.line(format!("  and {} more (--verbose lists them)", omissions.len() - shown))?;
    }
    Ok(Code::Done)
}

fn facts(checkpoint: &Checkpoint) -> Vec<(&'static str, String)> {
    let record = &checkpoint.record;
    let workspace = &record.workspace;
    let mut facts = vec![
        ("Checkpoint", checkpoint.id()),
        ("Session", format!("{}, its {}", human::path(record.session.as_bytes()), ordinal(record.depth))),
        ("Created", format!("{} ({})", human::local(record.created_at), human::ago(record.created_at, Timestamp::now()))),
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
    facts.push(("Workspace", workspace.path.clone()));
    let (files, folders) = (human::count(workspace.files, "file"), human::count(workspace.folders, "folder"));
    facts.push(("Size", format!("{} in {files}, {folders}", human::size(workspace.bytes))));
    for (name, part) in &record.parts {
        if let Part::Failed { error } = part {
            facts.push(("Failed", format!("{name}: {error}")));
        }
    }
    facts.push(("Excludes", rules_text(&record.rules)));
    facts.push(("Root", record.root.to_string()));
    facts.push(("Checksum", checkpoint.checksum()));
    if let Some(omitted) = &record.omitted {
        let text = format!("{} excluded, {} unreadable, {} changing", omitted.excluded, omitted.unreadable, omitted.changing);
        facts.push(("Left out", text));
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

/// What was left out and why, for people.
pub fn omission_text(omission: &Omission) -> String {
    let path = human::path(&omission.path);
    match &omission.reason {
        Reason::Excluded(rule) => format!("{path}: excluded ({rule})"),
        Reason::Unreadable(error) => format!("{path}: not read: {error}"),
        Reason::Changing => format!("{path}: kept changing; stored as it was read last"),
    }
}

/// What was left out and why, for programs.
pub fn omission_json(omission: &Omission) -> Value {
    let (reason, detail) = match &omission.reason {
        Reason::Excluded(rule) => ("excluded", Some(rule)),
        Reason::Unreadable(error) => ("unreadable", Some(error)),
        Reason::Changing => ("changing", None),
    };
    json!({ "path": human::path(&omission.path), "reason": reason, "detail": detail })
}
