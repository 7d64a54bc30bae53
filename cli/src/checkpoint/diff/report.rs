//! The facts about two checkpoints, side by side: time, length of the conversation, environment, approval.

use parhelia_agent::environment::diff as environment;
use parhelia_ledger::Marks;
use parhelia_life::environment::packages;
use parhelia_screen::human;
use parhelia_store::{Store, record::Checkpoint};
use parhelia_wire::diff::{Comparison, ComparisonSide};
use serde_json::Value;

use crate::{env, exit::Result, output::Output};

/// A checkpoint and its marks.
pub struct MarkedCheckpoint {
    /// The checkpoint with its record.
    pub checkpoint: Checkpoint,
    /// Statements about it since, its approval among them.
    pub marks: Marks,
}

/// Two checkpoints side by side.
pub struct DiffReport<'a> {
    old: &'a MarkedCheckpoint,
    new: &'a MarkedCheckpoint,
    environment: environment::Diff,
}

fn number(value: &Option<Value>, name: &str) -> Option<u64> {
    value.as_ref()?.get(name)?.as_u64()
}

fn cost(checkpoint: &Checkpoint) -> Option<f64> {
    checkpoint.record.usage.as_ref()?.get("cost_estimate_usd")?.as_f64()
}

impl<'a> DiffReport<'a> {
    /// Compares two.
    pub fn new(store: &Store, old: &'a MarkedCheckpoint, new: &'a MarkedCheckpoint) -> Self {
        let of = |told: &'a MarkedCheckpoint| told.checkpoint.record.environment.as_ref();
        let packages = [old, new].map(|told| packages(store, &told.checkpoint));
        let environment = environment::diff(of(old), of(new), (packages[0].as_deref(), packages[1].as_deref()));
        DiffReport { old, new, environment }
    }

    /// Prints what stands before the files.
    pub fn print_before(&self, out: &mut Output) -> Result<()> {
        let (old, new) = (&self.old.checkpoint, &self.new.checkpoint);
        out.line(format!("Checkpoint Comparison: {} → {}\n", old.id(), new.id()))?;
        let (from, to) = (old.record.created_at, new.record.created_at);
        let apart = from.duration_since(to).as_secs().unsigned_abs();
        out.line(format!("Time: {from:.0} → {to:.0} ({})\n", human::span(apart)))?;
        if old.record.conversation.is_some() || new.record.conversation.is_some() {
            out.line("Conversation:")?;
            for (label, name) in [("Turns", "turn_count"), ("Tokens", "tokens_used")] {
                let of = |checkpoint: &Checkpoint| number(&checkpoint.record.conversation, name);
                out.line(format!("  {label}: {}", step(of(old), of(new))))?;
            }
            out.line(format!("  Cost: {}\n", cost_step(cost(old), cost(new))))?;
        }
        out.line("Files Changed:")
    }

    /// Prints what stands behind the files: nothing of folders in which no agent works.
    pub fn print_after(&self, out: &mut Output) -> Result<()> {
        let (old, new) = (&self.old.checkpoint.record, &self.new.checkpoint.record);
        let is_agents = [old, new].iter().any(|record| record.conversation.is_some() || record.environment.is_some());
        if is_agents {
            self.print_environment(out)?;
        }
        if is_agents || [self.old, self.new].iter().any(|told| told.marks.approval.is_some()) {
            out.line("\nApproval:")?;
            for told in [self.old, self.new] {
                out.line(format!("  {}: {}", told.checkpoint.id(), decided(&told.marks)))?;
            }
        }
        Ok(())
    }

    fn print_environment(&self, out: &mut Output) -> Result<()> {
        let (old, new) = (&self.old.checkpoint.record, &self.new.checkpoint.record);
        out.line("\nEnvironment:")?;
        let environment = &self.environment;
        match (old.environment.is_some() && new.environment.is_some(), environment.changes.is_empty()) {
            (false, _) => out.line("  Not captured in both")?,
            (true, true) => out.line("  No changes")?,
            (true, false) => {
                for change in &environment.changes {
                    out.line(format!("  {} {}", change.section, env::diff::line(change)))?;
                }
            }
        }
        if old.environment.is_some() && new.environment.is_some() && !environment.unknown.is_empty() {
            out.line(format!("  Not captured in both: {}", environment.unknown.join(", ")))?;
        }
        Ok(())
    }

    /// The same for programs.
    pub fn for_programs(&self) -> Comparison {
        let (from, to) = (self.old.checkpoint.record.created_at, self.new.checkpoint.record.created_at);
        Comparison {
            old: ComparisonSide::of(&self.old.checkpoint, &self.old.marks),
            new: ComparisonSide::of(&self.new.checkpoint, &self.new.marks),
            seconds: to.duration_since(from).as_secs(),
            environment: self.environment.changes.clone(),
            environment_unknown: self.environment.unknown.iter().map(|part| (*part).to_owned()).collect(),
        }
    }
}

/// `10 → 15 (+5)`.
fn step(old: Option<u64>, new: Option<u64>) -> String {
    let shown = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), human::number);
    let difference = match (old, new) {
        (Some(old), Some(new)) if new >= old => format!(" (+{})", human::number(new - old)),
        (Some(old), Some(new)) => format!(" (-{})", human::number(old - new)),
        _ => String::new(),
    };
    format!("{} → {}{difference}", shown(old), shown(new))
}

fn cost_step(old: Option<f64>, new: Option<f64>) -> String {
    let shown = |usd: Option<f64>| usd.map_or_else(|| "–".to_owned(), human::cost);
    let difference = match (old, new) {
        (Some(old), Some(new)) => format!(" ({}{})", if new < old { '-' } else { '+' }, human::cost((new - old).abs())),
        _ => String::new(),
    };
    format!("{} → {}{difference}", shown(old), shown(new))
}

fn decided(marks: &Marks) -> String {
    let Some(approval) = &marks.approval else { return "not decided".to_owned() };
    let by = match (approval.who(), &approval.policy) {
        (Some(who), _) => format!(" (by {})", human::path(who.as_bytes())),
        (None, Some(policy)) => format!(" (by policy {})", human::path(policy.as_bytes())),
        _ => String::new(),
    };
    format!("{}{by}", approval.status.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_say_by_how_much() {
        assert_eq!(step(Some(10), Some(15)), "10 → 15 (+5)");
        assert_eq!(step(Some(45_000), Some(30_000)), "45,000 → 30,000 (-15,000)");
        assert_eq!(step(None, Some(1)), "– → 1");
        assert_eq!(cost_step(Some(0.3), Some(0.45)), "$0.30 → $0.45 (+$0.15)");
    }
}
