//! The arguments: global flags and the tree of verbs. Each verb's own flags are in the verb's file.

use std::ffi::{OsStr, OsString};

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand, builder::Resettable, error::ErrorKind};

use parhelia_host::authority::CommandLine;

use crate::{
    audit, check, checkpoint, completions, config,
    context::Context,
    copy_store, env,
    exit::{Code, Result},
    export, gc,
    global::Global,
    heartbeat, help, hook, hooks, import, init, log, man, mcp, mcp_proxy, memory, mount, mount_guard, mounts, notify, outbox,
    phase, remote,
    scope::Invocation,
    serve, session, stats, status, suggest, umount, version,
};

/// Everything on the command line.
#[derive(Debug, Parser)]
#[command(name = "parhelia", version, about, propagate_version = true, max_term_width = 110)]
#[command(after_help = "`parhelia diff` is short for `parhelia checkpoint diff`; so are the others of its verbs.\n\
                        `backup` is `create`, `snapshots` is `list`, and `forget` is `delete`.\n\n\
                        CHECKPOINT is `latest`, `latest~2`, `SESSION@latest`, an id, or a unique beginning or end of one (4 \
                        characters or more). `latest` is of this folder's sessions. Where a path is expected it follows a colon: \
                        `latest:src/main.rs`.\n\n\
                        Exit codes: 0 done, 1 failed, 2 usage, 3 partly done, 4 refused because of a state, 10 no such store, checkpoint \
                        or path, 11 locked, 12 corrupt, 130 interrupted.")]
pub struct Args {
    /// Flags of every verb.
    #[command(flatten)]
    pub global: Global,
    /// The verb.
    #[command(subcommand)]
    pub verb: Verb,
}

impl Args {
    /// The arguments of this process, and the verb with the session that it names.
    pub fn of_process() -> Result<(Self, Invocation), clap::Error> {
        let command = command();
        let parsed = command.clone().try_get_matches().and_then(|found| {
            let parsed = Args::from_arg_matches(&found).map(|args| (args, Invocation::of(&found)));
            parsed.map_err(|error| error.format(&mut command.clone()))
        });
        // Clap takes a flag that the environment sets for one that was given, and has it in the usage line.
        parsed.map_err(|error| match without_environment(command).try_get_matches() {
            Err(same) if same.kind() == error.kind() || is_of_a_missing_verb(&same) => suggest::better(same),
            _ => suggest::better(error),
        })
    }
}

/// The whole command. Verbs of `checkpoint` are known without that word as well.
pub fn command() -> Command {
    let command = ["store", "config", "lock_timeout"].into_iter().fold(Args::command(), |command, flag| {
        command.mut_arg(flag, |arg| {
            let is_empty = arg.get_env().and_then(std::env::var_os).is_some_and(|value| value.is_empty());
            // A variable that is set to nothing says nothing.
            if is_empty { arg.env(Resettable::Reset) } else { arg }
        })
    });
    help::grouped(command, &promoted())
}

/// The whole command for man pages, in which verbs of `checkpoint` have a page each, and not another one without that word.
pub fn of_pages() -> Command {
    promoted().iter().fold(Args::command(), |command, verb| command.mut_subcommand(verb, |verb| verb.hide(true)))
}

/// The verbs of `checkpoint`.
fn promoted() -> Vec<String> {
    let verbs = checkpoint::Verb::augment_subcommands(Command::new("checkpoint"));
    verbs.get_subcommands().filter(|verb| !verb.is_hide_set()).map(|verb| verb.get_name().to_owned()).collect()
}

/// True of the help that is printed in place of an error where no verb is given.
fn is_of_a_missing_verb(error: &clap::Error) -> bool {
    error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

/// The command, with flags that no variable sets.
pub fn without_environment(command: Command) -> Command {
    ["store", "config", "lock_timeout"]
        .into_iter()
        .fold(command, |command, flag| command.mut_arg(flag, |arg| arg.env(Resettable::Reset)))
}

/// A command line as it matters to [`crate::authority`], whatever the variables of this process say.
pub fn command_line(argv: &[OsString]) -> Option<CommandLine> {
    let found = without_environment(command()).try_get_matches_from(argv.iter().map(OsStr::new)).ok()?;
    let args = Args::from_arg_matches(&found).ok()?;
    let starts_an_agent = match &args.verb {
        // What resumes all of them starts supervisors, each in tmux.
        Verb::Session(session::Verb::Resume(resume)) => !resume.is_of_all(),
        Verb::Session(verb) => matches!(verb, session::Verb::Run(_) | session::Verb::Recover(_)),
        _ => false,
    };
    let is_of_an_agent = matches!(args.verb, Verb::Hook(_) | Verb::Mcp | Verb::McpProxy(_));
    Some(CommandLine { store: args.global.store, config: args.global.config, is_of_an_agent, starts_an_agent })
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The verbs above, by their full names
    #[command(subcommand)]
    Checkpoint(checkpoint::Verb),
    #[command(flatten)]
    Short(checkpoint::Verb),
    /// Start agents, resume their sessions, and look at them
    #[command(subcommand)]
    Session(session::Verb),
    /// Show this folder: its last checkpoint, what has changed since, and its sessions
    Status(status::Args),
    /// Print what happened, in order
    Log(log::Args),
    /// Look after sessions, and answer programs over HTTP
    Serve(serve::Args),
    /// Run an agent in a container, and tell a service elsewhere that it lives
    Heartbeat(heartbeat::Args),
    /// Print who decided, deleted or overrode what, and prove that none of it was removed
    #[command(subcommand)]
    Audit(audit::Verb),
    /// Look at what is to be delivered of notifications
    #[command(subcommand)]
    Outbox(outbox::Verb),
    /// Try the channels of notifications
    #[command(subcommand)]
    Notify(notify::Verb),
    /// Note how far a task has come, and find it again in another session
    Phase(phase::Phases),
    /// Remember what a project's sessions have learned
    Memory(memory::Args),
    /// Look at the environment of an agent, and compare two
    #[command(subcommand)]
    Env(env::Verb),
    /// Look at the configuration
    #[command(subcommand)]
    Config(config::Verb),
    /// Let the agent call parhelia at its events
    #[command(subcommand)]
    Hooks(hooks::Verb),
    /// Take in an event of the agent from standard input
    Hook(hook::Args),
    /// Serve checkpoints to the agent as an MCP server on standard input and output
    Mcp,
    /// Stand between an agent and one of its MCP servers, so that checkpoints have the server's state
    McpProxy(mcp_proxy::Args),
    /// Make a store; only the default store makes itself
    Init(init::Args),
    /// Keep all checkpoints in a bucket as well, shared with other machines
    #[command(subcommand)]
    Remote(remote::Verb),
    /// Copy the whole store to another folder, or bring a copy up to date
    CopyStore(copy_store::Args),
    /// Free what no checkpoint needs
    #[command(alias = "compact")]
    Gc(gc::Args),
    /// Check that everything in the store is what was written
    Check(check::Args),
    /// Show the sizes of the store and the growth of each session
    Stats,
    /// Write a checkpoint as a .tar.zst archive
    Export(export::Args),
    /// Make a checkpoint of what a .tar.zst or .tar archive, or a folder of an earlier schema, holds
    Import(import::Args),
    /// Show a checkpoint, or all of them, as a read-only filesystem
    Mount(mount::Args),
    /// Detach a mount whose process died
    #[command(hide = true)]
    MountGuard(mount_guard::Args),
    /// End a mount
    Umount(umount::Args),
    /// List the mounts of the store, and clear those whose process is dead
    Mounts,
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Write man pages to a folder
    Man(man::Args),
    /// Print the version, and what it reads and writes
    Version,
}

impl Verb {
    /// True if the verb handles signals itself.
    pub fn has_own_signals(&self) -> bool {
        match self {
            Verb::Session(verb) => verb.has_own_signals(),
            // A guard is ended by a signal like any other process.
            Verb::MountGuard(_) | Verb::Serve(_) | Verb::Heartbeat(_) | Verb::Mcp | Verb::McpProxy(_) => true,
            _ => false,
        }
    }

    /// True if the verb delivers notifications itself.
    pub fn delivers(&self) -> bool {
        matches!(self, Verb::Serve(_) | Verb::Outbox(_) | Verb::McpProxy(_) | Verb::Heartbeat(_) | Verb::Remote(_))
    }

    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Checkpoint(verb) | Verb::Short(verb) => verb.run(context),
            Verb::Session(verb) => verb.run(context),
            Verb::Status(args) => status::run(context, args),
            Verb::Log(args) => log::run(context, args),
            Verb::Heartbeat(args) => heartbeat::run(context, args),
            Verb::Serve(args) => serve::run(context, args),
            Verb::Audit(verb) => verb.run(context),
            Verb::Outbox(verb) => verb.run(context),
            Verb::Notify(verb) => verb.run(context),
            Verb::Phase(phases) => phases.run(context),
            Verb::Memory(args) => args.run(context),
            Verb::Env(verb) => verb.run(context),
            Verb::Config(verb) => verb.run(context),
            Verb::Hooks(verb) => verb.run(context),
            Verb::Hook(args) => hook::run(context, args),
            Verb::Mcp => mcp::run(context),
            Verb::McpProxy(args) => mcp_proxy::run(context, args),
            Verb::Init(args) => init::run(context, args),
            Verb::Remote(verb) => verb.run(context),
            Verb::CopyStore(args) => copy_store::run(context, args),
            Verb::Gc(args) => gc::run(context, args),
            Verb::Check(args) => check::run(context, args),
            Verb::Stats => stats::run(context),
            Verb::Export(args) => export::run(context, args),
            Verb::Import(args) => import::run(context, args),
            Verb::Mount(args) => mount::run(context, args),
            Verb::Umount(args) => umount::run(context, args),
            Verb::MountGuard(args) => mount_guard::run(args),
            Verb::Mounts => mounts::run(context),
            Verb::Completions(args) => completions::run(context, args),
            Verb::Man(args) => man::run(context, args, of_pages()),
            Verb::Version => version::run(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
        without_environment(command()).debug_assert();
    }
}
