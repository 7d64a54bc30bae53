//! The TypeScript client, built by npm, against the service: over its socket, over TCP and over TLS. With `PARHELIA_WRITE_SDK` set, the files that are
//! generated from the service's document are written anew first. And a client for Python, as its README says to make one.

use std::process::Command;

use parhelia_tests::{node, python::python};

use super::*;
use crate::service::{
    browser::{listening, token},
    tls::secure,
};

#[test]
fn the_typescript_client_is_built_and_its_tests_pass() {
    let service = listening();
    let (package, folder) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/typescript"), service.scratch.path("sdk"));
    node::package("sdk", &package, &folder);
    let npm = |words: &[&str]| {
        let mut npm = node::program("npm");
        npm.args(words).current_dir(&folder);
        npm
    };
    if std::env::var_os("PARHELIA_WRITE_SDK").is_some() {
        let generated = npm(&["run", "generate"]).env("PARHELIA_SOCKET", service.socket()).status().expect("npm");
        assert!(generated.success());
        for file in ["src/openapi.json", "src/schema.ts"] {
            fs::copy(folder.join(file), package.join(file)).unwrap();
        }
    }
    let run = |variables: &[(&str, &str)]| {
        let mut npm = npm(&["test", "--silent"]);
        let output = npm.envs(variables.iter().copied()).env("PARHELIA_SESSION", "work").output().expect("npm");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("skipped 0"), "{said}");
    };
    run(&[("PARHELIA_SOCKET", service.socket().to_str().unwrap())]);
    let url = |service: &Service| service.page.as_ref().unwrap().trim_end_matches('/').to_owned();
    run(&[("PARHELIA_URL", &url(&service)), ("PARHELIA_TOKEN", &token(&service))]);
    let secure = secure("127.0.0.1:0");
    let authority = secure.scratch.path("tls/ca.pem");
    let trusted = ("NODE_EXTRA_CA_CERTS", authority.to_str().unwrap());
    run(&[("PARHELIA_URL", &url(&secure)), ("PARHELIA_TOKEN", &token(&secure)), trusted]);
}

#[test]
fn a_python_client_is_generated_and_works() {
    let s = Service::new();
    let (sdk, folder) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/python"), s.scratch.path("python"));
    write(&folder.join("openapi.json"), s.get("/openapi.json").expect(200).to_string().as_bytes()).unwrap();
    let python = python("sdk-python", &sdk.join("requirements.txt"), "openapi_python_client");
    let generate = ["generate", "--path", "openapi.json", "--output-path", "client"];
    let generated =
        Command::new(python.with_file_name("openapi-python-client")).args(generate).current_dir(&folder).output().unwrap();
    assert!(generated.status.success(), "{generated:?}");
    // The generator depends on what its clients depend on.
    let mut example = Command::new(&python);
    example.arg(sdk.join("example.py")).args(["work", "folder/<b>odd &amp; name"]).env("PYTHONPATH", folder.join("client"));
    let output = example.env("PARHELIA_SOCKET", s.socket()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let last = &s.checkpoints()[0];
    assert!(
        said.contains(&format!("{last} has b'")) && said.contains("checkpoint.tagged") && said.ends_with("session.status\n"),
        "{said}"
    );
    let shown = s.get(&format!("/v1/checkpoints/{last}")).expect(200);
    assert!(shown.to_string().contains("\"seen\""), "{shown}");
    assert_eq!(s.get("/v1/sessions/work").expect(200)["session"]["status"], "paused");
}
