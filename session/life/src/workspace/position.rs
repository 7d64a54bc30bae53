//! The checkpoint at which a folder stands: the newest of its sessions, or the one that was gone back to since.

use parhelia_ledger::{Conversation, Session};
use parhelia_store::{Store, record::Checkpoint};

use parhelia_host::{
    Result,
    intent::{last, last_rolled_back},
};

/// The checkpoint at which a folder of these sessions stands, where `newest` is the newest of theirs. A safety checkpoint is a copy of what was
/// left, unless an undo has gone back to it.
pub fn of_folder(store: &Store, sessions: &[Session], newest: Checkpoint) -> Result<Checkpoint> {
    let view = store.view();
    let since = last_rolled_back(store, sessions.to_vec())?;
    let since = since.filter(|session| last(session).and_then(|last| last.sequence).is_some_and(|at| at > newest.sequence));
    let session = since.or_else(|| sessions.iter().find(|session| session.id == newest.record.session).cloned());
    let Some(session) = session else { return Ok(newest) };
    // A safety checkpoint, or one of another folder at its path.
    let is_left =
        |head: &Checkpoint| !head.record.may_be_latest() && last(&session).is_none_or(|last| last.target != head.record.id);
    Ok(view.head(&session.id)?.filter(|head| !is_left(head)).unwrap_or(newest))
}

/// True if nothing was captured since a rollback that took the conversation along: it is as the head has it.
pub fn is_gone_back(session: &Session) -> bool {
    last(session).is_some_and(|last| last.with_conversation && session.head == Some(last.target))
}

/// The conversations of a session as they are now: that of a head which a rollback went back to has no more turns than that.
pub fn conversations(session: &Session, head: Option<&Checkpoint>) -> Vec<Conversation> {
    let mut conversations = session.conversations.clone();
    let Some(saved) = head.filter(|_| is_gone_back(session)).and_then(|head| head.record.conversation.as_ref()) else {
        return conversations;
    };
    let id = saved.get("agent_session_id").and_then(|id| id.as_str());
    for conversation in conversations.iter_mut().filter(|one| Some(one.id.as_str()) == id) {
        conversation.turn_count = saved.get("turn_count").and_then(|count| count.as_u64());
    }
    conversations
}
