//! `checkpoint create --files-from`: the list of paths to capture.

use parhelia_store::name::Shown as _;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use parhelia_store::name;

use crate::{
    exit::{Failure, Result},
    human,
};

/// The paths listed in a file, from the workspace folder.
pub fn paths(file: &Path, workspace: &Path) -> Result<Vec<Vec<u8>>> {
    let failed = |source| Failure::File { action: "read", path: file.to_owned(), source };
    let input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(file).map_err(failed)?),
    };
    let mut paths = Vec::new();
    for line in BufReader::new(input).split(b'\n') {
        let mut line = line.map_err(failed)?;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let path = match name::as_path(&line).strip_prefix(workspace) {
            Ok(inside) if line.starts_with(b"/") => inside.as_os_str().as_bytes().to_vec(),
            _ => line,
        };
        let parts: Vec<&[u8]> = name::components(&path).collect();
        if path.starts_with(b"/") || parts.contains(&&b".."[..]) {
            let (path, file) = (human::path(&path), file.shown());
            return Err(Failure::Usage(format!("{path}, listed in {file}, is not in {}", workspace.shown())));
        }
        if !path.is_empty() {
            paths.push(parts.join(&b'/'));
        }
    }
    Ok(paths)
}
