//! `serve`: the service of a store.

mod browsers;
mod unit;

use std::{
    net::{SocketAddr, TcpListener},
    path::{PathBuf, absolute},
};

use parhelia_host::Host;
use parhelia_service::{
    Address, CertificateFiles, Options, PassedSocket, PassedSockets, Socket, Tcp, serve, socket_path, token_path,
};
use parhelia_store::{id::Ulid, name::NameExt as _};
use parhelia_wire::{Line, Summary, tool::Service};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `serve`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Listen at this socket [default: below XDG_RUNTIME_DIR, by the store's id]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Listen for browsers as well, at an address such as 127.0.0.1:8123, and show the page there; addresses that other machines can reach
    /// need a certificate
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// The file with the token that is asked for there; made if there is none [default: a new token at each start, beside the socket]
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Encrypt connections to that address by TLS, with this certificate in PEM, which those of its issuers follow
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Leave sessions alone whose agents have died
    #[arg(long)]
    no_resume: bool,
    /// Write units of systemd that run this, with this program, store and PATH, and have its socket open before, instead of running it
    #[arg(long)]
    install: bool,
    /// List the browsers that are signed in at the page, instead of serving
    #[arg(long, conflicts_with = "install")]
    browsers: bool,
    /// Sign a browser out, by its id, instead of serving
    #[arg(long, value_name = "ID", conflicts_with_all = ["install", "browsers"])]
    sign_out: Option<String>,
    /// The socket of the tmux server for resumed agents [default: that in which the agent was, else the user's own server]
    #[arg(long, value_name = "PATH")]
    tmux_socket: Option<PathBuf>,
}

/// Serves until Ctrl-C or SIGTERM.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if args.install {
        return unit::install(context, args);
    }
    if args.browsers || args.sign_out.is_some() {
        let token = token_file(context, args)?;
        let is_named = args.token_file.is_some() || args.socket.is_some();
        return browsers::run(context, (&token, is_named), args.sign_out.as_deref());
    }
    let passed = PassedSockets::take()?;
    let tcp = tcp(args, passed.tcp)?;
    if let Some(tcp) = &tcp {
        tcp.ensure_protected()?;
    }
    let store = context.open_or_make()?.absorbing_later();
    crate::remote::after::watch(context);
    let host = context.host()?;
    let socket = match (passed.socket, &args.socket) {
        (Some(passed), named) => Socket::Passed(instead_of(passed, named)),
        (None, Some(named)) => Socket::At(named.clone()),
        (None, None) => Socket::At(usual(&host, store.config().id)?),
    };
    let mut shown = Service {
        store: store.path().shown(),
        socket: socket.path().shown(),
        page: None,
        token: None,
        process: std::process::id(),
    };
    let absolute = |path: &PathBuf| absolute(path).map_err(|source| Failure::File { action: "use", path: path.clone(), source });
    let tmux_socket = args.tmux_socket.as_ref().map(absolute).transpose()?;
    let program_words = context.command_words(store.path());
    let options = Options { socket, tcp, program: program_words, resumes: !args.no_resume, tmux_socket };
    let mut said = Ok(());
    serve(store, Box::new(host), options, |page| {
        shown.page = page.map(|page| page.url.clone());
        shown.token = page.map(|page| page.token.shown());
        said = say(context, &shown);
    })?;
    said?;
    context.out.summary(Summary::Serve { path: None })?;
    Ok(Code::Done)
}

/// The file of the token of a service with these flags, whether it runs or not.
fn token_file(context: &mut Context, args: &Args) -> Result<PathBuf> {
    Ok(match (&args.token_file, &args.socket) {
        (Some(file), _) => file.clone(),
        (None, Some(socket)) => token_path(socket),
        (None, None) => token_path(&usual(&context.host()?, context.open()?.config().id)?),
    })
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

/// TCP, as the flags say, or at a socket that was passed.
fn tcp(args: &Args, passed: Option<TcpListener>) -> Result<Option<Tcp>> {
    let address = match (passed, args.listen) {
        (Some(passed), named) => {
            if let (Some(named), Ok(address)) = (named, passed.local_addr())
                && named != address
            {
                tell!("parhelia: systemd has passed {address} to listen at; --listen {named} means nothing");
            }
            Address::Passed(passed)
        }
        (None, Some(named)) => Address::Of(named),
        (None, None) if args.token_file.is_some() || args.tls_cert.is_some() => {
            return Err(Failure::Usage("--token-file and --tls-cert are for TCP\nGive --listen ADDRESS as well".into()));
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Tcp { address, token: args.token_file.clone(), certificate: certificate(args) }))
}

/// The certificate that the flags name.
fn certificate(args: &Args) -> Option<CertificateFiles> {
    let (certificate, key) = (args.tls_cert.clone()?, args.tls_key.clone()?);
    Some(CertificateFiles { certificate, key })
}

/// A socket that was passed, which counts more than one that is named.
fn instead_of(passed: PassedSocket, named: &Option<PathBuf>) -> PassedSocket {
    if let Some(named) = named.as_ref().filter(|named| **named != passed.path) {
        tell!("parhelia: systemd has passed {} to listen at; --socket {} means nothing", passed.path.shown(), named.shown());
    }
    passed
}

/// An address with a port.
fn address(text: &str) -> std::result::Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an address and a port, such as 127.0.0.1:8123".to_owned())
}

/// The place of a store's socket, where somebody who knows only the store looks for it.
fn usual(host: &dyn Host, store: Ulid) -> Result<PathBuf> {
    let runtime = host.variable("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    socket_path(runtime.as_deref(), host.cache_folder().as_deref(), store)
        .ok_or_else(|| Failure::Usage("there is neither XDG_RUNTIME_DIR nor a home for the socket; give --socket PATH".into()))
}
