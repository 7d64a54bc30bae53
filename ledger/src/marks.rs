//! Marks of a checkpoint: statements about it after it was sealed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use parhelia_store::check::VerifyLevel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::rejected::RejectedContent;

/// Status of a checkpoint's approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// Somebody has to look at it.
    Pending,
    /// A person approved it.
    Approved,
    /// A person rejected it.
    Rejected,
    /// A policy approved it.
    AutoApproved,
}

impl ApprovalStatus {
    /// Its name, as stored.
    pub fn name(self) -> &'static str {
        match self {
            ApprovalStatus::Pending => "pending",
            ApprovalStatus::Approved => "approved",
            ApprovalStatus::Rejected => "rejected",
            ApprovalStatus::AutoApproved => "auto_approved",
        }
    }
}

/// The last decision about a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The decision.
    pub status: ApprovalStatus,
    /// The person who decided; none for a program.
    pub user: Option<String>,
    /// True if an agent decided in that person's name, as the person's settings allow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
    /// Time of the decision.
    pub timestamp: Timestamp,
    /// The reason that was given; none without one.
    pub reason: Option<String>,
    /// By which policy; of a person's decision, the one that had asked for it.
    pub policy: Option<String>,
    /// By which rule of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Digest of the rules by which the policy decided then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
    /// What the checkpoint had, where it was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<RejectedContent>,
}

impl Approval {
    /// Whoever decided, for people: a person, or an agent in the name of one; none for a program.
    pub fn who(&self) -> Option<String> {
        let user = self.user.as_ref()?;
        Some(if self.by_agent { format!("an agent for {user}") } else { user.clone() })
    }

    /// True if a person decided: no policy's word counts against that.
    pub fn is_by_person(&self) -> bool {
        self.user.is_some() && matches!(self.status, ApprovalStatus::Approved | ApprovalStatus::Rejected)
    }
}

/// An annotation of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Annotation {
    /// Time at which it was made.
    pub timestamp: Timestamp,
    /// Person who made it.
    pub user: Option<String>,
    /// Text of the remark, which may have several lines.
    pub text: String,
}

/// An issue that a checkpoint is linked to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Link")]
pub struct Issue {
    /// github, linear, beads, url.
    pub tracker: String,
    /// Id of the issue there; of `url` its address.
    pub id: String,
    /// Address; of Beads `beads:` and the id.
    pub url: String,
}

/// A verification of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Thoroughness: new, index, part, deep.
    #[schemars(with = "String", extend("enum" = ["new", "index", "part", "deep"]))]
    pub level: VerifyLevel,
    /// True if nothing was damaged.
    pub ok: bool,
    /// Time of the verification.
    pub at: Timestamp,
    /// Parts that should have been there, and were not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
}

/// A text that looks like a credential.
// The text itself is never part of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PossibleSecret {
    /// Rule that found it, such as github-token.
    pub rule: String,
    /// Path of the file in the workspace.
    pub path: String,
    /// Line in the file, from 1.
    pub line: u64,
    /// Digits of a hash by which it is known again in the same store.
    pub fingerprint: String,
}

/// Files that were not scanned, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct UnscannedCounts {
    /// No text.
    pub binary: u64,
    /// Longer than 1 MiB.
    pub too_large: u64,
    /// Allowed by their path.
    pub allowed: u64,
    /// Not to be read from the store.
    pub unreadable: u64,
    /// Not reached before an interruption.
    pub not_reached: u64,
}

impl UnscannedCounts {
    /// The number of files that may hold secrets nobody has looked for.
    pub fn total(&self) -> u64 {
        self.binary + self.too_large + self.allowed + self.unreadable + self.not_reached
    }
}

/// The last scan of a checkpoint for secrets, of what its parent did not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// Time of the scan.
    pub at: Timestamp,
    /// The number of possible secrets.
    #[serde(default)]
    pub found: u64,
    /// The first of them, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<PossibleSecret>,
    /// The number of files that were left out of the checkpoint because of them.
    #[serde(default)]
    pub left_out: u64,
    /// The number of secrets that a comment beside them allows.
    #[serde(default)]
    pub allowed: u64,
    /// The number of files that were scanned.
    #[serde(default)]
    pub files: u64,
    /// Those that were not.
    #[serde(default)]
    pub unscanned: UnscannedCounts,
}

/// The end of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Time of the deletion.
    pub at: Timestamp,
    /// By whom, where it was a person.
    pub user: Option<String>,
    /// The reason that was given; none without one.
    pub reason: Option<String>,
    /// The checkpoint that it came from; none of the first one, and where an earlier release deleted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Ulid>,
}

/// Everything that events said of a checkpoint. It outlives the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Marks {
    /// Tags that it bears, such as `release/1.2`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Those of them that agents alone have made.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub by_agents: BTreeSet<String>,
    /// Remarks, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<Annotation>,
    /// References to issues.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub links: BTreeSet<Issue>,
    /// The addresses of those that no person has asked for, or confirmed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub asked: BTreeSet<String>,
    /// The last decision about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Its last verification; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verification: Option<Verification>,
    /// Its last scan for secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
    /// Set once it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Deletion>,
}

impl Marks {
    /// True of a link that an agent or an import made, and that no person has confirmed.
    pub fn is_asked(&self, issue: &Issue) -> bool {
        self.asked.contains(&issue.url)
    }
}

/// The most bytes of a tag.
pub const TAG_BYTES_MAX: usize = 200;

/// The fault of a text that is no tag; `None` if it is one. Tags are paths of names, such as `milestone/v1.0`. Whoever makes tags may be stricter.
pub(crate) fn tag_fault(tag: &str) -> Option<&'static str> {
    match tag {
        "" => Some("a tag must not be empty"),
        _ if tag.len() > TAG_BYTES_MAX => Some("a tag has at most 200 bytes"),
        _ if tag.chars().any(|c| c.is_control() || c.is_whitespace()) => Some("a tag has neither spaces nor control characters"),
        _ if tag.split('/').any(|part| part.is_empty() || part == "." || part == "..") => {
            Some("the parts of a tag, between slashes, are names")
        }
        _ => None,
    }
}
