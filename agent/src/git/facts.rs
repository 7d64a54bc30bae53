//! Remote, commit and branch of a repository, read from its files: for folders of plugins and servers, of which there may be many and
//! whose state does not matter.

use serde::{Deserialize, Serialize};

use super::find::{Repository, read};

/// Longest chain of references.
const DEPTH_MAX: usize = 5;

/// The origin of a repository, and what is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// URL of the remote: `origin`, or the first one. It may hold credentials.
    pub remote: Option<String>,
    /// Id of the commit that HEAD leads to, in hex; none where the files do not tell.
    pub commit: Option<String>,
    /// The branch; none where HEAD is detached.
    pub branch: Option<String>,
}

impl Repository {
    /// Reads them. What is missing or damaged is none.
    pub fn facts(&self) -> Facts {
        let head = read(&self.git().join("HEAD")).unwrap_or_default();
        let branch = head.strip_prefix("ref: refs/heads/").map(|name| name.trim_end().to_owned());
        Facts { remote: self.remote(), commit: self.resolve(head.trim_end(), 0), branch }
    }

    fn resolve(&self, text: &str, depth: usize) -> Option<String> {
        let Some(name) = text.strip_prefix("ref: ") else {
            let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
            return is_id.then(|| text.to_owned());
        };
        if depth == DEPTH_MAX || name.split('/').any(|part| part == "..") {
            return None;
        }
        let loose = [self.git().join(name), self.common().join(name)];
        if let Some(text) = loose.iter().find_map(|path| read(path)) {
            return self.resolve(text.trim_end(), depth + 1);
        }
        let packed = read(&self.common().join("packed-refs"))?;
        let found = packed.lines().filter_map(|line| line.split_once(' ')).find(|(_, packed)| *packed == name);
        found.and_then(|(id, _)| self.resolve(id, depth + 1))
    }

    fn remote(&self) -> Option<String> {
        let config = read(&self.common().join("config"))?;
        let (mut of, mut first) = ("", None);
        for line in config.lines().map(str::trim) {
            if line.starts_with('[') {
                of = line.strip_prefix("[remote \"").and_then(|rest| rest.strip_suffix("\"]")).unwrap_or("");
            } else if let Some((key, value)) = line.split_once('=')
                && key.trim().eq_ignore_ascii_case("url")
                && !of.is_empty()
            {
                let url = value.trim().trim_matches('"').to_owned();
                if of == "origin" {
                    return Some(url);
                }
                first.get_or_insert(url);
            }
        }
        first
    }
}
