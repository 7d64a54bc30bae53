//! Decisions that are signed by ssh keys, and what the audit says of forged ones.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::Scratch;

use super::{FAILS, acts, id, session, status, user};

/// A new ssh key of a person.
fn key(s: &Scratch, person: &str) -> PathBuf {
    let path = s.path(person);
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-C", person, "-f"]).arg(&path);
    assert!(command.status().unwrap().success());
    path
}

/// The public half of a key, for the file of allowed signers.
fn allowed(s: &Scratch, person: &str) -> String {
    let public = fs::read_to_string(s.path(&format!("{person}.pub"))).unwrap();
    format!("{person}@example.org namespaces=\"parhelia\" {public}")
}

#[test]
fn decisions_are_signed_by_ssh_keys_and_the_audit_checks_them() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let (first, last) = (id(&made[0]), id(made.last().unwrap()));
    let signers = s.path("allowed");
    let with = |key: Option<&Path>, arguments: &[&str], code: i32| {
        let mut command = s.command(arguments);
        command.env("PARHELIA_ALLOWED_SIGNERS", &signers);
        if let Some(key) = key {
            command.env("PARHELIA_SIGNING_KEY", key);
        }
        let output = command.output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        text
    };
    let (ada, eve) = (key(&s, "ada"), key(&s, "eve"));
    fs::write(&signers, allowed(&s, "ada")).unwrap();
    let missing = with(Some(&s.path("no key")), &["session", "approve", first], 4);
    assert!(missing.contains("cannot be signed") && status(&s, first) == "auto_approved", "{missing}");

    with(Some(&ada), &["session", "approve", first, "--reason", "read \"all\" of it\nto the end"], 0);
    let verified = with(None, &["audit", "verify"], 0);
    assert!(verified.contains("Signed by ada@example.org: 1 decision."), "{verified}");
    let unchecked = s.expect(0, &["audit", "verify"]);
    assert!(unchecked.contains("Signed, and not checked: 1 decision;"), "{unchecked}");

    with(None, &["session", "reject", last], 0);
    let verified = with(None, &["audit", "verify"], 0);
    assert!(verified.contains("Not signed: 1 decision."), "{verified}");

    // A key that nobody has allowed: it is refused where that is known, and found where it was not.
    with(Some(&eve), &["session", "approve", last, "--change"], 4);
    let mut command = s.command(&["session", "approve", last, "--change"]);
    assert!(command.env("PARHELIA_SIGNING_KEY", &eve).status().unwrap().success());
    let refused = with(None, &["audit", "verify"], 12);
    assert!(refused.contains(last) && refused.contains("its key is none of the allowed ones"), "{refused}");
    fs::write(&signers, allowed(&s, "ada") + &allowed(&s, "eve")).unwrap();
    assert!(with(None, &["audit", "verify"], 0).contains("Signed by eve@example.org: 1 decision."));

    // Copied to another decision, and to the same one once more: whoever can write to the store has no key.
    let signature = acts(&s, "checkpoint.approve").last().unwrap()["data"]["signature"].clone();
    for status in ["rejected", "approved"] {
        let store = parhelia_ledger::open(&s.store(), &parhelia_store::OpenOptions::default()).unwrap();
        let actor = parhelia_store::event::Actor { user: Some(user()), ..parhelia_store::event::Actor::program("cli") };
        let forged = parhelia_store::event::NewEvent::new("checkpoint.decided", last, actor).with("status", status);
        let mut signature = signature.clone();
        // Another text, and the same signature.
        signature["text"] = signature["text"].as_str().unwrap().trim_end().into();
        store.append_events(&[forged.with("signature", signature)], &()).unwrap();
    }
    let refused = with(None, &["audit", "verify"], 12);
    assert!(
        refused.contains("an earlier decision has the same one") && refused.contains("it is not of this decision"),
        "{refused}"
    );
}
