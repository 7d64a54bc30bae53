//! The process at the other end of a TCP connection of this machine: the kernel tells whose socket it is, and `/proc` who has it open.

use std::{
    fmt::Write as _,
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

use parhelia_agent::process;

/// The user and the process that connect from an address to another one; no process where none is seen that has the connection open. None of a
/// connection that is in no table, or that nobody has open any more.
pub fn owner(client: SocketAddr, server: SocketAddr) -> Option<(u32, Option<i32>)> {
    let (user, inode) = socket_between(client, server)?;
    let link = format!("socket:[{inode}]");
    let has = |process: i32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let mut files = files.flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|target| target == Path::new(&link))).then_some(process)
    };
    let found = process::all().into_iter().find_map(|identity| has(identity.process));
    Some((user, found))
}

/// The user who connects from an address to another one, by the kernel's table alone.
pub fn user(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    socket_between(client, server).map(|(user, _)| user)
}

fn socket_between(client: SocketAddr, server: SocketAddr) -> Option<(u32, u64)> {
    let find = |(table, client, server): (&str, _, _)| socket_of(&fs::read_to_string(table).ok()?, client, server);
    tables(client, server).into_iter().find_map(find)
}

/// The tables in which a connection may stand, with its addresses there: a socket of IPv6 can be connected to an address of IPv4.
fn tables(client: SocketAddr, server: SocketAddr) -> Vec<(&'static str, SocketAddr, SocketAddr)> {
    let (old, new) = ("/proc/net/tcp", "/proc/net/tcp6");
    let mapped = |address: SocketAddr| match address.ip() {
        IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        IpAddr::V6(_) => address,
    };
    match client.is_ipv4() {
        true => vec![(old, client, server), (new, mapped(client), mapped(server))],
        false => vec![(new, client, server)],
    }
}

/// The user and the inode of a socket by its addresses, in the kernel's table (proc_pid_net(5)). One that was closed has no inode there.
fn socket_of(table: &str, from: SocketAddr, to: SocketAddr) -> Option<(u32, u64)> {
    let (from, to) = (shown(from), shown(to));
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1)? == &from && fields.get(2)? == &to;
        let numbers = (fields.get(7)?.parse().ok()?, fields.get(9)?.parse().ok()?);
        (is_it && numbers.1 != 0).then_some(numbers)
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
            assert_eq!(super::user(client, server), Some(user));
            assert_eq!(user, rustix::process::geteuid().as_raw());
            assert_eq!(process, Some(std::process::id() as i32));
        }
    }

    #[test]
    fn a_connection_that_is_under_way_to_another_process_has_no_process() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::{
            io::IoSlice,
            mem::MaybeUninit,
            os::{fd::AsFd, unix::net::UnixStream},
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, server) = (stream.local_addr().unwrap(), listener.local_addr().unwrap());
        let (one, _other) = UnixStream::pair().unwrap();
        let (files, mut space) = ([stream.as_fd()], [MaybeUninit::uninit(); 64]);
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        sendmsg(&one, &[IoSlice::new(b"x")], &mut control, SendFlags::empty()).unwrap();
        drop(stream);
        assert_eq!(owner(client, server), Some((rustix::process::geteuid().as_raw(), None)));
    }

    #[test]
    fn a_socket_of_ipv6_is_found_though_it_connects_to_ipv4() {
        use rustix::net::{AddressFamily, SocketType, connect, getsockname, socket};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let Ok(client) = socket(AddressFamily::INET6, SocketType::STREAM, None) else { return };
        connect(&client, &tables(server, server)[1].1).unwrap();
        let (_, seen) = listener.accept().unwrap();
        let name = SocketAddr::try_from(getsockname(&client).unwrap()).unwrap();
        assert!(seen.is_ipv4() && name.is_ipv6(), "{seen} {name}");
        assert_eq!(owner(seen, server).unwrap().1, Some(std::process::id() as i32));
    }

    #[test]
    fn a_connection_that_was_closed_has_no_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, server) = (stream.local_addr().unwrap(), listener.local_addr().unwrap());
        let _accepted = listener.accept().unwrap();
        drop(stream);
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        assert!(table.contains(&format!(" {} {} ", shown(client), shown(server))), "{table}");
        assert_eq!(owner(client, server), None);
    }

    #[test]
    fn a_connection_from_elsewhere_has_no_owner() {
        assert_eq!(owner("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()), None);
    }
}
