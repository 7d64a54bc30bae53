//! `phase create`: a new one.

use std::path::Path;

use parhelia_host::Host;
use parhelia_knowledge::phase::{Criterion, CriterionStatus, Home, PHASES_MAX, PhaseRequest};
use parhelia_store::name::NameExt as _;
use parhelia_wire::Summary;
use serde_json::{Map, Value};

use super::{object, told};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    input,
};

/// The longest metadata, in bytes.
const METADATA_BYTES_MAX: u64 = 4 << 20;
/// The variable with the name of the session, as the program that makes such checkpoints has it.
const SESSION: &str = "PAI_SESSION_ID";

/// Flags of `phase create`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The phase's name
    phase: String,
    /// Its number, from 1 to 7
    #[arg(short, long, value_parser = clap::value_parser!(u8).range(1..=i64::from(PHASES_MAX)))]
    number: u8,
    /// The task, in about eight words
    #[arg(short, long)]
    task: String,
    /// Something that the task is measured by: its id, its status (pending, in_progress, completed), and what it asks for
    #[arg(short, long = "criterion", value_name = "ID:STATUS:SUBJECT", value_parser = criterion)]
    criteria: Vec<Criterion>,
    /// A JSON object that is to be found again; `@FILE` reads it from a file, `-` from standard input
    #[arg(short, long, value_name = "JSON")]
    metadata: Option<String>,
    /// The session's name [default: PAI_SESSION_ID, else unknown]
    #[arg(short, long)]
    session: Option<String>,
}

/// Makes it.
pub fn run(context: &mut Context, home: &Home, args: &Args) -> Result<Code> {
    let host = context.host()?;
    let named = || host.variable(SESSION).and_then(|name| name.into_string().ok()).filter(|name| !name.is_empty());
    let request = PhaseRequest {
        session: args.session.clone().or_else(named).unwrap_or_else(|| "unknown".into()),
        phase: args.phase.clone(),
        number: args.number,
        task: args.task.clone(),
        criteria: args.criteria.clone(),
        metadata: args.metadata.as_deref().map(metadata).transpose()?.unwrap_or_default(),
    };
    let saved = told(home.create(request, host.now())?);
    context.out.did(format!("phase checkpoint {} is created", saved.phase.id));
    match context.out.json {
        true => context.out.object(object(&saved))?,
        false => context.out.line(format!("Phase checkpoint {} created: {}.", saved.phase.id, saved.file.shown()))?,
    }
    context.out.summary(Summary::PhaseCreate { id: saved.phase.id })?;
    Ok(Code::Done)
}

/// A criterion as it is typed.
fn criterion(text: &str) -> std::result::Result<Criterion, String> {
    let mut parts = text.splitn(3, ':');
    let (Some(id), Some(status), Some(subject)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected ID:STATUS:SUBJECT, such as 1:pending:tests pass".into());
    };
    let status = CriterionStatus::of(status).ok_or("the status is pending, in_progress or completed")?;
    Ok(Criterion { id: id.to_owned(), subject: subject.to_owned(), status, extra: Map::new() })
}

/// Metadata as it is typed, or where it lies.
fn metadata(text: &str) -> Result<Map<String, Value>> {
    let text = match text.strip_prefix('@') {
        Some(path) => input::text_of(Path::new(path), METADATA_BYTES_MAX)?,
        None if text == "-" => input::text(METADATA_BYTES_MAX)?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|e| Failure::Usage(format!("the metadata is no JSON object: {e}")))
}
