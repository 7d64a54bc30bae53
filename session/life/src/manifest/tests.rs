use parhelia_store::keys::Ids;

use super::*;

fn checkpoint() -> Checkpoint {
    let record = json!({
        "schema": 1, "id": "01KAN7000000000000000000AB", "session": "demo", "run": null, "epoch": 0, "parent": null, "depth": 1,
        "trigger": "manual", "trigger_detail": null, "message": "first", "root": "11".repeat(32), "links": null,
        "parts": {"workspace": {"status": "captured"}}, "consistency": "unknown",
        "started_at": "2026-01-16T14:35:00Z", "created_at": "2026-01-16T14:35:01.5Z",
        "workspace": {"path": "/w", "files": 2, "folders": 1, "entries": 3, "bytes": 12},
        "rules": {"defaults": true}, "omitted": {"table": "22".repeat(32), "excluded": 1, "unreadable": 2, "changing": 0},
        "conversation": {"turn_count": 15}, "git": {"branch": "main", "uncommitted_files": ["a"]},
        "environment": {"python_version": "3.13"}, "usage": null, "later": {"kept": true}
    });
    Checkpoint::decode(7, record.to_string(), &Ids::default()).unwrap()
}

fn marks() -> Marks {
    serde_json::from_value(json!({
        "tags": ["milestone/v1.0"],
        "annotations": [{"timestamp": "2026-01-16T15:00:00Z", "user": "ann", "text": "works"},
                        {"timestamp": "2026-01-16T15:00:01Z", "user": null, "text": "still"}],
        "links": [{"tracker": "github", "id": "o/r#1", "url": "https://github.com/o/r/issues/1"}],
        "approval": {"status": "auto_approved", "user": null, "timestamp": "2026-01-16T15:00:00Z", "reason": null,
                     "policy": "auto"},
        "verification": {"level": "deep", "ok": true, "at": "2026-01-16T15:00:00Z"},
    }))
    .unwrap()
}

#[test]
fn a_manifest_has_every_field_of_its_schema() {
    // That the values fit is tested where manifests come from.
    let schema: Value = serde_json::from_str(include_str!("../../../../docs/manifest.schema.json")).unwrap();
    for manifest in [Manifest::of(&checkpoint()).to_json(), Manifest::of(&checkpoint()).marked(&marks()).to_json()] {
        for name in schema["required"].as_array().unwrap() {
            assert!(manifest.get(name.as_str().unwrap()).is_some(), "{name} is missing");
        }
        for name in manifest.as_object().unwrap().keys() {
            assert!(schema["properties"].get(name).is_some(), "{name} is not in the schema");
        }
    }
}

#[test]
fn what_was_said_since_is_in_it() {
    let manifest = Manifest::of(&checkpoint()).marked(&marks()).to_json();
    assert_eq!(manifest["approval"], json!({"status": "auto_approved", "timestamp": "2026-01-16T15:00:00Z", "policy": "auto"}));
    assert_eq!((manifest["tags"].clone(), &manifest["annotations"][1]["text"]), (json!(["milestone/v1.0"]), &json!("still")));
    assert_eq!(manifest["linked_issues"][0]["id"], "o/r#1");
    assert_eq!(manifest["verification"]["level"], "deep");
}

#[test]
fn what_is_unknown_is_null() {
    let manifest = Manifest::of(&checkpoint()).to_json();
    assert_eq!(manifest["version"], "1.2");
    assert_eq!(manifest["conversation"]["turn_count"], 15);
    assert_eq!(manifest["conversation"]["tokens_used"], Value::Null);
    assert_eq!(manifest["metrics"]["cost_estimate_usd"], Value::Null);
    assert_eq!(manifest["environment"]["python_version"], "3.13");
    assert_eq!(manifest["environment"]["claude_code"], Value::Null);
    assert_eq!(manifest["workspace"]["uncommitted_files"], json!(["a"]));
    assert_eq!(manifest["workspace"]["uncommitted_count"], Value::Null, "older records have none");
    assert_eq!(manifest["git"], json!({"branch": "main"}));
    assert_eq!(manifest["complete"], false);
    assert!(manifest["checksum"].as_str().unwrap().starts_with("blake3:"));
}
