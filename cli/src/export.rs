//! `export`: a checkpoint as a `.tar.zst`.

#![expect(clippy::disallowed_methods, reason = "writes an archive that the user names")]

use parhelia_store::name::NameExt as _;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use parhelia_screen::human;
use parhelia_store::{Store, archive, archive::ExportReport, progress::Progress, record::Checkpoint};
use parhelia_wire::{Line, Summary, summary::ExportOutcome, tree::Socket};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    selector,
};

/// Flags of `export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(add = complete::checkpoints())]
    checkpoint: OsString,
    /// The archive to write; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

/// Writes the archive.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let place = selector::parse(&args.checkpoint)?;
    if place.path.is_some() {
        return Err(Failure::Usage("export writes whole checkpoints; leave out the path behind the colon".into()));
    }
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && context.out.json {
        return Err(Failure::Usage("with --json the archive needs a file of its own: give -o FILE".into()));
    }
    if to_stdout && io::stdout().is_terminal() {
        return Err(Failure::Usage("an archive is nothing for a terminal: give -o FILE, or redirect the output".into()));
    }
    let store = context.open()?;
    let (checkpoint, _pin) = context.pinned(&store, &place.checkpoint, "export")?;
    let progress = context.progress();
    let report = if to_stdout {
        archive::export(&store, &checkpoint, context.out.stream(), &progress)?
    } else {
        let report = to_file(&store, &checkpoint, &args.output, &progress)?;
        context.out.did(format!(
            "checkpoint {} is exported to {}",
            checkpoint.id(),
            human::path(args.output.as_os_str().as_bytes())
        ));
        report
    };
    for socket in &report.sockets {
        progress
            .notice(&format!("{}: a socket, which tar has no place for; it is in the archive as a comment", human::path(socket)));
        context.out.object(Line::Socket(Socket { path: human::path(socket) }))?;
    }
    drop(progress);
    if !to_stdout {
        let files = human::count(report.files, "file");
        let (raw, packed) = (human::size(report.bytes), human::size(report.archive_bytes));
        context.out.remark(format!(
            "Exported {} to {}: {files}, {raw} in {packed}.",
            checkpoint.id(),
            human::path(args.output.as_os_str().as_bytes())
        ))?;
    }
    context.out.summary(Summary::Export(ExportOutcome { id: checkpoint.id(), output: args.output.shown(), report }))?;
    Ok(Code::Done)
}

/// Writes the archive whole or not at all.
fn to_file(store: &Store, checkpoint: &Checkpoint, path: &Path, progress: &dyn Progress) -> Result<ExportReport> {
    let failed = |action: &'static str| move |source: io::Error| Failure::File { action, path: path.to_owned(), source };
    // Devices and pipes are written to as they are.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        let mut file = File::options().write(true).open(path).map_err(failed("open"))?;
        return Ok(archive::export(store, checkpoint, &mut file, progress)?);
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = (|| {
        let file = File::options().write(true).create_new(true).mode(0o600).open(&partial).map_err(failed("create"))?;
        let mut out = BufWriter::with_capacity(256 << 10, file);
        let report = archive::export(store, checkpoint, &mut out, progress)?;
        out.flush().map_err(failed("write"))?;
        out.get_ref().sync_all().map_err(failed("sync"))?;
        fs::rename(&partial, path).map_err(failed("rename the finished archive to"))?;
        parhelia_agent::durable::sync_names(path.parent().unwrap_or(Path::new(".")))?;
        Ok(report)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}
