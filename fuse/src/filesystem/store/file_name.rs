//! Names of sessions and tags as names of files.

use parhelia_store::name;

/// A name as one component of a path: `%` and `/` are escaped, and so is what the name must not be.
pub fn file_name(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text.as_bytes() {
        match byte {
            b'%' | b'/' | 0 => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    match out.as_slice() {
        b"" => out.push(b'%'),
        b"." => out = b"%2E".to_vec(),
        b".." => out = b"%2E%2E".to_vec(),
        _ => {}
    }
    if !name::is_valid(&out) {
        // Too long: what is cut off is told by its hash.
        let hash = format!("%{}", &name::hash(text.as_bytes())[..16]);
        out.truncate(255 - hash.len());
        out.extend_from_slice(hash.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_names_become_distinct_valid_file_names() {
        let long = "x".repeat(300);
        let longer = "x".repeat(301);
        let names = ["", ".", "..", "a/b", "a%2Fb", "plain", "%", &long, &longer];
        let files: Vec<_> = names.iter().map(|n| file_name(n)).collect();
        for (i, file) in files.iter().enumerate() {
            assert!(name::is_valid(file), "{file:?}");
            assert!(files[i + 1..].iter().all(|other| other != file), "{file:?}");
        }
        assert_eq!(file_name("plain"), b"plain");
    }
}
