//! Telling systemd how the service is (sd_notify), where it asks for that.

use std::{
    ffi::OsStr,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

use parhelia_host::Host;

/// The variable that names the socket of systemd.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Tells systemd something, such as `READY=1`. That it does not listen is no reason to do anything.
pub fn tell(host: &dyn Host, text: &str) {
    let Some(address) = host.variable(SOCKET).and_then(|name| address(&name)) else { return };
    let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to_addr(text.as_bytes(), &address));
}

/// The address of a name as systemd writes it: a path, or `@` and an abstract name.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_or_abstract() {
        assert_eq!(address(OsStr::new("/run/x")).unwrap().as_pathname(), Some(std::path::Path::new("/run/x")));
        assert_eq!(address(OsStr::new("@x")).unwrap().as_abstract_name(), Some(&b"x"[..]));
    }
}
