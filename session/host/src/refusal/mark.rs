//! Reasons for which something is not said of a checkpoint or a session: tags, labels, annotations and links.

use jiff::Timestamp;
use parhelia_store::id::Ulid;

use super::words::{by, listed};

/// The reason for which a mark is refused, or stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkRefusal {
    /// The text is no tag.
    #[error(
        "'{tag}' cannot be a tag: {why}; a tag is one name or several with '/' between them, such as release/1.2, in at most {} bytes",
        parhelia_ledger::TAG_BYTES_MAX
    )]
    NoTag {
        /// The text.
        tag: String,
        /// The fault.
        why: &'static str,
    },
    /// The text is no label of a session, or no part of a selector.
    #[error("'{label}' is no label: {why}")]
    NoLabel {
        /// The text.
        label: String,
        /// The fault.
        why: &'static str,
    },
    /// A session would have too many labels.
    #[error("session {session} would have more than {labels_max} labels")]
    TooManyLabels {
        /// Id of the session that was to be labelled.
        session: String,
        /// So many it may have.
        labels_max: usize,
    },
    /// The text is no pattern of tags.
    #[error("'{pattern}' is no pattern of tags: {why}; give one such as release/*, release/** or **/v1")]
    NoPattern {
        /// The text.
        pattern: String,
        /// The fault.
        why: String,
    },
    /// The text is no annotation.
    #[error("the text cannot be an annotation or a reason: {why}")]
    NoAnnotation {
        /// The fault.
        why: &'static str,
    },
    /// The text names no issue.
    #[error(
        "cannot link to '{link}': {why}; give the URL of an issue or a pull request of GitHub, OWNER/REPO#12, the URL of an issue of Linear, an \
         id of Beads such as bd-a1b2, or any other http or https URL"
    )]
    NoLink {
        /// The text.
        link: String,
        /// The fault.
        why: &'static str,
    },
    /// The checkpoint was deleted.
    #[error("checkpoint {checkpoint} was deleted{} on {}", by(user.as_ref()), at.strftime("%Y-%m-%d at %H:%M:%S UTC"))]
    IsDeleted {
        /// Id of the deleted checkpoint.
        checkpoint: Ulid,
        /// Time of the deletion.
        at: Timestamp,
        /// By whom, where it was a person.
        user: Option<String>,
    },
    /// The checkpoint does not have the tag.
    #[error("checkpoint {checkpoint} does not have the tag '{tag}'; it has {}", listed(has))]
    NotTagged {
        /// Id of the checkpoint that was to be untagged.
        checkpoint: Ulid,
        /// The tag that was to be removed.
        tag: String,
        /// The tags that it has.
        has: Vec<String>,
    },
    /// The checkpoint is not linked to the issue.
    #[error("checkpoint {checkpoint} is not linked to {link}; it is linked to {}", listed(has))]
    NotLinked {
        /// Id of the checkpoint that was to be unlinked.
        checkpoint: Ulid,
        /// The address of the issue.
        link: String,
        /// The addresses that it is linked to.
        has: Vec<String>,
    },
    /// Somebody has marked the checkpoint, so that it is not deleted by mistake.
    #[error("cannot delete checkpoint {checkpoint}: it is {why}")]
    IsProtected {
        /// Id of the checkpoint, which is kept.
        checkpoint: Ulid,
        /// Its marks.
        why: String,
    },
}
