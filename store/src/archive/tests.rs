//! Reading hostile archives.

use std::{io::Write, path::Path};

use proptest::prelude::*;
use tar::{EntryType, Header};

use super::{
    import::{Limits, Member, MemberContent, Reader},
    pax,
};
use crate::{
    OpenOptions, Store,
    create::{self, ImportOptions},
    error::{Error, ErrorKind, Result},
};

fn header(path: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_ustar_mut().unwrap().name[..path.len()].copy_from_slice(path);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_cksum();
    header
}

fn member(path: &[u8], kind: EntryType, link: &[u8], content: &[u8]) -> Vec<u8> {
    let mut header = header(path, kind, content.len() as u64);
    header.as_ustar_mut().unwrap().linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    let mut bytes = [header.as_bytes(), content].concat();
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(path: &[u8]) -> Vec<u8> {
    member(path, EntryType::Regular, b"", b"content")
}

fn extended(records: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|(key, value)| pax::put_record(&mut bytes, key, value));
    member(b"pax", EntryType::XHeader, b"", &bytes)
}

fn read_all(tar: &[u8], limits: Limits) -> Result<Vec<Member>> {
    let mut reader = Reader::new(tar, Path::new("a.tar"), limits)?;
    let mut members = Vec::new();
    while let Some(member) = reader.next_member()? {
        if let MemberContent::File { .. } = member.content {
            reader.read_content(|_, _| Ok(()))?;
        }
        members.push(member);
    }
    Ok(members)
}

fn archive(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), vec![0; 1024]].concat()
}

#[track_caller]
fn refused(parts: &[Vec<u8>], member: &str, reason: &str) {
    let error = read_all(&archive(parts), Limits::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let text = error.to_string();
    assert!(text.contains(member) && text.contains(reason), "{text}");
}

#[test]
fn paths_that_lead_out_are_refused_by_name() {
    refused(&[file(b"ok"), file(b"/etc/passwd")], "/etc/passwd", "absolute");
    refused(&[file(b"a/../../x")], "a/../../x", "leads out");
    refused(&[extended(&[(b"path", b"../long")]), file(b"x")], "../long", "leads out");
    refused(&[extended(&[(b"path", &[b'n'; 256])]), file(b"x")], "nnn", "none that a filesystem holds");
    refused(&[extended(&[(b"path", b"a\0b")]), file(b"x")], "a\\x00b", "none that a filesystem holds");
    refused(&[member(b"long", EntryType::GNULongName, b"", b"../x\0"), file(b"x")], "../x", "leads out");
    refused(&[file(b".")], ".", "root is no folder");
}

#[test]
fn links_that_lead_out_are_refused_by_name() {
    refused(&[member(b"l", EntryType::Link, b"../x", b"")], "../x", "leads out");
    refused(&[member(b"l", EntryType::Link, b"/etc/shadow", b"")], "/etc/shadow", "absolute");
    refused(&[member(b"l", EntryType::Link, b"", b"")], "l", "nothing that can be linked");
    refused(&[member(b"l", EntryType::Symlink, b"", b"")], "l", "no filesystem holds");
    let read = read_all(&archive(&[member(b"l", EntryType::Symlink, b"../../anywhere", b"")]), Limits::default()).unwrap();
    assert_eq!(read[0].content, MemberContent::Symlink { target: b"../../anywhere".to_vec() });
}

#[test]
fn absurd_sizes_are_refused_by_name() {
    let huge = |size: &[u8]| [extended(&[(b"size", size)]), file(b"big")];
    refused(&huge(b"99999999999999999"), "big", "too many");
    refused(&huge(b"18446744073709551616"), "pax", "does not parse");
    refused(&huge(b"4096"), "big", "ends in it");
    refused(&[header(b"pax", EntryType::XHeader, 1 << 32).as_bytes().to_vec()], "pax", "too long");
    let sparse = |real: &[u8], map: &[u8]| {
        let mut data = map.to_vec();
        data.resize(512, 0);
        let records = [
            (&b"GNU.sparse.major"[..], &b"1"[..]),
            (b"GNU.sparse.minor", b"0"),
            (b"GNU.sparse.realsize", real),
            (b"GNU.sparse.name", b"sp"),
        ];
        [extended(&records), member(b"x", EntryType::Regular, b"", &data)]
    };
    refused(&sparse(b"99999999999999999", b"0\n"), "sp", "too large");
    refused(&sparse(b"10", b"1\n5\n6\n"), "sp", "makes no sense");
    refused(&sparse(b"10", b"1\n5\n5\n"), "sp", "does not fit");
    refused(&sparse(b"10", b"18446744073709551615\n5\n5\n"), "sp", "18446744073709551615 pieces");
    refused(&sparse(b"10", b"129\n5\n5\n"), "sp", "129 pieces");
    refused(&sparse(b"10", b"x"), "sp", "does not parse");
    let read = read_all(&archive(&sparse(b"10", b"1\n10\n0\n")), Limits::default()).unwrap();
    assert!(matches!(&read[0].content, MemberContent::File { size: 10, holes } if holes.len() == 1));
}

#[test]
fn bombs_are_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 19).unwrap();
    let size = 64u64 << 20;
    encoder.write_all(header(b"bomb", EntryType::Regular, size).as_bytes()).unwrap();
    encoder.write_all(&vec![0; size as usize]).unwrap();
    encoder.write_all(&[0; 1024]).unwrap();
    let bytes = encoder.finish().unwrap();
    let limits = Limits { expanded_bytes_free: 1 << 20, ..Limits::default() };
    let text = read_all(&bytes, limits).unwrap_err().to_string();
    assert!(text.contains("bomb") && text.contains("2000 times"), "{text}");
    assert!(read_all(&bytes, Limits::default()).is_ok());
}

#[test]
fn damage_is_noticed() {
    let whole = archive(&[file(b"one"), file(b"two")]);
    assert_eq!(read_all(&whole, Limits::default()).unwrap().len(), 2);
    for cut in 1..whole.len() - 1024 {
        assert!(read_all(&whole[..cut], Limits::default()).is_err(), "{cut}");
    }
    let mut broken = whole;
    broken[1024 + 3] ^= 1;
    assert!(read_all(&broken, Limits::default()).unwrap_err().to_string().contains("header is damaged"));
    let zstd = zstd::encode_all(&archive(&[file(b"one")])[..], 3).unwrap();
    for cut in 4..zstd.len() {
        assert!(read_all(&zstd[..cut], Limits::default()).is_err(), "{cut}");
    }
}

const XATTR_BYTES: usize = 64 << 10;

fn xattr(name: &str, bytes: usize) -> Vec<u8> {
    extended(&[(format!("SCHILY.xattr.user.{name}").as_bytes(), &vec![7; bytes])])
}

fn import(parts: &[Vec<u8>], limits: Limits) -> Result<create::Outcome> {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    let bytes = archive(parts);
    let mut reader = Reader::new(&bytes[..], Path::new("a.tar"), limits)?;
    create::import(&store, &mut reader, &ImportOptions::default(), &())
}

/// Imports what makes much of little, where little memory is granted.
#[track_caller]
fn refused_as_bomb(parts: &[Vec<u8>], member: &str) {
    let limits = Limits { kept_bytes_free: 1 << 20, ..Limits::default() };
    let error = import(parts, limits).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Archive { .. }), "{text}");
    assert!(text.contains("a.tar") && text.contains(member) && text.contains("kept in memory"), "{text}");
}

#[test]
fn little_that_takes_much_memory_is_refused_by_name() {
    let deep = |name: &str| [extended(&[(b"path", format!("{name}/{}f", "a/".repeat(16_000)).as_bytes())]), file(b"x")].concat();
    refused_as_bomb(&[file(b"ok"), deep("first")], "first/a/a");
    let deeper = extended(&[(b"path", "a/".repeat(17_000).as_bytes())]);
    refused(&[deeper, file(b"x")], "a/a/a", "folders nest deeper than 16384");
    let leader = (0..16).map(|i| xattr(&i.to_string(), XATTR_BYTES)).chain([file(b"leader")]);
    let links = (0..200).map(|i| member(format!("link{i}").as_bytes(), EntryType::Link, b"leader", b""));
    refused_as_bomb(&leader.chain(links).collect::<Vec<_>>(), "link");
    let mut list = b"omits".to_vec();
    crate::codec::put_uint(&mut list, 5_000_000);
    list.resize(list.len() + 15_000_000, 0);
    let list: String = list.iter().map(|b| format!("{b:02x}")).collect();
    let parts = list.as_bytes().chunks(8 << 20).map(|part| {
        let mut record = Vec::new();
        pax::put_record(&mut record, b"comment", &[b"parhelia:omitted=", part].concat());
        member(b"g", EntryType::XGlobalHeader, b"", &record)
    });
    let bytes = zstd::encode_all(&archive(&parts.collect::<Vec<_>>())[..], 3).unwrap();
    let mut reader = Reader::new(&bytes[..], Path::new("a.tar"), Limits::default()).unwrap();
    assert!(reader.next_member().unwrap().is_none());
    assert!(reader.omissions().unwrap_err().to_string().contains("kept in memory"));
}

#[test]
fn attributes_that_no_system_or_tree_holds_are_refused_by_name() {
    refused(&[xattr("long", XATTR_BYTES + 1), file(b"with")], "with", "user.long has 65537 bytes");
    assert!(read_all(&archive(&[xattr("long", XATTR_BYTES), file(b"with")]), Limits::default()).is_ok());
    let many: Vec<_> = (0..257).map(|i| xattr(&i.to_string(), XATTR_BYTES)).chain([file(b"with")]).collect();
    refused(&many, "pax", "more than a tree holds");
    let folder = (0..256).flat_map(|i| [xattr("x", XATTR_BYTES), file(format!("sub/many/{i}").as_bytes())]);
    let error = import(&folder.collect::<Vec<_>>(), Limits::default()).unwrap_err();
    assert!(matches!(&error, Error::At { path, source } if path == "sub/many" && matches!(**source, Error::TooLong { .. })));
    assert!(error.to_string().contains("extended attributes"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_read_or_fail_without_panic(at in 0usize..3000, byte in any::<u8>(), noise in proptest::collection::vec(any::<u8>(), 0..600)) {
        let records = [(&b"GNU.sparse.major"[..], &b"1"[..]), (b"GNU.sparse.realsize", b"100")];
        let mut tar = archive(&[extended(&records), file(b"one"), member(b"g", EntryType::XGlobalHeader, b"", &noise), file(b"two")]);
        let at = at % tar.len();
        tar[at] = byte;
        let _ = read_all(&tar, Limits::default());
        let _ = read_all(&noise, Limits::default());
    }
}
