//! README's example is what `./dev demo` prints on a terminal, and nobody's store is touched by it.

use std::{fs, process::Command};

use parhelia_tests::{
    Scratch, binary,
    pages::{self, Kind, plain},
    write_program,
};

#[test]
fn readmes_example_is_what_the_demo_prints() {
    let scratch = Scratch::new();
    // It is built already, and nothing is installed.
    let programs = scratch.path("programs");
    write_program(&programs.join("cargo"), "#!/bin/sh\nexit 0\n");
    write_program(&programs.join("dpkg-query"), "#!/bin/sh\necho 'install ok installed'\n");
    let (home, temporary) = (scratch.path("home"), scratch.path("tmp"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&temporary).unwrap();
    let build = binary().ancestors().nth(2).unwrap().to_owned();
    let output = Command::new("script")
        .args(["-q", "-e", "-c", "./dev demo", "/dev/null"])
        .current_dir(pages::repository())
        .env_clear()
        .env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()))
        .env("HOME", &home)
        .env("TMPDIR", &temporary)
        .env("PARHELIA_BUILD_DIR", build)
        .env("PARHELIA_STORE", scratch.store())
        .env("LC_ALL", "C.UTF-8")
        // Neither colours nor a bar that is drawn over itself.
        .env("TERM", "dumb")
        .env("NO_COLOR", "1")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    let printed = &printed[printed.find("$ ").unwrap()..];
    let blocks = pages::blocks(&pages::readme()).into_iter().filter(|block| block.kind == Kind::Console);
    let shown: String = blocks.map(|block| block.text).collect();
    assert_eq!(plain(printed), plain(&shown), "{printed}");
    let left: Vec<_> = [home.as_path(), &temporary].iter().flat_map(|folder| fs::read_dir(folder).unwrap()).collect();
    assert!(left.is_empty() && !scratch.store().exists(), "the demo leaves {left:?}");
}
