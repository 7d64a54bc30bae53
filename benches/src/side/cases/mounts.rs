//! A mounted checkpoint, beside the native tree and the mounts of other tools.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::datasets::scale;
use crate::error::{Context, Error, Result};
use crate::process;
use crate::rng::Rng;
use crate::side::cases::tree::SHORT_RUNS;
use crate::side::lab::{Lab, QUICK_FILES};
use crate::side::launch::{Job, Step, sync_filesystem};
use crate::side::mounted::MountGuard;
use crate::side::tools::{Parhelia, Tool, own_program};

/// The native tree among the tools.
pub const NATIVE: &str = "native";
/// The tools that can mount.
const PEERS: [&str; 2] = ["restic", "borg"];
/// They take minutes a round.
const PEER_ROUNDS: u32 = 3;
/// Checkpoints in the store that is mounted from the start to the first byte.
const CHECKPOINTS: usize = 100;
const BIG_BYTES: u64 = 256 << 20;
const QUICK_BYTES: u64 = 16 << 20;
const RANDOM_READS: u32 = 200_000;

/// Something that is done in a mount: what it is called, the command, and whether it is done once more, warm.
struct Act {
    name: &'static str,
    command: &'static str,
    again: bool,
}

/// In the order in which they run; each on a mount of its own.
const ACTS: [Act; 6] = [
    Act { name: "find", command: "find tree -ls > /dev/null", again: true },
    Act { name: "cat", command: "find tree -type f -print0 | xargs -0 cat > /dev/null", again: true },
    // Nothing may be found, or grep would stop early: it sees where its output goes.
    Act { name: "grep", command: "grep -rF 'no file holds these words' tree; test $? = 1", again: true },
    Act { name: "raw", command: "cat big/raw > /dev/null", again: true },
    Act { name: "text", command: "cat big/text > /dev/null", again: true },
    Act { name: "copy", command: "cp -a tree \"$COPY\"", again: false },
];

/// Everything about mounts.
pub fn run(lab: &mut Lab) -> Result<()> {
    process::need(&["find", "xargs", "grep", "zstd", "umount"])?;
    let input = Input::new(lab)?;
    let blocks = store(lab, &input)?;
    let mut round = 0;
    lab.rounds("mounts", |lab| {
        if round > 0 || lab.options.quick {
            // Neither warms up anything of ours.
            peers(lab, &input, round)?;
        }
        ours(lab, &input, blocks)?;
        round += 1;
        Ok(())
    })?;
    memory(lab, &input)?;
    first_byte(lab, &input)
}

/// The mounted folder: a tree of small files and two big ones.
struct Input {
    root: PathBuf,
    at: PathBuf,
    compressed: PathBuf,
}

impl Input {
    fn new(lab: &Lab) -> Result<Self> {
        let input =
            Self { root: lab.root.join("work/mounted"), at: lab.root.join("mnt"), compressed: lab.root.join("work/text.zst") };
        process::make_dir(&input.at)?;
        if lab.options.quick {
            process::make_dir(&input.tree())?;
            scale::generate(&input.tree(), QUICK_FILES)?;
        } else {
            let name = lab.options.tree.clone();
            lab.fetch(&name, &input.tree())?;
        }
        Ok(input)
    }

    fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// Noise, which is stored raw, and an archive of the tree, which is compressed.
    fn add_big_files(&self, bytes: u64) -> Result<()> {
        let big = self.root.join("big");
        process::make_dir(&big)?;
        let mut noise = vec![0; usize::try_from(bytes).context(|| "make a big file")?];
        Rng::new(0xb16).fill(&mut noise);
        std::fs::write(big.join("raw"), &noise).context(|| "write a big file")?;
        drop(noise);
        let mut tar = Command::new("tar").args(["-cf", "-", "-C"]).arg(self.tree()).arg(".").stdout(Stdio::piped()).spawn();
        let tar = tar.as_mut().map_err(|e| std::io::Error::new(e.kind(), e.to_string())).context(|| "start tar")?;
        let out = tar.stdout.take().ok_or_else(|| Error::new("tar has no output"))?;
        let mut text = File::create(big.join("text")).context(|| "create a big file")?;
        std::io::copy(&mut out.take(bytes), &mut text).context(|| "write a big file")?;
        // It need not finish.
        let _ = tar.kill();
        let _ = tar.wait();
        process::run(Command::new("zstd").args(["-q", "-3", "-f", "-o"]).arg(&self.compressed).arg(big.join("text")))
    }
}

/// Every tool keeps the input. Returns how many blocks of ours hold the tree, without the big files.
fn store(lab: &mut Lab, input: &Input) -> Result<u64> {
    let mut blocks = 0;
    if let Some(parhelia) = &mut lab.tools.parhelia {
        eprintln!("mounts: storing the tree");
        parhelia.fresh(&lab.runner)?;
        parhelia.checkpoint(&lab.runner, &input.root)?;
        parhelia.read_verb(&lab.runner, &["check", "--json"])?;
        let said = lab.runner.stdout()?;
        let summary: Value = serde_json::from_str(said.lines().last().unwrap_or_default()).context(|| "understand check")?;
        blocks = summary.get("blocks").and_then(Value::as_u64).unwrap_or_default();
    }
    input.add_big_files(if lab.options.quick { QUICK_BYTES } else { BIG_BYTES })?;
    for tool in lab.tools.all().filter(|tool| PEERS.contains(&tool.name()) || tool.name() == "parhelia") {
        eprintln!("mounts: storing the input: {}", tool.name());
        if tool.name() != "parhelia" {
            tool.fresh(&lab.runner)?;
        }
        tool.checkpoint(&lab.runner, &input.root)?;
    }
    let big = input.root.join("big/raw");
    let bytes = big.metadata().context(|| format!("ask for the length of {}", big.display()))?.len();
    lab.figures.set("mount/big_bytes", bytes as f64);
    lab.stored = false;
    sync_filesystem(&lab.root)?;
    Ok(blocks)
}

/// Mounts of other tools.
fn peers(lab: &mut Lab, input: &Input, round: u32) -> Result<()> {
    if round > PEER_ROUNDS {
        return Ok(());
    }
    for act in &ACTS {
        for peer in 0..lab.tools.others.len() {
            let Some(tool) = lab.tools.others.get(peer).filter(|tool| PEERS.contains(&tool.name())) else { continue };
            hold_in_memory(tool.home())?;
            let (name, mounted) = (tool.name(), tool.mount(&lab.runner, &input.at)?);
            let Some(mounted) = mounted else { continue };
            perform(lab, input, act, name, &mounted.shown)?;
            mounted.end()?;
        }
    }
    Ok(())
}

/// The native tree and our mount, in turn.
fn ours(lab: &mut Lab, input: &Input, blocks: u64) -> Result<()> {
    for act in &ACTS {
        hold_in_memory(&input.root)?;
        forget_names()?;
        perform(lab, input, act, NATIVE, &input.root)?;
        let Some(parhelia) = lab.tools.parhelia.clone() else { continue };
        hold_in_memory(parhelia.home())?;
        let mounted = mount(lab, &parhelia, input)?;
        perform(lab, input, act, "parhelia", &mounted.shown)?;
        let log = mounted.end()?;
        let decoded = decoded_blocks(&log);
        if let (false, Some(decoded)) = (lab.figures.warming, decoded) {
            lab.figures.set(format!("mount-{}/decoded_blocks", act.name), decoded as f64);
            if act.name == "grep" && blocks > 0 {
                lab.figures.set("mount-grep/decoded_each", decoded as f64 / blocks as f64);
            }
        }
    }
    for (tool, root) in [(NATIVE, Some(&input.root)), ("parhelia", None)] {
        random(lab, input, tool, root)?;
    }
    let reference = Step::new("sh").args(["-c", "zstd -dcq \"$0\" > /dev/null"]).path(&input.compressed);
    time(lab, "mount-text", "zstd -dc", reference)
}

/// Random reads of a file that was read before.
fn random(lab: &mut Lab, input: &Input, tool: &'static str, root: Option<&PathBuf>) -> Result<()> {
    let mounted = match (root, lab.tools.parhelia.clone()) {
        (Some(_), _) => None,
        (None, Some(parhelia)) => Some(mount(lab, &parhelia, input)?),
        (None, None) => return Ok(()),
    };
    let file = root.unwrap_or(&input.at).join("big/raw");
    process::run(Command::new("cat").arg(&file))?;
    let step = Step::new(own_program("bare")?.display()).args(["random"]).path(&file).args([RANDOM_READS]);
    time(lab, "mount-random", tool, step)?;
    mounted.map_or(Ok(()), |mounted| mounted.end().map(drop))
}

fn mount(lab: &Lab, parhelia: &Parhelia, input: &Input) -> Result<MountGuard> {
    parhelia.mount(&lab.runner, &input.at)?.ok_or_else(|| Error::new("parhelia does not mount"))
}

/// Does something in a mount, and where that counts, once more.
fn perform(lab: &mut Lab, input: &Input, act: &Act, tool: &'static str, shown: &Path) -> Result<()> {
    let copy = lab.root.join("work/copy");
    for again in [false, true] {
        if again && !act.again {
            break;
        }
        let case = format!("mount-{}-{}", act.name, if again { "warm" } else { "cold" });
        let step = Step::new("sh").args(["-c", act.command]).env("COPY", copy.display()).folder(shown);
        time(lab, &case, tool, step)?;
    }
    process::remove(&copy).context(|| format!("remove the copy of {}", input.root.display()))?;
    lab.settle()
}

fn time(lab: &mut Lab, case: &str, tool: &'static str, step: Step) -> Result<()> {
    let sync = case.starts_with("mount-copy").then(|| lab.root.clone());
    let outcome = lab.runner.run(&Job { steps: vec![step], sync }).context(|| format!("{case}, {tool}"))?;
    eprintln!("  {case}, {tool}: {:.2} s", outcome.wall_s);
    lab.figures.add(case, tool, outcome);
    Ok(())
}

/// Drops the kernel's names and inodes, so that the native tree is as cold as a fresh mount. What files hold stays.
fn forget_names() -> Result<()> {
    std::fs::write("/proc/sys/vm/drop_caches", "2").context(|| "drop the cached names")
}

/// Reads all files below a folder, so that none of them has to come from the disk.
fn hold_in_memory(folder: &Path) -> Result<()> {
    process::run(Command::new("sh").args(["-c", "find \"$0\" -type f -print0 | xargs -0 cat > /dev/null"]).arg(folder))
}

/// The number of blocks that a mount of ours decoded, from its log; none if the log does not say.
fn decoded_blocks(log: &str) -> Option<u64> {
    let words: Vec<&str> = log.lines().find(|line| line.contains("blocks decoded"))?.split_whitespace().collect();
    let at = words.windows(2).position(|pair| pair[0] == "blocks" && pair[1].starts_with("decoded"))?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

/// One mount that has to do everything: how much memory does it take?
fn memory(lab: &mut Lab, input: &Input) -> Result<()> {
    let Some(parhelia) = lab.tools.parhelia.clone() else { return Ok(()) };
    let mounted = mount(lab, &parhelia, input)?;
    lab.figures.warming = true;
    for act in &ACTS {
        perform(lab, input, act, "parhelia", &mounted.shown)?;
    }
    lab.figures.warming = false;
    if let Some(bytes) = mounted.peak_memory()? {
        lab.figures.set("mount/peak_bytes", bytes as f64);
    }
    mounted.end().map(drop)
}

/// From the start of `mount` to the first byte of a file, in a store of many checkpoints of the tree.
fn first_byte(lab: &mut Lab, input: &Input) -> Result<()> {
    let Some(mut parhelia) = lab.tools.parhelia.clone() else { return Ok(()) };
    parhelia = parhelia.with_home(lab.root.join("stores/parhelia-mounts"));
    parhelia.fresh(&lab.runner)?;
    let tree = input.tree();
    let checkpoints = if lab.options.quick { 5 } else { CHECKPOINTS };
    eprintln!("mounts: {checkpoints} checkpoints of the tree");
    let edited = tree.join("edited");
    for number in 0..checkpoints {
        std::fs::write(&edited, format!("edit {number}\n")).context(|| "edit a file")?;
        parhelia.checkpoint(&lab.runner, &tree)?;
    }
    lab.figures.set("mount/checkpoints", checkpoints as f64);
    for run in 0..=SHORT_RUNS {
        let mount = parhelia.step(&["mount", "--quiet", parhelia.last_id()?]).path(&input.at);
        let read = Step::new("sh").args(["-c", "head -c 1 \"$0\" > /dev/null"]).path(&input.at.join("edited"));
        let outcome = lab.runner.run(&Job { steps: vec![mount, read], sync: None })?;
        process::run(Command::new("umount").arg(&input.at))?;
        if run > 0 {
            lab.figures.add("mount-first-byte", "parhelia", outcome);
        }
    }
    parhelia.discard()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_are_read_from_the_log() {
        let log = "T a line\nT unmounted after 7 requests: 3 lookup, 4 read; 12 blocks decoded; 5 files pushed\n";
        assert_eq!(decoded_blocks(log), Some(12));
        assert_eq!(decoded_blocks("nothing\n"), None);
    }
}
