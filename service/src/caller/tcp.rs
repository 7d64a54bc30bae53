//! The process at the other end of a TCP connection of this machine: the kernel tells whose socket it is, and `/proc` who has it open.

use std::{
    fmt::Write as _,
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use parhelia_agent::process;

/// The user and the process that connect from an address to another one; none of a connection from elsewhere.
pub fn owner(client: SocketAddr, server: SocketAddr) -> Option<(u32, Option<i32>)> {
    let table = if client.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let (user, inode) = socket_of(&fs::read_to_string(table).ok()?, client, server)?;
    let link = format!("socket:[{inode}]");
    let has = |process: i32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let mut files = files.flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(&link))).then_some(process)
    };
    Some((user, process::all().into_iter().find_map(|identity| has(identity.process))))
}

/// The user and the inode of a socket by its addresses, in the kernel's table (proc_pid_net(5)).
fn socket_of(table: &str, from: SocketAddr, to: SocketAddr) -> Option<(u32, u64)> {
    let (from, to) = (shown(from), shown(to));
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)? == &from && fields.get(2)? == &to;
        let numbers = (fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?);
        is_it.then_some(numbers)
    })
}

/// An address as the table has it: words of the host's byte order in hex.
fn shown(address: SocketAddr) -> String {
    let bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let mut text = String::new();
    for word in bytes.chunks_exact(4) {
        let _ = write!(text, "{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    format!("{text}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_other_end_of_a_connection_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (client, server) = (stream.local_addr().unwrap(), listener.local_addr().unwrap());
            let (user, process) = owner(client, server).unwrap();
            assert_eq!(user, rustix::process::geteuid().as_raw());
            assert_eq!(process, Some(std::process::id() as i32));
        }
    }

    #[test]
    fn a_connection_from_elsewhere_has_no_owner() {
        assert_eq!(owner("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()), None);
    }
}
