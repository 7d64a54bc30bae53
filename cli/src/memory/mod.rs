//! `memory`: what a project's sessions have learned.

mod adopt;
mod confirm;
mod forget;
mod list;
mod recall;
mod save;
mod suggest;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use parhelia_knowledge::memory::{self, Entry, Project, Section};
use parhelia_screen::human;
use parhelia_store::Store;
use parhelia_wire::{Line, memory::Knowledge};

use crate::{
    context::Context,
    exit::{Code, Result},
    workspace::workspace,
};

/// Flags of all verbs of `memory`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The workspace whose project is meant [default: .]
    #[arg(short, long, global = true, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The project by its name, as `memory list --projects` prints it
    #[arg(short, long, global = true, value_name = "NAME", conflicts_with = "workspace")]
    project: Option<String>,
    /// The verb.
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs of `memory`.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Remember something
    Save(save::Args),
    /// Find what is known by words
    Recall(recall::Args),
    /// List everything that is known
    List(list::Args),
    /// Forget something
    Forget(forget::Args),
    /// Take over what is known of another project, which keeps it
    Adopt(adopt::Args),
    /// Confirm that this folder is of the project that its remote names, so that it shares what is known of that
    Confirm,
    /// List patterns in earlier sessions that are worth remembering, and accept or dismiss one
    Suggest(suggest::Args),
}

impl Args {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match &self.verb {
            Verb::Save(args) => save::run(context, self, args),
            Verb::Recall(args) => recall::run(context, self, args),
            Verb::List(args) => list::run(context, self, args),
            Verb::Forget(args) => forget::run(context, self, args),
            Verb::Adopt(args) => adopt::run(context, self, args),
            Verb::Confirm => confirm::run(context, self),
            Verb::Suggest(args) => suggest::run(context, self, args),
        }
    }

    /// The project that is meant; one that was named is known.
    fn known_project(&self, store: &Store) -> Result<Project> {
        let project = self.project(store)?;
        if self.project.is_some() {
            memory::ensure_known(&store.layout().root, &project)?;
        }
        Ok(project)
    }

    /// The project that is meant.
    fn project(&self, store: &Store) -> Result<Project> {
        if let Some(name) = &self.project {
            return Ok(Project::named(name));
        }
        let folder = workspace(self.workspace.as_deref().unwrap_or(Path::new(".")))?;
        let sessions = parhelia_ledger::selector::sessions_at(&store.view(), &folder)?;
        let given = sessions.iter().find(|session| session.project.is_some());
        Ok(Project::of(&store.layout().root, &folder, given))
    }
}

/// Says that a folder is not known to be of the project that it says it is of.
fn say_unconfirmed(context: &mut Context, project: &Project) -> Result<()> {
    let Some(claimed) = &project.unconfirmed else { return Ok(()) };
    context.out.remark(format!(
        "This folder says that it is of {}, of which more is known from other folders. If it is, `parhelia memory confirm` shares that.",
        human::path(claimed.as_bytes())
    ))
}

fn print<'a>(
    context: &mut Context,
    section: Section,
    entry: &Entry,
    contradicts: impl IntoIterator<Item = &'a Entry>,
) -> Result<()> {
    let shown = Knowledge::of(section, entry, contradicts);
    if context.out.json {
        return context.out.object(Line::Knowledge(Box::new(shown)));
    }
    let key = shown.key.as_ref().map(|key| format!(".{key}")).unwrap_or_default();
    let name = human::path(format!("{}{key}", shown.section).as_bytes());
    let text = human::path(shown.text.replace('\n', " ").as_bytes());
    let files = match shown.files.is_empty() {
        true => String::new(),
        false => format!(", {}", human::path(shown.files.join(", ").as_bytes())),
    };
    let session = shown.session.as_ref().map(|session| format!(", session {session}")).unwrap_or_default();
    let day = shown.added_at.strftime("%Y-%m-%d");
    context.out.line(format!("{}  {name}: {text} ({day}, {}{session}{files})", shown.id, shown.added_by))?;
    for other in &shown.contradicts {
        context.out.line(format!("          says something else than {other}"))?;
    }
    Ok(())
}
