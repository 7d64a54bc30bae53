//! Linear, by its GraphQL API (linear.app/developers/graphql).
//!
//! Comments and issues are created under ids that follow from their marks: what is there already is found by its id, and Linear does not
//! take an id twice. A mark in the text would not do, as Linear's editor drops comments of HTML.

use std::time::Duration;

use parhelia_host::config::{channels::secret, integrations::States};
use parhelia_ledger::Issue;
use parhelia_oversight::review::link;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use ureq::http::Method;
use uuid::{Builder, Uuid};

use super::{Mark, Reach, State, Tracker, TrackerIssue};
use crate::{
    http::{self, Call, Trouble},
    notify::text::field,
};

/// The pause where it does not say how long to wait.
const PAUSE: Duration = Duration::from_secs(60);

const ISSUE: &str = "query($id: String!) { issue(id: $id) { id state { name type } team { id } } }";
const COMMENTS: &str =
    "query($issue: String!, $id: ID!) { issue(id: $issue) { comments(filter: { id: { eq: $id } }) { nodes { id } } } }";
const COMMENT: &str = "mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success } }";
const STATES: &str = "query($team: ID!, $name: String!) { workflowStates(filter: { team: { id: { eq: $team } }, \
                      name: { eqIgnoreCase: $name } }) { nodes { id } } }";
const UPDATE: &str = "mutation($id: String!, $input: IssueUpdateInput!) { issueUpdate(id: $id, input: $input) { success } }";
const TEAMS: &str = "query($key: String!) { teams(filter: { key: { eq: $key } }) { nodes { id } } }";
const ISSUES: &str = "query($id: ID!) { issues(filter: { id: { eq: $id } }) { nodes { url } } }";
const CREATE: &str = "mutation($input: IssueCreateInput!) { issueCreate(input: $input) { success issue { url } } }";

/// Access to Linear with one API key.
pub struct Linear<'a> {
    api: &'a str,
    authorization: String,
    states: &'a States,
    insecure_loopback: bool,
}

#[derive(Serialize)]
struct Query<'a> {
    query: &'a str,
    variables: Value,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Value>,
    #[serde(default)]
    errors: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    #[serde(default)]
    message: String,
    #[serde(default)]
    extensions: Value,
}

/// An issue with its team.
struct LinearIssue {
    id: String,
    team: String,
    state: String,
    is_closed: bool,
}

impl<'a> Linear<'a> {
    /// As configured. Fails without a key.
    pub fn of(reach: &Reach<'a>) -> Result<Self, Trouble> {
        let options = &reach.options.linear;
        let key = secret(options.api_key.as_ref(), options.api_key_file.as_ref(), &|name| reach.variable(name));
        let key = key.map_err(Trouble::of_own)?.ok_or_else(|| Trouble::for_good("no API key is configured any more"))?;
        // Keys of persons stand alone; tokens of OAuth do not.
        let authorization = if key.starts_with("lin_oauth") { format!("Bearer {key}") } else { key };
        let insecure_loopback = reach.options.insecure_loopback;
        Ok(Linear { api: &options.api, authorization, states: &reach.options.states, insecure_loopback })
    }

    fn ask(&self, query: &str, variables: Value) -> Result<Value, Trouble> {
        let body = serde_json::to_string(&Query { query, variables }).map_err(|e| Trouble::for_good(e.to_string()))?;
        let headers = [("Authorization", self.authorization.as_str())];
        let answer = http::call(&Call {
            insecure_loopback: self.insecure_loopback,
            method: Method::POST,
            address: self.api,
            headers: &headers,
            body: Some(&body),
            limit: http::LIMIT,
        })?;
        let read = serde_json::from_str::<Answer>(&answer.body).ok();
        if let Some(fault) = read.as_ref().and_then(|read| read.errors.first()) {
            return Err(trouble(fault, answer.status, answer.wait).without(&self.authorization));
        }
        answer.judged()?;
        read.and_then(|read| read.data).ok_or_else(|| Trouble::for_now("its answer is not what Linear answers"))
    }

    fn find(&self, key: &str) -> Result<LinearIssue, Trouble> {
        let data = self.ask(ISSUE, json!({ "id": key }))?;
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let missing = || Trouble::for_good("there is no such issue, or the key does not see it");
        let kind = text("/issue/state/type").unwrap_or_default();
        Ok(LinearIssue {
            id: text("/issue/id").ok_or_else(missing)?,
            team: text("/issue/team/id").ok_or_else(missing)?,
            state: text("/issue/state/name").unwrap_or_default(),
            is_closed: matches!(kind.as_str(), "completed" | "canceled" | "duplicate"),
        })
    }

    fn first(&self, query: &str, variables: Value, pointer: &str) -> Result<Option<String>, Trouble> {
        let data = self.ask(query, variables)?;
        Ok(data.pointer(pointer).and_then(Value::as_str).map(str::to_owned))
    }
}

impl Tracker for Linear<'_> {
    fn get(&self, id: &str) -> Result<TrackerIssue, Trouble> {
        let LinearIssue { id, state, is_closed, .. } = self.find(id)?;
        Ok(TrackerIssue { id, state, is_closed })
    }

    fn comment(&self, id: &str, text: &str, mark: &Mark) -> Result<(), Trouble> {
        let new = own_id(mark)?;
        let known = self.first(COMMENTS, json!({ "issue": id, "id": new }), "/issue/comments/nodes/0/id")?;
        if known.is_some() {
            return Ok(());
        }
        let issue = self.find(id)?;
        self.ask(COMMENT, json!({ "input": { "id": new, "issueId": issue.id, "body": text } })).map(drop)
    }

    fn set_state(&self, id: &str, state: State) -> Result<(), Trouble> {
        let (option, name) = match state {
            State::Running => ("running", &self.states.running),
            State::Review => ("review", &self.states.review),
            State::Done => ("done", &self.states.done),
            State::Failed => return Ok(()),
        };
        let issue = self.find(id)?;
        if issue.is_closed || issue.state.eq_ignore_ascii_case(name) {
            return Ok(());
        }
        let found = self.first(STATES, json!({ "team": issue.team, "name": name }), "/workflowStates/nodes/0/id")?;
        let missing = || Trouble::for_good(format!("its team has no state '{name}': set integrations.states.{option}"));
        let input = json!({ "stateId": found.ok_or_else(missing)? });
        self.ask(UPDATE, json!({ "id": issue.id, "input": input })).map(drop)
    }

    fn create(&self, team: &str, title: &str, text: &str, mark: &Mark) -> Result<Issue, Trouble> {
        let new = own_id(mark)?;
        let url = match self.first(ISSUES, json!({ "id": new }), "/issues/nodes/0/url")? {
            Some(url) => url,
            None => {
                let found = match Uuid::try_parse(team) {
                    Ok(id) => Some(id.to_string()),
                    Err(_) => self.first(TEAMS, json!({ "key": team }), "/teams/nodes/0/id")?,
                };
                let missing = || Trouble::for_good(format!("there is no team {team}: set integrations.linear.default_team"));
                let input = json!({ "id": new, "teamId": found.ok_or_else(missing)?, "title": title, "description": text });
                let url = self.first(CREATE, json!({ "input": input }), "/issueCreate/issue/url")?;
                url.ok_or_else(|| Trouble::for_now("its answer names no issue"))?
            }
        };
        let issue = link::parse(&url).map_err(|e| Trouble::for_good(e.to_string()))?;
        // Whoever answers does not choose another tracker.
        match issue.tracker == "linear" {
            true => Ok(issue),
            false => Err(Trouble::for_good("its answer names an issue that is not Linear's")),
        }
    }
}

/// The id that follows from a mark: a UUID of version 4, as Linear wants them.
fn own_id(mark: &Mark) -> Result<String, Trouble> {
    let bytes = Uuid::try_parse(mark.id).map_err(|_| Trouble::for_good("its delivery has no mark"))?.into_bytes();
    Ok(Builder::from_random_bytes(bytes).into_uuid().to_string())
}

fn trouble(fault: &Fault, status: u16, wait: Option<Duration>) -> Trouble {
    let code = fault.extensions.get("code").and_then(Value::as_str).unwrap_or_default();
    let why = format!("Linear says: {}", field(&fault.message));
    match code {
        "RATELIMITED" => Trouble { after: wait.or(Some(PAUSE)), ..Trouble::for_now(why) },
        "AUTHENTICATION_ERROR" => Trouble::for_good(format!("{why}; the API key is not valid: set a new one")),
        "INTERNAL_SERVER_ERROR" | "TIMEOUT" => Trouble::for_now(why),
        _ if status >= 500 => Trouble::for_now(why),
        _ => Trouble::for_good(why),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn an_id_follows_from_the_mark_and_is_one_of_version_4() {
        let mark = Mark { id: "00112233445566778899aabbccddeeff", since: Timestamp::UNIX_EPOCH };
        assert_eq!(own_id(&mark).unwrap(), "00112233-4455-4677-8899-aabbccddeeff");
    }

    #[test]
    fn refusals_are_told_from_what_passes() {
        let of = |code: &str, status| {
            let fault = Fault { message: "m".into(), extensions: json!({ "code": code }) };
            trouble(&fault, status, None)
        };
        assert_eq!(of("RATELIMITED", 400).after, Some(PAUSE));
        assert!(of("AUTHENTICATION_ERROR", 401).is_for_good && of("INPUT_ERROR", 200).is_for_good);
        assert!(!of("", 502).is_for_good);
    }
}
