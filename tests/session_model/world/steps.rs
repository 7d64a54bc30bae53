//! Steps that people, machines and time take.

use super::*;

impl World {
    /// Somebody edits files by hand.
    pub fn edit(&mut self) {
        for (name, text) in self.files_to_write().as_object().unwrap() {
            write(&self.workspace.join(name), text.as_str().unwrap().as_bytes()).unwrap();
        }
        let name = NAMES[self.roll(NAMES.len() as u64) as usize];
        let _ = fs::remove_file(self.workspace.join(name));
        self.tell("edited by hand");
    }

    pub fn create(&mut self) {
        let session = self.session().id;
        let workspace = self.workspace.to_string_lossy().into_owned();
        let message = format!("number {}", self.number());
        let mut arguments = vec!["checkpoint", "create", &session, "--workspace", &workspace, "--json"];
        if self.roll(2) == 0 {
            arguments.extend(["-m", &message]);
        }
        let files = files_in(&self.workspace);
        let (done, said) = self.run(&arguments);
        assert!(done);
        let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        self.saved.insert(summary["id"].as_str().unwrap().to_owned(), Saved { files, session });
    }

    pub fn kill_agent(&mut self) {
        let Some(process) = self.agent.process() else { return };
        self.tell(format!("killed the agent, {process}"));
        kill(process);
        self.wait_for_end();
    }

    /// Power is gone, for all that is the session's.
    pub fn kill_everything(&mut self) {
        let Some(process) = self.agent.process() else { return };
        self.tell("killed the agent and who stands beside it");
        if let Some(supervisor) = &mut self.supervisor {
            supervisor.kill().unwrap();
        }
        kill(process);
        self.wait_for_end();
    }

    /// The machine is started anew: nothing that ran goes on, and numbers of processes mean others.
    pub fn reboot(&mut self) {
        let was_alive = self.agent.is_alive();
        self.kill_everything();
        for process in std::mem::take(&mut self.bystanders) {
            kill(process);
        }
        self.boots += 1;
        self.tell("the machine was started anew");
        let (done, said) = self.run(&["session", "list", "--json"]);
        assert!(done);
        let listed = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let session = self.session().id;
        let listed = listed.into_iter().find(|line| line["id"] == *session).unwrap();
        assert_eq!(listed["observed"], "dead", "{listed}");
        assert!(!was_alive || listed["wanted"] == "running", "{listed}");
    }

    /// Somebody starts the agent by hand, in the conversation that it was in. Meanwhile nobody else gets that, nor the files.
    pub fn go_on_by_hand(&mut self) {
        let Some(conversation) = self.agent.conversation().filter(|_| !self.agent.is_alive()) else { return };
        let (_, file) = self.output();
        let mut command = self.command(&[]);
        command.args(["--resume", &conversation]).current_dir(&self.workspace);
        let mut by_hand = Command::new(self.agent.program());
        by_hand.args(["--resume", &conversation]).current_dir(&self.workspace).env_clear();
        by_hand.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let begun = |world: &Self| world.agent.log().iter().filter(|noted| noted.is("begun")).count();
        let before = begun(self);
        self.agent.forget_orders();
        let mut child = by_hand.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        wait(|| (begun(self) > before || child.try_wait().unwrap().is_some()).then_some(()));
        self.tell(format!("started the agent by hand in {conversation}"));
        if begun(self) == before {
            // It does not know the conversation, in which nobody has said anything.
            return;
        }
        self.hanging = false;
        let (begun_before, files, turns) = (begun(self), files_in(&self.workspace), self.turns(&conversation).len());
        let session = self.session().id;
        let is_newest = self.session().conversations.last().is_some_and(|newest| newest.id == conversation);
        if is_newest {
            let holder = format!("process {}", child.id());
            let (done, said) = self.run(&["session", "resume", &session, "--interval", "0"]);
            assert!(!done && said.contains(&holder), "{said}");
            if let Some(target) = self.any_saved() {
                let (done, said) = self.run(&["checkpoint", "rollback", &target, "--stop", "--yes"]);
                assert!(!done && (said.contains(&holder) || said.contains("no checkpoint matches")), "{said}");
            }
        }
        assert_eq!((begun(self), self.turns(&conversation).len()), (begun_before, turns));
        assert!(files_in(&self.workspace) == files, "files changed under an agent that was started by hand");
        self.ask();
        self.agent.order(&json!({ "exit": 0 }));
        wait(|| child.try_wait().unwrap());
    }

    pub fn let_it_end(&mut self) {
        if self.agent.is_alive() && !self.hanging {
            self.tell("let the agent end");
            self.agent.order(&json!({ "exit": 0 }));
            self.wait_for_end();
        }
    }

    /// A checkpoint of the agent's session that was seen as saved.
    fn any_saved(&mut self) -> Option<String> {
        let session = self.session().id;
        let all: Vec<String> =
            self.saved.iter().filter(|(_, saved)| saved.session == session).map(|(id, _)| id.clone()).collect();
        let at = self.roll(all.len().max(1) as u64) as usize;
        all.into_iter().nth(at)
    }

    pub fn roll_back(&mut self) {
        if let Some(target) = self.any_saved() {
            self.roll_back_to(&target);
        }
    }

    fn roll_back_to(&mut self, target: &str) {
        let (done, said) = self.run(&["checkpoint", "rollback", target, "--stop", "--yes"]);
        if !done && said.contains("no checkpoint matches") {
            // Retention was quicker; whether it has said so is judged elsewhere.
            return;
        }
        assert!(done, "{said}");
        self.wait_for_end();
        assert!(!self.agent.is_alive());
        assert!(files_in(&self.workspace) == self.saved[target].files, "rolled back to {target}");
    }

    /// A rollback is killed at some moment, and the clock may step before somebody does it again.
    pub fn roll_back_killed(&mut self) {
        let Some(target) = self.any_saved() else { return };
        let (_, file) = self.output();
        let mut command = self.command(&["checkpoint", "rollback", &target, "--stop", "--yes"]);
        let mut child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        let millis = self.roll(120);
        std::thread::sleep(Duration::from_millis(millis));
        let _ = child.kill();
        let ended = child.wait().unwrap();
        self.tell(format!("a rollback to {target} was killed after {millis} ms: {ended}"));
        if !self.agent.is_alive() {
            self.wait_for_end();
        }
        if self.roll(2) == 0 {
            self.step_clock();
        }
        if self.roll(3) == 0 {
            self.create();
        }
        if self.saved.contains_key(&target) {
            self.roll_back_to(&target);
        }
    }

    pub fn undo(&mut self) {
        let session = self.session().id;
        let before = files_in(&self.workspace);
        let (done, said) = self.run(&["checkpoint", "undo", &session, "--stop", "--yes"]);
        match done {
            true => self.wait_for_end(),
            false => {
                assert!(said.contains("was not rolled back") || said.contains("no checkpoint"), "{said}");
                assert!(self.hanging || files_in(&self.workspace) == before);
            }
        }
    }

    pub fn prune(&mut self) {
        let (session, keep) = (self.session().id, self.roll(5).to_string());
        let (done, _) = self.run(&["session", "prune", &session, "--keep-last", &keep]);
        assert!(done);
    }

    pub fn collect(&mut self) {
        let (done, _) = self.run(&["gc"]);
        assert!(done);
    }

    /// Works in another folder, which is no business of the session's.
    pub fn go_to_the_other_folder(&mut self) {
        let folder = self.scratch.path("other");
        let before = files_in(&self.workspace);
        write(&folder.join("o"), format!("number {}", self.number()).as_bytes()).unwrap();
        let files = files_in(&folder);
        let (done, said) = self.run(&["checkpoint", "create", "other", "--workspace", &folder.to_string_lossy(), "--json"]);
        assert!(done);
        let summary: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        let id = summary["id"].as_str().unwrap().to_owned();
        self.saved.insert(id.clone(), Saved { files: files.clone(), session: summary["session"].as_str().unwrap().to_owned() });
        fs::write(folder.join("o"), "spoiled").unwrap();
        let (done, _) = self.run(&["checkpoint", "rollback", &id, "--yes"]);
        assert!(done && files_in(&folder) == files);
        assert!(self.hanging || files_in(&self.workspace) == before);
    }

    /// The workspace goes somewhere else while nobody works in it.
    pub fn move_workspace(&mut self) {
        if self.agent.is_alive() || self.hanging {
            return;
        }
        self.moves += 1;
        let to = self.scratch.path(&format!("job{}", self.moves));
        fs::rename(&self.workspace, &to).unwrap();
        let session = self.session().id;
        let (done, said) = self.run(&["session", "move", &session, &to.to_string_lossy()]);
        assert!(done, "{said}");
        self.workspace = to;
    }

    pub fn step_clock(&mut self) {
        self.days_off = self.roll(2 * DAYS_OFF) as i64 - DAYS_OFF as i64;
        self.has_stepped = true;
        self.tell(format!("the clock is {} days off", self.days_off));
    }

    /// Resumes the session, as a script does that nobody watches.
    pub fn resume(&mut self) {
        self.resume_with(&[]);
    }

    /// Whoever resumes has the agent's configuration somewhere else.
    pub fn resume_with_another_configuration(&mut self) {
        if !self.agent.is_alive() {
            let folder = self.scratch.path("configuration");
            self.resume_with(&[("CLAUDE_CONFIG_DIR", folder)]);
        }
    }

    fn resume_with(&mut self, variables: &[(&str, PathBuf)]) {
        let session = self.session().id;
        self.start(&["session", "resume", &session, "--interval", "0"], variables);
    }
}
