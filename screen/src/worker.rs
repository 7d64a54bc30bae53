//! A thread that reads from the store, so that keys are never waited for: what is asked for first, then line counts.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        mpsc::{Receiver, RecvError, Sender, TryRecvError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use parhelia_host::{Error, Result};
use parhelia_ledger::{ApprovalStatus, LedgerView as _, Session};
use parhelia_life::{overview::Overview, review_report};
use parhelia_oversight::review::unseen::Exclusions;
use parhelia_store::{Store, diff::TreeChange, id::Ulid, name, record::Checkpoint};

use crate::{
    conversation, diff,
    state::{Base, Counts, Excerpt, Facts, FileItem, LogItem},
    syntax,
    text::{Line, one_line},
};

/// Counting pauses so often to look for what is asked.
const COUNTING: Duration = Duration::from_millis(20);
/// So many checkpoints of a session are listed, the newest ones.
pub const LOG_MAX: usize = 1000;

/// Something to read.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    /// A checkpoint, and what it changes; none for the newest of the session.
    Checkpoint(Option<Ulid>, Base),
    /// The diff of a file.
    Diff(usize),
    /// Line counts, from this file on.
    Counts(usize),
}

/// Something that was read.
#[derive(Debug)]
pub enum Reply {
    /// A checkpoint, and what it changes.
    Checkpoint(Box<Facts>, Vec<FileItem>),
    /// The diff of a file, and its path.
    Diff(usize, Vec<u8>, Vec<Line>),
    /// Line counts of files.
    Counts(Vec<(usize, Counts)>),
    /// The conversation.
    Said(Excerpt),
    /// Syntaxes, so that code can be coloured.
    Syntaxes,
    /// The request could not be served.
    Failed(Error),
}

/// The thread, as the screen has it. It ends with this.
pub struct Worker {
    requests: Sender<(u64, Request)>,
    replies: Receiver<(u64, Reply)>,
    generation: u64,
}

impl Worker {
    /// Starts the thread, which reads one session.
    pub fn start(store: Arc<Store>, session: Session) -> Result<Self> {
        let (requests, asked) = channel();
        let (answers, replies) = channel();
        let reader = Reader { store, session, answers, generation: 0, shown: None };
        let spawned = thread::Builder::new().name("review".into()).spawn(move || reader.run(&asked));
        spawned.map_err(|source| Error::Io { action: "start a thread of", path: "the screen".into(), source })?;
        Ok(Worker { requests, replies, generation: 0 })
    }

    /// Asks for something. Replies about another checkpoint that are still under way are dropped.
    pub fn ask(&mut self, request: Request) {
        if matches!(request, Request::Checkpoint(..)) {
            self.generation += 1;
        }
        // Where nobody listens, the thread has panicked, and its last words are on the way.
        let _ = self.requests.send((self.generation, request));
    }

    /// The next thing that was read; none if there is nothing yet.
    pub fn reply(&self) -> Option<Reply> {
        loop {
            match self.replies.try_recv() {
                Ok((generation, reply)) if generation == self.generation || matches!(reply, Reply::Syntaxes) => {
                    return Some(reply);
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

/// The thread itself.
struct Reader {
    store: Arc<Store>,
    session: Session,
    answers: Sender<(u64, Reply)>,
    generation: u64,
    shown: Option<ShownCheckpoint>,
}

/// The checkpoint that is shown.
struct ShownCheckpoint {
    now: Checkpoint,
    then: Option<Checkpoint>,
    changes: Vec<TreeChange>,
    counted: Vec<bool>,
    /// The file from which on lines are counted.
    from: usize,
    has_said: bool,
}

impl Reader {
    fn run(mut self, asked: &Receiver<(u64, Request)>) {
        let mut has_syntaxes = false;
        loop {
            let is_idle = self.is_done() && (has_syntaxes || self.shown.is_none());
            let next = match is_idle {
                true => asked.recv().map_err(|RecvError| TryRecvError::Disconnected),
                false => asked.try_recv(),
            };
            let going = match next {
                Ok((generation, request)) => {
                    self.generation = generation;
                    self.answer(request)
                }
                Err(TryRecvError::Disconnected) => return,
                // The first diff comes before its colours.
                Err(TryRecvError::Empty) if !has_syntaxes && self.shown.is_some() => {
                    syntax::load();
                    has_syntaxes = true;
                    self.say(Reply::Syntaxes)
                }
                Err(TryRecvError::Empty) => self.go_on(),
            };
            if !going {
                return;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.shown.as_ref().is_none_or(|shown| shown.has_said && shown.counted.iter().all(|counted| *counted))
    }

    /// False if nobody listens any more.
    fn say(&self, reply: Reply) -> bool {
        self.answers.send((self.generation, reply)).is_ok()
    }

    fn answer(&mut self, request: Request) -> bool {
        match request {
            Request::Checkpoint(id, base) => {
                self.shown = None;
                match self.read(id, base) {
                    Ok((facts, shown)) => {
                        let items = shown.changes.iter().map(diff::item).collect();
                        self.shown = Some(shown);
                        self.say(Reply::Checkpoint(Box::new(facts), items))
                    }
                    Err(error) => self.say(Reply::Failed(error)),
                }
            }
            Request::Diff(file) => match self.shown.as_ref().and_then(|shown| shown.changes.get(file)) {
                Some(change) => self.say(Reply::Diff(file, change.path.clone(), diff::lines(&self.store, change))),
                None => true,
            },
            Request::Counts(from) => {
                if let Some(shown) = &mut self.shown {
                    shown.from = from;
                }
                true
            }
        }
    }

    fn read(&self, id: Option<Ulid>, base: Base) -> Result<(Facts, ShownCheckpoint)> {
        let view = self.store.refresh()?;
        let session = view.session(&self.session.id)?.unwrap_or_else(|| self.session.clone());
        let found = match id {
            Some(id) => view.checkpoint(id)?,
            None => view.head(&session.id)?,
        };
        let selector = || id.map_or_else(|| format!("{}@latest", session.id), |id| id.to_string());
        let now = found.ok_or_else(|| parhelia_store::Error::NoCheckpoint { selector: selector() })?;
        let status = |id: Ulid| Ok::<_, Error>(view.marks(id)?.approval);
        let (then, is_approved) = match base {
            Base::Approved => {
                let since = review_report::Baseline::of(&view, &now)?;
                (since.checkpoint, since.is_approved)
            }
            Base::Parent => {
                let parent = view.ancestor(&now)?;
                let approval = parent.as_ref().map(|parent| status(parent.record.id)).transpose()?.flatten();
                (parent, approval.is_some_and(|approval| approval.status == ApprovalStatus::Approved))
            }
        };
        let changes = then.as_ref().map(|then| review_report::changes(&self.store, then, &now)).transpose()?.unwrap_or_default();
        let changes = diff::listed(changes);
        let facts = Facts {
            agent: agent(view.newest_run(&session)?.map(|run| run.argv).unwrap_or_default()),
            status: Overview::of(&self.store, &session)?.state(&session),
            checkpoint: now.record.id,
            trigger: name::display(now.record.trigger.name().as_bytes()),
            created_at: now.record.created_at,
            approval: status(now.record.id)?,
            base: then.as_ref().map(|then| then.record.id),
            base_approved: is_approved,
            unseen: Exclusions::of(&self.store, then.as_ref().filter(|_| is_approved), &now)?,
            turns: review_report::turns(&now),
            tokens: review_report::tokens(&now),
            cost_usd: session.totals.cost_usd,
            active_seconds: session.totals.active_seconds,
            errors: session.totals.errors,
            session: name::display(session.name.as_bytes()),
        };
        let counted = vec![false; changes.len()];
        Ok((facts, ShownCheckpoint { now, then, changes, counted, from: 0, has_said: false }))
    }

    /// Does a piece of what nobody waits for.
    fn go_on(&mut self) -> bool {
        let Some(shown) = &mut self.shown else { return true };
        if !shown.has_said {
            shown.has_said = true;
            let said = conversation::read(&self.store, shown.then.as_ref(), &shown.now);
            return self.say(said.map_or_else(Reply::Failed, Reply::Said));
        }
        let until = Instant::now() + COUNTING;
        let (mut counts, mut place) = (Vec::new(), shown.from.min(shown.counted.len()));
        while Instant::now() < until {
            let next = shown.counted[place..].iter().position(|counted| !counted).map(|n| place + n);
            let Some(file) = next.or_else(|| shown.counted.iter().position(|counted| !counted)) else { break };
            shown.counted[file] = true;
            counts.push((file, diff::counts(&self.store, &shown.changes[file])));
            place = file + 1;
        }
        shown.from = place;
        self.say(Reply::Counts(counts))
    }
}

/// The program of a command line, without its folder.
fn agent(arguments: Vec<String>) -> String {
    let program = arguments.into_iter().next().unwrap_or_default();
    name::display(program.rsplit('/').next().unwrap_or_default().as_bytes())
}

/// The session's checkpoints, the newest first.
pub fn log(store: &Store, session: &str) -> Result<Vec<LogItem>> {
    let view = store.view();
    let head = view.head(session)?;
    // Whoever approves one has looked at those before it.
    let waiting =
        head.map(|head| review_report::Baseline::of(&view, &head)).transpose()?.map(|since| since.waiting).unwrap_or_default();
    let waiting: HashSet<Ulid> = waiting.into_iter().collect();
    let mut items = Vec::new();
    for checkpoint in view.newest_first_of(session)?.take(LOG_MAX) {
        let checkpoint = checkpoint?;
        let record = &checkpoint.record;
        let status = view.marks(record.id)?.approval.map(|approval| approval.status);
        items.push(LogItem {
            id: record.id,
            created_at: record.created_at,
            trigger: name::display(record.trigger.name().as_bytes()),
            state: status.map_or("not decided", ApprovalStatus::name),
            waits: waiting.contains(&record.id),
            message: record.message.as_deref().and_then(|message| message.lines().next()).map(one_line).unwrap_or_default(),
        });
    }
    Ok(items)
}
