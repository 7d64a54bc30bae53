//! Attacks of somebody who can write to a workspace, or to a checkpoint: to have files of the user's captured, or overwritten.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use parhelia_tests::write;
use serde_json::{Value, json};

use crate::mcp_servers::work::Work;

const SECRET: &str = "a secret of the user's";

/// A server that keeps its state in a file.
fn memory(path: impl AsRef<Path>) -> Value {
    json!({"memory": {"command": "serve", "env": {"MEMORY_FILE_PATH": path.as_ref()}}})
}

/// A file outside of the workspace.
fn secret(work: &Work) -> PathBuf {
    let path = work.scratch.path("outside/secret");
    write(&path, SECRET.as_bytes()).unwrap();
    path.canonicalize().unwrap()
}

/// True if a checkpoint has a text anywhere beside the workspace.
fn has(work: &Work, checkpoint: &str, servers: &Value, text: &str) -> bool {
    let files = servers["memory"]["files"].as_array().cloned().unwrap_or_default();
    let mut contents = files.iter().filter_map(|file| work.state(checkpoint, file["file"].as_str()?));
    contents.any(|bytes| bytes == text.as_bytes())
}

#[test]
fn a_project_cannot_have_files_from_elsewhere_captured() {
    let work = Work::of_script();
    let secret = secret(&work);
    let (folder, file) = (work.workspace.join("folder"), work.workspace.join("file"));
    symlink(secret.parent().unwrap(), &folder).unwrap();
    symlink(&secret, &file).unwrap();
    let roundabout = work.workspace.join("../outside/secret");
    for path in [secret.clone(), "../outside/secret".into(), roundabout, folder.join("secret"), file, "~/secret".into()] {
        work.of_project(&memory(&path));
        let (id, servers) = work.checkpoint(0);
        assert_eq!(servers["memory"]["kept"], "not_asked", "{}: {servers}", path.display());
        assert!(!has(&work, &id, &servers, SECRET));
    }
    // What lies in the workspace is captured.
    let own = work.workspace.join("own");
    fs::write(&own, "its own").unwrap();
    work.of_project(&memory(&own));
    let (id, servers) = work.checkpoint(0);
    assert_eq!((&servers["memory"]["kept"], &servers["memory"]["scope"]), (&json!("files"), &json!("project")), "{servers}");
    assert!(has(&work, &id, &servers, "its own"));
}

#[test]
fn a_link_out_of_the_workspace_is_not_written_through() {
    for is_there in [true, false] {
        let work = Work::of_script();
        let secret = secret(&work);
        // In a folder that checkpoints leave out, so that the rollback of the workspace leaves what is in it.
        write(&work.workspace.join("package.json"), b"{}").unwrap();
        let folder = work.workspace.join("node_modules/memory");
        write(&folder.join("secret"), b"of the checkpoint").unwrap();
        work.of_project(&memory(folder.join("secret")));
        let (old, servers) = work.checkpoint(0);
        assert!(has(&work, &old, &servers, "of the checkpoint"), "{servers}");
        fs::remove_dir_all(&folder).unwrap();
        symlink(secret.parent().unwrap(), &folder).unwrap();
        if !is_there {
            fs::remove_file(&secret).unwrap();
        }
        let text = match is_there {
            true => work.scratch.expect(0, &["checkpoint", "rollback", &old, "--yes"]),
            false => work.scratch.expect(0, &["session", "resume", &work.session, "--prompt", "go on"]),
        };
        assert!(text.contains("MCP server memory does not get its state back"), "{text}");
        assert_eq!(fs::read_to_string(&secret).ok(), is_there.then(|| SECRET.to_owned()));
    }
}

#[test]
fn a_checkpoint_cannot_name_a_file_that_is_not_declared_now() {
    let work = Work::of_script();
    let (then, now) = (work.scratch.path("then"), work.scratch.path("now"));
    fs::write(&then, "of the checkpoint").unwrap();
    work.of_user(&memory(&then));
    let (old, servers) = work.checkpoint(0);
    assert!(has(&work, &old, &servers, "of the checkpoint"), "{servers}");
    for servers in [memory(&now), json!({}), json!({"memory": {"command": "serve"}})] {
        work.of_user(&servers);
        fs::write(&then, "another program's by now").unwrap();
        fs::write(&now, "the server's").unwrap();
        let text = work.scratch.expect(0, &["checkpoint", "rollback", &old, "--yes"]);
        assert!(text.contains("MCP server memory does not get its state back"), "{text}");
        assert_eq!(fs::read_to_string(&then).unwrap(), "another program's by now");
        assert_eq!(fs::read_to_string(&now).unwrap(), "the server's");
    }
}

#[test]
fn a_project_cannot_declare_files_in_its_options() {
    let work = Work::of_script();
    let secret = secret(&work);
    let options = format!("[mcp.servers.memory]\nstate_files = [{secret:?}]\n");
    fs::write(work.workspace.join("parhelia.toml"), options).unwrap();
    work.of_project(&json!({"memory": {"command": "serve"}}));
    let output = work.create();
    let said = parhelia_tests::live::shown(&output);
    assert!(said.contains("mcp.servers"), "{said}");
    let found = std::process::Command::new("grep").args(["-rlaF", SECRET]).arg(work.scratch.store()).output().unwrap();
    assert!(found.stdout.is_empty(), "{}", parhelia_tests::live::shown(&found));
}
