//! The life of a session on a [store](parhelia_store): what is captured beside the workspace, what a checkpoint means, and how a session lives again.
//!
//! [`checkpoint`] makes checkpoints, [`supervise`] starts an agent and watches over it, [`resume`] brings a session back to life, [`rollback`] and [`restore`] put
//! files back, [`ending`] stops, pauses and ends, [`retention`] thins, [`hook`] takes in an agent's events, [`older`] imports checkpoints of older tools, and
//! [`review_report`] shows a person what was done. [`mcp`] captures the state of MCP servers, and gives it back.
//!
//! Below them, [`overwrite`] knows what a restore would replace and makes safety checkpoints of it, [`checkpoint::target`] the session that a folder's checkpoint belongs to,
//! [`workspace`] where its folder is by now. [`capture`] takes what a checkpoint keeps beside the workspace, [`prompt`] and [`answer`] type into a live agent's
//! terminal, [`overview`] tells how a session is, and [`manifest`] what a checkpoint says of itself to other programs.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `checkpoint/` | one request and one function for every checkpoint, whoever asks for it; what somebody means to be captured, by the words that they gave or a list of paths; which session a folder's belongs to, and its name |
//! | `supervise/` | launching an agent and watching over it: signals, lease, checkpoints beside it, its end |
//! | `prompt` `answer` `template` | a prompt, and an answer to a question, that are typed into a live agent's terminal; workspaces that are copies of an agent folder |
//! | `ending/` | stopping an agent, setting a session aside, ending it for good |
//! | `resume/` `tmux/` | going on from a checkpoint: planned, taken over, brought back, started; in tmux where it was |
//! | `rollback/` `restore` | going back to a checkpoint, and undoing that; restoring in place |
//! | `retention/` `collect` | thinning checkpoints; freeing what none needs |
//! | `hook/` | what is done about an agent's event, and what the agent is told |
//! | `mcp/` | the state of MCP servers: asked of live ones, kept, given back |
//! | `manifest` | what a checkpoint says of itself to other programs (`manifest.json`, schema 1.2) |
//! | `overview/` | a session at one glance: the state of its agent as it is seen from here, verdicts on those that need somebody |
//! | `older/` | importing checkpoints as older tools keep them: a folder with a manifest of schema 1.0, 1.1 or 1.2, of which nothing is believed unseen |
//! | `capture/` `environment` | what a checkpoint keeps beside the workspace |
//! | `overwrite/` | which sessions' folders a restore changes, whether it may, and safety checkpoints of what it replaces |
//! | `workspace/` | a session's folder: moved, or on a disk that is not mounted; the checkpoint at which it stands; working trees beside it, and sessions of those |
//! | `secrets` `verification` `checked` | agents' credentials, which stay out; whether what was made is whole |
//! | `review_report` | everything that a person looks at before a decision |
//! | `beads` | the program `bd` |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod answer;
pub mod beads;
pub mod capture;
pub mod checked;
pub mod checkpoint;
pub mod collect;
pub mod ending;
pub mod environment;
pub mod hook;
pub mod manifest;
pub mod mcp;
pub mod older;
pub mod overview;
pub mod overwrite;
pub mod prompt;
pub mod restore;
pub mod resume;
pub mod retention;
pub mod review_report;
pub mod rollback;
#[cfg(test)]
mod search_tests;
pub mod secrets;
pub mod supervise;
pub mod template;
pub mod tmux;
pub mod verification;
pub mod workspace;
