//! The audit: exported, verified, cut, and what is in it of safeties that were switched off.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use parhelia_tests::Scratch;
use serde_json::Value;

use super::{FAILS, acts, id, lines, session};

#[test]
fn the_audit_is_exported_and_verified_and_a_cut_is_found() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let last = id(made.last().unwrap());
    let copy = s.path("copy");
    assert!(std::process::Command::new("cp").arg("-a").args([s.store(), copy.clone()]).status().unwrap().success());
    s.expect(0, &["session", "reject", last, "--reason", "=cmd|' /C calc'!A0"]);
    s.expect(0, &["delete", id(&made[0]), "--reason", "old, \"quoted\""]);
    let verified = s.summary(&["audit", "verify"]);
    let noted = verified["last"].as_str().unwrap().to_owned();
    assert!(verified["breaks"].as_array().unwrap().is_empty() && verified["entries"].as_u64().unwrap() >= 3);
    let text = s.expect(0, &["audit", "verify", "--noted", &noted]);
    assert!(text.contains("is in the chain") && text.contains("Not proven"), "{text}");
    let older = |arguments: &[&str]| s.run(&[&["--store", copy.to_str().unwrap()], arguments].concat());
    let cut = older(&["audit", "verify", "--noted", &noted]);
    assert_eq!(cut.status.code(), Some(12), "{}", String::from_utf8_lossy(&cut.stdout));
    assert!(older(&["audit", "verify"]).status.success());
    assert_eq!(s.run(&["audit", "verify", "--noted", "xyz"]).status.code(), Some(2));

    let objects = s.expect(0, &["audit", "export"]);
    let objects: Vec<Value> = objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |action: &str| objects.iter().find(|entry| entry["action"] == action).unwrap();
    assert_eq!(of("checkpoint.delete")["reason"], "old, \"quoted\"");
    assert_eq!(of("checkpoint.reject")["session"], made[0]["session"]);
    let csv = s.expect(0, &["audit", "export", "--format", "csv"]);
    assert!(csv.contains("\"old, \"\"quoted\"\"\"") && csv.contains("'=cmd|'"), "{csv}");
    assert_eq!(csv.lines().count(), objects.len() + 1);
    let file = s.path("audit.csv");
    s.expect(0, &["audit", "export", "--format", "csv", "-o", file.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&file).unwrap(), csv);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(lines(&s, &["audit", "log", "-n", "1"])[0]["action"], "checkpoint.delete");
    assert_eq!(lines(&s, &["audit", "log", "--since", "2000-01-01", "--session", "s", "--all"]).len(), objects.len());
    assert_eq!(lines(&s, &["audit", "log", "--since", "2999-01-01"]).len(), 0);
    assert_eq!(s.run(&["audit", "log", "--session", "nobody"]).status.code(), Some(10));
    assert_eq!(s.run(&["audit", "export", "-o", file.to_str().unwrap()]).status.code(), Some(1));
    assert_eq!(s.run(&["audit", "log", "--action", "nothing"]).status.code(), Some(2));
}

#[test]
fn safeties_that_were_switched_off_are_in_the_audit() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let (first, last) = (id(&made[0]), id(made.last().unwrap()));
    s.expect(0, &["tag", first, "keep"]);
    fs::write(s.path("work/live"), "live\n").unwrap();
    let work = s.path("work");
    let work = Path::new(&work).to_str().unwrap();
    s.expect(0, &["restore", last, "--to", work, "--in-place", "--delete", "--no-safety"]);
    let overrides = acts(&s, "safety.override");
    assert_eq!(overrides.iter().map(|entry| entry["rule"].as_str().unwrap()).collect::<Vec<_>>(), ["no-safety"]);
    assert_eq!(acts(&s, "workspace.overwrite").len(), 1);
    s.expect(0, &["delete", first, "--protected"]);
    assert_eq!(acts(&s, "safety.override").last().unwrap()["rule"], "protected");
    s.expect(0, &["rollback", last, "--yes"]);
    assert_eq!(acts(&s, "session.rollback").len(), 1);
}
