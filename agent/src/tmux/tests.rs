//! The real tmux, on a socket of its own.

use std::{ffi::OsString, fs, path::Path, process::Command, time::Duration};

use super::*;

/// A server that ends with the test.
struct Private {
    folder: tempfile::TempDir,
    server: Server,
}

impl Private {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let server = Server::new(Some(socket), Duration::from_secs(20)).with_config("/dev/null");
        Private { folder, server }
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        self.server.ask(arguments).unwrap()
    }

    fn capture(&self, session: &str) -> SessionCapture {
        capture(&self.server, session, Limits::default()).unwrap()
    }

    /// As [`Private::capture`], once every pane runs its own program: until then it is a process of tmux itself.
    fn settled(&self, session: &str) -> SessionCapture {
        let mut last = self.capture(session);
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let next = self.capture(session);
            let mut panes = next.state.windows.iter().flat_map(|window| &window.panes);
            if next.state == last.state && !panes.any(|pane| pane.program.starts_with("tmux")) {
                return next;
            }
            last = next;
        }
    }

    /// As [`Private::capture`], once the first pane runs a program: what starts it may have printed before.
    fn running(&self, session: &str, program: &str) -> SessionCapture {
        for _ in 0..6000 {
            let captured = self.capture(session);
            if captured.state.windows[0].panes[0].program == program {
                return captured;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("session {session} never ran {program}");
    }

    /// Waits until a pane shows a text.
    fn wait_for(&self, pane: &str, text: &str) {
        for _ in 0..6000 {
            if self.server.screen(pane).unwrap().contains(text) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("pane {pane} never showed {text}: {}", self.server.screen(pane).unwrap());
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = self.server.call(["kill-server"]);
    }
}

fn wanted<'a>(name: &'a str, folder: &'a Path, environment: &'a [(String, OsString)]) -> RestoreRequest<'a> {
    RestoreRequest { name, folder, environment, command: &|_| None, scrollback: &|_| None }
}

/// The part of a state that must be equal before and after, without ids, processes and text.
fn comparable(state: &State) -> Vec<Window> {
    let pane = |p: &Pane| Pane { id: String::new(), process: 0, scrollback: None, history_lines: 0, ..p.clone() };
    let window = |w: &Window| Window {
        // A window that names itself may have another name after a moment.
        name: if w.automatic_rename { String::new() } else { w.name.clone() },
        layout: geometry(&w.layout),
        panes: w.panes.iter().map(pane).collect(),
        ..w.clone()
    };
    state.windows.iter().map(window).collect()
}

#[test]
fn a_session_comes_back_as_it_was() {
    let tmux = Private::new();
    let a = tmux.folder.path().join("a b");
    let b = tmux.folder.path().join("b");
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    let (a_text, b_text) = (a.to_str().unwrap(), b.to_str().unwrap());
    tmux.tmux(&["new-session", "-d", "-s", "work", "-x", "133", "-y", "41", "-n", "edit: é\t|", "-c", a_text]);
    tmux.tmux(&["set-option", "-g", "base-index", "1"]);
    for i in 0..3 {
        let split = if i % 2 == 0 { "-h" } else { "-v" };
        tmux.tmux(&["split-window", "-t", "work:0", split, "-c", b_text]);
    }
    tmux.tmux(&["resize-pane", "-t", "work:0.1", "-x", "37"]);
    tmux.tmux(&["select-pane", "-t", "work:0.2", "-T", "a title: with 'quotes'"]);
    tmux.tmux(&["new-window", "-d", "-t", "work:7", "-n", "many", "-c", b_text]);
    for _ in 0..9 {
        tmux.tmux(&["split-window", "-d", "-t", "work:7", "-c", a_text]);
        tmux.tmux(&["select-layout", "-t", "work:7", "tiled"]);
    }
    tmux.tmux(&["resize-pane", "-Z", "-t", "work:7.4"]);
    tmux.tmux(&["new-window", "-d", "-t", "work:3", "-c", a_text]);
    tmux.tmux(&["select-window", "-t", "work:3"]);
    tmux.tmux(&["select-window", "-t", "work:7"]);
    tmux.tmux(&["new-session", "-d", "-s", "other"]);
    let before = tmux.settled("work");
    assert_eq!(before.problems, [""; 0]);
    assert_eq!(before.state.windows.iter().map(|w| w.index).collect::<Vec<_>>(), [0, 3, 7]);
    assert_eq!(before.state.windows[2].panes.len(), 10);
    assert!(before.state.windows[2].zoomed && before.state.windows[2].active && before.state.windows[1].last);
    let saved: State = serde_json::from_str(&serde_json::to_string(&before.state).unwrap()).unwrap();
    assert_eq!(saved, before.state);

    tmux.tmux(&["kill-server"]);
    let restored = restore(&tmux.server, &saved, &wanted("again", tmux.folder.path(), &[])).unwrap();
    assert_eq!(restored.notes, [""; 0]);
    assert_eq!(restored.panes.len(), 15);
    let after = tmux.settled("again");
    assert_eq!(comparable(&after.state), comparable(&before.state));
    assert!(!tmux.server.has_session("work").unwrap());
}

#[test]
fn text_program_and_environment_come_back() {
    let tmux = Private::new();
    let folder = tmux.folder.path();
    let script = "for i in $(seq 200); do echo \"line $i\"; done; printf '\\033[31mred\\033[0m\\n'; exec sleep 1000";
    tmux.tmux(&["new-session", "-d", "-s", "work", "-x", "80", "-y", "24", "sh", "-c", script]);
    tmux.wait_for("work:0", "red");
    let captured = tmux.running("work", "sleep");
    let pane = &captured.state.windows[0].panes[0];
    assert_eq!(pane.argv, ["sleep", "1000"]);
    assert!(pane.history_lines > 100);
    let text = String::from_utf8(captured.scrollback[0].bytes.clone()).unwrap();
    assert!(text.starts_with("line 1\nline 2\n") && text.contains("\u{1b}[31mred"), "{text}");
    let few = capture(&tmux.server, "work", Limits { lines_max: 20_000, bytes_max: 100 }).unwrap();
    let few = String::from_utf8(few.scrollback[0].bytes.clone()).unwrap();
    assert!(few.len() <= 100 && few.starts_with("line ") && few.contains("red"), "{few}");

    tmux.tmux(&["kill-server"]);
    let file = folder.join("text");
    fs::write(&file, &captured.scrollback[0].bytes).unwrap();
    let environment = [("PARHELIA_RESUMED_FROM".to_owned(), OsString::from("01ABC = é"))];
    let run = |_: &Pane| Some(["sh", "-c", "echo from=$PARHELIA_RESUMED_FROM; exec sleep 1000"].map(OsString::from).to_vec());
    let show = |_: &Pane| Some(file.clone());
    let wanted = RestoreRequest { command: &run, scrollback: &show, ..wanted("again", folder, &environment) };
    let restored = restore(&tmux.server, &captured.state, &wanted).unwrap();
    let new = restored.pane(&pane.id).unwrap();
    tmux.wait_for(new, "from=01ABC = é");
    let after = tmux.running("again", "sleep");
    let text = String::from_utf8(after.scrollback[0].bytes.clone()).unwrap();
    assert!(text.starts_with("line 1\nline 2\n") && text.contains("\u{1b}[31mred"), "{text}");
    assert_eq!(after.state.windows[0].panes[0].argv, ["sleep", "1000"]);
}

#[test]
fn what_cannot_come_back_is_said_and_nothing_is_left_half_made() {
    let tmux = Private::new();
    let folder = tmux.folder.path();
    let gone = folder.join("gone");
    fs::create_dir(&gone).unwrap();
    tmux.tmux(&["new-session", "-d", "-s", "work", "-c", gone.to_str().unwrap(), "sleep", "1000"]);
    tmux.tmux(&["split-window", "-t", "work", "-c", gone.to_str().unwrap(), "sleep", "1000"]);
    let mut state = tmux.capture("work").state;
    let error = restore(&tmux.server, &state, &wanted("work", folder, &[])).unwrap_err();
    assert!(error.to_string().contains("already"), "{error}");
    tmux.tmux(&["kill-server"]);
    fs::remove_dir(&gone).unwrap();
    let restored = restore(&tmux.server, &state, &wanted("again", folder, &[])).unwrap();
    assert_eq!(restored.notes.len(), 2, "{:?}", restored.notes);

    state.windows[0].layout = "0000,80x24,0,0,0".into();
    let restored = restore(&tmux.server, &state, &wanted("third", folder, &[])).unwrap();
    assert!(restored.notes.iter().any(|note| note.contains("layout")), "{:?}", restored.notes);
    state.windows[0].panes.clear();
    assert!(restore(&tmux.server, &state, &wanted("fourth", folder, &[])).is_err());
    assert!(!tmux.server.has_session("fourth").unwrap());
}

#[test]
fn what_a_pane_calls_itself_is_not_executed() {
    let tmux = Private::new();
    let file = tmux.folder.path().join("injected");
    let evil = format!("#(touch {}) ##[x];", file.display());
    let folder = tmux.folder.path().join("a #(touch b);");
    fs::create_dir(&folder).unwrap();
    let folder_text = folder.to_string_lossy().into_owned();
    let folder_text = folder_text.strip_suffix(';').unwrap().replace('#', "##") + "\\;";
    let script = format!("printf '\\033]2;{evil}\\007'; exec sleep 1000");
    tmux.tmux(&["new-session", "-d", "-s", "work", "-c", &folder_text, &script]);
    tmux.wait_for("work:0", "");
    let named = |session: &str| tmux.capture(session).state.windows[0].panes[0].title.contains("#(touch");
    for _ in 0..6000 {
        if named("work") {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut state = tmux.capture("work").state;
    assert_eq!((&state.windows[0].panes[0].title, Path::new(&state.windows[0].panes[0].folder)), (&evil, folder.as_path()));
    state.windows[0].name = evil.clone();
    state.windows[0].automatic_rename = false;
    let mut second = state.windows[0].clone();
    (second.index, second.active) = (5, false);
    state.windows.push(second);
    let restored = restore(&tmux.server, &state, &wanted("again", tmux.folder.path(), &[])).unwrap();
    assert_eq!(restored.notes, [""; 0]);
    let after = tmux.settled("again").state;
    for window in &after.windows {
        let pane = &window.panes[0];
        assert_eq!((&window.name, &pane.title, Path::new(&pane.folder)), (&evil, &evil, folder.as_path()));
    }
    // A command of a format runs beside tmux; by the time that another one has run, it would have been there.
    let marker = tmux.folder.path().join("marker");
    tmux.tmux(&["run-shell", &format!("touch {}", marker.display())]);
    assert!(marker.exists() && !file.exists() && !folder.join("b").exists());
}

#[test]
fn a_server_that_is_not_there_is_not_started() {
    let tmux = Private::new();
    assert!(!tmux.server.is_running().unwrap());
    assert!(capture(&tmux.server, "work", Limits::default()).is_err());
    assert!(!tmux.folder.path().join("socket").exists());
}

#[test]
fn the_marker_of_a_run_does_not_reach_the_server() {
    let tmux = Private::new();
    let environment = tmux.server.command();
    let removed: Vec<_> = environment.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
    assert!(removed.contains(&std::ffi::OsStr::new(crate::process::RUN_MARKER)));
    let missing = Command::new("tmux").arg("-V").output().unwrap();
    assert!(missing.status.success(), "tmux is needed by these tests");
}
