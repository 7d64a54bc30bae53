//! The schema as a page of the documentation: `docs/json-reference.md`.

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

/// The page, in Markdown: lines by type, then summaries by verb, then the objects in them.
pub fn reference() -> String {
    let schema = crate::schema();
    let mut page = Page { schema: &schema, text: HEAD.into(), wanted: VecDeque::new(), told: BTreeSet::new() };
    page.text.push_str("\n## Lines, by `type`\n");
    page.variants(&schema, "type", &["summary"]);
    page.text.push_str("\n## Summaries, by `verb`\n\nEach has `type` (`summary`) and `verb`.\n");
    page.variants(&schema["$defs"]["Summary"], "verb", &[]);
    page.text.push_str("\n## Objects in other objects\n");
    while let Some(name) = page.wanted.pop_front() {
        if page.told.insert(name.clone()) {
            let object = &schema["$defs"][&name];
            page.section(&name, &name, &text_of(object), &[object]);
        }
    }
    page.text
}

const HEAD: &str = "# The objects of `--json`

Every field of every object, as the [JSON Schema](json.schema.json) has it, from which this page is made. [json.md](json.md) has the contract.
A field that is marked with `?` is left out where it has no value; others are then null, where their type says so.
";

struct Page<'a> {
    schema: &'a Value,
    text: String,
    /// Objects that fields refer to.
    wanted: VecDeque<String>,
    told: BTreeSet<String>,
}

impl<'a> Page<'a> {
    /// A section for each variant of a schema of objects that a field tells apart.
    fn variants(&mut self, schema: &'a Value, tag: &str, without: &[&str]) {
        for variant in schema["oneOf"].as_array().into_iter().flatten() {
            let name = variant["properties"][tag]["const"].as_str().unwrap_or_default();
            if !without.contains(&name) {
                let inner = variant["$ref"].as_str().map(|path| self.definition(path));
                let objects: Vec<&Value> = [variant].into_iter().chain(inner).collect();
                self.section(&format!("`{name}`"), tag, &text_of(variant), &objects);
            }
        }
    }

    fn definition(&self, path: &str) -> &'a Value {
        &self.schema["$defs"][path.rsplit('/').next().unwrap_or_default()]
    }

    /// A heading, and a table of the fields of objects that are one together.
    fn section(&mut self, heading: &str, tag: &str, about: &str, objects: &[&'a Value]) {
        self.text.push_str(&format!("\n### {heading}\n\n{about}\n"));
        let mut rows = String::new();
        for object in objects {
            self.rows(object, tag, false, &mut rows);
        }
        if !rows.is_empty() {
            self.text.push_str(&format!("\n| field | type | meaning |\n|---|---|---|\n{rows}"));
        }
    }

    /// Rows for the fields of an object, and of those that are part of it.
    fn rows(&mut self, object: &'a Value, tag: &str, all_optional: bool, rows: &mut String) {
        let required: Vec<&str> = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, field) in object["properties"].as_object().into_iter().flatten() {
            if name == tag {
                continue;
            }
            let mark = if all_optional || !required.contains(&name.as_str()) { "?" } else { "" };
            let row = format!("| `{name}`{mark} | {} | {} |\n", self.type_of(field), text_of(field));
            rows.push_str(&row);
        }
        // Parts that stand in the object itself; those that may be missing are one of several alternatives.
        for part in object["allOf"].as_array().into_iter().flatten().chain(object["anyOf"].as_array().into_iter().flatten()) {
            let is_optional = all_optional || object["anyOf"].is_array();
            match part["$ref"].as_str() {
                Some(path) => self.rows(self.definition(path), tag, is_optional, rows),
                None => self.rows(part, tag, is_optional, rows),
            }
        }
    }

    /// A field's type in words.
    fn type_of(&mut self, field: &'a Value) -> String {
        if let Some(path) = field["$ref"].as_str() {
            let name = path.rsplit('/').next().unwrap_or_default();
            self.wanted.push_back(name.to_owned());
            return format!("[{name}](#{})", name.to_lowercase());
        }
        if let Some(options) = field["anyOf"].as_array() {
            return options.iter().map(|option| self.type_of(option)).collect::<Vec<_>>().join(" or ");
        }
        match &field["type"] {
            Value::String(name) if name == "array" => format!("list of {}", self.type_of(&field["items"])),
            Value::String(name) if name == "object" && field["additionalProperties"]["$ref"].is_string() => {
                format!("map of names to {}", self.type_of(&field["additionalProperties"]))
            }
            Value::String(name) => name.clone(),
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
            _ => "any".into(),
        }
    }
}

/// A description, in one line: a row of a table has no more.
fn text_of(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().replace('\n', " ")
}
