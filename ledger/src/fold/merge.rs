//! Setting the fields of a value by their names.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The value with the fields that `data` names set, but for `fixed` ones. Objects are merged, so that a part of one can be set.
/// Fails with what does not fit.
pub(super) fn merged<T: Serialize + DeserializeOwned>(value: &T, data: &Map<String, Value>, fixed: &[&str]) -> Result<T, String> {
    let mut object = match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        Ok(_) => Map::new(),
        Err(e) => return Err(e.to_string()),
    };
    for (name, new) in data.iter().filter(|(name, _)| !fixed.contains(&name.as_str())) {
        merge(object.entry(name.clone()).or_insert(Value::Null), new);
    }
    serde_json::from_value(Value::Object(object)).map_err(|e| e.to_string())
}

fn merge(old: &mut Value, new: &Value) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, value) in new {
                merge(old.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (old, new) => *old = new.clone(),
    }
}
