use std::fs;

use serde_json::json;

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.path("work")).unwrap();
        fs::create_dir_all(place.path("home")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.write(name, "");
        // By another process: what is forked here meanwhile would hold it open for writing, so that it could not be run.
        let mut writer = std::process::Command::new("sh");
        writer.args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).arg(script);
        assert!(writer.status().unwrap().success());
    }

    fn request(&self) -> Request {
        let path = std::env::join_paths([self.path("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
        let variables = [("PATH", path), ("HOME", self.path("home").into()), ("LANG", "C".into()), ("MY_TOKEN", "secret".into())];
        Request {
            kind: crate::kinds::KINDS[0],
            workspace: self.path("work"),
            variables: variables.map(|(name, value)| (name.into(), value)).to_vec(),
            agent: "claude".into(),
            mcp_config: Vec::new(),
            also: Vec::new(),
            never: Vec::new(),
            packages: vec!["Foo.Bar".into(), "absent".into()],
            cache: Cache::new(Some(self.path("cache"))),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn package(&self, site: &str, name: &str, version: &str) {
        self.write(
            &format!("{site}/{name}-{version}.dist-info/METADATA"),
            &format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nVersion: x\n"),
        );
    }
}

#[test]
fn the_agents_program_is_examined_once() {
    let place = Place::new();
    place.program("bin/claude", "echo run >> \"$HOME/runs\"; echo '9.8.7 (An Agent)'");
    let request = place.request();
    let first = capture(&request);
    let agent = first.claude_code.clone().unwrap();
    assert_eq!((agent.version.as_str(), agent.install_path), ("9.8.7", place.path("bin/claude").to_string_lossy().into_owned()));
    let digest = agent::hex(&Sha256::digest(fs::read(place.path("bin/claude")).unwrap()));
    assert_eq!(agent.binary_hash, format!("sha256:{digest}"));
    assert_eq!(capture(&request), first);
    assert_eq!(fs::read_to_string(place.path("home/runs")).unwrap(), "run\n");
    place.program("bin/claude", "echo 9.9.9");
    assert_eq!(capture(&request).claude_code.unwrap().version, "9.9.9");
    place.program("bin/claude", "echo broken >&2; exit 1");
    let broken = capture(&request);
    assert!(broken.claude_code.is_none() && broken.failed["claude_code"].contains("broken"), "{:?}", broken.failed);
    fs::remove_file(place.path("bin/claude")).unwrap();
    let none = capture(&request);
    assert!(none.claude_code.is_none() && none.failed.is_empty(), "{:?}", none.failed);
}

#[test]
fn python_of_a_virtual_environment_without_running_it() {
    let place = Place::new();
    place.write("work/.venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\ninclude-system-site-packages = false\n");
    let site = "work/.venv/lib/python3.11/site-packages";
    place.package(site, "Foo_Bar", "1.2");
    place.package(site, "other", "3");
    place.write(&format!("{site}/edited-1.dist-info/METADATA"), "Name: edited\nVersion: 1\n");
    let direct = json!({"url": "https://u:p@h/e.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}});
    place.write(&format!("{site}/edited-1.dist-info/direct_url.json"), &direct.to_string());
    place.write(&format!("{site}/old.egg-info/PKG-INFO"), "Name: old\nVersion: 0.1\n");
    place.write(&format!("{site}/broken-1.dist-info/METADATA"), "nothing");
    let request = place.request();
    let snapshot = capture(&request);
    assert_eq!(snapshot.python_version.as_deref(), Some("3.11.2"));
    let freeze = "edited @ git+https://[redacted]@h/e.git@abc\nFoo_Bar==1.2\nold==0.1\nother==3\n";
    assert_eq!(snapshot.pip_freeze.as_deref(), Some(freeze));
    assert_eq!(snapshot.pip_freeze_hash.unwrap(), format!("sha256:{}", agent::hex(&Sha256::digest(freeze))));
    assert_eq!(snapshot.python_packages.unwrap(), BTreeMap::from([("Foo.Bar".to_owned(), "1.2".to_owned())]));
    place.package(site, "new", "1");
    assert!(capture(&request).pip_freeze.unwrap().contains("new==1\n"));
}

#[test]
fn python_of_the_search_path_as_pip_lists_it() {
    let place = Place::new();
    let mut request = place.request();
    request.packages = vec!["PyYAML".into()];
    let snapshot = capture(&request);
    let output = std::process::Command::new("/usr/bin/python3").arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap().trim().replace("Python ", "");
    assert_eq!(snapshot.python_version, Some(version), "{:?}", snapshot.failed);
    let script = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'])";
    let listed =
        std::process::Command::new("/usr/bin/python3").args(["-c", script]).env("HOME", place.path("home")).output().unwrap();
    let listed: std::collections::BTreeSet<String> =
        String::from_utf8(listed.stdout).unwrap().lines().map(python::normalised).collect();
    let freeze = snapshot.pip_freeze.unwrap();
    let found: std::collections::BTreeSet<String> = versions(freeze.lines()).into_keys().collect();
    assert_eq!(found, listed);
}

#[test]
fn nothing_of_the_workspace_is_run() {
    let place = Place::new();
    for name in ["claude", "python3", "python"] {
        place.program(&format!("work/bin/{name}"), "touch \"$0.ran\"; echo 6.6.6; echo /; echo /");
    }
    let mut request = place.request();
    let path = std::env::join_paths([place.path("work/bin"), "bin".into(), "/usr/bin".into(), "/bin".into()]).unwrap();
    request.variables.push(("PATH".into(), path));
    let snapshot = capture(&request);
    let agent = snapshot.claude_code.unwrap();
    assert_eq!((agent.version.as_str(), agent.binary_hash.starts_with("sha256:")), ("unknown", true));
    assert_ne!(snapshot.python_version.as_deref(), Some("6.6.6"));
    // Its package says which it is, or the name of its file.
    place.program("work/node_modules/@anthropic-ai/claude-code/cli.js", "touch \"$0.ran\"");
    place.write("work/node_modules/@anthropic-ai/claude-code/package.json", r#"{"name":"claude-code","version":"2.1.0"}"#);
    place.program("work/versions/2.1.197", "touch \"$0.ran\"");
    for (program, version) in [("node_modules/@anthropic-ai/claude-code/cli.js", "2.1.0"), ("versions/2.1.197", "2.1.197")] {
        request.agent = place.path("work").join(program).into();
        assert_eq!(capture(&request).claude_code.unwrap().version, version);
    }
    let ran =
        |folder: &str| fs::read_dir(place.path(folder)).unwrap().any(|e| e.unwrap().path().extension() == Some("ran".as_ref()));
    assert!(!ran("work/bin") && !ran("work/versions") && !ran("work/node_modules/@anthropic-ai/claude-code"));
}

#[test]
fn a_python_version_is_a_name_and_no_path() {
    let place = Place::new();
    // As pyenv's program, which takes its variable or the file in the folder where it runs.
    place.program("bin/python3", "echo \"${PYENV_VERSION:-$(cat .python-version 2>/dev/null)}\"; echo /; echo /");
    let version = |text: &str| {
        place.write("work/.python-version", text);
        capture(&place.request()).python_version.unwrap_or_default()
    };
    assert_eq!(version("3.12.1\n"), "3.12.1");
    assert_eq!(version("# ours\npypy-7/envs/x 3.11 # both\n"), "pypy-7/envs/x:3.11");
    assert_eq!(version("../../work/evil\n"), "");
    assert_eq!(version("3.13\n/work/evil\n$(evil)\n"), "3.13");
}

#[test]
fn plugins_and_the_servers_that_they_bring() {
    let place = Place::new();
    let plugin = place.path("home/.claude/plugins/cache/p");
    place.write("home/.claude/plugins/cache/p/.claude-plugin/plugin.json", r#"{"name":"p","version":"1.5"}"#);
    place.write("home/.claude/plugins/cache/p/.mcp.json", r#"{"mcpServers":{"s":{"command":"npx","args":["-y","pkg@2.0.0"]}}}"#);
    place.write("home/.claude/plugins/m/.git/HEAD", "ref: refs/heads/main\n");
    place.write("home/.claude/plugins/m/.git/refs/heads/main", &format!("{}\n", "a".repeat(40)));
    place.write("home/.claude/plugins/m/.git/config", "[remote \"origin\"]\n\turl = https://user:pw@h/m.git\n");
    let market =
        json!({"m": {"source": {"source": "github", "repo": "o/m"}, "installLocation": place.path("home/.claude/plugins/m")}});
    place.write("home/.claude/plugins/known_marketplaces.json", &market.to_string());
    let entry = json!([{"scope": "user", "installPath": plugin, "version": "1.4", "installedAt": "2026-01-02T03:04:05Z"}]);
    let list = json!({"version": 2, "plugins": {"p@m": entry, "q@n": {"version": "3", "gitCommitSha": "b"}}});
    place.write("home/.claude/plugins/installed_plugins.json", &list.to_string());
    let snapshot = capture(&place.request());
    let plugins = snapshot.plugins.unwrap();
    let p = &plugins["p@m"];
    assert_eq!((p.git_remote.as_deref(), p.git_branch.as_deref()), (Some("https://[redacted]@h/m.git"), Some("main")));
    assert_eq!((p.git_commit.clone(), p.manifest_version.as_deref()), (Some("a".repeat(40)), Some("1.5")));
    assert_eq!(p.installed_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!((plugins["q@n"].git_commit.as_deref(), plugins["q@n"].manifest_version.as_deref()), (Some("b"), Some("3")));
    let server = &snapshot.mcp_servers.unwrap()["plugin:p@m:s"];
    assert_eq!((server.source_type, server.version_id.as_str(), server.scope.as_str()), (Source::Npm, "2.0.0", "plugin"));
}

#[test]
fn where_servers_come_from() {
    let place = Place::new();
    place.write("work/server.py", "print()");
    place.write("tools/.git/HEAD", &format!("{}\n", "c".repeat(40)));
    place.program("tools/server", "true");
    place.write("home/node_modules/@o/pkg/package.json", r#"{"name":"@o/pkg","version":"4.5.6"}"#);
    place.write("home/node_modules/@o/pkg/dist/index.js", "");
    place.write("home/.npm/_npx/1/node_modules/floating/package.json", r#"{"version":"7.0.0"}"#);
    let servers = json!({
        "exact": {"command": "npx", "args": ["-y", "@scope/pkg@1.2.3", "--token", "abc"]},
        "floating": {"command": "/usr/bin/npx", "args": ["floating"]},
        "unknown": {"command": "npx", "args": ["never-seen"]},
        "pypi": {"command": "uvx", "args": ["--python", "3.11", "mcp-server-git==2026.1"]},
        "image": {"command": "docker", "args": ["run", "-i", "--rm", "-e", "TOKEN=abc", "o/image:1"]},
        "pinned": {"command": "docker", "args": ["run", "o/image@sha256:abcd"]},
        "script": {"command": "python3", "args": ["server.py"]},
        "cloned": {"command": place.path("tools/server")},
        "installed": {"command": "node", "args": [place.path("home/node_modules/@o/pkg/dist/index.js")]},
        "remote": {"type": "http", "url": "https://u:p@h/secret-path", "headers": {"Authorization": "Bearer abc"}},
        "gone": {"command": "no-such-server"},
        "odd": {"command": 5},
    });
    place.write("work/.mcp.json", &json!({"mcpServers": servers}).to_string());
    let local = json!({"mcpServers": {"gone": {"command": "user"}}, "projects": {place.path("work").to_str().unwrap(): {"mcpServers": {"unknown": {"command": "sh"}}}}});
    place.write("home/.claude.json", &local.to_string());
    let mut request = place.request();
    request.mcp_config = vec![place.write("more.json", r#"{"mcpServers":{"more":{"command":"npx","args":["m@1"]}}}"#)];
    let found = capture(&request).mcp_servers.unwrap();
    let line = |name: &str| {
        let server = &found[name];
        (server.source_type, server.version_id.as_str(), server.source_detail.as_deref().unwrap_or(""))
    };
    let script = blake3::hash(b"print()").to_hex();
    assert_eq!(line("exact"), (Source::Npm, "1.2.3", "@scope/pkg"));
    assert_eq!(line("floating"), (Source::Npm, "7.0.0", "floating"));
    assert_eq!(line("pypi"), (Source::Local, "2026.1", "pypi mcp-server-git"));
    assert_eq!(line("image"), (Source::Docker, "o/image:1", "not pinned to a digest"));
    assert_eq!(line("pinned"), (Source::Docker, "sha256:abcd", "o/image"));
    assert_eq!(
        line("script"),
        (Source::Local, format!("blake3:{script}").as_str(), place.path("work/server.py").to_str().unwrap())
    );
    assert_eq!(line("cloned"), (Source::Git, "c".repeat(40).as_str(), place.path("tools/server").to_str().unwrap()));
    assert_eq!(line("installed"), (Source::Npm, "4.5.6", "@o/pkg"));
    assert_eq!(line("remote"), (Source::Local, "https://[redacted]@h", "http"));
    assert_eq!(line("gone").1, "missing");
    let scopes = ["gone", "unknown", "more"].map(|name| found[name].scope.as_str());
    assert_eq!(scopes, ["project", "local", "argument"]);
    let before = found["exact"].config_hash.clone();
    let text = fs::read_to_string(place.path("work/.mcp.json")).unwrap();
    place.write("work/.mcp.json", &text.replace("abc", "def"));
    assert_eq!(capture(&request).mcp_servers.unwrap()["exact"].config_hash, before, "a changed secret is no other configuration");
    place.write("work/.mcp.json", &text.replace("1.2.3", "1.2.4"));
    assert_ne!(capture(&request).mcp_servers.unwrap()["exact"].config_hash, before);
}

/// Places from which a package is taken, with a credential in each.
const SPECS: [&str; 13] = [
    "git+https://user:hunter2@host/r",
    "git+https://hunter2@host/r",
    "git+https://hunter2:x@host/r@v1.0",
    "git+https://user:a,hunter2@host/r",
    "git+https://user:a/hunter2@host/r",
    "https://host/r.tgz?token=hunter2",
    "https://host/r#access_token=hunter2",
    "name@git+https://user:hunter2@host/r",
    "name @ git+https://user:hunter2@host/r@v1",
    "hunter2@host.example:o/r.git",
    "hunter2@github.com/o/r",
    "user:hunter2@host:o/r",
    "github:user:hunter2@o/r",
];

#[test]
fn no_credential_of_a_server_is_kept_wherever_it_stands() {
    const SECRET: &str = "hunter2";
    let place = Place::new();
    let launchers = [
        ("npx", vec!["-y"]),
        ("npx", vec!["--registry", "https://u:hunter2@h/", "-y", "-p"]),
        ("npm", vec!["exec"]),
        ("uvx", vec![]),
        ("uvx", vec!["--from"]),
        ("uvx", vec!["--extra-index-url", "https://u:hunter2@h/", "-i", "https://hunter2@h/"]),
        ("uvx", vec!["--with-requirements", "https://u:hunter2@h/r.txt", "--env-file", "hunter2"]),
        ("uv", vec!["tool", "run", "--default-index", "https://u:hunter2@h/", "--find-links", "https://u:hunter2@h/"]),
        ("uv", vec!["run", "--index", "https://u:hunter2@h/"]),
        ("pipx", vec!["run", "--spec"]),
        ("docker", vec!["run", "--rm", "-it", "--label", "hunter2", "-e", "A=hunter2"]),
        ("python3", vec!["-m"]),
        ("python3", vec![]),
        ("node", vec![]),
        ("bash", vec!["-lc"]),
        ("no-such-program", vec![]),
    ];
    let mut servers = serde_json::Map::new();
    for (at, spec) in SPECS.iter().enumerate() {
        for (number, (command, before)) in launchers.iter().enumerate() {
            let args = [&before[..], &[spec, "server", "--token", SECRET]].concat();
            servers.insert(format!("{at} {number}"), json!({"command": command, "args": args}));
        }
        servers.insert(format!("{at} inline"), json!({"command": "uvx", "args": [format!("--from={spec}"), "server"]}));
        servers.insert(format!("{at} url"), json!({"type": "http", "url": spec.trim_start_matches("git+")}));
        servers.insert(format!("{at} command"), json!({"command": spec}));
    }
    servers.retain(|name, _| {
        !name.ends_with("url") || SPECS[name.split(' ').next().unwrap().parse::<usize>().unwrap()].contains("://")
    });
    place.write("work/.mcp.json", &json!({"mcpServers": servers}).to_string());
    let found = capture(&place.request()).mcp_servers.unwrap();
    assert_eq!(found.len(), servers.len());
    for (name, server) in &found {
        let kept = serde_json::to_string(server).unwrap();
        assert!(!kept.contains(SECRET), "{}: {kept}", servers[name]);
    }
    let detail = |name: &str| (found[name].version_id.as_str(), found[name].source_detail.as_deref().unwrap_or_default());
    assert_eq!(detail("0 0"), ("latest", "git+https://[redacted]@host/r"));
    assert_eq!(detail("2 4"), ("v1.0", "pypi git+https://[redacted]@host/r@v1.0"));
    assert_eq!(detail("7 0"), ("git+https://[redacted]@host/r", "name"));
    assert_eq!(detail("0 10").0, "git+https://[redacted]@host/r");
}

#[test]
fn flags_before_a_package_and_those_of_the_server_behind_it() {
    let place = Place::new();
    let servers = json!({
        "registry": {"command": "npx", "args": ["--registry", "https://h/", "pkg@1.2.3", "-p", "8080"]},
        "alias": {"command": "npx", "args": ["a@npm:@s/b@1.2.3"]},
        "from": {"command": "uvx", "args": ["--default-index", "https://h/", "--from=pkg==2.0", "srv", "--from", "x"]},
        "extra": {"command": "uvx", "args": ["--extra-index-url", "https://h/", "-f", "d", "pkg==3.0"]},
        "tool": {"command": "uv", "args": ["--directory", "/d", "tool", "run", "pkg==4.0"]},
        "image": {"command": "docker", "args": ["run", "--label", "a", "-it", "--memory", "1g", "o/i:1", "run"]},
        "port": {"command": "docker", "args": ["run", "h:5000/o/i@sha256:abcd"]},
    });
    place.write("work/.mcp.json", &json!({"mcpServers": servers}).to_string());
    let found = capture(&place.request()).mcp_servers.unwrap();
    let line = |name: &str| (found[name].version_id.as_str(), found[name].source_detail.as_deref().unwrap_or_default());
    assert_eq!(line("registry"), ("1.2.3", "pkg"));
    assert_eq!(line("alias"), ("npm:@s/b@1.2.3", "a"));
    assert_eq!(line("from"), ("2.0", "pypi pkg"));
    assert_eq!(line("extra"), ("3.0", "pypi pkg"));
    assert_eq!(line("tool"), ("4.0", "pypi pkg"));
    assert_eq!(line("image"), ("o/i:1", "not pinned to a digest"));
    assert_eq!(line("port"), ("sha256:abcd", "h:5000/o/i"));
}

#[test]
fn what_uv_and_python_run_has_a_version_of_its_own() {
    let place = Place::new();
    place.program("bin/uv", "true");
    place.write("work/.venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n");
    place.program("work/.venv/bin/python", "true");
    place.package("work/.venv/lib/python3.11/site-packages", "mcp_server_x", "1.4");
    place.write("work/srv.py", "one");
    place.write("project/srv.py", "two");
    place.write("cloned/.git/HEAD", &format!("{}\n", "d".repeat(40)));
    let (project, cloned, python) = (place.path("project"), place.path("cloned"), place.path("work/.venv/bin/python"));
    let servers = json!({
        "script": {"command": "uv", "args": ["run", "srv.py"]},
        "elsewhere": {"command": "uv", "args": ["--directory", project, "run", "srv.py"]},
        "python": {"command": "uv", "args": ["run", "--with", "x", "python", "srv.py"]},
        "command": {"command": "uv", "args": ["run", "mcp-server-x"]},
        "cloned": {"command": "uv", "args": ["run", "--directory", cloned, "srv"]},
        "unknown": {"command": "uv", "args": ["run", "--directory", project, "srv"]},
        "module": {"command": python, "args": ["-m", "mcp_server_x.main"]},
        "run module": {"command": "uv", "args": ["run", "-m", "mcp_server_x"]},
        "other module": {"command": python, "args": ["-u", "-m", "no_such"]},
        "other python": {"command": "/usr/bin/python3", "args": ["-m", "mcp_server_x"]},
        "inline": {"command": "bash", "args": ["-lc", "exec server --token abc"]},
    });
    place.write("work/.mcp.json", &json!({"mcpServers": servers}).to_string());
    let found = capture(&place.request()).mcp_servers.unwrap();
    let version = |name: &str| found[name].version_id.as_str();
    let of = |text: &str| format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex());
    assert_eq!((version("script"), version("elsewhere"), version("python")), (&of("one")[..], &of("two")[..], &of("one")[..]));
    assert_eq!((version("command"), version("module"), version("run module")), ("1.4", "1.4", "1.4"));
    assert_eq!((found["cloned"].source_type, version("cloned")), (Source::Git, &"d".repeat(40)[..]));
    let unknown = ["unknown", "other module", "other python", "inline"];
    assert!(unknown.iter().all(|name| version(name) == "unknown"), "{found:?}");
    assert_eq!(found["inline"].source_detail.as_deref(), Some("bash"));
}

#[test]
fn nothing_secret_is_kept_and_damage_is_named() {
    let place = Place::new();
    place.write("work/.mcp.json", "{broken");
    place.write("home/.claude/plugins/installed_plugins.json", "[");
    let snapshot = capture(&place.request());
    let value = serde_json::to_value(&snapshot).unwrap();
    assert!(!value.to_string().contains("secret"));
    assert_eq!(value["variables"]["LANG"], "C");
    assert_eq!(snapshot.failed.keys().copied().collect::<Vec<_>>(), ["mcp_servers", "plugins"]);
    assert!(snapshot.failed["mcp_servers"].contains(".mcp.json"));
    assert_eq!(value["captured_at"], "1970-01-01T00:00:00Z");
}
