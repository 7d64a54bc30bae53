//! Bounds of an index, so that no transcript, however long or hostile, makes it or the memory it takes grow without end. Where one is
//! reached, counters go on and the index says that its lists are not whole ([`Index::truncated`](super::Index::truncated)).

/// Longest line that is parsed, in bytes; a longer one is counted and passed over.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Longest line that is parsed of what an agent prints, in bytes: it is kept in memory beside the agent.
pub const PRINTED_LINE_BYTES_MAX: usize = 32 << 20;
/// Prompts that are listed; the oldest go first.
pub const TURNS_MAX: usize = 5_000;
/// Tool calls without a result that are remembered; the oldest go first.
pub const PENDING_MAX: usize = 256;
/// Distinct paths that are listed.
pub const FILES_MAX: usize = 10_000;
/// Distinct names of tools, models and kinds of record that are counted one by one.
pub const NAMES_MAX: usize = 256;
/// Entries of a to-do list.
pub const TODOS_MAX: usize = 1_000;
/// Messages whose usage may still be corrected by a later line.
pub const WINDOW: usize = 64;
/// Longest name or id, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
/// Longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Bytes kept of the first and the last prompt.
pub const PROMPT_BYTES_MAX: usize = 16 << 10;
/// Bytes kept of each listed prompt.
pub const TURN_BYTES_MAX: usize = 200;
/// Bytes kept of a system prompt.
pub const SYSTEM_PROMPT_BYTES_MAX: usize = 256 << 10;
/// Decisions that are kept; the oldest go first.
pub const DECISIONS_MAX: usize = 32;
/// Bytes kept of a decision or a question.
pub const DECISION_BYTES_MAX: usize = 500;
/// Questions of one reply or one call; of a reply the last are kept.
pub const QUESTIONS_MAX: usize = 8;
/// Bytes kept of the end of the model's last reply.
pub const REPLY_BYTES_MAX: usize = 4 << 10;
/// Longest input of a pending tool call that is kept, in bytes of JSON.
pub const INPUT_BYTES_MAX: usize = 64 << 10;
/// Most prompts that wait in the agent's queue.
pub const QUEUED_MAX: usize = 100;
/// Commands that are kept as the last ones.
pub const COMMANDS_MAX: usize = 30;
/// Bytes kept of a command, and of the line that says why it failed.
pub const COMMAND_BYTES_MAX: usize = 240;
/// Commands that failed.
pub const FAILURES_MAX: usize = 40;
/// Steps between a failure and what came of it.
pub const STEPS_MAX: usize = 6;
/// Edits that may still be undone; the oldest go first.
pub const EDITS_MAX: usize = 200;
/// Contents of files that edits may go back to; the oldest go first.
pub const STATES_MAX: usize = 200;
/// Edits that were undone.
pub const REVERTS_MAX: usize = 24;
/// Bytes kept of an edit's text.
pub const EXCERPT_BYTES_MAX: usize = 100;
/// Plans that the user rejected.
pub const PLANS_MAX: usize = 12;
/// Documents that commands showed.
pub const DOCUMENTS_MAX: usize = 40;
/// Packages that commands installed.
pub const PACKAGES_MAX: usize = 100;
/// Commits that commands made.
pub const COMMITS_MAX: usize = 40;
/// Approaches that failed, of a summary.
pub const APPROACHES_MAX: usize = 40;
/// Bytes kept of a statement.
pub const STATEMENT_BYTES_MAX: usize = 400;
/// Statements of one prompt or reply; of too many the weightiest are kept.
pub const STATEMENTS_OF_ONE_TEXT_MAX: usize = 16;
/// Statements of the user; the lightest go first.
pub const STATEMENTS_OF_USER_MAX: usize = 240;
/// Those of them that a summary has.
pub const STATEMENTS_OF_USER_TOLD: usize = 120;
/// Statements of the model; the lightest go first.
pub const STATEMENTS_OF_AGENT_MAX: usize = 80;
/// Those of them that a summary has.
pub const STATEMENTS_OF_AGENT_TOLD: usize = 40;
/// Ports that commands printed; the oldest go first.
pub const PORTS_MAX: usize = 24;
