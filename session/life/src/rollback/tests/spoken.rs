//! Conversations that go back with the files.

use std::{fs, path::PathBuf};

use parhelia_store::record::{Checkpoint, Trigger};
use serde_json::json;

use super::{Fixture, actor, fixture, wanted};
use crate::{
    checkpoint::{CheckpointRequest, Conversation, make},
    rollback::{ConversationEffect, Options, RollbackRequest, execute, last, look},
};
use parhelia_agent::kinds::KINDS;
use parhelia_host::config::Config;
use parhelia_session_testing::NOBODY;

const ID: &str = "11111111-2222-4333-8444-555555555555";
const OTHER: &str = "11111111-2222-4333-8444-666666666666";

fn config(f: &Fixture) -> PathBuf {
    f.workspace.with_file_name("claude")
}

fn transcript(f: &Fixture) -> PathBuf {
    KINDS[0].place(&config(f), &f.workspace, ID)
}

/// A conversation that consists of these prompts, with their answers.
fn say(f: &Fixture, prompts: &[&str]) {
    let path = transcript(f);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let record = |number: usize, role: &str, text: &str| {
        let content = if role == "user" { json!(text) } else { json!([{ "type": "text", "text": text }]) };
        let message =
            json!({ "id": format!("m{number}"), "role": role, "model": "m", "content": content, "stop_reason": "end_turn" });
        let uuid = format!("{role}-{number}");
        format!("{}\n", json!({ "type": role, "uuid": uuid, "sessionId": ID, "cwd": f.workspace, "message": message }))
    };
    let turn = |(number, prompt): (usize, &&str)| record(number, "user", prompt) + &record(number, "assistant", "done");
    fs::write(path, prompts.iter().enumerate().map(turn).collect::<String>()).unwrap();
}

fn made(f: &Fixture, settings: &Config) -> Checkpoint {
    let request = CheckpointRequest {
        trigger: Trigger::Manual,
        conversation: Conversation::Of { config: config(f), id: ID.into() },
        thins: false,
        ..CheckpointRequest::new("s", &f.workspace, settings)
    };
    make(&f.store, &NOBODY, &request, &()).unwrap().outcome.checkpoint
}

fn speaks(f: &Fixture, id: &str) {
    f.store.append_events(&[parhelia_host::conversation::seen(id, "s", None, None, actor())], &()).unwrap();
    f.store.refresh().unwrap();
}

#[test]
fn a_conversation_goes_back_and_forth_with_the_files() {
    let f = fixture();
    let settings = Config::default();
    say(&f, &["one"]);
    let first = made(&f, &settings);
    speaks(&f, ID);
    let to = |target| RollbackRequest { config: Some(config(&f)), ..wanted(target, &settings) };
    let looked = look(&f.store, &to(&first)).unwrap();
    let same =
        ConversationEffect { turns: Some(1), turns_then: 1, prompt_then: Some("one".into()), ..ConversationEffect::default() };
    assert_eq!(looked.spoken(&f.store, &first).unwrap(), Some(same.clone()));
    assert_eq!(looked.shown(), f.workspace.to_str().unwrap());
    say(&f, &["one", "two", "three"]);
    let looked = look(&f.store, &to(&first)).unwrap();
    assert_eq!(looked.conversation, Some((ID.to_owned(), config(&f))));
    let newer = ConversationEffect { turns: Some(3), prompt: Some("three".into()), ..same.clone() };
    assert_eq!(looked.spoken(&f.store, &first).unwrap(), Some(newer));
    let done = execute(&f.store, &looked, &to(&first), None, &()).unwrap();
    let said = || fs::read_to_string(transcript(&f)).unwrap();
    assert!(done.with_conversation && done.moved.len() == 1 && !said().contains("two"), "{done:?}");
    let undone = last(&f.session()).unwrap();
    assert_eq!((undone.with_conversation, undone.conversation.as_deref()), (true, Some(ID)));
    let safety = f.store.view().checkpoint(done.safety).unwrap().unwrap();
    let forth = look(&f.store, &to(&safety)).unwrap();
    execute(&f.store, &forth, &to(&safety), Some(&undone), &()).unwrap();
    assert!(said().contains("three"));
    // The session is in another conversation by now.
    speaks(&f, OTHER);
    fs::remove_file(transcript(&f)).unwrap();
    let looked = look(&f.store, &to(&first)).unwrap();
    assert_eq!(looked.spoken(&f.store, &first).unwrap(), Some(ConversationEffect { turns: None, is_another: true, ..same }));
    execute(&f.store, &looked, &to(&first), None, &()).unwrap();
    let current = || f.session().conversations.last().unwrap().id.clone();
    assert!(said().contains("one") && !said().contains("two") && current() == ID, "{}", current());
    // With the files alone neither goes back.
    let alone =
        look(&f.store, &RollbackRequest { options: Options { files_only: true, ..Options::default() }, ..to(&safety) }).unwrap();
    assert_eq!((alone.conversation.is_none(), alone.spoken(&f.store, &safety).unwrap()), (true, None));
}
