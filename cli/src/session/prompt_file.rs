//! Prompts that processes of ours hand over to each other in files.

use std::{fs, path::Path};

use parhelia_life::prompt;

use crate::{
    exit::{Failure, Result},
    input,
};

/// The prompt in a file that another process of ours has written, which is removed.
#[expect(clippy::disallowed_methods, reason = "the file is in a folder for what is handed over, and in no store")]
pub fn take(path: &Path) -> Result<String> {
    let text = input::text_of(path, prompt::BYTES_MAX as u64)?;
    fs::remove_file(path).map_err(|source| Failure::File { action: "remove", path: path.to_owned(), source })?;
    Ok(text)
}
