//! The tmux session that an agent worked in, from the checkpoints of its session.

#![expect(clippy::disallowed_methods, reason = "writes into a temporary folder")]

use std::{fs::File, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use parhelia_store::{Store, record::Checkpoint};

use crate::capture::{AGENT_PANE, TMUX_FILE, TMUX_FOLDER};
use parhelia_agent::tmux::{Pane, State};
use parhelia_host::state::{state_bytes, state_json};
use parhelia_host::{Result, error::IoContext};

/// So many checkpoints are looked at; more would be days of work without tmux.
const DEPTH_MAX: usize = 500;

/// A tmux session as a checkpoint has it.
#[derive(Debug)]
pub struct SavedTmux {
    /// Its windows and panes.
    pub state: State,
    /// The pane in which the agent was.
    pub agent_pane: String,
    checkpoint: Checkpoint,
}

/// The tmux session of a checkpoint. Of a session whose last run was in tmux also of one before it: the last checkpoint of a run is made
/// without, where it was the tmux server that died.
pub fn saved_tmux(store: &Store, checkpoint: &Checkpoint, was_in_tmux: bool) -> Result<Option<SavedTmux>> {
    let view = store.view();
    let mut next = Some(checkpoint.clone());
    for _ in 0..if was_in_tmux { DEPTH_MAX } else { 1 } {
        let Some(checkpoint) = next else { break };
        if let Some(saved) = of(store, &checkpoint)? {
            return Ok(Some(saved));
        }
        next = checkpoint.record.parent.map(|parent| view.checkpoint(parent)).transpose()?.flatten();
    }
    Ok(None)
}

fn of(store: &Store, checkpoint: &Checkpoint) -> Result<Option<SavedTmux>> {
    let Some(value) = state_json(store, checkpoint, &format!("{TMUX_FOLDER}/{TMUX_FILE}"))? else { return Ok(None) };
    let Ok(state) = serde_json::from_value::<State>(value) else { return Ok(None) };
    let all = || state.windows.iter().flat_map(|window| &window.panes);
    let said = state.extra.get(AGENT_PANE).and_then(|pane| pane.as_str());
    let Some(pane) = all().find(|pane| Some(pane.id.as_str()) == said).or_else(|| all().next()) else { return Ok(None) };
    Ok(Some(SavedTmux { agent_pane: pane.id.clone(), checkpoint: checkpoint.clone(), state }))
}

impl SavedTmux {
    /// The file in `folder` that [`write_texts`](Self::write_texts) writes for a pane.
    pub fn text_file(&self, folder: &Path, pane: &Pane) -> Option<std::path::PathBuf> {
        let name = pane.scrollback.as_deref().filter(|name| is_plain(name))?;
        Some(folder.join(name)).filter(|path| path.is_file())
    }

    /// Writes the text of every pane into a folder, for its owner alone.
    pub fn write_texts(&self, store: &Store, folder: &Path) -> Result<()> {
        let panes = self.state.windows.iter().flat_map(|window| &window.panes);
        for name in panes.filter_map(|pane| pane.scrollback.as_deref()).filter(|name| is_plain(name)) {
            let Some(bytes) = state_bytes(store, &self.checkpoint, &format!("{TMUX_FOLDER}/{name}"))? else { continue };
            let path = folder.join(name);
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path).at("create", &path)?;
            file.write_all(&bytes).at("write", &path)?;
        }
        Ok(())
    }
}

/// A checkpoint that came from elsewhere may say anything; a name must not lead out of a folder.
fn is_plain(name: &str) -> bool {
    name.ends_with(".txt") && !name.starts_with('.') && !name.contains('/')
}
