//! MCP servers around an agent: published ones, one that keeps to our convention, and some that misbehave; by the real programs.

mod agents;
mod client;
mod ends;
mod files;
mod floods;
mod given;
mod hostile;
mod latency;
mod misbehaving;
mod own;
mod programs;
mod published;
mod remote;
mod work;
