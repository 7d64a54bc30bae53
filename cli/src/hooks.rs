//! `hooks`: our entries in the agent's settings.

use parhelia_store::name::NameExt as _;
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use parhelia_agent::{
    edited,
    folder::ConfigFolder,
    hooks::{self, HookCommand, Layer, MatcherGap, Release},
    kind::Kind,
    kinds::{self, KINDS},
    mcp::{self, ProxyCommand},
};
use parhelia_host::run;
use parhelia_screen::human;
use parhelia_wire::{
    Summary,
    summary::hooks::{HookLayer, InstallOutcome, StatusOutcome, UninstallOutcome},
};

use crate::{
    authority,
    context::Context,
    exit::{Code, Failure, Result},
    workspace::workspace,
};

/// The verbs of `hooks`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Put them into the agent's settings
    Install(InstallArgs),
    /// Take them out of the agent's settings
    Uninstall(SettingsArgs),
    /// Report which of them are there
    Status(SettingsArgs),
}

/// Flags of `hooks install`.
#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Put `parhelia mcp-proxy` before the MCP servers that are configured there, too, so that checkpoints have their state
    #[arg(long)]
    mcp: bool,
}

fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    // People call the first one by its program.
    let short = |kind: Kind| PossibleValue::new(kind.name()).aliases(kind.name().strip_suffix("-code"));
    let found = |name: String| KINDS.into_iter().find(|kind| kind.name().strip_suffix("-code") == Some(&*name));
    PossibleValuesParser::new(KINDS.map(short)).map(move |name| kinds::named(&name).or(found(name)).unwrap_or(KINDS[0]))
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

    /// The agent's release here. A project's settings are read on other machines, too.
    fn release(&self) -> Option<Release> {
        self.agent.release(std::env::var_os("PATH").as_deref()).filter(|_| self.project.is_none())
    }

    /// The file with the MCP servers.
    fn servers(&self) -> Option<PathBuf> {
        match &self.project {
            Some(folder) => self.agent.servers_of_project(folder),
            None => self.agent.servers_of_user(&authority::original),
        }
    }

    fn path(&self) -> Result<PathBuf> {
        match &self.project {
            Some(folder) => {
                workspace(folder)?;
                Ok(self.agent.hook_file(&folder.join(self.agent.folder_names().in_home)))
            }
            None => {
                let name = self.agent.folder_names().variable;
                let folder = ConfigFolder::of(self.agent, authority::original)
                    .map(|found| found.path)
                    .ok_or_else(|| Failure::Usage(format!("no settings: set HOME or {name}")))?;
                Ok(self.agent.hook_file(&folder))
            }
        }
    }
}

/// Fails where a file of a project leads out of it: a project does not say what else is edited.
fn ensure_in_project<'a>(place: &SettingsArgs, files: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    let Some(project) = &place.project else { return Ok(()) };
    for file in files {
        if let Some(outside) = edited::outside(file, project)? {
            return Err(Failure::Usage(format!(
                "{} leads out of the project, to {}\nLook at that link, and remove it if you did not make it",
                file.shown(),
                outside.shown()
            )));
        }
    }
    Ok(())
}

impl Verb {
    /// Does it.
    pub fn run(&self, context: &mut Context) -> Result<Code> {
        match self {
            Verb::Install(args) => install(context, args),
            Verb::Uninstall(place) => uninstall(context, place),
            Verb::Status(place) => status(context, place),
        }
    }
}

fn install(context: &mut Context, args: &InstallArgs) -> Result<Code> {
    let place = &args.settings;
    // The agent calls it in folders of its own.
    let absolute =
        |path: &PathBuf| std::path::absolute(path).map_err(|source| Failure::File { action: "find", path: path.clone(), source });
    // A project's files are read on other machines, too: its hooks and proxies find the store by their run, or take the default one.
    let store = context.global.store.as_ref().filter(|_| place.project.is_none()).map(absolute).transpose()?;
    let servers = args.mcp.then(|| place.servers().ok_or_else(|| by_hand(place))).transpose()?;
    let command = HookCommand { program: program(place)?, store: store.clone() };
    let settings = place.path()?;
    ensure_in_project(place, [&settings].into_iter().chain(&servers))?;
    // A file that cannot be edited is told before anything is.
    servers.as_deref().map(mcp::wrapped).transpose()?;
    let change = hooks::install(&settings, &command, place.agent, place.release())?;
    let path = change.path.shown();
    context.out.remark(match change.changed {
        true => format!("Hooks were put into {path}. Agents that are started from now on use them."),
        false => format!("The hooks are in {path} already."),
    })?;
    let proxy = ProxyCommand { program: command.program.clone(), store };
    let wrapped = servers.map(|file| mcp::wrap(&file, &proxy)).transpose()?;
    if let Some(wrapped) = &wrapped {
        let (file, names) = (wrapped.edit.path.shown(), wrapped.servers.join(", "));
        context.out.remark(match (wrapped.servers.is_empty(), wrapped.edit.changed) {
            (true, _) => format!("{file} has no MCP servers that the agent starts."),
            (false, true) => format!("A proxy was put before each MCP server in {file}: {names}."),
            (false, false) => format!("The proxies before the MCP servers are in {file} already: {names}."),
        })?;
    }
    if let Some(store) = context.global.store.as_ref().filter(|_| place.project.is_some()) {
        context.out.remark(format!(
            "They do not name the store {}, which others who have the project may not have: agents of `session run` use the store of their \
             session, others the default one.",
            store.shown()
        ))?;
    }
    if let Some(other) = OtherSettings::of(place).filter(|other| other.has_hooks) {
        let settings = other.settings.shown();
        context
            .out
            .remark(format!("{settings} has hooks, too. The agent runs both, and makes two checkpoints in place of one."))?;
    }
    let changed = change.changed || wrapped.as_ref().is_some_and(|wrapped| wrapped.edit.changed);
    if changed {
        context.out.did(format!("hooks were put into {path}"));
    }
    context.out.summary(Summary::HooksInstall(InstallOutcome {
        path,
        changed,
        proxied: wrapped.map(|wrapped| wrapped.servers),
    }))?;
    Ok(Code::Done)
}

/// An agent whose servers are configured in a file that is not edited here.
fn by_hand(place: &SettingsArgs) -> Failure {
    Failure::Usage(format!(
        "--mcp edits JSON, and {} keeps its MCP servers in a file of another form\nPut `parhelia mcp-proxy --name NAME --` before each \
         server's command there",
        place.agent.title()
    ))
}

/// Takes hooks and proxies out: a server must start without this program.
fn uninstall(context: &mut Context, place: &SettingsArgs) -> Result<Code> {
    let (settings, servers) = (place.path()?, place.servers());
    ensure_in_project(place, [&settings].into_iter().chain(&servers))?;
    let change = hooks::uninstall(&settings, place.agent)?;
    let path = change.path.shown();
    context.out.remark(match change.changed {
        true => format!("Hooks were taken out of {path}."),
        false => format!("There are no hooks of ours in {path}."),
    })?;
    let unwrapped = servers.map(|file| mcp::unwrap(&file)).transpose()?;
    if let Some(unwrapped) = unwrapped.as_ref().filter(|unwrapped| unwrapped.edit.changed) {
        let (file, names) = (unwrapped.edit.path.shown(), unwrapped.servers.join(", "));
        context.out.remark(format!("The proxies before the MCP servers were taken out of {file}: {names}."))?;
    }
    elsewhere(context, place)?;
    let changed = change.changed || unwrapped.as_ref().is_some_and(|unwrapped| unwrapped.edit.changed);
    if changed {
        context.out.did(format!("hooks were taken out of {path}"));
    }
    let unproxied = unwrapped.map(|unwrapped| unwrapped.servers).unwrap_or_default();
    context.out.summary(Summary::HooksUninstall(UninstallOutcome { path, changed, unproxied }))?;
    Ok(Code::Done)
}

/// The other settings that an agent in a folder reads: the user's beside a project's, the project's here beside the user's.
struct OtherSettings {
    settings: PathBuf,
    has_hooks: bool,
    /// The file of MCP servers, and those before which a proxy stands.
    servers: Option<(PathBuf, Vec<String>)>,
}

impl OtherSettings {
    /// None where they are the same, or cannot be read.
    fn of(place: &SettingsArgs) -> Option<Self> {
        let project = if place.project.is_some() { None } else { Some(PathBuf::from(".")) };
        let other = SettingsArgs { user: false, agent: place.agent, project };
        let settings = other.path().ok()?;
        let (own, other_real) = (place.path().ok()?.canonicalize(), settings.canonicalize());
        if own.is_ok_and(|own| other_real.is_ok_and(|other| other == own)) {
            return None;
        }
        let has_hooks = hooks::status(&settings, other.agent, other.release()).is_ok_and(|status| !status.commands.is_empty());
        let servers = other.servers().and_then(|file| Some((file.clone(), mcp::wrapped(&file).ok()?)));
        Some(OtherSettings { settings, has_hooks, servers: servers.filter(|(_, names)| !names.is_empty()) })
    }
}

/// Says what of ours is in the other settings.
fn elsewhere(context: &mut Context, place: &SettingsArgs) -> Result<()> {
    let Some(OtherSettings { settings, has_hooks, servers }) = OtherSettings::of(place) else { return Ok(()) };
    if has_hooks {
        context.out.remark(format!("There are hooks in {} as well.", settings.shown()))?;
    }
    if let Some((file, names)) = servers {
        context.out.remark(format!("A proxy stands before these MCP servers of {}: {}.", file.shown(), names.join(", ")))?;
    }
    Ok(())
}

/// The program by its path; in a project's settings, which other machines read too, by its name.
fn program(place: &SettingsArgs) -> Result<PathBuf> {
    if place.project.is_some() {
        return Ok("parhelia".into());
    }
    std::env::current_exe().map_err(|source| Failure::File { action: "find", path: "the program itself".into(), source })
}

/// The words for a layer of settings.
fn said_of(layer: &Layer) -> String {
    match (&layer.error, layer.off, layer.commands.is_empty()) {
        (Some(error), ..) => format!("cannot be read ({error})"),
        (None, Some(setting), _) => format!("{setting} turns hooks off"),
        (None, None, true) => "no hooks of ours".to_owned(),
        (None, None, false) if layer.missing.is_empty() => format!("all hooks ({})", layer.commands.join(", ")),
        (None, None, false) => format!("hooks ({}), but for {}", layer.commands.join(", "), layer.missing.join(", ")),
    }
}

/// The sentence about an event that comes for some of its values alone.
fn narrowed_text(narrowed: &MatcherGap, install: &str) -> String {
    let (event, matchers) = (&narrowed.event, human::path(narrowed.matchers.join(", ").as_bytes()));
    let left_out = match narrowed.left_out.is_empty() {
        true => "nothing else".to_owned(),
        false => format!("not {}", narrowed.left_out.join(", ")),
    };
    format!("The matcher of {event} takes {matchers} and {left_out}; `{install}` puts a hook there that takes all.")
}

fn status(context: &mut Context, place: &SettingsArgs) -> Result<Code> {
    let status = hooks::status(&place.path()?, place.agent, place.release())?;
    let shown = status.path.shown();
    let config = ConfigFolder::of(place.agent, authority::original).map(|found| found.path);
    let workspace = std::path::absolute(place.project.as_deref().unwrap_or(Path::new("."))).unwrap_or_default();
    let layers = hooks::layers(place.agent, config.as_deref(), &workspace, place.release());
    let dead = hooks::dead(&layers, std::env::var_os("PATH").as_deref()).map(|dead| dead.to_string());
    match (status.commands.is_empty(), status.missing.is_empty()) {
        (true, _) => context.out.line(format!("No hooks in {shown}; `{}` puts them there.", place.install_command()))?,
        (false, true) if dead.is_some() => context.out.line(format!("Hooks are in {shown}, and do not run."))?,
        (false, true) => context.out.line(format!("All hooks are in {shown}."))?,
        (false, false) => context.out.line(format!("Some hooks are in {shown}; missing: {}.", status.missing.join(", ")))?,
    }
    for command in &status.commands {
        context.out.line(format!("  {command}"))?;
    }
    for narrowed in &status.narrowed {
        context.out.paragraph(narrowed_text(narrowed, &place.install_command()), 2)?;
    }
    let proxied = place.servers().map(|file| mcp::wrapped(&file)).transpose()?.unwrap_or_default();
    if !proxied.is_empty() {
        context.out.line(format!("A proxy stands before these MCP servers: {}.", proxied.join(", ")))?;
    }
    elsewhere(context, place)?;
    if let Some(setting) = status.disabled {
        context.out.line(format!("All hooks are turned off there ({setting})."))?;
    }
    for layer in &layers {
        context.out.line(format!("  {}: {}: {}", layer.scope, layer.path.shown(), said_of(layer)))?;
    }
    if let Some(why) = &dead {
        context.out.line(format!("They do not run: {why}."))?;
    }
    // Looked at from elsewhere, a store that cannot be opened is no reason to say nothing of settings.
    let heard = match context.open_or_empty() {
        Ok((store, _)) => Ok(run::last_heard(&store, place.agent).ok().flatten()),
        // Each hook fails for the same reason.
        Err(failure) => Err(failure.to_string()),
    };
    context.out.line(match &heard {
        Ok(Some(heard)) => {
            format!("The last event that came of a hook: {} at {}.", human::path(heard.event.as_bytes()), human::local(heard.at))
        }
        Ok(None) => "No event of a hook has come to this store yet.".to_owned(),
        Err(why) => format!("Whether events come cannot be told, and hooks may fail: {why}"),
    })?;
    let heard = heard.ok().flatten();
    context.out.summary(Summary::HooksStatus(StatusOutcome {
        layers: layers.iter().map(|layer| HookLayer::of(layer, said_of(layer))).collect(),
        why_dead: dead,
        last_heard: heard,
        path: shown,
        installed: status.installed,
        missing: status.missing,
        narrowed: status.narrowed,
        commands: status.commands,
        disabled: status.disabled.is_some(),
        proxied,
    }))?;
    Ok(Code::Done)
}
