//! Editing a settings file's text: our entries alone change, everything else keeps its bytes and its order.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode},
};
use serde_json::Value;

use super::{
    command::is_ours,
    comments::blanked,
    matcher::MatcherGap,
    release::{Release, events},
};
use crate::{edited::EditOutcome, kind::Kind};

/// Puts an entry for each event that a release knows into a text; entries of ours that say something else are replaced, and those for other events are
/// taken out. Fails with what is wrong with the text.
pub(super) fn install(text: &str, command: &str, kind: Kind, release: Option<Release>) -> Result<EditOutcome, String> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let root = parse(text, kind)?;
    let settings = root.object_value().ok_or("it is no JSON object")?;
    let hooks = object_in(&settings, "hooks")?;
    for (event, timeout) in events(kind, release) {
        let groups = array_in(&hooks, event)?;
        let ours = entries(&groups).into_iter().filter(is_our_entry);
        let is_whole = |entry: &CstObject| MatcherGap::of(kind, event, &[&matcher_of(entry)]).is_none();
        let (whole, narrow): (Vec<CstObject>, Vec<CstObject>) = ours.partition(is_whole);
        let mut whole = whole.into_iter();
        match whole.next() {
            Some(entry) => set_entry(&entry, command, timeout),
            None => groups_append(&groups, command, timeout, kind.matcher(event)),
        }
        whole.chain(narrow).for_each(|entry| remove_entry(&entry));
    }
    let is_unknown = |name: &str| kind.events().iter().any(|(event, _)| *event == name) && !kind.knows_event(name, release);
    remove(&hooks, &is_unknown);
    finish(text, &root, kind)
}

/// Takes every entry of ours out of a text, and what only held such entries.
pub(super) fn uninstall(text: &str, kind: Kind) -> Result<EditOutcome, String> {
    if text.trim().is_empty() {
        return Ok(EditOutcome::Unchanged);
    }
    let root = parse(text, kind)?;
    let settings = root.object_value().ok_or("it is no JSON object")?;
    let Some(hooks) = settings.get("hooks") else { return Ok(EditOutcome::Unchanged) };
    let Some(events) = hooks.object_value() else { return Ok(EditOutcome::Unchanged) };
    if remove(&events, &|_| true) && events.properties().is_empty() {
        hooks.remove();
    }
    finish(text, &root, kind)
}

/// Takes our entries for some events out. True if there were any.
fn remove(events: &CstObject, is_meant: &dyn Fn(&str) -> bool) -> bool {
    let mut removed = false;
    for event in events.properties() {
        let name = event.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default();
        let Some(groups) = event.array_value().filter(|_| is_meant(&name)) else { continue };
        let ours: Vec<CstObject> = entries(&groups).into_iter().filter(is_our_entry).collect();
        if ours.is_empty() {
            continue;
        }
        removed = true;
        ours.iter().for_each(remove_entry);
        if groups.elements().is_empty() {
            event.remove();
        }
    }
    removed
}

/// The value of a text, as an agent reads its settings.
pub(super) fn value(text: &str, kind: Kind) -> Result<Value, serde_json::Error> {
    if kind.takes_comments() { serde_json::from_str(&blanked(text)) } else { serde_json::from_str(text) }
}

/// Strict JSON only, and comments where the agent takes them: what it would refuse must not be edited, lest it be thought to work.
fn parse(text: &str, kind: Kind) -> Result<CstRootNode, String> {
    let value = value(text, kind).map_err(|e| format!("it is not JSON: {e}"))?;
    if !value.is_object() {
        return Err("it is no JSON object".into());
    }
    let root = CstRootNode::parse(text, &ParseOptions::default()).map_err(|e| format!("it is not JSON: {e}"))?;
    let Some(settings) = root.object_value() else { return Err("it is no JSON object".into()) };
    unique(&settings, "hooks")?;
    if let Some(hooks) = settings.object_value("hooks") {
        for event in hooks.properties() {
            let name = event.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default();
            unique(&hooks, &name)?;
        }
    }
    Ok(root)
}

fn unique(object: &CstObject, name: &str) -> Result<(), String> {
    let is_it = |property: &jsonc_parser::cst::CstObjectProp| {
        property.name().and_then(|found| found.decoded_value().ok()).is_some_and(|found| found == name)
    };
    match object.properties().iter().filter(|property| is_it(property)).count() {
        0 | 1 => Ok(()),
        _ => Err(format!("it has '{name}' more than once")),
    }
}

fn object_in(object: &CstObject, name: &str) -> Result<CstObject, String> {
    object.object_value_or_create(name).ok_or_else(|| format!("its '{name}' is no object"))
}

fn array_in(object: &CstObject, name: &str) -> Result<CstArray, String> {
    object.array_value_or_create(name).ok_or_else(|| format!("its '{name}' is no list"))
}

/// All hooks of all groups of an event.
fn entries(groups: &CstArray) -> Vec<CstObject> {
    let groups = groups.elements();
    let lists = groups.iter().filter_map(CstNode::as_object).filter_map(|group| group.array_value("hooks"));
    lists.flat_map(|list| list.elements()).filter_map(|hook| hook.as_object()).collect()
}

fn text_of(entry: &CstObject, name: &str) -> Option<String> {
    entry.get(name)?.value()?.as_string_lit()?.decoded_value().ok()
}

fn is_our_entry(entry: &CstObject) -> bool {
    text_of(entry, "command").is_some_and(|command| is_ours(&command))
}

fn set_entry(entry: &CstObject, command: &str, timeout: u64) {
    if text_of(entry, "command").as_deref() != Some(command)
        && let Some(property) = entry.get("command")
    {
        property.set_value(CstInputValue::String(command.to_owned()));
    }
    let has_it = entry.get("timeout").and_then(|p| p.value()).is_some_and(|value| value.to_string() == timeout.to_string());
    match entry.get("timeout") {
        _ if has_it => {}
        Some(property) => property.set_value(CstInputValue::Number(timeout.to_string())),
        None => {
            entry.append("timeout", CstInputValue::Number(timeout.to_string()));
        }
    }
}

fn groups_append(groups: &CstArray, command: &str, timeout: u64, matcher: Option<&str>) {
    groups.ensure_multiline();
    let hooks = CstInputValue::Array(vec![CstInputValue::Object(vec![
        ("type".into(), CstInputValue::String("command".into())),
        ("command".into(), CstInputValue::String(command.to_owned())),
        ("timeout".into(), CstInputValue::Number(timeout.to_string())),
    ])]);
    let matcher = matcher.map(|matcher| ("matcher".into(), CstInputValue::String(matcher.to_owned())));
    groups.append(CstInputValue::Object(matcher.into_iter().chain([("hooks".into(), hooks)]).collect()));
}

/// The list that a hook is in, and the group with that list.
fn group_of(entry: &CstObject) -> (Option<CstArray>, Option<CstObject>) {
    let list = entry.parent().and_then(|parent| parent.as_array());
    let group = list.as_ref().and_then(|list| list.parent()?.as_object_prop()?.parent()?.as_object());
    (list, group)
}

/// The matcher of a hook's group; empty where it has none.
fn matcher_of(entry: &CstObject) -> String {
    group_of(entry).1.and_then(|group| text_of(&group, "matcher")).unwrap_or_default()
}

/// Removes a hook, and its group where that held nothing else.
fn remove_entry(entry: &CstObject) {
    let (list, group) = group_of(entry);
    entry.clone().remove();
    if let (Some(list), Some(group)) = (list, group)
        && list.elements().is_empty()
    {
        group.remove();
    }
}

/// The text, once it is certain that nothing but `hooks` means something else than before.
fn finish(before: &str, root: &CstRootNode, kind: Kind) -> Result<EditOutcome, String> {
    let text = root.to_string();
    if text == before {
        return Ok(EditOutcome::Unchanged);
    }
    let without_hooks = |text: &str| -> Result<Value, String> {
        let mut value = value(text, kind).map_err(|e| format!("editing it would break it: {e}"))?;
        value.as_object_mut().map(|settings| settings.shift_remove("hooks"));
        Ok(value)
    };
    match without_hooks(before)? == without_hooks(&text)? {
        true => Ok(EditOutcome::Changed(text)),
        false => Err("editing it would change more than its hooks".into()),
    }
}
