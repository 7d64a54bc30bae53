//! The project of a workspace: clones of one repository share what is known.

use std::path::Path;

use parhelia_agent::{environment::redact, git::Repository, process::canonical};
use parhelia_ledger::Session;
use parhelia_store::name::NameExt as _;

/// A project, to which workspaces belong by a given name, their repository's remote, or their folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The name of its file.
    pub id: String,
    /// Its name for people: what the session was given, its repository's place, or its folder.
    pub name: String,
    /// Its name while its repository had no remote. Something else may have been in that folder.
    pub former: Option<String>,
    /// The folder that says that it is of the project, by its remote or a name that its session was given. Whoever can write there can say so.
    pub folder: Option<String>,
    /// The project that the folder says it is of, where no person has confirmed that. This one is then the folder's own.
    pub unconfirmed: Option<String>,
}

impl Project {
    /// The one of a name.
    pub fn named(name: &str) -> Self {
        const SLUG_MAX: usize = 40;
        let last = name.trim_end_matches('/').rsplit('/').next().unwrap_or(name);
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
        let slug: String = last.chars().map(plain).take(SLUG_MAX).collect();
        let hash = &blake3::hash(name.as_bytes()).to_hex()[..8];
        Project { id: format!("{slug}-{hash}"), name: name.to_owned(), former: None, folder: None, unconfirmed: None }
    }

    /// The one that a workspace says it is of, in which a session may work.
    pub fn claimed(workspace: &Path, session: Option<&Session>) -> Self {
        let repository = Repository::around(workspace).ok().flatten();
        let remote = repository.as_ref().and_then(|repository| place_of(&repository.facts().remote?, repository.root()));
        let root = repository.map_or_else(|| workspace.to_owned(), |repository| repository.main_root());
        let root = root.shown();
        let given = session.and_then(|session| session.project.as_deref()).filter(|given| !given.is_empty());
        let folder = |name: &str| Some(root.clone()).filter(|root| root != name);
        match (given, remote) {
            (Some(given), _) => Project { folder: folder(given), ..Project::named(given) },
            (None, Some(place)) => Project { former: folder(&place), folder: folder(&place), ..Project::named(&place) },
            (None, None) => Project::named(&root),
        }
    }
}

/// The place of a repository without what differs between two clones: the way to it, its user, its ending. A folder is looked up from the
/// clone (`root`), as git does (git-fetch, *Git URLs*). None where it names no place.
fn place_of(remote: &str, root: &Path) -> Option<String> {
    const PORTS: [(&str, &str); 4] = [("https", ":443"), ("http", ":80"), ("ssh", ":22"), ("git", ":9418")];
    let remote = redact::text(remote);
    match (remote.split_once("://"), remote.split_once(':')) {
        (Some(("file", path)), _) => folder(path, root),
        (Some((scheme, behind)), _) => {
            let (host, path) = behind.split_once('/')?;
            let port = PORTS.iter().find(|(known, _)| *known == scheme).map_or("", |(_, port)| port);
            on_host(host.strip_suffix(port).unwrap_or(host), path)
        }
        (None, Some((host, path))) if !host.is_empty() && !host.contains('/') => on_host(host, path),
        (None, _) => folder(&remote, root),
    }
}

fn on_host(host: &str, path: &str) -> Option<String> {
    let host = host.rsplit('@').next().unwrap_or(host).to_lowercase();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("{host}/{path}"))
}

fn folder(path: &str, root: &Path) -> Option<String> {
    let place = canonical(&root.join(path)).shown();
    let place = place.strip_suffix(".git").unwrap_or(&place).trim_end_matches('/');
    (!place.is_empty()).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_one_repository_are_one_project() {
        for remote in [
            "https://github.com/example/tool.git",
            "https://github.com/example/tool",
            "https://user:ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@github.com/example/tool/",
            "git@github.com:example/tool.git",
            "ssh://git@github.com/example/tool.git",
            "ssh://git@github.com:22/example/tool.git",
            "https://GitHub.com:443/example/tool",
            "git@github.com:/example/tool.git",
        ] {
            assert_eq!(place_of(remote, Path::new("/")).as_deref(), Some("github.com/example/tool"), "{remote}");
        }
        assert_eq!(place_of("https://github.com:8443/a", Path::new("/")).as_deref(), Some("github.com:8443/a"));
        let root = tempfile::tempdir().unwrap();
        let place = root.path().canonicalize().unwrap().join("central").shown();
        std::fs::create_dir(root.path().join("clone")).unwrap();
        for remote in ["../central", "../central.git", "./../central/", "../clone/../central/.git", &format!("file://{place}/.")]
        {
            assert_eq!(place_of(remote, &root.path().join("clone")), Some(place.clone()), "{remote}");
        }
        assert_eq!((place_of("https://github.com", Path::new("/")), place_of("/", Path::new("/"))), (None, None));
        let project = Project::named("github.com/example/tool");
        assert!(project.id.starts_with("tool-") && project.id.len() == 13, "{}", project.id);
        assert_ne!(project.id, Project::named("github.com/another/tool").id);
        assert!(!Project::named("../../etc/pass wd").id.contains(['/', ' ', '.']));
    }
}
