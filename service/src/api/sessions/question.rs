//! Questions of agents, and answers that are typed into their terminals.

use axum::{
    Extension, Json,
    extract::State,
    routing::{get, post},
};
use parhelia_host::Result;
use parhelia_ledger::LedgerView as _;
use parhelia_life::answer::{self, Question};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{One, of};
use crate::{
    api::{
        extract::{JsonBody, PathParameters},
        operation::{Answer, Operation},
        warnings::Warnings,
    },
    app::{App, work},
    caller::{Caller, Peer},
};

/// A question of an agent, or a permission that it asks for.
#[derive(Debug, Serialize, JsonSchema)]
struct AgentQuestion {
    /// Name of the question and of what the pane shows, for the answer.
    question: String,
    /// Thing that it waits for, if it says so.
    waits_for: Option<String>,
    /// Text that its pane of tmux shows.
    screen: String,
}

/// An answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuestionReply {
    /// The question that is answered, as it was shown: if the pane shows something else by now, nothing is typed.
    question: String,
    /// A text, which is pasted first.
    text: Option<String>,
    /// Keys, which are typed behind it: a digit, a letter, or Enter, Escape, Tab, BTab, Space, BSpace, Up, Down, Left, Right.
    #[serde(default)]
    keys: Vec<String>,
}

/// The operation that shows a question.
pub fn question_operation() -> Operation {
    Operation::get(
        "/v1/sessions/{session}/question",
        "getQuestion",
        "What the agent of a session asks a person: the text of its pane of tmux. 409 if it does not wait for an answer.",
        get(question),
    )
    .gives::<AgentQuestion>()
    .with_problem(409)
}

/// The operation that answers it.
pub fn answer_operation() -> Operation {
    Operation::post(
        "/v1/sessions/{session}/answer",
        "answerQuestion",
        "Answers what the agent of a session asks, by typing into its pane of tmux. No agent may.",
        post(answer),
    )
    .takes::<QuestionReply>()
    .gives::<One>()
}

async fn question(State(app): State<App>, PathParameters(name): PathParameters<String>) -> Answer<AgentQuestion> {
    work(&app, move |app| {
        let session = app.store.refresh()?.session_named(&name)?;
        let Question { waits_for, screen, id } = answer::question(&app.store, &session)?;
        Ok(Json(AgentQuestion { question: id, waits_for, screen }))
    })
    .await
}

async fn answer(
    State(app): State<App>,
    Extension(peer): Extension<Peer>,
    PathParameters(name): PathParameters<String>,
    JsonBody(given): JsonBody<QuestionReply>,
) -> Answer<One> {
    let keys = given.keys.iter().map(|key| key.parse()).collect::<Result<Vec<answer::Key>>>()?;
    let typed = answer::Answer { text: given.text, keys };
    work(&app, move |app| {
        let caller = Caller { service: &*app.host, store: &app.store, peer };
        let session = app.store.refresh()?.session_named(&name)?;
        let warnings = Warnings::default();
        answer::answer(&app.store, &caller, &session, (&given.question, &typed), &warnings)?;
        Ok(Json(One { session: of(&app.store, &*app.store.refresh()?, &session.id)?, warnings: warnings.said() }))
    })
    .await
}
