//! Coding agents: their command lines, conversations, hooks and settings, and the processes, terminals, repositories and programs that they
//! work with. Nothing here knows a store. What is true of one kind of agent alone stands behind [`kind::AgentKind`], and only [`kinds`] knows one.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `kind/` | the traits behind which everything stands that is true of one kind of agent: its command line (`Argv`), its hooks and settings (`Hooks`), its folder and credentials (`Files`), its conversations (`Transcript`); `AgentKind` is all of them |
//! | `kinds/` | the registry, and a folder for each kind, which nothing but the registry knows: arguments, own folder, place of conversations, signs of trouble, credentials, and its `Records` (how an index, messages and windows take in its transcripts, and the `Deed`s of its tools). A new agent is a declaration of the user's (`kinds/declared/`), or one folder and a line in `KINDS`, `RECORDS` and `Format` |
//! | `declaration` | a kind that a user declares in `parhelia.toml`: its words, folder and plugin; its conversations stay where they are |
//! | `words` `command` `folder` | the words of a command line; an agent's command line, understood; its own folder, and how it finds that again in another environment |
//! | `transcript/` | the conversation: finding, cutting, repairing and gathering its files, and an index over them that goes on where it stopped, and what of it is before the model; `story/`, the part of the index that tells what was tried: commands that failed and what made them pass, edits that were undone; `statements/`, sentences that count when the conversation is gone |
//! | `hooks/` | events, and our entries in an agent's settings |
//! | `mcp/` | where MCP servers are configured, how each is reached, and a proxy before them in that configuration |
//! | `edited` | files of the user's that others change as well: edited whole, or left |
//! | `said` `open` `trouble` | words that an agent's processes leave; those that have a conversation open; why an agent does not start |
//! | `briefing` `secrets` | words of ours in a conversation; files with credentials |
//! | `environment/` | the agent's program, plugins, MCP servers, Python, variables; taking secrets out; comparing two |
//! | `git/` | the state of the workspace's repositories, by the `git` program in a folder of our own, where no setting of the repository's runs anything; whose it is (`trust`), and the folders that are written to (`writing`) |
//! | `process/` | which processes are a run's; stopping them |
//! | `tmux/` | what a tmux session looked like, and making it look so again; hearing that its last client has detached |
//! | `program` `package` `regular` `durable` `threads` | running programs for a bounded time, and which version one is; reading files that others put there; moves that outlast a power cut; helping threads |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod briefing;
pub mod command;
pub mod declaration;
pub mod durable;
pub mod edited;
pub mod environment;
pub mod error;
pub mod folder;
pub mod git;
pub mod hooks;
pub mod id;
pub mod kind;
pub mod kinds;
pub mod mcp;
pub mod open;
mod package;
pub mod process;
pub mod program;
pub mod regular;
pub mod said;
pub mod secrets;
pub mod threads;
pub mod tmux;
pub mod transcript;
pub mod trouble;
pub mod words;

pub use error::{Error, Result};
