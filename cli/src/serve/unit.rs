//! `serve --install`: the units of systemd, of which one has the socket open before the service runs and while it starts anew.

use std::path::{Path, absolute};

use parhelia_store::{lock::ServiceLock, name::NameExt as _};
use parhelia_wire::Summary;

use super::{Args, tcp};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    unit::{self, Unit, Words, word},
};

/// The names of the units.
const SERVICE: &str = "parhelia.service";
const SOCKET: &str = "parhelia.socket";

/// Writes both units.
pub fn install(context: &mut Context, args: &Args) -> Result<Code> {
    if let Some(tcp) = tcp(args, None)? {
        tcp.ensure_protected()?;
    }
    let words = Words::of(context)?;
    let path = match &args.socket {
        Some(path) => listened(path)?,
        // The folder of the session of systemd, which the service finds in XDG_RUNTIME_DIR.
        None => format!("%t/parhelia/{}.sock", context.open_or_make()?.config().id),
    };
    let service = Unit { name: SERVICE, text: service(&words, args)? };
    let socket = Unit { name: SOCKET, text: socket(&path, args) };
    let enable = format!("enable --now {SERVICE}");
    let path = unit::install(context, &service, &[socket], &["daemon-reload", &enable])?;
    if let Ok(Err(holder)) = ServiceLock::take(&context.store_path()?) {
        let holder = parhelia_wire::shown(holder.as_bytes());
        context.out.remark(format!(
            "A service of this store runs already: {holder}. Stop it before that: systemd takes its socket over."
        ))?;
    }
    context.out.summary(Summary::Serve { path: Some(path.shown()) })?;
    Ok(Code::Done)
}

/// The service. Its end ends this process alone: agents that it has resumed are in its control group, and go on. It wants the socket and does
/// not require it: without it, as where another program has the address, it opens its own.
fn service(words: &Words, args: &Args) -> Result<String> {
    let mut command = format!("{} serve", words.command);
    if let Some(address) = args.listen {
        command = format!("{command} --listen {address}");
    }
    let paths = [
        ("--socket", &args.socket),
        ("--token-file", &args.token_file),
        ("--tls-cert", &args.tls_cert),
        ("--tls-key", &args.tls_key),
        ("--tmux-socket", &args.tmux_socket),
    ];
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
         Wants={SOCKET}\n\
         \n\
         [Service]\n\
         Type=notify\n\
         WatchdogSec=300\n\
         Environment={}\n\
         ExecStart={command}\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         KillMode=process\n\
         Restart=on-failure\n\
         RestartPreventExitStatus=2 11\n\
         \n\
         [Install]\n\
         WantedBy=default.target\n\
         Also={SOCKET}\n",
        words.path
    ))
}

/// The socket. An address whose port is any free one is left to the service.
fn socket(path: &str, args: &Args) -> String {
    let address = args.listen.filter(|address| address.port() != 0).map(|address| format!("ListenStream={address}\n"));
    format!(
        "[Unit]\n\
         Description=Socket of the service that looks after the sessions of coding agents\n\
         \n\
         [Socket]\n\
         ListenStream={path}\n\
         {}\
         SocketMode=0600\n\
         DirectoryMode=0700\n\
         RemoveOnStop=yes\n\
         \n\
         [Install]\n\
         WantedBy=sockets.target\n",
        address.unwrap_or_default()
    )
}

/// A path as `ListenStream` has it, which knows no quotes.
fn listened(path: &Path) -> Result<String> {
    let path = absolute(path).map_err(|source| Failure::File { action: "use", path: path.to_owned(), source })?;
    let is_plain = |text: &&str| text.trim() == *text && !text.ends_with('\\') && !text.contains(char::is_control);
    let text = path.to_str().filter(is_plain).ok_or_else(|| {
        let path = path.shown();
        Failure::Usage(format!(
            "cannot write a unit: systemd cannot be told to listen at {path}\nGive another path with --socket"
        ))
    })?;
    Ok(text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_to_listen_at_is_written_as_it_is() {
        assert_eq!(listened(Path::new("/run/a b/100%.sock")).unwrap(), "/run/a b/100%%.sock");
        for path in ["/run/s.sock ", "/run/a\nb", "/run/a\\"] {
            assert!(listened(Path::new(path)).is_err(), "{path}");
        }
    }
}
