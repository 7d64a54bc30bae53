//! Text that is given on standard input, or in a file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use crate::exit::{Failure, Result};

/// Reads all of standard input. One byte more than `bytes_max` is read, which tells that it is too long.
pub fn text(bytes_max: u64) -> Result<String> {
    read(&mut io::stdin().lock(), Path::new("standard input"), bytes_max)
}

/// The same of a file.
pub fn text_of(path: &Path, bytes_max: u64) -> Result<String> {
    let mut file = File::open(path).map_err(|source| Failure::File { action: "open", path: path.to_owned(), source })?;
    read(&mut file, path, bytes_max)
}

fn read(source: &mut dyn Read, path: &Path, bytes_max: u64) -> Result<String> {
    let mut text = String::new();
    let read = source.take(bytes_max + 1).read_to_string(&mut text);
    read.map(|_| text).map_err(|source| Failure::File { action: "read", path: path.to_owned(), source })
}
