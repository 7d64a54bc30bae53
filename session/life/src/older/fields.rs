//! Fields of a JSON object that anybody may have written. A field of the wrong type is refused by its name.

use std::path::Path;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use parhelia_store::name::{self, NameExt as _};
use serde_json::{Map, Value};

use parhelia_host::{Error, Result};

/// The longest text of a field that goes into a record, in bytes.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 10;

/// The object of one file, or an object in it.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    file: &'a Path,
    /// The fields that lead to it, with a dot behind each.
    at: String,
    map: Option<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    /// The object that a file holds.
    pub(super) fn of(file: &'a Path, value: &'a Value) -> Result<Self> {
        let fields = Fields { file, at: String::new(), map: value.as_object() };
        match fields.map {
            Some(_) => Ok(fields),
            None => Err(fields.error(format!("it holds {}, where an object must be", kind(value)))),
        }
    }

    /// True if there is no such object.
    pub(super) fn is_absent(&self) -> bool {
        self.map.is_none()
    }

    /// Its fields that are known, by their names.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.map.into_iter().flatten().filter(|(_, value)| !value.is_null())
    }

    fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::Invalid(format!("cannot import {}: {why}", self.file.shown()))
    }

    /// The error that refuses a field.
    pub(super) fn refused(&self, name: &str, why: impl std::fmt::Display) -> Error {
        self.error(format!("its field {}{} {why}", name::printable(&self.at), name::printable(name)))
    }

    fn wrong(&self, name: &str, value: &Value, wanted: &str) -> Error {
        self.refused(name, format!("is {}, where {wanted} must be", kind(value)))
    }

    /// A field; none where it is absent or null.
    pub(super) fn value(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    /// An object; an absent one has no fields.
    pub(super) fn object(&self, name: &str) -> Result<Fields<'a>> {
        let at = format!("{}{name}.", self.at);
        match self.value(name) {
            None => Ok(Fields { file: self.file, at, map: None }),
            Some(Value::Object(map)) => Ok(Fields { file: self.file, at, map: Some(map) }),
            Some(other) => Err(self.wrong(name, other, "an object")),
        }
    }

    /// A list; an absent one is empty.
    pub(super) fn list(&self, name: &str) -> Result<&'a [Value]> {
        match self.value(name) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(self.wrong(name, other, "a list")),
        }
    }

    /// A list of objects.
    pub(super) fn objects(&self, name: &str) -> Result<Vec<Fields<'a>>> {
        let object = |(number, item): (usize, &'a Value)| match item {
            Value::Object(map) => Ok(Fields { file: self.file, at: format!("{}{name}.{number}.", self.at), map: Some(map) }),
            other => Err(self.wrong(&format!("{name}.{number}"), other, "an object")),
        };
        self.list(name)?.iter().enumerate().map(object).collect()
    }

    /// A list of texts.
    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        let text = |(number, item): (usize, &Value)| match item {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(&format!("{name}.{number}"), other, "a text")),
        };
        let Some(_) = self.value(name) else { return Ok(None) };
        self.list(name)?.iter().enumerate().map(text).collect::<Result<_>>().map(Some)
    }

    /// A text, however long.
    pub(super) fn long_text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, other, "a text")),
        }
    }

    /// A text. An empty one says nothing.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>> {
        match self.long_text(name)?.filter(|text| !text.is_empty()) {
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                Err(self.refused(name, format!("has {} bytes, and at most {TEXT_BYTES_MAX} are read", text.len())))
            }
            text => Ok(text.map(str::to_owned)),
        }
    }

    /// A whole number from 0.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| self.wrong(name, value, "a whole number from 0"))
    }

    /// A number from 0.
    pub(super) fn amount(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_f64().filter(|amount| *amount >= 0.0).map(Some).ok_or_else(|| self.wrong(name, value, "a number from 0"))
    }

    /// True or false.
    pub(super) fn truth(&self, name: &str) -> Result<Option<bool>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, value, "true or false"))
    }

    /// A time. One without a zone, as Python writes it, is taken for UTC.
    pub(super) fn time(&self, name: &str) -> Result<Option<Timestamp>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let civil = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
        let found = text.parse::<Timestamp>().ok().or_else(civil);
        found.map(Some).ok_or_else(|| self.refused(name, format!("is '{}', which is no time", name::printable(&text))))
    }
}

/// A value's kind, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.as_f64().is_some_and(|number| number < 0.0) => "a negative number",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
