//! The floor of every workflow on sessions: the caller ([`Host`], [`Observer`]), its [configuration](config), what is said to people ([`notice`], [`Refusal`]), and
//! what is known of a session: its [runs](run), its [conversation], the rollback under way ([`intent`]), and the [state] that a checkpoint has beside the workspace.
//!
//! A workflow takes a request, a [`Host`] that stands for the caller, and an [`Observer`]; it prints nothing, asks nothing and returns a typed outcome.
//! Agents themselves are [`parhelia_agent`]'s, and what events add up to is [`parhelia_ledger`]'s.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `caller` | the caller of a workflow (variables, person, terminal, way of starting programs), and its observer: a workflow knows no other |
//! | `notice` `refusal` | what a workflow has to say, and why it is refused, as data; the command line adds flags and commands (`cli/src/words.rs`) |
//! | `events` | the journal's entries with the sessions that they concern, from its end on where the last few are wanted |
//! | `authority` | whose word a process has: a person's, or an agent's that has started it |
//! | `person` | the person at whose wish something is recorded, as the kernel says |
//! | `intent` | a session's turn, which one process has at a time, and the rollback under way that whoever comes next finishes |
//! | `run/` | a session's runs: beginning, finding, leases, whether one lives, when it was last seen alive and why it died, what its agent's events mean, ending its agent; in `run/hooks/` which hooks are installed, dead, heard of |
//! | `config/` | `parhelia.toml`: one table of options, and what is in force |
//! | `policy` `rule` | policies of approval as they are configured: which checkpoints count as good at once, and which wait for a person |
//! | `conversation/` | putting a conversation back where its agent looks; what was added to one; one that is being captured |
//! | `draft/` | a checkpoint that is asked for, and what the steps of its making have found so far |
//! | `state` `job` | what a checkpoint has beside its workspace, read back; jobs that look at a part of it beside the walk |
//! | `mcp` | the state of an MCP server as data, and the way to those over HTTP |
//! | `pane` | work that a process in a pane of tmux takes over |
//! | `safety` `age` | safety checkpoints of a session; ages in words |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod age;
pub mod authority;
pub mod caller;
pub mod config;
pub mod conversation;
pub mod draft;
pub mod error;
pub mod events;
pub mod intent;
pub mod job;
pub mod mcp;
pub mod notice;
pub mod pane;
pub mod person;
pub mod policy;
pub mod refusal;
pub mod rule;
pub mod run;
pub mod safety;
pub mod state;

pub use caller::{Host, Observer, tmux_of};
pub use error::{DecisionRefusal, Error, KnowledgeRefusal, MarkRefusal, MoveRefusal, Refusal, Result, RunRefusal};
