//! `checkpoint list`: what there is, newest first.

use parhelia_store::name::NameExt as _;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use parhelia_ledger::{ApprovalStatus, LedgerView as _, Marks, VerifyLevel};
use parhelia_oversight::review::{link, tag};
use parhelia_screen::human;
use parhelia_store::{clock, id::Ulid, record::Outline, view::View};
use parhelia_wire::{Line, Summary, checkpoint as wire};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::marks;
use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    layout::Table,
    when,
};

/// Columns that a narrow terminal does without, the least important first.
const DROPPED: [&str; 15] = [
    "WORKSPACE",
    "TRIGGER",
    "PARENT",
    "EPOCH",
    "FILES",
    "VERIFIED",
    "APPROVAL",
    "NOTES",
    "ISSUES",
    "SIZE",
    "STATE",
    "TOKENS",
    "TURNS",
    "COST",
    "TAGS",
];

/// Flags of `checkpoint list`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those of the session with this id or name
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// Show what is known of each beyond its files: epoch, parent, turns, tokens, cost, approval, when it was verified, tags
    #[arg(short, long)]
    detailed: bool,
    /// Only the newest N
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Only those made since then: a time such as 2026-01-16, or an age such as 2h or 3d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Only those with a tag that matches: release and all below it, release/*, release/**, **/v1
    #[arg(long = "tag", value_name = "PATTERN", add = complete::tags())]
    tags: Vec<String>,
    /// Only those with this decision
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "approved", "rejected", "auto_approved"])]
    approval: Option<String>,
    /// Only those that are linked to this issue, as `checkpoint link` takes it
    #[arg(long = "link", value_name = "URL")]
    links: Vec<String>,
}

/// Prints the list.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let view = store.view();
    let marked = MarkFilter::of(&view, args)?;
    let session = args.session.as_ref().map(|name| view.session_id(name)).transpose()?;
    let wanted = |outline: &Outline| {
        session.as_ref().is_none_or(|id| outline.session == *id) && args.since.is_none_or(|since| outline.created_at >= since)
    };
    let newest_first = marked.outlines(&view)?.into_iter().rev().filter(wanted);
    let checkpoints: Vec<Outline> = newest_first.take(args.limit.unwrap_or(usize::MAX)).collect();
    if context.out.json {
        let none = Marks::default();
        for checkpoint in &checkpoints {
            let shown = wire::Checkpoint::of(checkpoint, marked.marks.get(&checkpoint.id).unwrap_or(&none));
            context.out.object(Line::Checkpoint(Box::new(shown)))?;
        }
        context.out.summary(Summary::CheckpointList { checkpoints: checkpoints.len() as u64 })?;
        return Ok(Code::Done);
    }
    if checkpoints.is_empty() && args.limit != Some(0) {
        let of = args.session.as_ref().map(|session| format!(" of session {session}")).unwrap_or_default();
        let since = args.since.map(|since| format!(" since {}", human::local(since))).unwrap_or_default();
        let that = if marked.is_chosen { " that match" } else { "" };
        context.out.remark(format!("No checkpoints{of}{since}{that} in {}.", store.path().shown()))?;
        return Ok(Code::Done);
    }
    if !checkpoints.is_empty() {
        context.out.page()?;
        print(context, &checkpoints, &marked.marks, args.detailed)?;
    }
    Ok(Code::Done)
}

/// The marks of the checkpoints that are wanted for them.
struct MarkFilter {
    marks: BTreeMap<Ulid, Marks>,
    /// False if all checkpoints are wanted, also those without marks.
    is_chosen: bool,
}

impl MarkFilter {
    fn of(view: &View, args: &Args) -> Result<Self> {
        let patterns: Vec<tag::Pattern> = marks::parsed(&args.tags)?;
        let issues = args.links.iter().map(|text| link::parse(text)).collect::<Result<Vec<_>, _>>()?;
        let tagged = (!patterns.is_empty()).then(|| tag::bearing(view, &patterns)).transpose()?;
        let linked = (!issues.is_empty()).then(|| link::linked(view, &issues)).transpose()?;
        let chosen: Option<BTreeSet<Ulid>> = match (tagged, linked) {
            (Some(tagged), Some(linked)) => Some(tagged.into_iter().filter(|id| linked.contains(id)).collect()),
            (Some(tagged), None) => Some(tagged.into_iter().collect()),
            (None, linked) => linked,
        };
        let is_chosen = chosen.is_some() || args.approval.is_some();
        // Of those that are chosen, no others are read.
        let mut marks: BTreeMap<Ulid, Marks> = match chosen {
            None => view.all_marks()?,
            Some(chosen) => chosen.into_iter().map(|id| Ok((id, view.marks(id)?))).collect::<Result<_>>()?,
        };
        if let Some(wanted) = &args.approval {
            marks.retain(|_, marks| marks.approval.as_ref().is_some_and(|approval| approval.status.name() == wanted));
        }
        Ok(MarkFilter { marks, is_chosen })
    }

    /// The checkpoints, in order of commit.
    fn outlines(&self, view: &View) -> Result<Vec<Outline>> {
        if !self.is_chosen {
            return Ok(view.outlines()?);
        }
        let found = self.marks.keys().map(|id| view.checkpoint(*id)).collect::<Result<Vec<_>, _>>()?;
        let mut outlines: Vec<Outline> = found.iter().flatten().map(Outline::from).collect();
        outlines.sort_by_key(|outline| outline.sequence);
        Ok(outlines)
    }
}

fn print(context: &mut Context, checkpoints: &[Outline], marks: &BTreeMap<Ulid, Marks>, detailed: bool) -> Result<()> {
    let now = clock::timestamp();
    let none = Marks::default();
    // Of one folder, every line would say the same.
    let has_several = checkpoints.windows(2).any(|two| two[0].workspace.path != two[1].workspace.path);
    let mut heading = vec!["ID", "SESSION"];
    heading.extend(has_several.then_some("WORKSPACE"));
    heading.extend(["TRIGGER", "CREATED", "FILES", "SIZE", "VERIFIED"]);
    let before = heading.len();
    let mut right = vec![before - 3, before - 2];
    if detailed {
        heading.extend(["EPOCH", "PARENT", "TURNS", "TOKENS", "COST", "APPROVAL"]);
        right.extend([0, 2, 3, 4].map(|column| before + column));
    }
    let said = MarkColumns::of(checkpoints, marks, detailed);
    let counts = usize::from(said.secrets) + usize::from(said.notes);
    right.extend(heading.len()..heading.len() + counts);
    heading.extend(said.chosen(["SECRETS", "NOTES", "TAGS", "ISSUES"]));
    heading.extend(["STATE", "MESSAGE"]);
    let mut rows = vec![heading.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for checkpoint in checkpoints {
        let marks = marks.get(&checkpoint.id).unwrap_or(&none);
        let mut row = vec![checkpoint.id.to_string(), human::path(checkpoint.session.as_bytes())];
        row.extend(has_several.then(|| checkpoint.workspace.path.clone()));
        row.extend([
            checkpoint.trigger.name().to_owned(),
            human::age(checkpoint.created_at, now),
            human::number(checkpoint.workspace.files),
            human::size(checkpoint.workspace.bytes),
            verified(marks, detailed.then_some(now)),
        ]);
        if detailed {
            row.extend(details(checkpoint, marks));
        }
        let number = if marks.annotations.is_empty() { String::new() } else { marks.annotations.len().to_string() };
        let issues = marks.links.iter().map(marks::issue).collect::<Vec<_>>().join(",");
        let tags = marks.tags.iter().cloned().collect::<Vec<_>>().join(",");
        row.extend(said.chosen([secrets(marks), number, tags, issues]));
        row.push(standing(checkpoint, marks).to_owned());
        row.push(human::path(checkpoint.message.as_deref().unwrap_or_default().lines().next().unwrap_or_default().as_bytes()));
        rows.push(row);
    }
    context.out.table(&Table { rows: &rows, right: &right, dropped: &DROPPED })
}

/// The columns about what was said of the checkpoints: each is there if one of them has something in it.
struct MarkColumns {
    secrets: bool,
    notes: bool,
    tags: bool,
    issues: bool,
}

impl MarkColumns {
    fn of(checkpoints: &[Outline], marks: &BTreeMap<Ulid, Marks>, detailed: bool) -> Self {
        let has = |has: fn(&Marks) -> bool| checkpoints.iter().filter_map(|checkpoint| marks.get(&checkpoint.id)).any(has);
        MarkColumns {
            secrets: has(|marks| marks.scan.as_ref().is_some_and(|scan| scan.found > 0)),
            notes: has(|marks| !marks.annotations.is_empty()),
            tags: detailed || has(|marks| !marks.tags.is_empty()),
            issues: has(|marks| !marks.links.is_empty()),
        }
    }

    /// The cells of these columns.
    fn chosen<T>(&self, cells: [T; 4]) -> impl Iterator<Item = T> + use<T> {
        let are_there = [self.secrets, self.notes, self.tags, self.issues];
        cells.into_iter().zip(are_there).filter(|(_, is_there)| *is_there).map(|(cell, _)| cell)
    }
}

/// The counters of a conversation that `--detailed` shows.
#[derive(Default, Deserialize)]
struct ConversationCounts {
    turn_count: Option<u64>,
    tokens_used: Option<u64>,
}

/// The usage that `--detailed` shows.
#[derive(Default, Deserialize)]
struct UsageCost {
    cost_estimate_usd: Option<f64>,
}

/// Decodes the shown fields of a value; defaults if the value is unlike those that this release writes.
fn decoded<'a, T: Default + Deserialize<'a>>(value: Option<&'a RawValue>) -> T {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

fn details(checkpoint: &Outline, marks: &Marks) -> [String; 6] {
    let conversed: ConversationCounts = decoded(checkpoint.conversation.as_deref());
    let used: UsageCost = decoded(checkpoint.usage.as_deref());
    let shown = |number: Option<u64>| number.map_or_else(|| "–".to_owned(), human::number);
    let parent = checkpoint.parent.map(|id| id.to_string());
    [
        checkpoint.epoch.to_string(),
        // The end of an id tells it from its neighbours.
        parent.map_or_else(|| "–".to_owned(), |id| format!("…{}", &id[id.len() - 6..])),
        shown(conversed.turn_count),
        shown(conversed.tokens_used),
        used.cost_estimate_usd.map_or_else(|| "–".to_owned(), human::cost),
        marks.approval.as_ref().map_or("–", |approval| approval.status.name()).to_owned(),
    ]
}

/// The number of possible secrets that are new in a checkpoint; nothing for none.
fn secrets(marks: &Marks) -> String {
    let found = marks.scan.as_ref().map_or(0, |scan| scan.found);
    if found > 0 { human::number(found) } else { String::new() }
}

/// The last verification of a checkpoint, in words; with its time if `now` is given.
pub fn verified(marks: &Marks, now: Option<Timestamp>) -> String {
    let Some(verification) = &marks.verification else { return "–".to_owned() };
    let mark = match (verification.ok, verification.incomplete.is_empty(), verification.level) {
        (false, ..) => "✗",
        (_, false, _) => "incomplete",
        (.., VerifyLevel::New) => "new in index",
        (.., VerifyLevel::Index) => "in index",
        (.., VerifyLevel::Part) => "✓ part",
        (.., VerifyLevel::Deep) => "✓ deep",
    };
    match now {
        Some(now) => format!("{mark} {}", human::age(verification.at, now)),
        None => mark.to_owned(),
    }
}

/// Checks whether a verification found that a part is missing.
fn lacks_a_part(marks: &Marks) -> bool {
    marks.verification.as_ref().is_some_and(|verification| !verification.incomplete.is_empty())
}

/// The word for a checkpoint that is fenced, incomplete or partial; empty for most.
fn standing(checkpoint: &Outline, marks: &Marks) -> &'static str {
    let lacks_a_part = checkpoint.has_failed_part || lacks_a_part(marks);
    match (checkpoint.fenced, lacks_a_part, checkpoint.is_complete()) {
        (true, ..) => "fenced",
        (_, true, _) => "incomplete",
        (_, _, false) => "partial",
        // What nobody has to look at is not told.
        _ => match marks.approval.as_ref().map(|approval| approval.status) {
            Some(ApprovalStatus::Pending) => "pending",
            Some(ApprovalStatus::Rejected) => "rejected",
            _ => "",
        },
    }
}
