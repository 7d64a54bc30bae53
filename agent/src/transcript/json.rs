//! A lenient view of JSON objects: values stay raw until they are asked for, so that a field of an unexpected type costs that field
//! alone, and what nobody asks for is never built.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// A JSON string, borrowed where it has no escapes.
#[derive(Deserialize)]
struct Str<'a>(#[serde(borrow)] Cow<'a, str>);

/// The fields of an object, in their order.
#[derive(Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Deserialize<'a> for Object<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'a> Visitor<'a> for Fields {
            type Value = Object<'a>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Object<'a>, A::Error> {
                let mut fields = Vec::with_capacity(16);
                while let Some((Str(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'a> Object<'a> {
    /// Of a line's bytes; none where they are no JSON object.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Of a raw value; none where it is no object.
    pub fn of(raw: &'a RawValue) -> Option<Self> {
        raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
    }

    /// A field; of several of one name the last, as the agent's own parser takes it.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    /// The fields that are text.
    pub fn texts(&self) -> impl Iterator<Item = (&str, Cow<'a, str>)> {
        self.0.iter().filter_map(|(name, value)| Some((name.as_ref(), text(value)?)))
    }

    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    /// A field as text of at most so many bytes; a longer one counts as absent.
    pub fn name(&self, name: &str, bytes_max: usize) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty() && text.len() <= bytes_max).map(Cow::into_owned)
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|raw| raw.get() == "true")
    }

    pub fn is_null_or_absent(&self, name: &str) -> bool {
        self.get(name).is_none_or(|raw| raw.get() == "null")
    }

    pub fn count(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(|raw| raw.get().parse().ok())
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(|raw| raw.get().parse().ok()).filter(|number: &f64| number.is_finite())
    }

    pub fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name).and_then(Object::of)
    }

    pub fn list(&self, name: &str) -> Vec<&'a RawValue> {
        self.get(name).map(list).unwrap_or_default()
    }
}

/// The elements of a list; none of what is no list.
pub(crate) fn list(raw: &RawValue) -> Vec<&RawValue> {
    if !raw.get().starts_with('[') {
        return Vec::new();
    }
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// A string; none for other values. Half a surrogate pair, as it is left where a program cuts its output in the middle of a
/// character, becomes U+FFFD.
pub(crate) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    let raw = raw.get();
    if !raw.starts_with('"') {
        return None;
    }
    match serde_json::from_str::<Str>(raw) {
        Ok(Str(text)) => Some(text),
        Err(_) => serde_json::from_str(&without_half_pairs(raw)).ok().map(Cow::Owned),
    }
}

fn without_half_pairs(raw: &str) -> String {
    let unit = |at: usize| {
        let escape = raw.get(at..at + 6).and_then(|text| text.strip_prefix("\\u"));
        escape.and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let (mut out, mut at) = (String::with_capacity(raw.len()), 0);
    while let Some(next) = raw[at..].find('\\').map(|found| at + found) {
        out.push_str(&raw[at..next]);
        let (kept, bytes) = match unit(next) {
            Some(0xd800..=0xdbff) if matches!(unit(next + 6), Some(0xdc00..=0xdfff)) => (&raw[next..next + 12], 12),
            Some(0xd800..=0xdfff) => ("\u{fffd}", 6),
            // An escaped character may be of several bytes in what is no JSON; the parser says so.
            _ => {
                let bytes = 1 + raw[next + 1..].chars().next().map_or(0, char::len_utf8);
                (&raw[next..next + bytes], bytes)
            }
        };
        out.push_str(kept);
        at = next + bytes;
    }
    out.push_str(&raw[at..]);
    out
}

/// The beginning of a text, of at most so many bytes, cut between characters.
pub(crate) fn clipped(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max.min(text.len()))]
}

/// The end of a text, of at most so many bytes, cut between characters.
pub(crate) fn end_of(text: &str, bytes_max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_looked_at_one_by_one() {
        let object = Object::parse(br#" {"a":"x","b":5,"a":"y","c":[1,"z"],"d":{"e":null},"f":true,"g":1.5} "#).unwrap();
        assert_eq!(object.text("a").as_deref(), Some("y"));
        assert_eq!(object.text("b"), None);
        assert_eq!(object.count("b"), Some(5));
        assert_eq!(object.count("g"), None);
        assert_eq!(object.number("g"), Some(1.5));
        assert_eq!(object.list("c").len(), 2);
        assert!(object.list("a").is_empty() && object.object("c").is_none());
        assert!(object.object("d").unwrap().is_null_or_absent("e") && object.is_true("f") && !object.is_true("a"));
        for bad in ["", "[]", "5", "{", "{\"a\":}", "{\"a\":1}x"] {
            assert!(Object::parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn half_a_surrogate_pair_does_not_lose_the_text() {
        let parsed = |json: &str| Object::parse(json.as_bytes()).and_then(|o| o.text("t").map(Cow::into_owned));
        assert_eq!(parsed(r#"{"t":"a\ud83d"}"#).as_deref(), Some("a\u{fffd}"));
        assert_eq!(parsed(r#"{"t":"\ude00\ud83d\ude00\\ud83d\n"}"#).as_deref(), Some("\u{fffd}😀\\ud83d\n"));
        assert_eq!(parsed(r#"{"t":"\ud83d\u0041"}"#).as_deref(), Some("\u{fffd}A"));
        assert_eq!(parsed("{\"t\":\"\\ud83d\\\u{e9}\"}"), None);
    }

    #[test]
    fn depth_is_bounded() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let _ = Object::parse(deep.as_bytes());
        assert!(clipped("aé", 2) == "a" && clipped("ab", 9) == "ab");
        assert!(end_of("éa", 2) == "a" && end_of("ab", 9) == "ab");
    }
}
