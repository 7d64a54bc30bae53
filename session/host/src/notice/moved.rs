//! What became of an agent's own folder that was moved.

use parhelia_agent::folder::ConfigFolder;
use parhelia_store::name::NameExt as _;

/// It in words, behind its path.
pub(super) fn text(to: &ConfigFolder, (is_gone, has_rest, has_it): (bool, bool, bool)) -> String {
    let to = to.path.shown();
    match (is_gone, has_it) {
        (true, true) => format!("is gone; its conversation goes on in {to}, which has it"),
        (true, false) => format!("is gone; its conversation goes on in {to}, as a checkpoint has it"),
        (false, _) if has_rest => {
            format!(
                "has less of its conversation than {to}, in which it goes on; what was said in the first one since it was made again stays there alone"
            )
        }
        (false, _) => format!("does not have its conversation; it goes on in {to}, which has it"),
    }
}
