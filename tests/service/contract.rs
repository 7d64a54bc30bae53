//! The service and the OpenAPI document that it serves: Schemathesis makes requests of the document, good ones and bad ones, and compares the
//! answers with it.

use std::process::Command;

use parhelia_tests::python::python;

use super::*;
use crate::service::browser::{listening, token};

/// Everything that Schemathesis checks, but for what holds of no API with names: that a request of the right form is never answered with 400.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,missing_required_header,unsupported_method,\
                      allow_header_conformance,use_after_free,ensure_resource_availability,ignored_auth";

/// A configuration by which names are sometimes those of what there is.
fn configuration(token: &str, checkpoints: &[String]) -> String {
    let lists = [
        ("sessions", json!(["work", "other"])),
        ("checkpoints", json!(checkpoints)),
        ("paths", json!(["file", "folder", "folder/<b>odd &amp; name"])),
    ];
    let mut text = format!("[auth.openapi.token]\nbearer = \"{token}\"\n");
    for (name, values) in lists {
        text += &format!("[dictionaries.{name}]\nvalues = {values}\n");
    }
    text += "[parameters]\n";
    for (parameter, list) in [
        ("session", "sessions"),
        ("checkpoint", "checkpoints"),
        ("id", "checkpoints"),
        ("to", "checkpoints"),
        ("since", "checkpoints"),
        ("path", "paths"),
    ] {
        text += &format!("{parameter} = {{ dictionary = \"{list}\", probability = 0.7 }}\n");
    }
    text
}

#[test]
fn requests_of_every_form_are_answered_as_the_description_says() {
    let s = listening();
    write(&s.scratch.path("other/file"), b"x").unwrap();
    let mut checkpoints = s.checkpoints();
    checkpoints.push(s.scratch.create("other", &s.scratch.path("other")));
    let mut document = s.get("/openapi.json").expect(200);
    // Over TCP nothing is answered without the token, but whether the service is well.
    document["security"] = json!([{"token": []}]);
    let folder = s.scratch.path("contract");
    write(&folder.join("openapi.json"), document.to_string().as_bytes()).unwrap();
    write(&folder.join("schemathesis.toml"), configuration(&token(&s), &checkpoints).as_bytes()).unwrap();
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("service/contract/requirements.txt");
    let mut command = Command::new(python("contract", &requirements, "schemathesis").with_file_name("schemathesis"));
    command.args(["--no-color", "run", "openapi.json", "--url", s.page.as_ref().unwrap().trim_end_matches('/')]);
    command.args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-examples", "10"]);
    command.args(["--seed", "1", "--generation-deterministic", "--no-shrink", "--continue-on-failure"]);
    // The stream of events has no end.
    command.args(["--exclude-operation-id", "listenToEvents"]);
    command.args(["--suppress-health-check", "all", "--warnings", "off"]);
    let output = command.current_dir(&folder).stdin(Stdio::null()).output().expect("schemathesis");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}\n{}", String::from_utf8_lossy(&output.stderr), s.said());
    s.get("/health").expect(200);
}
