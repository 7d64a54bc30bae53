//! GitHub, by its REST API (docs.github.com/rest/issues).

use jiff::SignedDuration;
use parhelia_host::config::channels::secret;
use parhelia_ledger::Issue;
use parhelia_oversight::review::link;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use ureq::http::Method;

use super::{Mark, Reach, State, Tracker, TrackerIssue};
use crate::http::{self, Answer, Call, Trouble};

/// Comments on a page, and issues that are looked at for a mark.
const PAGE: usize = 100;
/// Pages of comments that are looked at for a mark.
const PAGES_MAX: usize = 5;
/// Clocks differ by so much.
const SLACK: SignedDuration = SignedDuration::from_mins(10);

/// GitHub.
pub struct GitHub {
    api: String,
    authorization: String,
    insecure_loopback: bool,
}

/// An issue or a comment.
#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    number: u64,
    #[serde(default)]
    state: String,
    #[serde(default)]
    body: Option<String>,
    /// There of pull requests, which the API counts as issues.
    #[serde(default)]
    pull_request: Option<serde_json::Value>,
}

/// A comment that is to be added.
#[derive(Serialize)]
struct NewComment<'a> {
    body: &'a str,
}

/// A change of an issue's state.
#[derive(Serialize)]
struct Change {
    state: &'static str,
    state_reason: &'static str,
}

/// An issue that is to be created.
#[derive(Serialize)]
struct NewIssue<'a> {
    title: &'a str,
    body: &'a str,
}

impl GitHub {
    /// As configured. Fails without a token.
    pub fn of(reach: &Reach) -> Result<Self, Trouble> {
        let options = &reach.options.github;
        let token = secret(options.token.as_ref(), options.token_file.as_ref(), &|name| reach.variable(name));
        let token = token.map_err(Trouble::of_own)?.ok_or_else(|| Trouble::for_good("no token is configured any more"))?;
        Ok(GitHub {
            api: options.api.trim_end_matches('/').to_owned(),
            authorization: format!("Bearer {token}"),
            insecure_loopback: reach.options.insecure_loopback,
        })
    }

    fn call(&self, method: Method, path: &str, body: Option<&str>) -> Result<Answer, Trouble> {
        let headers = [
            ("Authorization", self.authorization.as_str()),
            ("Accept", "application/vnd.github+json"),
            ("X-GitHub-Api-Version", "2022-11-28"),
        ];
        let address = format!("{}{path}", self.api);
        let call = Call {
            insecure_loopback: self.insecure_loopback,
            method,
            address: &address,
            headers: &headers,
            body,
            limit: http::LIMIT,
        };
        let answer = http::call(&call)?;
        answer.judged().map_err(|trouble| explained(trouble, &answer))?;
        Ok(answer)
    }

    fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, Trouble> {
        parsed(&self.call(Method::GET, path, None)?)
    }

    fn write(&self, method: Method, path: &str, body: &impl Serialize) -> Result<Item, Trouble> {
        let body = serde_json::to_string(body).map_err(|e| Trouble::for_good(e.to_string()))?;
        parsed(&self.call(method, path, Some(&body))?)
    }

    /// True if a comment with a mark is there.
    fn has_comment(&self, place: &str, mark: &Mark) -> Result<bool, Trouble> {
        let since = (mark.since - SLACK).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        for page in 1..=PAGES_MAX {
            let found: Vec<Item> = self.read(&format!("{place}/comments?per_page={PAGE}&page={page}&since={since}"))?;
            if found.iter().any(|comment| bears(comment, mark)) {
                return Ok(true);
            }
            if found.len() < PAGE {
                break;
            }
        }
        Ok(false)
    }
}

impl Tracker for GitHub {
    fn get(&self, id: &str) -> Result<TrackerIssue, Trouble> {
        let found: Item = self.read(&place(id)?)?;
        Ok(TrackerIssue { id: found.number.to_string(), is_closed: found.state == "closed", state: found.state })
    }

    fn comment(&self, id: &str, text: &str, mark: &Mark) -> Result<(), Trouble> {
        let place = place(id)?;
        if self.has_comment(&place, mark)? {
            return Ok(());
        }
        self.write(Method::POST, &format!("{place}/comments"), &NewComment { body: &marked(text, mark) }).map(drop)
    }

    /// Closes the issue; there is no other state. A pull request, which would be lost unmerged, is left alone.
    fn set_state(&self, id: &str, state: State) -> Result<(), Trouble> {
        if state != State::Done {
            return Ok(());
        }
        let found: Item = self.read(&place(id)?)?;
        if found.state == "closed" || found.pull_request.is_some() {
            return Ok(());
        }
        self.write(Method::PATCH, &place(id)?, &Change { state: "closed", state_reason: "completed" }).map(drop)
    }

    fn create(&self, repository: &str, title: &str, text: &str, mark: &Mark) -> Result<Issue, Trouble> {
        let place = format!("/repos/{repository}/issues");
        let newest: Vec<Item> = self.read(&format!("{place}?state=all&sort=created&direction=desc&per_page={PAGE}"))?;
        let number = match newest.iter().find(|issue| bears(issue, mark)) {
            Some(known) => known.number,
            None => self.write(Method::POST, &place, &NewIssue { title, body: &marked(text, mark) })?.number,
        };
        link::parse(&format!("{repository}#{number}")).map_err(|e| Trouble::for_good(e.to_string()))
    }
}

fn bears(item: &Item, mark: &Mark) -> bool {
    item.body.as_ref().is_some_and(|body| body.contains(&hidden(mark)))
}

/// The mark, as a comment that nobody sees.
fn hidden(mark: &Mark) -> String {
    format!("<!-- parhelia:{} -->", mark.id)
}

fn marked(text: &str, mark: &Mark) -> String {
    format!("{text}\n\n{}\n", hidden(mark))
}

/// The path of `OWNER/REPO#12`.
fn place(id: &str) -> Result<String, Trouble> {
    let (repository, number) = id.split_once('#').ok_or_else(|| Trouble::for_good("its id is no OWNER/REPO#NUMBER"))?;
    Ok(format!("/repos/{repository}/issues/{number}"))
}

fn parsed<T: DeserializeOwned>(answer: &Answer) -> Result<T, Trouble> {
    serde_json::from_str(&answer.body).map_err(|_| Trouble::for_now("its answer is not what GitHub answers"))
}

/// The next step for a refusal.
fn explained(trouble: Trouble, answer: &Answer) -> Trouble {
    let next = match answer.status {
        401 => "the token is not valid: set a new one",
        403 | 429 if !trouble.is_for_good => "too many requests",
        // The second limit, which bounds the creation of content, may come without a header.
        403 if answer.body.contains("rate limit") => {
            let why = format!("{}: too many requests", trouble.why);
            return Trouble { after: Some(std::time::Duration::from_secs(60)), ..Trouble::for_now(why) };
        }
        403 => "the token may not do that: give it write access to issues",
        404 => "there is no such issue or repository, or the token does not see it",
        410 => "the issue was deleted, or the repository has no issues",
        422 => "GitHub does not take it",
        _ => return trouble,
    };
    Trouble { why: format!("{}: {next}", trouble.why), ..trouble }
}
