//! `hooks`: our entries in the agent's settings.

use parhelia_store::name::Shown as _;
use std::{os::unix::ffi::OsStrExt, path::PathBuf};

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use parhelia_agent::{
    folder::ConfigFolder,
    hooks::{self, HookCommand, SettingsEdit},
    kind::{self, KINDS, Kind},
};
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human,
    workspace::workspace,
};

/// The verbs of `hooks`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Put them into the agent's settings
    Install(SettingsArgs),
    /// Take them out of the agent's settings
    Uninstall(SettingsArgs),
    /// Report which of them are there
    Status(SettingsArgs),
}

fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    // People call the first one by its program.
    let short = |kind: Kind| PossibleValue::new(kind.name()).aliases(kind.name().strip_suffix("-code"));
    let found = |name: String| KINDS.into_iter().find(|kind| kind.name().strip_suffix("-code") == Some(&*name));
    PossibleValuesParser::new(KINDS.map(short)).map(move |name| kind::named(&name).or(found(name)).unwrap_or(KINDS[0]))
}

/// The settings that a verb works on.
#[derive(Debug, clap::Args)]
pub struct SettingsArgs {
    /// The user's own settings (default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// The kind of agent
    #[arg(long, value_name = "AGENT", default_value = KINDS[0].name(), value_parser = kind_parser())]
    agent: Kind,
    /// The settings of the project in a folder
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
}

impl SettingsArgs {
    /// The command that installs the hooks in these settings.
    fn install_command(&self) -> String {
        let mut command = "parhelia hooks install".to_owned();
        if self.agent.name() != KINDS[0].name() {
            command.push_str(&format!(" --agent {}", self.agent.name()));
        }
        match &self.project {
            Some(folder) if folder.as_os_str() == "." => command.push_str(" --project"),
            Some(folder) => command.push_str(&format!(" --project {}", human::shell(folder.as_os_str().as_bytes()))),
            None => {}
        }
        command
    }

    fn path(&self) -> Result<PathBuf> {
        match &self.project {
            Some(folder) => {
                workspace(folder)?;
                Ok(self.agent.hook_file(&folder.join(self.agent.folder_names().in_home)))
            }
            None => {
                let name = self.agent.folder_names().variable;
                let folder = ConfigFolder::of(self.agent, |name| std::env::var_os(name))
                    .map(|found| found.path)
                    .ok_or_else(|| Failure::Usage(format!("no settings: set HOME or {name}")))?;
                Ok(self.agent.hook_file(&folder))
            }
        }
    }
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Install(place) => {
                // The agent calls it in folders of its own.
                let absolute = |path: &PathBuf| {
                    std::path::absolute(path).map_err(|source| Failure::File { action: "find", path: path.clone(), source })
                };
                let store = context.global.store.as_ref().map(absolute).transpose()?;
                let command = HookCommand { program: program(place)?, store };
                report(context, "install", &hooks::install(&place.path()?, &command, place.agent)?)
            }
            Verb::Uninstall(place) => report(context, "uninstall", &hooks::uninstall(&place.path()?, place.agent)?),
            Verb::Status(place) => status(context, place),
        }
    }
}

/// The program by its path; in a project's settings, which other machines read too, by its name.
fn program(place: &SettingsArgs) -> Result<PathBuf> {
    if place.project.is_some() {
        return Ok("parhelia".into());
    }
    std::env::current_exe().map_err(|source| Failure::File { action: "find", path: "the program itself".into(), source })
}

fn report(context: &mut Context, verb: &str, change: &SettingsEdit) -> Result<Code> {
    let path = change.path.shown();
    let text = match (verb, change.changed) {
        ("install", true) => format!("Hooks were put into {path}. Agents that are started from now on use them."),
        ("install", false) => format!("The hooks are in {path} already."),
        (_, true) => format!("Hooks were taken out of {path}."),
        (_, false) => format!("There are no hooks of ours in {path}."),
    };
    if change.changed {
        context.out.did(format!("hooks were {} {path}", if verb == "install" { "put into" } else { "taken out of" }));
    }
    context.out.remark(text)?;
    let changed = change.changed;
    context.out.summary(match verb {
        "install" => Summary::HooksInstall { path, changed },
        _ => Summary::HooksUninstall { path, changed },
    })?;
    Ok(Code::Done)
}

fn status(context: &mut Context, place: &SettingsArgs) -> Result<Code> {
    let status = hooks::status(&place.path()?, place.agent)?;
    let shown = status.path.shown();
    match (status.installed.is_empty(), status.missing.is_empty()) {
        (true, _) => context.out.line(format!("No hooks in {shown}; `{}` puts them there.", place.install_command()))?,
        (false, true) => context.out.line(format!("All hooks are in {shown}."))?,
        (false, false) => context.out.line(format!("Some hooks are in {shown}; missing: {}.", status.missing.join(", ")))?,
    }
    for command in &status.commands {
        context.out.line(format!("  {command}"))?;
    }
    if let Some(setting) = status.disabled {
        context.out.line(format!("All hooks are turned off there ({setting})."))?;
    }
    context.out.summary(Summary::HooksStatus {
        path: shown,
        installed: status.installed,
        missing: status.missing,
        commands: status.commands,
        disabled: status.disabled.is_some(),
    })?;
    Ok(Code::Done)
}
