//! The TypeScript client, built by npm, against the service: over its socket, over TCP and over TLS. With `PARHELIA_WRITE_SDK` set, the files that are
//! generated from the service's document are written anew first.

use parhelia_tests::node;

use super::*;
use crate::{
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
