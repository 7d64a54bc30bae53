//! The worth of a briefing: sessions of a real agent CLI by script (`benches/sessions`), killed in the middle, and gone on with by an agent
//! that knows nothing of them. Counts the calls of tools and the tokens until it knows what the next step needs, with parhelia's briefing and
//! without, and the facts of the first half that the briefing holds.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use parhelia_benches::error::{self, Context, Result};
use parhelia_tests::sessions::{Cost, Fact, Kind, Script, play, resumed_bare, resumed_briefed, scripts};

/// Plays sessions, kills their agents, and has others go on with them, with a briefing and without.
#[derive(Parser)]
struct Args {
    /// The folder with the sessions
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/sessions"))]
    sessions: PathBuf,
    /// Only these, by name
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Adds so many turns of other sessions' talk between the halves of each
    #[arg(long, default_value_t = 0)]
    talk: usize,
    /// Writes each briefing into this folder
    #[arg(long)]
    briefings: Option<PathBuf>,
}

fn main() -> ExitCode {
    error::report("resumed", run(&Args::parse()))
}

struct Row {
    script: Script,
    played_calls: usize,
    briefed: Cost,
    bare: Cost,
}

fn run(args: &Args) -> Result<()> {
    let scripts = scripts(&args.sessions).map_err(error::Error::new)?;
    let mut rows = Vec::new();
    println!("| session | its calls | told of 4 facts | calls, tokens with the briefing | calls, tokens without | saved |");
    println!("|---|---|---|---|---|---|");
    for script in scripts.iter().filter(|script| args.only.is_empty() || args.only.contains(&script.name)) {
        let script = script.with_talk(&scripts, args.talk);
        let played = play(&script).ok_or_else(|| error::Error::new("the agent CLI cannot be installed"))?;
        let briefed = resumed_briefed(&played, &script);
        let bare = resumed_bare(&played, &script);
        if let Some(folder) = &args.briefings {
            keep(folder, &script, &briefed)?;
        }
        let row = Row { played_calls: played.calls, script, briefed, bare };
        println!("{}", row.line());
        rows.push(row);
    }
    if !rows.is_empty() {
        summary(&rows);
    }
    Ok(())
}

/// Writes a briefing, and the facts that it lacks, for whoever wants to read it.
fn keep(folder: &Path, script: &Script, briefed: &Cost) -> Result<()> {
    fs::create_dir_all(folder).context(|| format!("make {}", folder.display()))?;
    let missed = script.facts.iter().zip(&briefed.told).filter(|(_, told)| !**told);
    let missed = missed.map(|(fact, _)| format!("MISSED {:?} by {}: {} {:?}\n", fact.kind, fact.by, fact.what, fact.words));
    let text = format!("{}{}\n", missed.collect::<String>(), briefed.briefing);
    let path = folder.join(format!("{}.md", script.name));
    fs::write(&path, text).context(|| format!("write {}", path.display()))
}

impl Row {
    /// Tokens with the briefing and without, each without those with which any conversation begins: the prompt, and what the CLI adds.
    fn tokens(&self) -> (usize, usize) {
        let begin = self.bare.at_first;
        (self.briefed.tokens.saturating_sub(begin), self.bare.tokens.saturating_sub(begin))
    }

    fn line(&self) -> String {
        let told = self.briefed.told.iter().filter(|told| **told).count();
        format!(
            "| {} | {} | {told} | {}, {} | {}, {} | {:.0} % |",
            self.script.name,
            self.played_calls,
            self.briefed.calls,
            self.tokens().0,
            self.bare.calls,
            self.tokens().1,
            saved(&[self])
        )
    }
}

/// Percent of the tokens that the agent without a briefing needs.
fn saved(rows: &[&Row]) -> f64 {
    let sum = |of: fn(&Row) -> usize| rows.iter().map(|row| of(row)).sum::<usize>() as f64;
    100.0 * (1.0 - sum(|row| row.tokens().0) / sum(|row| row.tokens().1).max(1.0))
}

fn summary(rows: &[Row]) {
    let count = rows.len() as f64;
    let mean = |of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>() as f64 / count;
    let facts = |is: &dyn Fn(&Fact) -> bool, of: fn(&Row) -> &Vec<bool>| {
        let all = rows.iter().flat_map(|row| row.script.facts.iter().zip(of(row))).filter(|(fact, _)| is(fact));
        let (known, all) = all.fold((0, 0), |(known, all), (_, is)| (known + usize::from(*is), all + 1));
        format!("{known} of {all}")
    };
    let line = |label: &str, is: &dyn Fn(&Fact) -> bool| {
        println!("| {label} | {} | {} |", facts(is, |row| &row.briefed.told), facts(is, |row| &row.bare.known));
    };
    println!("\n| {} sessions | with the briefing | without |", rows.len());
    println!("|---|---|---|");
    println!("| calls of tools, mean | {:.1} | {:.1} |", mean(|row| row.briefed.calls), mean(|row| row.bare.calls));
    println!("| tokens, mean | {:.0} | {:.0} |", mean(|row| row.tokens().0), mean(|row| row.tokens().1));
    println!("| tokens saved | {:.1} % | |", saved(&rows.iter().collect::<Vec<_>>()));
    line("facts told at once, or found", &|_| true);
    for (kind, label) in [
        (Kind::Decision, "decisions"),
        (Kind::Failed, "approaches that failed"),
        (Kind::Port, "numbers of ports"),
        (Kind::Avoid, "files to leave alone"),
    ] {
        line(label, &|fact| fact.kind == kind);
    }
    for by in ["user", "agent", "tool"] {
        line(&format!("said by: {by}"), &|fact| fact.by == by);
    }
}
