//! Configuration, and the verbs that show environments.

use std::{fs, path::PathBuf, process::Command};

use crate::common::{Builder, Home, Run, file};
use serde_json::json;

fn write(home: &Home, name: &str, text: &str) -> PathBuf {
    let path = home.folder.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// As [`write`], for a script: by another process, as one that is forked here meanwhile would hold it open, so that it could not be run.
fn program(home: &Home, name: &str, text: &str) -> PathBuf {
    let path = write(home, name, "");
    let script = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
    assert!(Command::new("sh").args(["-c", script, "sh"]).arg(&path).arg(text).status().unwrap().success());
    path
}

#[test]
fn config_show_says_where_each_value_came_from() {
    let home = Home::new();
    let user = write(&home, ".config/parhelia/parhelia.toml", "[retention]\nkeep_last = 3\n");
    write(&home, "project/parhelia.toml", "[context]\nmode = \"summary\"\n");
    write(&home, "project/inner/f", "");
    let named = write(&home, "named.toml", "[retention]\nkeep_last = 4\nmax_age_hours = 5\n");
    let lines = home.run(&["config", "show", "--json"]).expect(0).json();
    let option = |lines: &[serde_json::Value], key: &str| lines.iter().find(|line| line["key"] == key).unwrap().clone();
    assert_eq!(option(&lines, "retention.keep_last")["value"], 3);
    assert_eq!(option(&lines, "retention.keep_last")["origin"], json!({"kind": "file", "path": user, "line": 2}));
    assert_eq!(option(&lines, "context.mode")["origin"], json!({"kind": "default"}));
    assert_eq!(option(&lines, "store")["origin"], json!({"kind": "environment", "name": "PARHELIA_STORE"}));
    let args = ["config", "show", "--json", "--workspace", "project/inner", "--config", "named.toml"];
    let lines = home.run(&args).expect(0).json();
    assert_eq!(option(&lines, "retention.keep_last")["origin"], json!({"kind": "file", "path": "named.toml", "line": 2}));
    assert_eq!(option(&lines, "context.mode")["value"], "summary");
    assert_eq!(lines.last().unwrap()["files"].as_array().unwrap().len(), 3);
    let mut command = home.command(&["config", "show"]);
    let run =
        crate::common::Run::of(command.env("PARHELIA_CONFIG", &named).env("PARHELIA_KEEP_LAST", "7").output().unwrap()).expect(0);
    let line = |key: &str| run.out.lines().find(|line| line.starts_with(key)).unwrap();
    assert!(line("retention.keep_last ").contains("7  $PARHELIA_KEEP_LAST"), "{run:?}");
    assert!(line("retention.max_age_hours").contains(&format!("5  {}:3", named.display())), "{run:?}");
}

#[test]
fn mistakes_in_configuration_are_usage_errors() {
    let home = Home::without_store();
    let path = write(&home, ".config/parhelia/parhelia.toml", "[retention]\nkeep_lats = 3\n");
    let run = home.run(&["config", "show"]).expect(2);
    assert!(run.err.contains(":2: there is no option `retention.keep_lats`; did you mean `retention.keep_last`?"), "{run:?}");
    fs::remove_file(path).unwrap();
    write(&home, "parhelia.toml", "store = \"/tmp/elsewhere\"\n");
    // A project stops nothing.
    let run = home.run(&["config", "show"]).expect(0);
    assert!(run.err.contains("parhelia.toml:1 does not count: `store` cannot be set by a project"), "{run:?}");
    assert!(!run.out.contains("/tmp/elsewhere"), "{run:?}");
    home.run(&["checkpoint", "list"]).expect(10);
    fs::remove_file(home.folder.path().join("parhelia.toml")).unwrap();
    home.run(&["config", "show", "--config", "missing.toml"]).expect(10);
}

#[test]
fn the_store_is_where_the_configuration_says_unless_a_flag_or_a_variable_says_otherwise() {
    let home = Home::without_store();
    let elsewhere = home.folder.path().join("elsewhere");
    write(&home, ".config/parhelia/parhelia.toml", &format!("store = {elsewhere:?}\n"));
    write(&home, "work/f", "x");
    let run = |args: &[&str]| Run::of(home.command(args).env_remove("PARHELIA_STORE").output().unwrap());
    let create = ["checkpoint", "create", "--workspace", "work"];
    assert!(run(&create).expect(10).err.contains("`parhelia init`") && !elsewhere.exists());
    run(&["init"]).expect(0);
    run(&create).expect(0);
    assert!(elsewhere.join("store.json").exists() && !home.store().exists());
    home.run(&["checkpoint", "list"]).expect(10);
}

#[test]
fn env_show_looks_at_the_agent_and_leaves_out_secrets() {
    let home = Home::new();
    program(&home, "bin/claude", "#!/bin/sh\necho '1.2.3 (An Agent)'\n");
    let servers = json!({"mcpServers": {"s": {"command": "npx", "args": ["p@1.0.0"], "env": {"API_KEY": "hidden"}}}});
    write(&home, "work/.mcp.json", &servers.to_string());
    let path = format!("{}:/usr/bin:/bin", home.folder.path().join("bin").display());
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        crate::common::Run::of(command.env("PATH", &path).env("MY_TOKEN", "hidden").env("LANG", "C").output().unwrap())
    };
    let shown = run(&["env", "show", "--workspace", "work", "--json"]).expect(0);
    let environment = &shown.json()[0];
    assert_eq!(environment["claude_code"]["version"], "1.2.3");
    assert_eq!(environment["mcp_servers"]["s"]["version_id"], "1.0.0");
    assert_eq!(environment["variables"]["LANG"], "C");
    assert!(!shown.out.contains("hidden"));
    let text = run(&["env", "show", "--workspace", "work"]).expect(0);
    assert!(text.out.contains("claude_code\n  version 1.2.3\n"), "{text:?}");
    write(&home, "work/.mcp.json", "{");
    let partly = run(&["env", "show", "--workspace", "work"]).expect(3);
    assert!(partly.out.contains(".mcp.json is not valid JSON"), "{partly:?}");
}

#[test]
fn env_diff_compares_checkpoints() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    builder.commit("s", "without", vec![file("a", "1")]);
    builder.environment =
        Some(json!({"claude_code": {"version": "1.0"}, "mcp_servers": {"x": {"version_id": "1"}}, "variables": {}}));
    builder.commit("s", "old", vec![file("a", "1")]);
    builder.environment = Some(json!({"claude_code": {"version": "2.0"}, "mcp_servers": {}, "variables": {"CC": "clang"}}));
    builder.commit("s", "new", vec![file("a", "1")]);
    let run = home.run(&["env", "diff", "latest~1", "latest"]).expect(0);
    assert_eq!(run.out, "claude_code\n  version: 1.0 -> 2.0\nmcp_servers\n  x: 1 -> (none)\nvariables\n  CC: (none) -> clang\n");
    let lines = home.run(&["env", "diff", "latest~1", "latest", "--json"]).expect(0).json();
    assert_eq!((lines.len(), &lines[0]["section"], &lines[3]["changes"]), (4, &json!("claude_code"), &json!(3)));
    assert!(home.run(&["env", "diff", "latest", "latest"]).expect(0).out.contains("No changes."));
    let unknown = home.run(&["env", "diff", "latest~2", "latest", "--json"]).expect(0).json();
    assert_eq!(unknown.last().unwrap()["unknown"].as_array().unwrap().len(), 6);
    assert!(home.run(&["env", "show", "latest~2"]).expect(0).out.contains("has no environment"));
    assert!(home.run(&["env", "show", "latest"]).expect(0).out.contains("  version 2.0\n"));
    home.run(&["env", "diff", "nothing", "latest"]).expect(10);
}

#[test]
fn the_environment_is_that_of_the_agent_that_was_run() {
    let home = Home::new();
    let agent = |folder: &str, version: &str| {
        let agent = program(&home, &format!("{folder}/claude"), &format!("#!/bin/sh\necho '{version} (An Agent)'\n"));
        agent.to_string_lossy().into_owned()
    };
    agent("bin", "1.0.0");
    let own = agent("own", "2.0.0");
    write(&home, "work/servers.json", r#"{"mcpServers":{"mine":{"command":"npx","args":["m@1.2.3"]}}}"#);
    let path = format!("{}:/usr/bin:/bin", home.folder.path().join("bin").display());
    let run = |args: &[&str]| crate::common::Run::of(home.command(args).env("PATH", &path).output().unwrap()).expect(0);
    let started = ["session", "run", "--name", "mine", "--workspace", "work", "--", &own, "--mcp-config", "servers.json"];
    run(&started);
    run(&["checkpoint", "create", "mine", "--workspace", "work"]);
    for checkpoint in ["latest~1", "latest"] {
        let environment = run(&["env", "show", checkpoint, "--json"]).json().remove(0);
        assert_eq!(environment["claude_code"]["version"], "2.0.0", "{checkpoint}");
        let server = &environment["mcp_servers"]["mine"];
        assert_eq!((&server["scope"], &server["version_id"]), (&json!("argument"), &json!("1.2.3")), "{checkpoint}");
    }
    let same = run(&["env", "diff", "latest", "--workspace", "work"]).out;
    assert!(!same.contains("claude_code") && !same.contains("mcp_servers"), "{same}");
    // Of a folder without a run it is the one on the search path, but for one that lies in the folder: that is not run.
    write(&home, "other/file", "");
    let version =
        |folder: &str| run(&["env", "show", "--workspace", folder, "--json"]).json().remove(0)["claude_code"]["version"].clone();
    assert_eq!(version("other"), "1.0.0");
    assert_eq!(version("."), "unknown");
}

#[test]
fn every_python_package_that_changed_is_named() {
    let home = Home::new();
    write(&home, "work/.venv/pyvenv.cfg", "version = 3.11.2\n");
    let packages = home.folder.path().join("work/.venv/lib/python3.11/site-packages");
    let install = |version: &str| {
        let _ = fs::remove_dir_all(&packages);
        let folder = format!("work/.venv/lib/python3.11/site-packages/odd_one-{version}.dist-info");
        write(&home, &format!("{folder}/METADATA"), &format!("Metadata-Version: 2.1\nName: odd-one\nVersion: {version}\n"));
    };
    install("1.0");
    home.run(&["session", "run", "--name", "mine", "--workspace", "work", "--", "true"]).expect(0);
    let create = ["checkpoint", "create", "mine", "--workspace", "work"];
    home.run(&create).expect(0);
    install("2.0");
    let now = home.run(&["env", "diff", "latest", "--workspace", "work"]).expect(0);
    assert!(now.out.contains("  odd-one: 1.0 -> 2.0\n"), "{now:?}");
    home.run(&create).expect(0);
    let two = home.run(&["env", "diff", "latest~1", "latest"]).expect(0);
    assert!(two.out.contains("packages\n  odd-one: 1.0 -> 2.0\n"), "{two:?}");
    let files = home.run(&["checkpoint", "diff", "latest~1", "latest"]).expect(0);
    assert!(files.out.contains("  packages odd-one: 1.0 -> 2.0\n"), "{files:?}");
}
