//! The real binary as it is run by an ordinary user.

use std::{
    os::unix::fs::chown,
    path::Path,
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use crate::Scratch;

/// The user whom systems call nobody.
const NOBODY: u32 = 65534;

/// A user without privileges, who owns a scratch folder.
pub struct User<'a>(&'a Scratch);

impl<'a> User<'a> {
    /// Gives the scratch folder to the user, and these folders with all that is in them.
    pub fn owning(scratch: &'a Scratch, folders: &[&Path]) -> Self {
        chown(scratch.path(""), Some(NOBODY), Some(NOBODY)).unwrap_or_else(|e| panic!("this test needs root: {e}"));
        for folder in folders {
            let given = Command::new("chown").args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(folder).status();
            assert!(given.is_ok_and(|status| status.success()), "{} could not be given away", folder.display());
        }
        User(scratch)
    }

    /// Runs a command line to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let ours = self.0.command(arguments);
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
        command.arg(ours.get_program()).args(ours.get_args()).env_clear().stdin(Stdio::null());
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().unwrap_or_else(|e| panic!("this test needs setpriv: {e}"))
    }

    /// Runs a command line that must succeed; returns what it printed, standard error behind standard output.
    pub fn expect(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {text}");
        text
    }

    /// Makes a checkpoint of a folder, nothing left out, and returns its id.
    pub fn create(&self, session: &str, workspace: &Path, more: &[&str]) -> String {
        let workspace = workspace.to_string_lossy();
        let create = ["checkpoint", "create", session, "--workspace", &workspace, "--no-default-excludes", "--json"];
        let said = self.expect(&[&create[..], more].concat());
        let summary = said.lines().find(|line| line.contains("\"summary\"")).unwrap_or_default();
        let summary: Value = serde_json::from_str(summary).unwrap_or_default();
        summary["id"].as_str().unwrap_or_default().to_owned()
    }
}
