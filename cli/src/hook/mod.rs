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

use parhelia_agent::hooks::Event;
use parhelia_host::run::Sender;
use parhelia_knowledge::budget::Budget;
use parhelia_life::hook::{Answer, Destination, answer, receive};
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
    let name = event.hook_event_name.clone();
    let (sender, is_answered, is_handed_over) = match receive(&context.hook_host(), &event) {
        Destination::OfAsked => {
            return log::line(&format!("{name}: of an agent that is asked for a summary, or for its version"));
        }
        Destination::OfNested => return log::line(&format!("{name}: left to the agent that has started this one")),
        Destination::Own { sender, is_answered, is_handed_over } => (sender, is_answered, is_handed_over),
    };
    if is_answered {
        let (asked, store, host, sender) = (event.clone(), context.store_place(), context.hook_host(), sender.clone());
        let workspace = event.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
        let budget = context.config(&workspace).map_or_else(|_| Budget::default(), |config| Budget::from(&config.inject));
        match within(ANSWER_LIMIT, move || answered(store, host, &asked, &sender, budget)) {
            Some(Ok(Some(answer))) => {
                // The agent may be gone by now.
                let _ = writeln!(std::io::stdout(), "{}", answer.text);
                log::line(&format!("{name}: {}", answer.measured));
            }
            Some(Ok(None)) => {}
            Some(Err(e)) => log::line(&format!("{name}: {e}")),
            None => log::line(&format!("{name}: there was no answer in time")),
        }
    }
    if is_handed_over && let Err(e) = hand_over::hand_over(context, &event, &sender) {
        log::line(&format!("{name}: cannot start what makes checkpoints: {e}"));
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

/// Replaces the usage error of a hook: logs it, reads the agent's input, and succeeds.
pub fn excuse(error: &clap::Error) -> ExitCode {
    log::line(&format!("the hook's command line cannot be used: {}", error.to_string().lines().next().unwrap_or_default()));
    // Something must read what the agent writes.
    let _ = std::io::stdin().lock().take(1 << 20).read_to_end(&mut Vec::new());
    Code::Done.into()
}
