//! A single file that is restored into a folder.

use std::os::unix::ffi::OsStrExt;

use parhelia_host::Result;
use parhelia_store::{Store, name::display, record::Checkpoint, restore::Options};

/// Has a single file restored into the folder that is named with a slash at its end, also where that is to be made: it is then the folder that holds the
/// file, with the file alone.
pub fn into_new_folder(store: &Store, checkpoint: &Checkpoint, options: &mut Options) -> Result<()> {
    let is_new_folder = options.target.as_os_str().as_bytes().ends_with(b"/") && !options.target.exists();
    if !is_new_folder || !options.include.is_empty() || store.node_at(checkpoint, &options.subpath)?.as_folder().is_some() {
        return Ok(());
    }
    let (folder, file) = match options.subpath.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (options.subpath[..slash].to_vec(), options.subpath[slash + 1..].to_vec()),
        None => (Vec::new(), options.subpath.clone()),
    };
    options.subpath = folder;
    options.include = vec![format!("/{}", escaped(&file))];
    Ok(())
}

/// A name as a pattern that matches it alone.
fn escaped(name: &[u8]) -> String {
    let special = |c: char| matches!(c, '\\' | '*' | '?' | '[' | ']' | '{' | '}' | '!' | '#' | ' ');
    let part = |text: &str| text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect::<String>();
    name.utf8_chunks().map(|chunk| part(chunk.valid()) + &display(chunk.invalid())).collect()
}
