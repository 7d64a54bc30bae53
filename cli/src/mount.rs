//! `mount`: a checkpoint, or all of them, as a read-only filesystem.

use parhelia_store::name::NameExt as _;
use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, BufReader, Read, Seek},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use parhelia_fuse::{Options, What, clear_stale};
use parhelia_ledger::selector::is_relative;
use parhelia_life::manifest::Manifest;
use parhelia_store::{
    OpenOptions, Store, clock,
    files::{self, How},
    id::OpId,
    name,
};
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    selector,
};

/// Flags of `mount`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "parhelia mount [OPTIONS] [CHECKPOINT[:PATH]] MOUNTPOINT")]
pub struct Args {
    /// The checkpoint (all of them where it is left out), and an empty folder
    #[arg(required = true, num_args = 1..=2, value_name = "CHECKPOINT[:PATH]> <MOUNTPOINT")]
    places: Vec<OsString>,
    /// Stay in the foreground, until it is unmounted or gets a signal
    #[arg(long)]
    foreground: bool,
    /// Let other users look, as far as modes and ACLs let them
    #[arg(long)]
    allow_other: bool,
    /// Mebibytes of decompressed data that all your mounts of the store keep together
    #[arg(long, value_name = "MIB", default_value_t = 160, value_parser = clap::value_parser!(u64).range(8..=1 << 20))]
    cache_size: u64,
}

/// From how many bytes on the allocator takes memory from the system for each piece: less than most blocks have.
const OUTSIDE_OF_HEAP_BYTES: &str = "262144";

/// The command of a process that detaches a mount whose own process died. By this name the program is found even where it has been replaced
/// or removed.
pub const GUARD: [&str; 3] = ["/proc/self/exe", "mount-guard", "--"];

/// Mounts.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let (what, mountpoint) = match args.places.as_slice() {
        [mountpoint] => (None, Path::new(mountpoint)),
        [what, mountpoint, ..] => (Some(what), Path::new(mountpoint)),
        [] => return Err(Failure::Usage("give a mountpoint".into())),
    };
    if args.foreground { foreground(context, args, what, mountpoint) } else { background(context, args, what, mountpoint) }
}

/// Serves the mount in this process.
fn foreground(context: &mut Context, args: &Args, what: Option<&OsString>, mountpoint: &Path) -> Result<Code> {
    let options =
        OpenOptions { cache_bytes: args.cache_size << 20, lock_timeout: context.lock_timeout()?, ..OpenOptions::default() };
    let store = Arc::new(parhelia_ledger::open(&context.store_path()?, &options)?);
    for stale in clear_stale(&store)? {
        tell!("parhelia: cleared the mount of dead process {} on {}", stale.text.process, stale.text.mountpoint);
    }
    let what = match what {
        None => What::Store,
        Some(text) => {
            let place = selector::parse(text)?;
            let checkpoint = context.find(&store, &place.checkpoint)?;
            What::Tree { checkpoint: checkpoint.record.id, path: place.path_in(&checkpoint) }
        }
    };
    let log = Arc::new(|line: &str| tell!("{} {line}", clock::timestamp()));
    let guard = GUARD.map(OsString::from).into();
    let options = Options {
        allow_other: args.allow_other,
        guard,
        log,
        manifest: |store, of| Manifest::sealed(store, of).to_text(),
        ..Options::default()
    };
    let mounted = parhelia_fuse::mount(store, what, mountpoint, &options)?;
    let (stopper, cancel) = (mounted.stopper(), context.cancel());
    let stopping = thread::Builder::new().spawn(move || {
        while !cancel.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(50));
        }
        stopper.stop();
    });
    stopping.map_err(|source| Failure::File {
        action: "start a thread that ends the mount of",
        path: mounted.mountpoint().to_owned(),
        source,
    })?;
    let at = mounted.mountpoint().shown();
    context.out.remark(format!("Mounted on {at}."))?;
    context.out.summary(Summary::Mount { mountpoint: at, process: std::process::id(), log: None })?;
    context.out.flush()?;
    mounted.wait()?;
    Ok(Code::Done)
}

/// Closes what this process was left open by whoever started it. A mount would keep it for as long as it lives: a lock, or the end of a
/// pipe that somebody waits for. What this process has opened itself no other program gets.
fn close_inherited() {
    /// Of the flags in `/proc/self/fdinfo`, that a file is closed when another program is executed.
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let is_inherited = |id: i32| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{id}")).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        Some(u32::from_str_radix(flags.trim(), 8).ok()? & CLOSED_ON_EXEC == 0)
    };
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let open: Vec<i32> = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for id in open.into_iter().filter(|id| *id > 2 && is_inherited(*id) == Some(true)) {
        let _ = nix::unistd::close(id);
    }
}

/// The same command for a process that is in the foreground, and in another folder.
fn arguments(context: &Context, args: &Args, what: Option<&OsString>, mountpoint: &Path) -> Result<Vec<OsString>> {
    let absolute = |path: &Path| {
        let path = path.to_owned();
        std::path::absolute(&path).map_err(|source| Failure::File { action: "resolve", path, source })
    };
    let mut all: Vec<OsString> = ["mount", "--foreground", "--json", "--store"].map(OsString::from).into();
    all.push(absolute(&context.store_path()?)?.into());
    if let Some(config) = &context.global.config {
        all.extend(["--config".into(), absolute(config)?.into()]);
    }
    if let Some(timeout) = context.global.lock_timeout {
        all.extend(["--lock-timeout".into(), timeout.as_secs_f64().to_string().into()]);
    }
    all.extend(
        [("--verbose", context.global.verbose), ("--allow-other", args.allow_other)].iter().filter(|f| f.1).map(|f| f.0.into()),
    );
    all.extend(["--cache-size".into(), args.cache_size.to_string().into(), "--".into()]);
    all.extend(what.cloned());
    all.push(absolute(mountpoint)?.into());
    Ok(all)
}

/// The same checkpoint for a process in another folder, where `latest` may be another one.
fn anywhere(context: &Context, store: &Store, what: &OsString) -> Result<OsString> {
    let place = selector::parse(what)?;
    if !is_relative(&place.checkpoint) {
        return Ok(what.clone());
    }
    let mut text = OsString::from(context.find(store, &place.checkpoint)?.id());
    if let Some(path) = &place.path {
        text.push(":");
        text.push(name::as_path(path));
    }
    Ok(text)
}

/// Starts the same command in the foreground of a process of its own, and waits until the mount answers.
fn background(context: &mut Context, args: &Args, what: Option<&OsString>, mountpoint: &Path) -> Result<Code> {
    close_inherited();
    let store = context.open()?;
    let failed = |action: &'static str, path: &Path| {
        let path = path.to_owned();
        move |source| Failure::File { action, path, source }
    };
    let what = what.map(|what| anywhere(context, &store, what)).transpose()?;
    let mut log = Log::open(&store.layout().mounts())?;
    let inherited = log.file.try_clone().map_err(failed("share the log of", mountpoint))?;
    let program = std::env::current_exe().map_err(failed("find", Path::new("the program itself")))?;
    let mut child = Command::new(&program)
        .args(arguments(context, args, what.as_ref(), mountpoint)?)
        // Wherever the caller is, he may want to remove or unmount it.
        .current_dir("/")
        // Decoded blocks are made by one thread and dropped by another. In glibc's heaps, one for each thread, that would leave holes
        // of half the cache's size again. Blocks that are not small lie outside of the heap, and give back what they took.
        .env("MALLOC_ARENA_MAX", "1")
        .env("MALLOC_MMAP_THRESHOLD_", OUTSIDE_OF_HEAP_BYTES)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(inherited)
        .process_group(0)
        .spawn()
        .map_err(failed("start", &program))?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line).map_err(failed("hear from", &program))?;
    }
    if line.contains("\"summary\"") {
        let (process, log) = (child.id(), log.path.map(|path| path.shown()));
        let told = log.as_ref().map(|log| format!("; log: {log}")).unwrap_or_default();
        context.out.did(format!("a mount is on {} (process {process}; `parhelia umount` ends it)", mountpoint.shown()));
        context.out.remark(format!("Mounted on {}{told}.", mountpoint.shown()))?;
        context.out.summary(Summary::Mount { mountpoint: mountpoint.shown(), process, log })?;
        return Ok(Code::Done);
    }
    Err(why_it_ended(&mut child, &mut log))
}

/// The log of a mount in the background.
struct Log {
    file: File,
    /// Its path; `None` where the store cannot be written to. Then it is in memory, so that a mount that fails can still say why.
    path: Option<PathBuf>,
}

impl Log {
    fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(format!("{}.log", OpId::generate()));
        let _ = files::make_folder(folder);
        if let Ok(file) = files::open(&path, How::New) {
            // The process that writes to it holds it by that: as long as it is locked, the log is in use.
            let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
            return Ok(Log { file, path: Some(path) });
        }
        let memory = rustix::fs::memfd_create("parhelia-mount-log", rustix::fs::MemfdFlags::CLOEXEC);
        let file = memory.map_err(|e| Failure::File { action: "create log", path, source: e.into() })?;
        Ok(Log { file: file.into(), path: None })
    }
}

fn why_it_ended(child: &mut Child, log: &mut Log) -> Failure {
    let mut said = String::new();
    let _ = log.file.rewind().and_then(|()| log.file.read_to_string(&mut said));
    if let Some(path) = &log.path {
        let _ = files::remove(path);
    }
    let message = said.trim().trim_start_matches("parhelia: ").to_owned();
    let code = child.wait().map_or(Code::Failed, Code::of_process);
    Failure::Background { message: if message.is_empty() { "the mount ended without a word".into() } else { message }, code }
}
