//! A phase checkpoint: how far an algorithm has come with a task, as JSON whose fields F-010 gives.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use parhelia_host::{Error, Result};

/// The phases of an algorithm are numbered from one to this.
pub const PHASES_MAX: u8 = 7;
/// The longest name of a phase, and the longest task, in bytes.
const NAME_BYTES_MAX: usize = 1000;

/// The content of a phase checkpoint's file; keys are in camel case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Phase {
    /// Its id: short, random.
    pub id: String,
    /// The session that it belongs to, by its own program's name for it.
    pub session_id: String,
    /// The name of the phase.
    pub phase: String,
    /// Its number, from 1 to 7.
    pub phase_number: u8,
    /// The time at which it was made.
    pub created_at: Timestamp,
    /// True once the task is finished.
    pub completed: bool,
    /// The task, in a few words.
    pub task_summary: String,
    /// The criteria of the task.
    pub isc_criteria: Vec<Criterion>,
    /// Whatever the algorithm wants to find again.
    pub metadata: Map<String, Value>,
    /// Fields of other releases.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Something that a task is measured by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Criterion {
    /// The id that the author of the phase gave it.
    pub id: String,
    /// The demand.
    pub subject: String,
    /// The progress towards it.
    pub status: CriterionStatus,
    /// Fields of other releases.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The status of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionStatus {
    /// Nobody works on it.
    Pending,
    /// Somebody does.
    InProgress,
    /// It is met.
    Completed,
}

impl CriterionStatus {
    const ALL: [CriterionStatus; 3] = [CriterionStatus::Pending, CriterionStatus::InProgress, CriterionStatus::Completed];

    /// Its word in files and at the command line: `pending`, `in_progress` or `completed`.
    pub fn name(self) -> &'static str {
        match self {
            CriterionStatus::Pending => "pending",
            CriterionStatus::InProgress => "in_progress",
            CriterionStatus::Completed => "completed",
        }
    }

    /// The one of a name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }
}

impl Phase {
    /// Reads one. Fails where it is none, or a field is missing or makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let phase: Phase =
            serde_json::from_slice(bytes).map_err(|e| Error::Invalid(format!("it is no phase checkpoint: {e}")))?;
        phase.ensure_valid()?;
        Ok(phase)
    }

    /// Fails where a field makes no sense.
    pub fn ensure_valid(&self) -> Result<()> {
        let is_filled = |text: &str| !text.is_empty() && text.len() <= NAME_BYTES_MAX;
        for (what, text) in [("id", &self.id), ("session", &self.session_id), ("name of the phase", &self.phase)] {
            if !is_filled(text) {
                return Err(Error::Invalid(format!("the {what} must have 1 to {NAME_BYTES_MAX} bytes, and has {}", text.len())));
            }
        }
        // Files are named after it.
        if self.id.starts_with('.') || self.id.contains('/') || self.id.chars().any(char::is_control) {
            return Err(Error::Invalid(
                "the id of a phase checkpoint has no '/' and no control characters, and does not begin with '.'".into(),
            ));
        }
        if self.task_summary.len() > NAME_BYTES_MAX {
            let bytes = self.task_summary.len();
            return Err(Error::Invalid(format!("the task must be told in {NAME_BYTES_MAX} bytes at most, and has {bytes}")));
        }
        match (1..=PHASES_MAX).contains(&self.phase_number) {
            true => Ok(()),
            false => Err(Error::Invalid(format!("phases have numbers from 1 to {PHASES_MAX}, and not {}", self.phase_number))),
        }
    }

    /// The words for an agent that could go on with it.
    pub fn question(&self) -> String {
        format!("Resume from Phase {}? ({})", self.phase_number, self.task_summary)
    }

    /// The name of its file: time, phase and id, so that no two have the same.
    pub(super) fn file_name(&self) -> String {
        const SLUG_MAX: usize = 40;
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let slug: String = self.phase.chars().map(plain).take(SLUG_MAX).collect();
        format!("ckpt-{}-{slug}-{}.json", self.created_at.strftime("%Y-%m-%dT%H-%M-%SZ"), self.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn phase() -> Value {
        json!({
            "id": "abc", "sessionId": "s", "phase": "Plan it!", "phaseNumber": 3, "createdAt": "2026-02-01T12:00:00.250Z",
            "completed": false, "taskSummary": "Fix the parser",
            "iscCriteria": [{"id": "1", "subject": "It parses", "status": "in_progress", "weight": 2}],
            "metadata": {"branch": "fix", "deep": {"list": [1, null]}}, "later": {"field": true}
        })
    }

    #[test]
    fn what_it_has_is_what_it_had_also_what_nobody_knows() {
        let read = Phase::read(phase().to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap()["later"], json!({"field": true}));
        let written = serde_json::to_vec(&read).unwrap();
        assert_eq!(Phase::read(&written).unwrap(), read);
        assert_eq!(read.question(), "Resume from Phase 3? (Fix the parser)");
        assert_eq!(read.file_name(), "ckpt-2026-02-01T12-00-00Z-plan-it--abc.json");
    }

    #[test]
    fn what_makes_no_sense_is_none() {
        for (field, value) in [
            ("id", json!("")),
            ("id", json!(7)),
            ("id", json!("/../../victim/file")),
            ("id", json!("../x")),
            ("id", json!(".x")),
            ("id", json!("a\nb")),
            ("sessionId", json!("")),
            ("phase", json!("x".repeat(NAME_BYTES_MAX + 1))),
            ("phaseNumber", json!(0)),
            ("phaseNumber", json!(8)),
            ("phaseNumber", json!(2.5)),
            ("phaseNumber", json!("3")),
            ("createdAt", json!("yesterday")),
            ("completed", json!("no")),
            ("taskSummary", json!("x".repeat(NAME_BYTES_MAX + 1))),
            ("taskSummary", Value::Null),
            ("iscCriteria", json!([{"id": "1", "subject": "s", "status": "done"}])),
            ("iscCriteria", json!({})),
            ("metadata", json!([])),
        ] {
            let mut wrong = phase();
            wrong[field] = value.clone();
            assert!(Phase::read(wrong.to_string().as_bytes()).is_err(), "{field}: {value}");
        }
        for bytes in [&b""[..], b"{}", b"[", b"\xff"] {
            assert!(Phase::read(bytes).is_err());
        }
        for field in
            ["id", "sessionId", "phase", "phaseNumber", "createdAt", "completed", "taskSummary", "iscCriteria", "metadata"]
        {
            let mut short = phase();
            short.as_object_mut().unwrap().remove(field);
            assert!(Phase::read(short.to_string().as_bytes()).is_err(), "without {field}");
        }
    }
}
