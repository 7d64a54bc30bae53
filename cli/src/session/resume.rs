//! `session resume`: brings a dead session back to life: workspace, conversation, and the agent.

pub(super) mod all;

use std::{io::IsTerminal, path::PathBuf, time::Duration};

use parhelia_store::{Store, clock, name::NameExt as _};

use parhelia_host::{Host, Refusal, run};
use parhelia_ledger::{LedgerView as _, Run, Session, Status};
use parhelia_life::{
    resume::{self, Alive, Consent, PendingResume, Preparation, Resume, ResumeRequest},
    supervise,
    tmux::{TmuxPlace, TmuxSession},
};
use parhelia_screen::human;
use parhelia_wire::{Line, Summary, session::AgentStart, summary::RunOutcome};

use super::{
    prompt_file,
    run::{exit_as_agent, unless_closed},
    signals, tmux,
};
use crate::{
    ask, complete,
    context::Context,
    exit::{Code, Failure, Result},
    host::Shell,
    interrupt, outbox,
    rollback::{Fate, How, is_askable, roll},
    terminal::Terminal,
};

/// Flags of `session resume`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Args {
    /// The session, by id or name
    #[arg(required_unless_present = "all", add = complete::sessions())]
    session: Option<String>,
    /// Resume every session that is wanted running and found dead, each in a tmux session in the background
    #[arg(long, conflicts_with_all = ["session", "from", "no_tmux", "run"])]
    all: bool,
    /// Go on from this checkpoint instead of the newest one that may be resumed
    #[arg(long, value_name = "CHECKPOINT", add = complete::checkpoints())]
    from: Option<String>,
    /// The first prompt for the agent; without a terminal, an agent that answers a single prompt needs it
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// The file with the prompt, which another process of ours has written
    #[arg(long, hide = true, value_name = "FILE", conflicts_with = "prompt")]
    prompt_file: Option<PathBuf>,
    /// Begin a new conversation, which is told what is known of the old one; it waits for you unless there is a --prompt
    #[arg(long)]
    new_conversation: bool,
    /// Make a checkpoint at least so often, in seconds, where something has changed; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    interval: u64,
    /// Do not ask: run a finished command again; with --from, put a live workspace back to that checkpoint, after a safety checkpoint
    #[arg(short, long)]
    yes: bool,
    /// Also while another machine or container may still have the session
    #[arg(long)]
    take_over: bool,
    /// With --from, also go on from a checkpoint that was rejected
    #[arg(long, requires = "from")]
    from_rejected: bool,
    /// With --from, also in the middle of a merge or rebase, on another branch than the checkpoint's, and where git cannot be asked
    #[arg(long, requires = "from")]
    any_git_state: bool,
    /// Also set the launch's variables that say where the agent connects, or what it loads and runs, such as HTTPS_PROXY or NODE_OPTIONS
    #[arg(long)]
    launch_variables: bool,
    /// Restore the workspace where it was, even if its disk is not mounted, or it was moved
    #[arg(long)]
    recreate_workspace: bool,
    /// In this terminal, even if the session was in tmux
    #[arg(long, conflicts_with = "tmux")]
    no_tmux: bool,
    #[command(flatten)]
    tmux: tmux::Flags,
    /// The run that another process of ours has begun for this one, in a pane that it made
    #[arg(long, hide = true, value_name = "RUN")]
    run: Option<String>,
}

impl Args {
    /// To go on with a session from where it is.
    pub fn of(session: String) -> Self {
        Args { session: Some(session), interval: 300, ..Args::default() }
    }

    /// True if it resumes all that have died, each by a process of its own.
    pub fn is_of_all(&self) -> bool {
        self.all
    }

    /// To go on from a checkpoint of a session.
    pub fn from_checkpoint(session: String, checkpoint: String, yes: bool) -> Self {
        Args { from: Some(checkpoint), yes, ..Args::of(session) }
    }

    /// With a first prompt, in tmux if it was there, where it is left in the background.
    pub fn prompted(self, text: String) -> Self {
        Args { prompt: Some(text), tmux: tmux::Flags { tmux: true, detach: true, ..self.tmux.clone() }, ..self }
    }

    /// The same, with the prompt that is given in a file.
    fn with_prompt(&self) -> Result<Self> {
        let Some(path) = &self.prompt_file else { return Ok(self.clone()) };
        Ok(Args { prompt: Some(prompt_file::take(path)?), prompt_file: None, ..self.clone() })
    }

    /// Without being asked.
    pub fn agreed(self) -> Self {
        Args { yes: true, ..self }
    }

    fn request(&self, is_quiet: bool) -> ResumeRequest {
        ResumeRequest {
            from: self.from.clone(),
            prompt: self.prompt.clone(),
            new_conversation: self.new_conversation,
            interval: (self.interval > 0).then(|| Duration::from_secs(self.interval)),
            take_over: self.take_over,
            from_rejected: self.from_rejected,
            launch_variables: self.launch_variables,
            recreate_workspace: self.recreate_workspace,
            is_quiet,
        }
    }
}

/// Resumes.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let args = &args.with_prompt()?;
    let Some(name) = args.session.as_ref().filter(|_| !args.all) else { return all::run(context, args) };
    let store = context.open()?;
    outbox::after::watch(context);
    crate::remote::after::watch(context);
    if let Some(prompt) = &args.prompt {
        parhelia_life::prompt::check(prompt)?;
    }
    let (host, request) = (context.host()?, args.request(context.global.quiet));
    let session = store.view().session_named(name)?;
    if let Some(run) = &args.run {
        let begun = resume::take_on(&store, &host, session, run, &request)?;
        return start(context, &store, &host, begun, &request);
    }
    if session.status == Status::Ended {
        return Err(Refusal::HasEnded { session: session.id }.into());
    }
    // Signals are handled here until the agent starts; from then on they go to it.
    let signals = interrupt::install(&context.cancel())?;
    if let Some(alive) = resume::if_alive(&store, &host, &session, &request)? {
        return already_alive(context, &session.id, &alive);
    }
    let (newest, commands) = (store.view().newest_run(&session)?, run::commands_of(&store, &session)?);
    if !is_meant(context, args, &request, &session, commands.own.as_ref())? {
        return left_alone(context, session.id);
    }
    let id = session.id.clone();
    let mut resume = Resume::plan(&store, &host, session, &request, &context.progress())?;
    ask_for_command(context, &mut resume, args)?;
    ask_for_variables(context, &host, &mut resume, args)?;
    let place = tmux_place(&store, &host, &args.tmux, args.no_tmux, resume.prepared(), newest.as_ref())?;
    if !is_put_back(context, &store, &host, &mut resume, (args, &request))? {
        return left_alone(context, id);
    }
    if place.is_none() {
        Terminal::make_sane();
    }
    let here = host.tmux().filter(|_| place.is_none());
    let begun = resume.begin(&store, &host, &request, here, &context.progress())?;
    let reported = report(context, &begun);
    supervise::or_ended(&store, &host, &begun.current, &context.progress(), unless_closed(reported))?;
    let Some(place) = place else {
        drop(signals);
        return start(context, &store, &host, begun, &request);
    };
    let made = begun.start_in_tmux(&store, &host, &place, &request, &context.progress())?;
    drop(signals);
    let started = tmux::show(context, &args.tmux, &made)?;
    context.out.summary(Summary::SessionResume(started))?;
    Ok(Code::Done)
}

/// The place in tmux where the session is to live: where it did, or where the flags say so. None in this terminal, or in the pane around.
fn tmux_place(
    store: &Store,
    host: &Shell,
    flags: &tmux::Flags,
    no_tmux: bool,
    prepared: &Preparation,
    newest: Option<&Run>,
) -> Result<Option<TmuxPlace>> {
    let socket = flags.tmux_socket.as_deref();
    if flags.tmux {
        return Ok(Some(TmuxPlace::wanted(store, host, socket, prepared, newest)?));
    }
    if no_tmux || host.tmux().is_some() {
        return Ok(None);
    }
    match TmuxPlace::of(store, host, socket, prepared, newest)? {
        None if flags.detach => Err(Failure::Usage("the session was not in tmux; --detach needs --tmux then".into())),
        place => Ok(place),
    }
}

/// The end where the user has called it off.
fn left_alone(context: &mut Context, session: String) -> Result<Code> {
    context.out.summary(Summary::SessionResume(RunOutcome { id: session, ..RunOutcome::default() }))?;
    Ok(Code::Done)
}

/// Starts the agent, for which this process stands from here on.
fn start(context: &mut Context, store: &Store, host: &Shell, begun: PendingResume, request: &ResumeRequest) -> Result<Code> {
    let stops = supervise::or_ended(store, host, &begun.current, &context.progress(), signals::take_over())?;
    let session = begun.current.session.clone();
    let code = begun.start(store, host, request, &stops, &context.supervisor())?;
    let summarise = || {
        // Another run than the first may have been begun, with a new conversation.
        let run = store.refresh()?.session(&session)?.and_then(|session| session.run);
        let exit_code = Some(code.into());
        Ok(Summary::SessionResume(RunOutcome { id: session, run, exit_code, ..RunOutcome::default() }))
    };
    exit_as_agent(context, code, summarise())
}

/// Says that there is nothing to resume, and where to look at it.
fn already_alive(context: &mut Context, session: &str, alive: &Alive) -> Result<Code> {
    print_alive(context, session, alive)?;
    let (id, process) = (session.to_owned(), Some(alive.process));
    context.out.summary(Summary::SessionResume(RunOutcome { id, alive: true, process, ..RunOutcome::default() }))?;
    Ok(Code::Done)
}

fn print_alive(context: &mut Context, session: &str, alive: &Alive) -> Result<()> {
    let process = alive.process;
    if alive.is_active_again {
        context.out.did(format!("session {session} is active again"));
    }
    context.out.remark(match alive.is_active_again {
        true => format!("Session {session} is alive already (process {process}), and is active again."),
        false => format!("Session {session} is alive already (process {process}); nothing was done."),
    })?;
    if let Some(warning) = alive.warning() {
        let id = human::shell(session.as_bytes());
        tell!("parhelia: {warning}; `parhelia session stop {id}` and then `parhelia session resume {id}` restore it");
    }
    if let Some(shown) = TmuxSession::of(&alive.run) {
        context.out.remark(format!("To look at it: parhelia session attach {session} ({})", tmux::command_text(&shown)))?;
    }
    Ok(())
}

/// True if somebody wants the program that would be started.
fn is_meant(context: &Context, args: &Args, request: &ResumeRequest, session: &Session, own: Option<&Run>) -> Result<bool> {
    let is_attended = std::io::stdin().is_terminal();
    match resume::consent(session, own, request, is_attended)? {
        Consent::RunAgain(words) if !args.yes => match is_attended {
            true => {
                let what = format!("the command of session {} has come to its end", session.id);
                ask::is_agreed(context, &format!("{what}. Run it again: {words}?"))
            }
            false => Err(Refusal::HasFinished { session: session.id.clone() }.into()),
        },
        _ => Ok(true),
    }
}

/// Shows the command of an agent that took the session up by hand, and asks whether it is run in place of the launch's. Where nobody can be asked, it
/// is not, which is said.
fn ask_for_command(context: &Context, resume: &mut Resume, args: &Args) -> Result<()> {
    let Some(other) = resume.other_command().filter(|_| !args.yes && std::io::stdin().is_terminal()) else { return Ok(()) };
    tell!("The session's launch ran:\n  {}", resume.command());
    tell!("The agent that had it last was started by hand, and ran:\n  {other}");
    if ask::is_agreed(context, "Run that in place of the launch's command?")? {
        resume.take_other_command();
    }
    Ok(())
}

/// Shows the variables of the launch that say where the agent connects, or what it loads and runs, and asks whether they are set again. Where nobody
/// can be asked, they are left out, which is said.
fn ask_for_variables(context: &Context, host: &Shell, resume: &mut Resume, args: &Args) -> Result<()> {
    let steering = resume.prepared().steering(host);
    if steering.is_empty() || args.yes || !std::io::stdin().is_terminal() {
        return Ok(());
    }
    tell!(
        "These variables of the session's launch are not set here. They may say where the agent connects, or what it loads and runs:"
    );
    for (name, value) in &steering {
        tell!("  {name}={}", value.display());
    }
    if ask::is_agreed(context, "Set them again?")? {
        resume.allow_steering();
    }
    Ok(())
}

/// With `--from`, a workspace that is there becomes what it is in that checkpoint, as by a rollback. False where the user does not want that.
fn is_put_back(
    context: &mut Context,
    store: &Store,
    host: &Shell,
    resume: &mut Resume,
    (args, request): (&Args, &ResumeRequest),
) -> Result<bool> {
    let Some(target) = resume.rollback_target(request) else { return Ok(true) };
    let how = How { yes: args.yes, resumes: true, ..How::default() };
    if !how.yes {
        is_askable("roll back", &format!("checkpoint rollback {} --dry-run", target.id()))?;
    }
    let rollback = resume::rollback_first(store, host, &target, request, args.any_git_state)?;
    match roll(context, rollback, &target, &how)? {
        Fate::Done { .. } => {
            resume.went_back(target.record.id);
            Ok(true)
        }
        _ => {
            context.out.remark("Nothing was changed.")?;
            Ok(false)
        }
    }
}

/// Says which session goes on, from where.
fn report(context: &mut Context, begun: &PendingResume) -> Result<()> {
    let PendingResume { current, prepared, restored, .. } = begun;
    let from = prepared.choice.checkpoint.as_ref();
    // Standard output is the agent's.
    if !context.global.quiet && !context.out.json {
        let from = from.map(|checkpoint| {
            format!(" from checkpoint {} ({})", checkpoint.id(), human::ago(checkpoint.record.created_at, clock::timestamp()))
        });
        let (session, run, epoch) = (&current.session, &current.run, current.epoch);
        tell!("Session {session} goes on{} (run {run}, epoch {epoch}).", from.unwrap_or_default());
        // Of a kind that the user has declared, it is not known where conversations are.
        let is_read = prepared.agent.as_ref().is_some_and(|agent| agent.kind().declaration().is_none());
        if let (Some(conversation), None, true) = (&prepared.conversation, &restored.transcript, is_read) {
            tell!(
                "Its conversation {conversation} is neither there nor in a checkpoint: its agent may not know it, and begin a new one."
            );
        }
    }
    context.out.object(Line::Started(Box::new(AgentStart {
        session: current.session.clone(),
        run: current.run.clone(),
        epoch: current.epoch,
        conversation: prepared.conversation.clone(),
        from: from.map(|checkpoint| checkpoint.id()),
        transcript: restored.transcript.as_ref().map(|path| path.shown()),
        notices: prepared.notices.iter().map(ToString::to_string).collect(),
    })))?;
    context.out.flush()
}
