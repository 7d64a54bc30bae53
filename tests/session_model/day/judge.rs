//! Judgement of statements, by what the test knows.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_tests::{Files, live::lives};
use serde_json::Value;

use super::{
    acts::Day,
    read::Said,
    record::{Launch, Wanted, now, own},
    told,
};
use crate::session_model::{oracle, said::SHARED};

/// Times that are recorded and those that the test knows are taken by different processes.
const SLACK: f64 = 1.5;

/// A time as it is printed, in seconds since 1970.
pub fn seconds(text: &Value) -> Option<f64> {
    let time: Timestamp = text.as_str()?.parse().ok()?;
    Some(time.as_nanosecond() as f64 / 1e9)
}

impl Day {
    /// Takes a statement for true or untrue.
    pub fn claim(&mut self, is_true: bool, why: impl FnOnce() -> String) {
        self.statements += 1;
        if !is_true {
            let why = why();
            self.world.tell(format!("UNTRUE: {why}"));
            self.untrue.push(why);
        }
    }

    /// Reads every statement, and judges it.
    pub fn judge(&mut self) {
        // New checkpoints are read, and nothing is lost.
        oracle::check(&mut self.world);
        let said = self.read();
        oracle::check(&mut self.world);
        self.life(&said);
        self.all_say_the_same(&said);
        self.checkpoints(&said);
        self.head(&said);
        self.changes(&said);
        self.conversation(&said);
        self.runs(&said);
        self.review(&said);
        self.numbers(&said);
    }

    fn life(&mut self, said: &Said) {
        let listed = &said.listed;
        let launch = self.record.launches.last().unwrap().clone();
        let observed = listed["observed"].as_str().unwrap();
        let is_alive = lives(launch.process);
        match is_alive {
            true => {
                let is_idle = !self.world.hanging;
                let wanted = if is_idle { "idle" } else { "live" };
                // One that was struck in a turn may be amid it for good.
                self.claim(observed == wanted, || format!("the agent is {wanted}, and is said to be {observed}: {listed}"));
            }
            false => self.claim(observed == "dead", || format!("the agent is dead, and is said to be {observed}: {listed}")),
        }
        self.claim(listed["open_in"].is_null(), || format!("nobody else has the conversation open: {listed}"));
        let unsupervised = &listed["unsupervised"];
        match is_alive && launch.is_orphan {
            true => {
                let is_it = unsupervised["process"] == launch.process;
                self.claim(is_it, || format!("{} lives without its supervisor: {listed}", launch.process));
                let has_hooks = !launch.hooks.is_empty();
                let says_so = unsupervised["has_hooks"] == has_hooks;
                self.claim(says_so, || format!("hooks were heard of: {has_hooks}; and it is said: {listed}"));
            }
            false => self.claim(unsupervised.is_null(), || format!("it has its supervisor, or is dead: {listed}")),
        }
        let wanted = listed["wanted"].as_str().unwrap_or_default();
        let is_wanted = match self.record.wanted {
            Wanted::Running => wanted == "running",
            Wanted::Paused => wanted == "paused",
            Wanted::Either => wanted == "running" || wanted == "paused",
        };
        let known = self.record.wanted;
        self.claim(is_wanted, || format!("{known:?} is wanted: {listed}"));
        let status = listed["status"].as_str().unwrap_or_default();
        self.claim(status != "ended", || format!("nobody has ended it: {listed}"));
        let set_aside = listed["set_aside"].is_null() || !is_alive;
        self.claim(set_aside, || format!("a live session is set aside: {listed}"));
        let why = listed["why"].as_str().unwrap_or_default();
        let is_strange = ["machine", "tmux", "container"].iter().any(|word| why.contains(word));
        self.claim(!is_strange, || format!("neither machine, tmux nor container had part in it: {listed}"));
        self.claim(is_alive || !why.is_empty(), || format!("nothing says why it is dead: {listed}"));
        let since = seconds(&listed["attention"]["since"]);
        let is_in_time = since.is_none_or(|since| since <= now() + SLACK && since >= launch.asked_at - SLACK);
        self.claim(is_in_time, || format!("a verdict from another time: {listed}"));
        let unread = ["failing", "another_folder", "interrupted_rollback", "unseen"];
        for name in unread {
            let is_so = listed[name].is_null();
            self.claim(is_so || self.has_no_hooks || self.has_moved, || format!("{name} is not so: {listed}"));
        }
        // In words.
        let word = match (is_alive, wanted) {
            (false, "paused") => "paused",
            (false, _) => "dead",
            (true, _) => observed,
        };
        let words = said.texts[0].lines().find(|line| line.starts_with("Session "));
        let is_said = words.is_none_or(|line| line.contains(&format!(": {word}")));
        self.claim(is_said, || format!("`status` has another word than {word}: {}", said.texts[0]));
        let id = listed["id"].as_str().unwrap();
        let row = said.texts[1].lines().find(|line| line.starts_with(id)).unwrap_or_default();
        let mut cells = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let is_so = cells.nth(1).is_some_and(|cell| cell.split(',').next() == Some(word));
        self.claim(is_so, || format!("`session list` has another word than {word}: {}", said.texts[1]));
        let is_so = row.contains("UNSUPERVISED") == (is_alive && launch.is_orphan);
        self.claim(is_so, || format!("its supervisor died: {}; {}", launch.is_orphan, said.texts[1]));
    }

    fn all_say_the_same(&mut self, said: &Said) {
        for (by, other) in
            [("session show", &said.shown), ("/v1/sessions/ID", &said.served), ("/v1/sessions", &said.served_in_list)]
        {
            let names =
                SHARED.iter().chain(&["needs", "set_aside", "unsupervised", "wanted", "conversations", "failing", "attention"]);
            for name in names {
                let (one, another) = (&said.listed[*name], &other[*name]);
                self.claim(one == another, || format!("{name}: `session list` says {one}, {by} {another}"));
            }
        }
        let ids = |all: &[Value]| all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
        let (listed, served) = (ids(&said.checkpoints), ids(&said.served_checkpoints));
        let is_page = listed[..served.len().min(listed.len())] == served[..];
        self.claim(is_page && !served.is_empty(), || format!("checkpoints: {listed:?}, and by the service {served:?}"));
    }

    fn checkpoints(&mut self, said: &Said) {
        let mut listed: Vec<&str> = said.checkpoints.iter().filter_map(|one| one["id"].as_str()).collect();
        let mut there: Vec<&str> = said.facts.checkpoints.iter().map(String::as_str).collect();
        listed.sort_unstable();
        there.sort_unstable();
        self.claim(listed == there, || format!("`checkpoint list` has {listed:?}, and there are {there:?}"));
        let began = self.record.launches[0].asked_at;
        for checkpoint in &said.checkpoints {
            let id = checkpoint["id"].as_str().unwrap();
            let at = seconds(&checkpoint["created_at"]).unwrap_or_default();
            self.claim((began - SLACK..=now() + SLACK).contains(&at), || format!("it was not made at that time: {checkpoint}"));
            if let Some(files) = self.world.saved.get(id).map(|saved| own(&saved.files)) {
                let had = self.record.had(&files, 0);
                self.claim(had, || format!("the workspace never was as {id} has it: {}", texts(&files)));
                let count = self.world.saved[id].files.len();
                self.claim(checkpoint["files"] == count, || format!("it has {count} files: {checkpoint}"));
            }
            self.trigger(checkpoint, &said.runs);
            let tags: Vec<&str> = checkpoint["tags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let wanted: Vec<String> = self.record.tagged.get(id).cloned().into_iter().collect();
            self.claim(tags == wanted || wanted.is_empty(), || format!("{wanted:?} are its tags: {checkpoint}"));
        }
    }

    /// What caused a checkpoint.
    fn trigger(&mut self, checkpoint: &Value, runs: &[Value]) {
        let run = runs.iter().find(|run| run["id"] == checkpoint["run"]).filter(|run| run["pid"].is_number());
        let launch = run.and_then(|run| self.record.launches.iter().find(|launch| run["pid"] == launch.process));
        // Nobody's run is that of a command, and what became of one that was killed before it had an agent is not known.
        let (is_killed, is_asked, has_ended) =
            launch.map_or((true, true, true), |launch| (launch.is_killed, !launch.asked.is_empty(), launch.code.is_some()));
        let is_so = match checkpoint["trigger"].as_str().unwrap_or_default() {
            "error" => is_killed,
            "complete" => has_ended,
            "shutdown" => is_killed || is_asked || has_ended,
            "periodic" | "manual" => true,
            _ => false,
        };
        self.claim(is_so, || format!("killed {is_killed}, asked {is_asked}, ended {has_ended}: {checkpoint}"));
    }

    fn head(&mut self, said: &Said) {
        let head = said.listed["last_checkpoint"]["id"].as_str().unwrap_or_default().to_owned();
        let Some(saved) = self.world.saved.get(&head).map(|saved| own(&saved.files)) else {
            let is_none = said.facts.checkpoints.is_empty() && head.is_empty();
            return self.claim(is_none, || format!("the last checkpoint cannot be read: {}", said.listed));
        };
        let (floor, last) = (self.record.floor, self.record.states.len() - 1);
        let is_new = self.record.had(&saved, floor);
        self.claim(is_new, || {
            format!("{head} is older than the last hook that has returned (state {floor} of {last}): {}", texts(&saved))
        });
        let in_status = said.status["checkpoint"]["id"].as_str().unwrap_or_default();
        // A folder stands at none that was made for safety: that is a copy of what a rollback was to leave.
        let is_safety = said.checkpoints.iter().any(|one| one["id"] == *head && one["cause"] == "safety");
        self.claim(in_status == head || is_safety, || format!("{head} is the last one, and `status` has {in_status}"));
        let is_named = said.texts[0].contains(in_status);
        self.claim(is_named, || format!("`status` does not name {in_status}: {}", said.texts[0]));
    }

    /// What has changed since the last checkpoint, entry by entry.
    fn changes(&mut self, said: &Said) {
        let Some(saved) = said.status["checkpoint"]["id"].as_str().and_then(|id| self.world.saved.get(id)) else { return };
        let then = saved.files.clone();
        let now = &said.facts.files;
        let (mut added, mut deleted, mut modified) = (0, 0, 0);
        for (path, bytes) in now {
            match then.get(path) {
                None => added += 1,
                Some(old) => modified += u64::from(old != bytes),
            }
        }
        deleted += then.keys().filter(|path| !now.contains_key(*path)).count() as u64;
        let of = |name: &str| said.status[name].as_u64().unwrap_or_default();
        if said.status["compared"] == true {
            // Folders count as entries, and files whose times alone differ do not.
            let is_same = added + deleted + modified == 0;
            let all: u64 = ["added", "deleted", "modified", "renamed", "type_changed"].iter().map(|name| of(name)).sum();
            self.claim(is_same == (all == 0), || {
                format!("{added} added, {deleted} deleted, {modified} modified: {}", said.status)
            });
            self.claim(of("modified") >= modified || is_same, || format!("{modified} modified: {}", said.status));
            self.claim(of("added") + of("renamed") >= added, || format!("{added} added: {}", said.status));
            self.claim(of("deleted") + of("renamed") >= deleted, || format!("{deleted} deleted: {}", said.status));
            let says_nothing = said.texts[0].contains("Nothing has changed since.");
            let is_so = says_nothing == is_same || is_same && said.texts[0].contains("with other metadata");
            self.claim(is_so, || format!("the same: {is_same}; {}", said.texts[0]));
        }
    }

    fn conversation(&mut self, said: &Said) {
        let listed = &said.listed;
        let Some(newest) = listed["conversations"].as_array().unwrap().last() else { return };
        let turns = self.world.turns(newest["id"].as_str().unwrap_or_default());
        let head = listed["last_checkpoint"]["id"].as_str().unwrap_or_default().to_owned();
        let bounds = (self.record.floor_turns.min(turns.len()), turns.len());
        let (least, most) = *self.record.turns.entry(head).or_insert(bounds);
        let count = newest["turn_count"].as_u64().map(|count| count as usize);
        let is_so = count.is_none_or(|count| (least..=most.max(turns.len())).contains(&count));
        self.claim(is_so, || format!("there were {least} to {most} turns: {listed}"));
        if let Some(last) = turns.last() {
            self.claim(listed["last_prompt"] == *last.prompt, || format!("{:?} was the last prompt: {listed}", last.prompt));
        }
    }

    fn runs(&mut self, said: &Said) {
        for run in &said.runs {
            let Some(launch) = self.record.launches.iter().find(|launch| run["pid"] == launch.process).cloned() else {
                // An agent that was killed before its first word, or whoever was to start it.
                let process = run["pid"].as_i64().and_then(|process| i32::try_from(process).ok());
                self.claim(!process.is_some_and(lives), || format!("no such agent is there: {run}"));
                continue;
            };
            let started = seconds(&run["started_at"]).unwrap_or_default();
            let is_so = (launch.asked_at - SLACK..=launch.began + SLACK).contains(&started);
            self.claim(is_so, || format!("it did not begin at that time ({launch:?}): {run}"));
            let ended = seconds(&run["ended_at"]);
            let Some(dead_at) = launch.dead_at else {
                self.claim(ended.is_none() && run["end"].is_null(), || format!("it has not ended: {run}"));
                continue;
            };
            match ended {
                None => self.claim(launch.is_orphan, || format!("it has ended, and who stood beside it lives: {run}")),
                Some(ended) => {
                    let least = if launch.is_orphan { started } else { launch.alive_at };
                    let is_so = (least - SLACK..=dead_at + SLACK).contains(&ended);
                    self.claim(is_so, || format!("it did not end at that time ({launch:?}): {run}"));
                    let is_so = has_ended_so(&launch, &run["end"]);
                    self.claim(is_so, || format!("it did not end so ({launch:?}): {run}"));
                }
            }
        }
        let ended = said.runs.iter().filter_map(|run| Some(seconds(&run["ended_at"])? - seconds(&run["started_at"])?));
        let (ended, count) = (ended.clone().sum::<f64>(), ended.count() as f64);
        let worked = said.listed["totals"]["active_seconds"].as_f64().unwrap_or_default();
        let is_so = worked <= ended + 1.0 && worked >= ended - count - 1.0;
        self.claim(is_so, || format!("it was worked in for {ended} s: {}", said.listed));
    }

    /// What waits for a person.
    fn review(&mut self, said: &Said) {
        let known: BTreeMap<&str, &Value> = said.checkpoints.iter().map(|one| (one["id"].as_str().unwrap(), one)).collect();
        let decided = self.record.decided.clone();
        let is_waiting = |checkpoint: &Value| match checkpoint["trigger"].as_str().unwrap_or_default() {
            "complete" => true,
            "error" => checkpoint["cause"] != "killed" && checkpoint["cause"] != "signal",
            _ => false,
        };
        let mut wanted = None;
        let mut next = said.listed["last_checkpoint"]["id"].as_str();
        let mut is_newest = true;
        while let Some(checkpoint) = next.and_then(|id| known.get(id).copied()) {
            next = checkpoint["parent"].as_str();
            if checkpoint["cause"] == "safety" {
                continue;
            }
            match decided.get(checkpoint["id"].as_str().unwrap()) {
                Some(true) => break,
                Some(false) if is_newest => wanted = Some("rejected"),
                // What builds on it waits.
                Some(false) => wanted = Some("pending"),
                None if is_waiting(checkpoint) => wanted = Some("pending"),
                None => {
                    is_newest = false;
                    continue;
                }
            }
            break;
        }
        let listed = said.listed["review"].as_str();
        self.claim(listed == wanted, || format!("{wanted:?} is its review ({decided:?}): {}", said.listed));
        for (id, is_approved) in &decided {
            let Some(checkpoint) = known.get(id.as_str()) else { continue };
            let status = if *is_approved { "approved" } else { "rejected" };
            self.claim(checkpoint["approval"]["status"] == status, || format!("{status} by a person: {checkpoint}"));
        }
    }

    fn numbers(&mut self, said: &Said) {
        let number = |name: &str| {
            let line = said.metrics.lines().find(|line| line.starts_with(&format!("{name} ")));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let observed = said.listed["observed"].as_str().unwrap();
        for state in ["none", "starting", "live", "idle", "waiting", "elsewhere", "unknown", "dead"] {
            let count = number(&format!("parhelia_sessions{{observed=\"{state}\"}}")).unwrap_or_default();
            let wanted = if state == observed { 1.0 } else { 0.0 };
            self.claim(count == wanted, || format!("{wanted} sessions are {state}: {}", said.metrics));
        }
        let needs = said.listed["needs"].as_str();
        for need in ["resume_failed", "left_alone", "failing", "waiting", "cut_off", "review"] {
            let count = number(&format!("parhelia_sessions_needing{{need=\"{need}\"}}"));
            let wanted = if needs == Some(need) { 1.0 } else { 0.0 };
            self.claim(count == Some(wanted), || format!("{wanted} sessions need {need}: {}", said.metrics));
        }
        let failing = if said.listed["failing"].is_null() { 0.0 } else { 1.0 };
        self.claim(number("parhelia_sessions_failing") == Some(failing), || format!("{failing} fail: {}", said.metrics));
        self.claim(number("parhelia_store_available") == Some(1.0), || format!("the store is there: {}", said.metrics));
        let age = number("parhelia_checkpoint_age_max_seconds").unwrap_or(-1.0);
        let made = seconds(&said.listed["last_checkpoint"]["created_at"]).unwrap_or_else(now);
        let most = if observed == "dead" { 0.0 } else { now() - made + SLACK };
        self.claim((0.0..=most).contains(&age), || format!("the last checkpoint is at most {most} s old: {}", said.metrics));
        // Its review is a need where nothing more urgent is.
        let has_review = !said.listed["review"].is_null();
        self.claim(!has_review || needs.is_some(), || format!("a review is needed: {}", said.listed));
    }

    /// Judges what the agent was told that was started last.
    pub fn judge_briefing(&mut self, before: &Files, turns: usize) {
        let begun = self.world.agent.log().into_iter().rev().find(|noted| noted.is("begun")).unwrap();
        if begun.text("source") == "resume" {
            told::judge(self, begun.text("told"), before, turns);
        }
    }
}

/// True if an agent may have ended as it is said.
fn has_ended_so(launch: &Launch, end: &Value) -> bool {
    let by = end["by"].as_str();
    let is_by = match by {
        Some(by) => launch.asked.contains(by),
        None => true,
    };
    let is_asked = !launch.asked.is_empty();
    is_by
        && match end["kind"].as_str().unwrap_or_default() {
            "exited" => launch.code.is_some() && end["code"].as_i64() == launch.code,
            "signalled" => match end["signal"].as_i64() {
                Some(9) => launch.is_killed,
                Some(15) => is_asked,
                _ => false,
            },
            "asked" => is_asked,
            "session_end" => launch.is_orphan && launch.hooks.contains("SessionEnd"),
            "unknown" => launch.is_orphan,
            _ => false,
        }
}

/// Files as a person reads them.
pub fn texts(files: &Files) -> String {
    let one = |(path, bytes): (&Vec<u8>, &Vec<u8>)| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        format!("{}={}", String::from_utf8_lossy(path), text.trim_start_matches('x'))
    };
    files.iter().map(one).collect::<Vec<_>>().join(", ")
}
