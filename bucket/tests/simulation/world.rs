//! A world: one bucket, some machines, two gcs, a reader, and the truth of what was reported.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parhelia_bucket::{
    Bucket, Error,
    chain::{CommitId, Record},
    gc::{self, GcPolicy},
    pack::fetch_whole,
    random::Random,
    remote::{Client, Effort},
    seal::{Cipher, Keyring, MasterKey},
    view::View,
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    chance::Chance,
    faulty::FaultyStore,
    machine::{Disk, Local, LocalStore, content},
    sleepy::Sleepy,
};

/// What happened in a world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorldReport {
    pub commits: u64,
    pub reported: u64,
    pub deletions: u64,
    pub crashes: u64,
    pub not_known: u64,
    pub again: u64,
    pub clones: u64,
    pub renamed: u64,
    pub emptied: u64,
    pub deleted_packs: u64,
    pub gc_rounds: u64,
    pub looks: u64,
    pub faults: u64,
    pub requests: u64,
    pub simulated: Duration,
}

impl WorldReport {
    pub fn add(&mut self, other: &WorldReport) {
        let mut sum = |mine: fn(&mut WorldReport) -> &mut u64, theirs: u64| *mine(self) += theirs;
        sum(|r| &mut r.commits, other.commits);
        sum(|r| &mut r.reported, other.reported);
        sum(|r| &mut r.deletions, other.deletions);
        sum(|r| &mut r.crashes, other.crashes);
        sum(|r| &mut r.not_known, other.not_known);
        sum(|r| &mut r.again, other.again);
        sum(|r| &mut r.clones, other.clones);
        sum(|r| &mut r.renamed, other.renamed);
        sum(|r| &mut r.emptied, other.emptied);
        sum(|r| &mut r.deleted_packs, other.deleted_packs);
        sum(|r| &mut r.gc_rounds, other.gc_rounds);
        sum(|r| &mut r.looks, other.looks);
        sum(|r| &mut r.faults, other.faults);
        sum(|r| &mut r.requests, other.requests);
        self.simulated += other.simulated;
    }
}

/// What is true, whatever the bucket says.
#[derive(Default)]
struct Truth {
    /// Commits that a machine was told are safe, with their labels.
    reported: BTreeMap<CommitId, Vec<u8>>,
    /// Commits that somebody wants deleted.
    deleted: BTreeSet<CommitId>,
    report: WorldReport,
    fault: Option<String>,
}

pub struct World {
    chance: Chance,
    store: Arc<FaultyStore>,
    keys: Keyring,
    truth: Arc<Mutex<Truth>>,
    machines: Arc<Mutex<Vec<Arc<LocalStore>>>>,
    disks_are_faulty: Arc<AtomicBool>,
    start: Option<Instant>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let chance = Chance::new(seed);
        let keys =
            if chance.permille(800) { Keyring::plain().with(1, MasterKey::new([seed as u8; 32])) } else { Keyring::plain() };
        // The store begins its clock when the runtime runs.
        let (truth, machines, disks_are_faulty) = (Arc::default(), Arc::default(), Arc::new(AtomicBool::new(true)));
        let store = {
            let runtime = tokio::runtime::Handle::try_current();
            assert!(runtime.is_ok(), "a world is made in a runtime");
            FaultyStore::new(chance.fork())
        };
        World { chance, store, keys, truth, machines, disks_are_faulty, start: None }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.store.now().timestamp_millis()).unwrap()
    }

    /// A process's bucket: opened anew, as each process does.
    async fn bucket(&self) -> parhelia_bucket::Result<Bucket> {
        let client = Client::with_parts(Arc::clone(&self.store), "team/store");
        let random = Arc::new(self.chance.fork()) as Arc<dyn Random>;
        let mut bucket = Bucket::open_or_make(client, self.keys.clone(), random, Effort::BACKGROUND).await?;
        bucket.part_bytes = 8 << 10;
        bucket.effort.tries_max = 1 + u32::try_from(self.chance.below(8)).unwrap_or(0);
        bucket.cipher = if self.chance.permille(500) { Cipher::Aes256Gcm } else { Cipher::ChaCha20Poly1305 };
        Ok(bucket)
    }

    /// Runs a few machines for some days.
    pub async fn run(self) -> Result<WorldReport, String> {
        let (machines, steps) = (2 + self.chance.below(4), 20);
        self.run_many(machines, steps).await
    }

    /// Runs so many machines, each for up to so many steps.
    pub async fn run_many(mut self, machines: u64, steps_max: u64) -> Result<WorldReport, String> {
        self.start = Some(Instant::now());
        let world = Arc::new(self);
        let mut tasks = Vec::new();
        for _ in 0..machines {
            let machine = world.machine(None);
            let steps = steps_max / 3 + world.chance.below(steps_max - steps_max / 3);
            tasks.push(Arc::clone(&world).begin(machine, steps));
        }
        for _ in 0..1 + world.chance.below(2) {
            tasks.push(tokio::spawn(Arc::clone(&world).collect()));
        }
        tasks.push(tokio::spawn(Arc::clone(&world).watch()));
        for task in tasks {
            task.await.map_err(|e| format!("a task ended: {e}"))?;
        }
        world.settle().await?;
        let mut truth = world.truth.lock().unwrap();
        truth.report.simulated = world.start.map_or(Duration::ZERO, |start| start.elapsed());
        truth.report.faults = world.store.faults.load(Ordering::Relaxed);
        truth.report.requests = world.store.requests.load(Ordering::Relaxed);
        Ok(truth.report.clone())
    }

    /// A new machine, or a copy of one, with what the other had on its disk.
    fn machine(&self, other: Option<&LocalStore>) -> Arc<LocalStore> {
        let (chance, is_faulty) = (self.chance.fork(), Arc::clone(&self.disks_are_faulty));
        let state = other.and_then(|other| other.disk.state.lock().unwrap().clone());
        // What the other had not put yet is not the copy's to push.
        let keep = state.as_ref().map_or(0, |state| state.pending.as_ref().map_or(state.cursor, |pending| pending.cursor));
        let journal =
            other.map_or(Vec::new(), |other| other.journal.lock().unwrap().iter().take(keep as usize).cloned().collect());
        let disk = Disk { state: Mutex::new(state), chance, is_faulty };
        let (there, was_set_back) = Default::default();
        let machine = Arc::new(LocalStore { journal: Mutex::new(journal), disk, there, was_set_back });
        self.machines.lock().unwrap().push(Arc::clone(&machine));
        machine
    }

    fn fail(&self, fault: String) {
        self.truth.lock().unwrap().fault.get_or_insert(fault);
    }

    /// Begins the life of a machine.
    fn begin(self: Arc<Self>, machine: Arc<LocalStore>, steps: u64) -> JoinHandle<()> {
        let life: BoxFuture<'static, ()> = Box::pin(self.live(machine, steps));
        tokio::spawn(life)
    }

    /// A machine's life: it works, pushes, dies in the middle, is copied or set back.
    async fn live(self: Arc<Self>, machine: Arc<LocalStore>, steps: u64) {
        let mut snapshot = None;
        let mut copies = Vec::new();
        for _ in 0..steps {
            sleep(Duration::from_secs(self.chance.below(3 * 3600))).await;
            self.work(&machine);
            self.process(&machine).await;
            if self.chance.permille(60) {
                snapshot = machine.disk.state.lock().unwrap().clone();
            }
            if self.chance.permille(15) && snapshot.is_some() {
                machine.was_set_back.store(true, Ordering::Relaxed);
                *machine.disk.state.lock().unwrap() = snapshot.take();
            }
            if self.chance.permille(40) && copies.len() < 2 {
                let copy = self.machine(Some(&machine));
                // Two that have one segment on its way both write its events again, if a third one has its number.
                let has_pending = copy.disk.state.lock().unwrap().as_ref().is_some_and(|state| state.pending.is_some());
                if has_pending || machine.was_set_back.load(Ordering::Relaxed) {
                    copy.was_set_back.store(true, Ordering::Relaxed);
                }
                self.truth.lock().unwrap().report.clones += 1;
                copies.push(Arc::clone(&self).begin(copy, 4));
            }
        }
        for copy in copies {
            if let Err(e) = copy.await {
                self.fail(format!("a copy ended: {e}"));
            }
        }
    }

    /// Local work: checkpoints, events, deletions.
    fn work(&self, machine: &LocalStore) {
        let mut truth = self.truth.lock().unwrap();
        for _ in 0..1 + self.chance.below(3) {
            let local = match self.chance.below(10) {
                0..5 => {
                    let mut id = [0; 16];
                    self.chance.fill(&mut id).unwrap();
                    truth.report.commits += 1;
                    let labels: BTreeSet<u8> = (0..1 + self.chance.below(3)).map(|_| self.chance.below(16) as u8).collect();
                    Local::Commit { id: CommitId(id), labels: labels.into_iter().collect() }
                }
                5..7 => Local::Event(self.chance.next()),
                _ => {
                    let alive: Vec<CommitId> = truth.reported.keys().filter(|id| !truth.deleted.contains(id)).copied().collect();
                    if alive.is_empty() {
                        continue;
                    }
                    let commit = alive[self.chance.below(alive.len() as u64) as usize];
                    truth.deleted.insert(commit);
                    truth.report.deletions += 1;
                    Local::Deletion { commit, at_ms: u64::try_from(self.now().as_millisecond()).unwrap() }
                }
            };
            machine.journal.lock().unwrap().push(local);
        }
    }

    /// A process that pushes, and may die anywhere.
    async fn process(&self, machine: &LocalStore) {
        let id = |machine: &LocalStore| machine.disk.state.lock().unwrap().as_ref().map(|state| state.machine);
        let before = id(machine);
        let chance = self.chance.fork();
        let report = |cursor: u64| {
            let mut truth = self.truth.lock().unwrap();
            for local in machine.journal.lock().unwrap().iter().take(cursor as usize) {
                if let Local::Commit { id, labels } = local {
                    truth.reported.insert(*id, labels.clone());
                }
            }
        };
        let work = async {
            let bucket = self.bucket().await?;
            machine.push(&bucket, &chance, &report).await
        };
        let lives = Duration::from_millis(if chance.permille(350) { chance.below(3_000) } else { 100 * 3_600_000 });
        let ended = timeout(lives, Sleepy::new(work, chance.fork(), 4)).await;
        let mut truth = self.truth.lock().unwrap();
        match ended {
            Err(_) => truth.report.crashes += 1,
            Ok(Ok(done)) => truth.report.again += done.again,
            Ok(Err(Error::NotKnown { .. })) => truth.report.not_known += 1,
            Ok(Err(Error::Request { .. } | Error::TimedOut { .. } | Error::State(_))) => {}
            Ok(Err(e)) => drop(truth.fault.get_or_insert(format!("a push failed: {e}"))),
        }
        truth.report.renamed += u64::from(before.is_some() && before != id(machine));
    }

    /// A gc that runs now and then, and may die anywhere.
    async fn collect(self: Arc<Self>) {
        let mut view = View::default();
        for _ in 0..12 {
            sleep(Duration::from_secs(self.chance.below(4 * 3600))).await;
            let hours = |bound| SignedDuration::from_hours(i64::try_from(self.chance.below(bound)).unwrap());
            let policy = GcPolicy { orphan_patience: hours(3), deletion_grace: hours(2) };
            let work = async {
                let bucket = self.bucket().await?;
                let report = gc::round(&bucket, &mut view, &policy, self.now()).await?;
                self.empty(&bucket, &view).await?;
                Ok::<_, Error>(report)
            };
            let lives = Duration::from_millis(if self.chance.permille(350) { self.chance.below(2_000) } else { 100 * 3_600_000 });
            let ended = timeout(lives, Sleepy::new(work, self.chance.fork(), 4)).await;
            let mut truth = self.truth.lock().unwrap();
            match ended {
                Err(_) => truth.report.crashes += 1,
                Ok(Ok(report)) => {
                    truth.report.deleted_packs += report.deleted;
                    truth.report.gc_rounds += 1;
                }
                Ok(Err(Error::NotKnown { .. })) => truth.report.not_known += 1,
                Ok(Err(Error::Request { .. } | Error::TimedOut { .. })) => {}
                Ok(Err(e)) => drop(truth.fault.get_or_insert(format!("a gc failed: {e}"))),
            }
        }
    }

    /// Empties a segment that has events alone.
    async fn empty(&self, bucket: &Bucket, view: &View) -> parhelia_bucket::Result<()> {
        let heads = view.heads();
        if heads.is_empty() || !self.chance.permille(300) {
            return Ok(());
        }
        let (machine, head) = heads[self.chance.below(heads.len() as u64) as usize];
        let mut fresh = View::default();
        let mut busy = BTreeSet::new();
        let mut see = |seen: parhelia_bucket::view::Seen| {
            if seen.machine == machine && !matches!(seen.record, Record::Event(_)) {
                busy.insert(seen.number);
            }
        };
        fresh.refresh(bucket, &mut see).await?;
        for number in (1..head).filter(|number| !busy.contains(number)) {
            // Counted first: it may land although this process dies.
            self.truth.lock().unwrap().report.emptied += 1;
            gc::empty(bucket, &fresh, machine, number..number + 1).await?;
        }
        Ok(())
    }

    /// A reader that looks all the time.
    async fn watch(self: Arc<Self>) {
        for _ in 0..20 {
            sleep(Duration::from_secs(self.chance.below(3 * 3600))).await;
            let reported = self.truth.lock().unwrap().reported.clone();
            let work = async {
                let bucket = self.bucket().await?;
                let mut view = View::default();
                view.refresh(&bucket, &mut |_| {}).await?;
                Ok::<_, Error>(view)
            };
            match work.await {
                Ok(view) => {
                    self.truth.lock().unwrap().report.looks += 1;
                    if let Err(fault) = self.check(&view, &reported) {
                        self.fail(fault);
                    }
                }
                Err(Error::Request { .. } | Error::TimedOut { .. } | Error::NotKnown { .. }) => {}
                Err(e) => self.fail(format!("a look failed: {e}")),
            }
        }
    }

    /// What was reported before a look is in the look, and its packs are in the store.
    fn check(&self, view: &View, reported: &BTreeMap<CommitId, Vec<u8>>) -> Result<(), String> {
        if let Some(broken) = view.broken().first() {
            return Err(format!("gc deleted a pack of a commit that counts: {broken:?}"));
        }
        let (truth, checkpoints) = (self.truth.lock().unwrap(), view.checkpoints());
        let objects: BTreeSet<String> = self.store.paths().into_iter().collect();
        for id in reported.keys().filter(|id| !truth.deleted.contains(id)) {
            let placed = checkpoints.get(id).ok_or_else(|| format!("{id:?} was reported, and does not exist"))?;
            for pack in &placed.commit.packs {
                if !objects.contains(&format!("team/store/{}", pack.key.object())) {
                    return Err(format!("{id:?} was reported, and its pack {:?} is gone", pack.key));
                }
            }
        }
        Ok(())
    }

    /// The end: nothing fails any more, all machines push what they have, and gc cleans up.
    async fn settle(&self) -> Result<(), String> {
        self.store.heal();
        self.disks_are_faulty.store(false, Ordering::Relaxed);
        sleep(Duration::from_secs(24 * 3600)).await;
        let mut bucket = self.bucket().await.map_err(|e| e.to_string())?;
        bucket.effort = Effort::BACKGROUND;
        let machines = self.machines.lock().unwrap().clone();
        let mut events = BTreeMap::new();
        for machine in &machines {
            let report = |cursor: u64| {
                let mut truth = self.truth.lock().unwrap();
                for local in machine.journal.lock().unwrap().iter().take(cursor as usize) {
                    if let Local::Commit { id, labels } = local {
                        truth.reported.insert(*id, labels.clone());
                    }
                }
            };
            machine.push(&bucket, &self.chance.fork(), &report).await.map_err(|e| format!("the last push failed: {e}"))?;
            for local in machine.journal.lock().unwrap().iter() {
                if let Local::Event(event) = local {
                    *events.entry(*event).or_insert(false) |= machine.was_set_back.load(Ordering::Relaxed);
                }
            }
        }
        if let Some(fault) = self.truth.lock().unwrap().fault.clone() {
            return Err(fault);
        }
        let mut view = View::default();
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        let mut see = |met: parhelia_bucket::view::Seen| {
            if let Record::Event(event) = met.record {
                *seen.entry(u64::from_le_bytes(event[..8].try_into().unwrap())).or_insert(0) += 1;
            }
        };
        view.refresh(&bucket, &mut see).await.map_err(|e| e.to_string())?;
        let reported = self.truth.lock().unwrap().reported.clone();
        self.check(&view, &reported)?;
        self.check_contents(&bucket, &view).await?;
        let emptied = self.truth.lock().unwrap().report.emptied;
        for (event, was_set_back) in events {
            let times = seen.get(&event).copied().unwrap_or(0);
            // An emptied segment has lost its events on purpose.
            if times == 0 && emptied == 0 || times > 1 && !was_set_back {
                return Err(format!("event {event} is there {times} times"));
            }
        }
        self.check_cleaned(&bucket).await?;
        let mut truth = self.truth.lock().unwrap();
        truth.report.reported = reported.len() as u64;
        Ok(())
    }

    async fn check_contents(&self, bucket: &Bucket, view: &View) -> Result<(), String> {
        for (id, placed) in view.checkpoints() {
            for pack in &placed.commit.packs {
                let bytes = fetch_whole(&bucket.client, &bucket.keys, pack, &bucket.effort).await;
                let bytes = bytes.map_err(|e| format!("{id:?} counts, and cannot be read: {e}"))?;
                if bytes != content(pack.label[0]) {
                    return Err(format!("{id:?} has other content"));
                }
            }
        }
        Ok(())
    }

    /// After gc without patience, the bucket has what commits need, and nothing else.
    async fn check_cleaned(&self, bucket: &Bucket) -> Result<(), String> {
        let policy = GcPolicy { orphan_patience: SignedDuration::ZERO, deletion_grace: SignedDuration::ZERO };
        let mut view = View::default();
        for _ in 0..2 {
            // A deletion in this millisecond is none yet.
            sleep(Duration::from_millis(5)).await;
            let report = gc::round(bucket, &mut view, &policy, self.now()).await.map_err(|e| e.to_string())?;
            self.truth.lock().unwrap().report.deleted_packs += report.deleted;
        }
        view.refresh(bucket, &mut |_| {}).await.map_err(|e| e.to_string())?;
        self.check_contents(bucket, &view).await?;
        let needed: BTreeSet<String> = view.needed(u64::MAX).iter().map(|pack| format!("team/store/{}", pack.object())).collect();
        let there: BTreeSet<String> =
            self.store.paths().into_iter().filter(|path| path.starts_with("team/store/packs/")).collect();
        let orphans: Vec<_> = there.difference(&needed).collect();
        if orphans.is_empty() { Ok(()) } else { Err(format!("nobody needs {orphans:?}")) }
    }
}
