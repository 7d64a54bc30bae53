//! `hook`: takes in an event of the agent. It never harms the agent: standard output is empty or one JSON object, every wait is bounded,
//! and whatever goes wrong ends in a line in a log, and exit code 0.

mod hand_over;

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc,
    thread,
    time::Duration,
};

use parhelia_agent::{
    command::Agent,
    hooks::Event,
    process::{Identity, command_of},
};
use parhelia_host::{
    Host as _,
    run::{Sender, is_nested, meaning},
};
use parhelia_knowledge::{budget::Budget, summary::model::ASKING};
use parhelia_life::hook::{Answer, answer};
use parhelia_store::OpenOptions;

use crate::{
    context::{Context, StorePlace, seen_folder},
    exit::{Code, Result},
    hook_log as log,
    host::Shell,
};

/// Flags of `hook`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do what takes longer; started by `hook` itself
    #[arg(long, hide = true)]
    work: bool,
}

/// The time limit for standard input. The agent hands over its event at once; whoever types `parhelia hook` by hand gets the prompt back.
const INPUT_LIMIT: Duration = Duration::from_secs(5);
/// The time limit for an answer that the agent waits for; after it there is no answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// The longest wait for another process's commit meanwhile.
const LOCK_LIMIT: Duration = Duration::from_secs(2);

/// Takes an event in.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if args.work {
        hand_over::run(context);
        return Ok(Code::Done);
    }
    let Some(event) = within(INPUT_LIMIT, || Event::read(std::io::stdin().lock())) else {
        log::line("no event came on standard input");
        return Ok(Code::Done);
    };
    match event {
        Ok(event) => take(context, event),
        Err(e) => log::line(&format!("the event cannot be read: {e}")),
    }
    Ok(Code::Done)
}

fn take(context: &Context, event: Event) {
    let sender = Sender::here(&|name| std::env::var_os(name));
    // A project can set the variable for hooks; an agent that is asked has it from its start, also where it is asked for its version alone.
    let has_it = |agent: &Identity| agent.variables().is_ok_and(|found| found.iter().any(|(name, _)| name == ASKING));
    let is_agent = |process: &&Identity| {
        let argv = command_of(process.process);
        Agent::of(&argv).is_some() || Agent::managing(&argv).is_some()
    };
    let nearest = sender.line.iter().skip(1).find(is_agent).or(sender.agent.as_ref());
    if std::env::var_os(ASKING).is_some() && nearest.is_none_or(has_it) {
        return log::line(&format!("{}: of an agent that is asked for a summary, or for its version", event.hook_event_name));
    }
    if is_nested() {
        return log::line(&format!("{}: left to the agent that has started this one", event.hook_event_name));
    }
    // Which of them it is only matters to whoever makes the checkpoint.
    let meaning = meaning(&event, false);
    if meaning.tells {
        let (asked, store, host, sender) = (event.clone(), context.store_place(), context.hook_host(), sender.clone());
        let workspace = event.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
        let budget = context.config(&workspace).map_or_else(|_| Budget::default(), |config| Budget::from(&config.inject));
        match within(ANSWER_LIMIT, move || answered(store, host, &asked, &sender, budget)) {
            Some(Ok(Some(answer))) => {
                // The agent may be gone by now.
                let _ = writeln!(std::io::stdout(), "{}", answer.text);
                log::line(&format!("{}: {}", event.hook_event_name, answer.measured));
            }
            Some(Ok(None)) => {}
            Some(Err(e)) => log::line(&format!("{}: {e}", event.hook_event_name)),
            None => log::line(&format!("{}: there was no answer in time", event.hook_event_name)),
        }
    }
    // Most changes of folder stay in the project.
    let is_inside = |folder: &Option<PathBuf>| {
        let project = context.hook_host().variable("CLAUDE_PROJECT_DIR").map(PathBuf::from);
        project.zip(folder.as_ref()).is_some_and(|(project, folder)| folder.starts_with(project))
    };
    let moves = meaning.moves && !is_inside(&event.new_cwd);
    if (meaning.checkpoint.is_some() || meaning.ends || meaning.says.is_some() || moves)
        && let Err(e) = hand_over::hand_over(context, &event, &sender)
    {
        log::line(&format!("{}: cannot start what makes checkpoints: {e}", event.hook_event_name));
    }
}

fn answered(store: Result<StorePlace>, host: Shell, event: &Event, sender: &Sender, budget: Budget) -> Result<Option<Answer>> {
    let StorePlace { path, is_named } = store?;
    let memory = seen_folder();
    let options = OpenOptions { create: !is_named, lock_timeout: LOCK_LIMIT, memory, ..OpenOptions::default() };
    Ok(answer(&parhelia_ledger::open(&path, &options)?, &host, event, sender, budget)?)
}

/// The result of some work, or none if it is not done in time. The work is then left behind, and ends with this process.
fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = mpsc::channel();
    let started = thread::Builder::new().spawn(move || {
        let _ = send.send(work());
    });
    if let Err(e) = started {
        log::line(&format!("there is no thread for it: {e}"));
    }
    receive.recv_timeout(limit).ok()
}

/// True if the command line is an agent's call: no fault in it may stop the agent.
pub fn is_called() -> bool {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    words.iter().any(|word| word == "hook") && !words.iter().any(|word| word == "--help" || word == "-h")
}

/// Replaces the usage error of a hook: logs it, reads the agent's input, and succeeds.
pub fn excuse(error: &clap::Error) -> ExitCode {
    log::line(&format!("the hook's command line cannot be used: {}", error.to_string().lines().next().unwrap_or_default()));
    // Something must read what the agent writes.
    let _ = std::io::stdin().lock().take(1 << 20).read_to_end(&mut Vec::new());
    Code::Done.into()
}
