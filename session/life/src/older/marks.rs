//! Tags, annotations and links of an older checkpoint, as events of the new one. An approval is none of them: who approved it there has
//! not seen it here, so the record alone says what the manifest said.

use parhelia_ledger::kind::{self, LINK_ASKED};
use parhelia_store::{
    event::{Actor, NewEvent},
    name,
};

use super::fields::Fields;
use parhelia_host::Result;
use parhelia_oversight::review::{annotation::Text, link, tag::Tag};

/// Most statements of a manifest.
const MARKS_MAX: usize = 1_000;

/// The statements of a manifest, without their subject, and a sentence about each that cannot be made here.
pub(super) fn read(fields: &Fields<'_>) -> Result<(Vec<NewEvent>, Vec<String>)> {
    let (mut events, mut left) = (Vec::new(), Vec::new());
    let event = |kind: &str| NewEvent::new(kind, "", Actor::program("import"));
    for tag in fields.texts("tags")?.unwrap_or_default() {
        match tag.parse::<Tag>() {
            Ok(tag) => events.push(event(kind::CHECKPOINT_TAGGED).with("tag", tag.as_str())),
            Err(why) => left.push(why.to_string()),
        }
    }
    for told in fields.objects("annotations")? {
        let Some(text) = annotation(&told)? else { continue };
        match Text::new(&text) {
            Ok(text) => events.push(event(kind::CHECKPOINT_ANNOTATED).with("text", text.as_str())),
            Err(why) => left.push(why.to_string()),
        }
    }
    for told in fields.objects("linked_issues")? {
        let Some(url) = told.text("url")?.or(told.text("id")?) else { continue };
        match link::parse(&url) {
            Ok(issue) => {
                let linked = event(kind::CHECKPOINT_LINKED).with(LINK_ASKED, true).with("tracker", issue.tracker);
                events.push(linked.with("id", issue.id).with("url", issue.url));
            }
            Err(why) => left.push(why.to_string()),
        }
    }
    match events.len() + left.len() > MARKS_MAX {
        true => Err(fields.refused("annotations", format!("and tags and links are more than {MARKS_MAX}"))),
        false => Ok((events, left)),
    }
}

/// The text of an annotation, and who has written it there and when: the event's own author and time are those of the import.
fn annotation(told: &Fields<'_>) -> Result<Option<String>> {
    let Some(text) = told.long_text("text")? else { return Ok(None) };
    let author = told.text("user")?.map(|user| name::printable(&user).into_owned());
    let at = told.time("timestamp")?.map(|at| at.to_string());
    let by = [author, at].into_iter().flatten().collect::<Vec<_>>().join(", ");
    Ok(Some(if by.is_empty() { text.to_owned() } else { format!("{}\n— {by}", text.trim_end()) }))
}
