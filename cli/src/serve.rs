//! `serve`: the service of a store.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use parhelia_service::{Options, Place, Start, Tcp, serve, socket_path};
use parhelia_session::host::Host;
use parhelia_store::{id::Ulid, name::Shown as _};
use parhelia_wire::{Line, Summary, tool::Service};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    limits,
    session::tmux::{absolute_of, own_words},
    unit::{Words, install, word},
};

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Listen at this socket [default: below XDG_RUNTIME_DIR, by the store's id]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen for browsers as well, at a loopback address such as 127.0.0.1:8123, and show the page there
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    listen: Option<SocketAddr>,
    /// The file with the token that is asked for there; made if there is none [default: a new token at each start, beside the socket]
    #[arg(long, value_name = "PATH", requires = "listen")]
    token_file: Option<PathBuf>,
    /// Leave sessions alone whose agents have died
    #[arg(long)]
    no_resume: bool,
    /// Write a unit of systemd that runs this, with this program, store and PATH, instead of running it
    #[arg(long)]
    install: bool,
    /// The socket of the tmux server for resumed agents [default: that in which the agent was, else the user's own server]
    #[arg(long, value_name = "PATH")]
    tmux_socket: Option<PathBuf>,
}

/// The name of the unit.
const UNIT: &str = "parhelia.service";

/// Serves until Ctrl-C or SIGTERM.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if args.install {
        let text = unit(&Words::of(context)?, args)?;
        let enable = format!("enable --now {UNIT}");
        let path = install(context, UNIT, &text, &["daemon-reload", &enable])?;
        context.out.summary(Summary::Serve { path: Some(path.shown()) })?;
        return Ok(Code::Done);
    }
    let store = context.open_with(true)?.absorbing_later();
    let host = context.host()?;
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => usual(&host, store.config().id).ok_or_else(|| {
            Failure::Usage("there is neither XDG_RUNTIME_DIR nor a home for the socket; give --socket PATH".into())
        })?,
    };
    let tcp = args.listen.map(|address| Tcp { address, token: args.token_file.clone() });
    let mut shown =
        Service { store: store.path().shown(), socket: socket.shown(), page: None, token: None, process: std::process::id() };
    let program = host.program().map_err(|source| Failure::File { action: "find", path: "the program itself".into(), source })?;
    let mut words = own_words(context)?;
    words.push("session".into());
    let tmux_socket = args.tmux_socket.as_deref().map(absolute_of).transpose()?;
    let starter = move |start: &Start, secrets: &BTreeSet<String>, out: Stdio, errors: Stdio| -> std::io::Result<Child> {
        let mut command = Command::new(&program);
        command.args(&words).args(start_words(start, tmux_socket.as_deref()));
        for name in secrets {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0);
        limits::for_others(|| command.spawn())
    };
    let program_words = context.command_words(store.path());
    let options = Options { socket, tcp, program: program_words, resumes: !args.no_resume, starter: Box::new(starter) };
    let mut said = Ok(());
    serve(store, Box::new(host), options, |page| {
        shown.page = page.map(|page| format!("http://{}/", page.address));
        shown.token = page.map(|page| page.token.shown());
        said = say(context, &shown);
    })?;
    said?;
    context.out.summary(Summary::Serve { path: None })?;
    Ok(Code::Done)
}

/// The words behind `session` that start an agent.
fn start_words(start: &Start, tmux_socket: Option<&OsStr>) -> Vec<OsString> {
    let flag = |name: &str, value: &str| OsString::from(format!("--{name}={value}"));
    let verb = if matches!(start, Start::New(_)) { "run" } else { "resume" };
    let mut words: Vec<OsString> = [verb, "--tmux", "--detach"].map(Into::into).into();
    words.extend(tmux_socket.into_iter().flat_map(|path| ["--tmux-socket".into(), path.to_owned()]));
    match start {
        Start::Resume { session, prompt } => {
            words.extend(prompt.iter().map(|prompt| flag("prompt", prompt)));
            words.extend(["--".into(), session.into()]);
        }
        Start::New(new) => {
            let (name, folder) = match &new.place {
                Place::Workspace(folder) => ("--workspace", folder),
                Place::CopyOf(folder) => ("--agent-folder", folder),
            };
            words.extend(["--json".into(), name.into(), folder.into()]);
            words.extend(new.name.iter().map(|name| flag("name", name)));
            words.extend(new.policy.iter().map(|policy| flag("policy", policy)));
            words.extend(new.interval.iter().map(|seconds| flag("interval", &seconds.to_string())));
            words.push("--".into());
            words.extend(new.command.iter().map(Into::into));
        }
    }
    words
}

/// Says that programs can connect.
fn say(context: &mut Context, service: &Service) -> Result<()> {
    match context.out.json {
        true => context.out.object(Line::Service(service.clone()))?,
        false => {
            context.out.line(format!("Serving {} at {} (process {}).", service.store, service.socket, service.process))?;
            if let (Some(page), Some(token)) = (&service.page, &service.token) {
                context.out.line(format!("Page: {page} (its token is in {token})"))?;
            }
        }
    }
    context.out.flush()
}

/// The unit. Its end ends this process alone: agents that it has resumed are in its control group, and go on.
fn unit(words: &Words, args: &Args) -> Result<String> {
    let mut command = format!("{} serve", words.command);
    if let Some(address) = args.listen {
        command = format!("{command} --listen {address}");
    }
    let paths = [("--socket", &args.socket), ("--token-file", &args.token_file), ("--tmux-socket", &args.tmux_socket)];
    for (flag, path) in paths {
        if let Some(path) = path {
            command = format!("{command} {flag} {}", word(path)?);
        }
    }
    if args.no_resume {
        command.push_str(" --no-resume");
    }
    Ok(format!(
        "[Unit]\n\
         Description=Look after the sessions of coding agents\n\
         \n\
         [Service]\n\
         Environment={}\n\
         ExecStart={command}\n\
         KillMode=process\n\
         Restart=on-failure\n\
         RestartPreventExitStatus=2 11\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n",
        words.path
    ))
}

/// An address that only this machine can connect to.
fn loopback(text: &str) -> std::result::Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected an address and a port, such as 127.0.0.1:8123".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("only addresses of this machine alone, such as 127.0.0.1; from elsewhere, come through ssh -L".into()),
    }
}

/// The place of a store's socket, where somebody who knows only the store looks for it.
fn usual(host: &dyn Host, store: Ulid) -> Option<PathBuf> {
    let runtime = host.variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    socket_path(runtime.as_deref(), host.cache_folder().as_deref(), store)
}
