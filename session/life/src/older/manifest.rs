//! The manifest of an older checkpoint, schema 1.0, 1.1 or 1.2. The schemas differ in which fields there are, so that one reader takes all.

use jiff::Timestamp;
use parhelia_store::{
    name,
    record::{Consistency, Trigger},
};
use serde_json::{Map, Value, json};

use super::fields::Fields;
use parhelia_host::Result;

/// Versions of the schema that are read.
const VERSIONS: [&str; 3] = ["1.0", "1.1", "1.2"];
/// The archive of a manifest that names none.
const ARCHIVE: &str = "workspace.tar.zst";
/// Most paths of uncommitted files in a record, and their bytes.
const PATHS_MAX: usize = 100;
const PATHS_BYTES_MAX: usize = 8 << 10;

/// The fields of a manifest, as far as a record has a place for them.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) id: Option<String>,
    pub(super) session: Option<String>,
    pub(super) trigger: Option<Trigger>,
    pub(super) message: String,
    pub(super) started_at: Option<Timestamp>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) consistency: Consistency,
    /// The archive of the workspace: a file of the folder.
    pub(super) archive: String,
    /// The folder that was captured, as shown text.
    pub(super) workspace: Option<String>,
    /// Counters of the conversation that are known.
    pub(super) conversation: Map<String, Value>,
    /// Cost, tools and files that are known.
    pub(super) usage: Map<String, Value>,
    pub(super) git: Option<Value>,
    /// The identity that it had there, and its approval: facts that are that store's.
    pub(super) from: Value,
}

impl Manifest {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Self> {
        let version = fields.text("version")?.unwrap_or_default();
        if !VERSIONS.contains(&version.as_str()) {
            let text = name::printable(&version);
            return Err(fields.refused("version", format!("is '{text}', and {} are read", VERSIONS.join(", "))));
        }
        let (id, session) = (fields.text("id")?, fields.text("session_id")?);
        let (started_at, created_at) = (fields.time("started_at")?, fields.time("created_at")?);
        let trigger = word(fields, "trigger", "no trigger")?;
        let workspace = fields.object("workspace")?;
        let from = json!({
            "version": version,
            "id": id,
            "session_id": session,
            "created_at": created_at.map(|at| at.to_string()),
            "trigger_detail": fields.text("trigger_detail")?,
            "parent_checkpoint_id": fields.text("parent_checkpoint_id")?,
            "checkpoint_chain_depth": fields.number("checkpoint_chain_depth")?,
            "checksum": fields.text("checksum")?,
            "approval": approval(&fields.object("approval")?)?,
        });
        Ok(Manifest {
            message: message(fields, trigger, id.as_deref(), created_at)?,
            id,
            session,
            trigger,
            started_at,
            created_at,
            consistency: word(fields, "consistency", "no consistency")?.unwrap_or_default(),
            archive: archive(&workspace)?,
            workspace: source(fields, &workspace)?,
            conversation: conversation(fields)?,
            usage: usage(fields)?,
            git: git(fields, &workspace)?,
            from,
        })
    }
}

/// A word that has a meaning in records, as a trigger has.
fn word<T: serde::de::DeserializeOwned>(fields: &Fields<'_>, name: &str, why: &str) -> Result<Option<T>> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let found = serde_json::from_value(Value::from(text.as_str()));
    found.map(Some).map_err(|_| fields.refused(name, format!("is '{}', which is {why}", name::printable(&text))))
}

/// The message of its maker, or else one that says what it was.
fn message(fields: &Fields<'_>, trigger: Option<Trigger>, id: Option<&str>, at: Option<Timestamp>) -> Result<String> {
    if let Some(message) = fields.text("message")? {
        return Ok(message);
    }
    let made = [trigger.as_ref().map(Trigger::name), Some("checkpoint"), id];
    let text = made.into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(at.map_or(text.clone(), |at| format!("{text}, made at {at}")))
}

/// The archive, which lies in the folder itself.
fn archive(workspace: &Fields<'_>) -> Result<String> {
    let Some(archive) = workspace.text("path")? else { return Ok(ARCHIVE.into()) };
    if archive.contains('/') || !name::is_valid(archive.as_bytes()) {
        let text = name::printable(&archive);
        return Err(workspace.refused("path", format!("is '{text}', which is no file in its folder; put the archive there")));
    }
    Ok(archive)
}

/// The folder that was captured: `workspace.source` is shown text already.
fn source(fields: &Fields<'_>, workspace: &Fields<'_>) -> Result<Option<String>> {
    let source = workspace.text("source")?.map(|shown| name::parse(&shown));
    let plain = fields.text("working_directory")?.map(String::into_bytes);
    let is_path = |path: &Vec<u8>| path.starts_with(b"/") && !path.contains(&0);
    Ok(source.or(plain).filter(is_path).map(|path| name::display(&path)))
}

/// The first of some values that is known.
fn first<T>(values: [Result<Option<T>>; 2]) -> Result<Option<T>> {
    let [one, other] = values;
    Ok(one?.or(other?))
}

/// The entries whose value is known.
fn known(entries: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Map<String, Value> {
    entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn conversation(fields: &Fields<'_>) -> Result<Map<String, Value>> {
    let told = fields.object("conversation")?;
    // Some programs write these fields beside the others.
    let number = |name: &str| first([told.number(name), fields.number(name)]);
    Ok(known([
        ("turn_count", number("turn_count")?.map(Value::from)),
        ("last_message_id", first([told.text("last_message_id"), fields.text("last_message_id")])?.map(Value::from)),
        ("tokens_used", number("tokens_used")?.map(Value::from)),
        ("has_resume_token", told.truth("has_resume_token")?.map(Value::from)),
    ]))
}

fn usage(fields: &Fields<'_>) -> Result<Map<String, Value>> {
    let metrics = fields.object("metrics")?;
    let modified = match metrics.value("files_modified") {
        Some(Value::Array(files)) => Some(files.len() as u64),
        _ => metrics.number("files_modified")?,
    };
    let cost = first([metrics.amount("cost_estimate_usd"), fields.amount("cost_estimate")])?;
    Ok(known([
        ("cost_estimate_usd", cost.map(Value::from)),
        ("cost_source", cost.map(|_| "manifest".into())),
        ("tools_invoked", first([metrics.texts("tools_invoked"), fields.texts("tools_invoked")])?.map(Value::from)),
        ("files_modified_count", modified.map(Value::from)),
    ]))
}

/// The state of git, with the uncommitted files, as a record has it.
fn git(fields: &Fields<'_>, workspace: &Fields<'_>) -> Result<Option<Value>> {
    let git = fields.object("git")?;
    let all = first([workspace.texts("uncommitted_files"), fields.texts("uncommitted_changes")])?;
    let count = workspace.number("uncommitted_count")?.or(all.as_ref().map(|all| all.len() as u64));
    let mut bytes = 0;
    let listed = all.map(|all| {
        let fits = |path: &String| {
            bytes += path.len();
            bytes <= PATHS_BYTES_MAX
        };
        all.into_iter().take(PATHS_MAX).take_while(fits).collect::<Vec<_>>()
    });
    let state = known([
        ("branch", git.text("branch")?.map(Value::from)),
        ("head", git.text("head")?.map(Value::from)),
        ("has_stash", git.truth("has_stash")?.map(Value::from)),
        ("dirty", git.truth("dirty")?.map(Value::from)),
        ("uncommitted_count", count.map(Value::from)),
        ("uncommitted_files", listed.map(Value::from)),
    ]);
    Ok((!state.is_empty()).then(|| state.into()))
}

/// The approval that somebody has given there.
fn approval(told: &Fields<'_>) -> Result<Option<Value>> {
    const STATUSES: [&str; 4] = ["pending", "approved", "rejected", "auto_approved"];
    if told.is_absent() {
        return Ok(None);
    }
    let status = told.text("status")?.unwrap_or_default();
    if !STATUSES.contains(&status.as_str()) {
        let text = name::printable(&status);
        return Err(told.refused("status", format!("is '{text}', where one of {} must be", STATUSES.join(", "))));
    }
    let at = told.time("timestamp")?.map(|at| at.to_string());
    Ok(Some(Value::Object(known([
        ("status", Some(status.into())),
        ("user", told.text("user")?.map(Value::from)),
        ("timestamp", at.map(Value::from)),
        ("reason", told.text("reason")?.map(Value::from)),
        ("policy", told.text("policy")?.map(Value::from)),
    ]))))
}
