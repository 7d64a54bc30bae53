//! `checkpoint find`: paths that match a pattern, in all checkpoints. A folder that was searched in one checkpoint is not searched
//! again in another.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    os::unix::ffi::OsStrExt,
};

use globset::{GlobBuilder, GlobSet};
use parhelia_ledger::LedgerView as _;
use parhelia_screen::human;
use parhelia_store::{
    Error, Store,
    id::TreeId,
    name,
    record::Checkpoint,
    tree::{Kind, Node},
};
use parhelia_wire::{
    Line, Summary,
    tree::{Entry, Match},
};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    output::Style,
};

/// Checkpoints that a line of text names.
const IDS_SHOWN: usize = 3;

/// Flags of `checkpoint find`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A glob: without a slash it is matched against names, with one against paths (`src/**/*.rs`)
    pattern: OsString,
    /// Only in checkpoints of the session with this id or name
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// Take upper and lower case for the same
    #[arg(short, long)]
    ignore_case: bool,
}

/// One state of a path, and the checkpoints (by position) that hold it in this state, in ascending order.
struct Version {
    node: Node,
    checkpoints: Vec<usize>,
}

/// Finds and prints.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let pattern = name::lossless(args.pattern.as_bytes());
    let matcher = Matcher::new(&pattern, args.ignore_case)?;
    let store = context.open()?;
    let session = args.session.as_ref().map(|name| store.view().session_id(name)).transpose()?;
    let mut checkpoints = store.checkpoints()?;
    checkpoints.retain(|c| session.as_ref().is_none_or(|id| c.record.session == *id));
    checkpoints.reverse();
    let progress = context.progress();
    let mut search = Search { store: &store, matcher, searched: HashMap::new(), found: BTreeMap::new() };
    let mut searched = 0u64;
    for (i, checkpoint) in checkpoints.iter().enumerate() {
        if parhelia_store::progress::Progress::is_cancelled(&progress) {
            return Err(Error::Cancelled.into());
        }
        match search.add(i, checkpoint) {
            Ok(()) => searched += 1,
            // Deleted meanwhile, and collected.
            Err(e) if e.is_damage() && !still_exists(&store, checkpoint)? => search.forget(i),
            Err(e) => return Err(e.into()),
        }
    }
    drop(progress);
    let mut versions = 0u64;
    for (path, found) in &search.found {
        for version in found {
            versions += 1;
            let ids: Vec<String> = version.checkpoints.iter().map(|i| checkpoints[*i].id()).collect();
            let found = Match { entry: Entry::of(path, &version.node), checkpoints: ids };
            context.out.object(Line::Match(Box::new(found)))?;
        }
        print(context, path, found, &checkpoints)?;
    }
    let paths = search.found.len() as u64;
    context.out.summary(Summary::CheckpointFind { checkpoints: searched, paths, versions })?;
    if search.found.is_empty() {
        let searched = human::count(searched, "checkpoint");
        context.out.remark(format!("Nothing matches '{pattern}' in {searched}."))?;
    }
    Ok(Code::Done)
}

fn still_exists(store: &Store, checkpoint: &Checkpoint) -> Result<bool> {
    Ok(store.refresh()?.checkpoint(checkpoint.record.id)?.is_some())
}

fn print(context: &mut Context, path: &[u8], found: &[Version], checkpoints: &[Checkpoint]) -> Result<()> {
    let heading = context.out.styled(Style::Bold, human::path(path));
    context.out.line(heading)?;
    for version in found {
        let shown = if context.global.verbose { version.checkpoints.len() } else { IDS_SHOWN };
        let ids: Vec<String> = version.checkpoints.iter().take(shown).map(|i| checkpoints[*i].id()).collect();
        let more = match version.checkpoints.len().saturating_sub(shown) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let size = match &version.node.kind {
            Kind::File { size, .. } => human::size(*size),
            other => other.name().to_owned(),
        };
        let time = human::file_time(version.node.meta.mtime);
        context.out.line(format!("  {size:>10}  {time}  {}{more}", ids.join(" ")))?;
    }
    Ok(())
}

struct Matcher {
    glob: GlobSet,
    by_name: bool,
}

impl Matcher {
    fn new(pattern: &str, ignore_case: bool) -> Result<Self> {
        let glob = name::pattern(pattern.trim_start_matches('/'));
        let by_name = !pattern.contains('/');
        let glob = GlobBuilder::new(&glob).literal_separator(true).case_insensitive(ignore_case).build();
        // A set says that a pattern is nested too deeply, where a single matcher panics.
        let glob = glob.and_then(|glob| GlobSet::builder().add(glob).build());
        let glob = glob.map_err(|e| Failure::Usage(format!("the pattern '{pattern}' does not parse: {}", e.kind())))?;
        Ok(Matcher { glob, by_name })
    }

    fn matches(&self, path: &[u8], name: &[u8]) -> bool {
        self.glob.is_match(&*name::lossless(if self.by_name { name } else { path }))
    }
}

struct Search<'a> {
    store: &'a Store,
    matcher: Matcher,
    /// Folders by place and content, and the first checkpoint in which they were searched.
    searched: HashMap<(Vec<u8>, TreeId), usize>,
    found: BTreeMap<Vec<u8>, Vec<Version>>,
}

impl Search<'_> {
    fn add(&mut self, number: usize, checkpoint: &Checkpoint) -> Result<(), Error> {
        let workspace = self.store.workspace_node(checkpoint)?;
        let Some((root, _)) = workspace.as_folder() else { return Ok(()) };
        if !self.enter(b"", root, number) {
            return Ok(());
        }
        let store = self.store;
        store.walk(root, &mut |path, _, node| {
            if self.matcher.matches(path, &node.name) {
                self.record(path, node, number);
            }
            Ok(node.as_folder().is_none_or(|(tree, _)| self.enter(path, tree, number)))
        })
    }

    /// Checks whether a folder must be searched. If not, it was searched in an earlier checkpoint: everything found there is noted for this
    /// one, too.
    fn enter(&mut self, path: &[u8], tree: TreeId, number: usize) -> bool {
        let Some(first) = self.searched.get(&(path.to_vec(), tree)).copied() else {
            self.searched.insert((path.to_vec(), tree), number);
            return true;
        };
        let below = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
        for (found, versions) in self.found.range_mut(below.clone()..) {
            if !found.starts_with(&below) {
                break;
            }
            for version in versions.iter_mut().filter(|v| v.checkpoints.binary_search(&first).is_ok()) {
                if version.checkpoints.last() != Some(&number) {
                    version.checkpoints.push(number);
                }
            }
        }
        false
    }

    /// Takes back what was found in a checkpoint, and that any of it was searched.
    fn forget(&mut self, number: usize) {
        self.searched.retain(|_, first| *first != number);
        for versions in self.found.values_mut() {
            versions.iter_mut().for_each(|version| version.checkpoints.retain(|found| *found != number));
            versions.retain(|version| !version.checkpoints.is_empty());
        }
        self.found.retain(|_, versions| !versions.is_empty());
    }

    fn record(&mut self, path: &[u8], node: &Node, number: usize) {
        let versions = self.found.entry(path.to_vec()).or_default();
        match versions.iter_mut().find(|version| version.node == *node) {
            Some(version) => version.checkpoints.push(number),
            None => versions.push(Version { node: node.clone(), checkpoints: vec![number] }),
        }
    }
}
