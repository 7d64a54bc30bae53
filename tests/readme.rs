//! README's example is what `./dev demo` prints on a terminal, and nobody's store is touched by it.

use std::{fs, path::Path, process::Command};

use parhelia_tests::{Scratch, binary, write_program};

/// Text without what differs from run to run: ids, times, sizes, numbers, and where the example lies.
fn plain(text: &str) -> Vec<String> {
    let word = |word: &str| -> String {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
        let is_id = bare.len() == 26 && bare.starts_with("01");
        let is_time = bare.len() == 20 && bare.ends_with('Z') && bare.contains('T');
        match () {
            () if is_id => word.replace(bare, "ID"),
            () if is_time => word.replace(bare, "TIME"),
            () if bare.starts_with("/tmp/") => {
                word.replace(bare, &format!("DIR/{}", bare.rsplit('/').next().unwrap_or_default()))
            }
            () if ["B", "KiB", "MiB"].contains(&bare) => word.replace(bare, "UNIT"),
            () if ["second", "seconds"].contains(&bare) => word.replace(bare, "seconds"),
            () if bare.starts_with(|c: char| c.is_ascii_digit()) => word.replace(bare, "N"),
            () => word.to_owned(),
        }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}

#[test]
fn readmes_example_is_what_the_demo_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let example = readme.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
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
        .current_dir(root)
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
    assert_eq!(plain(printed), plain(example), "{printed}");
    let left: Vec<_> = [home.as_path(), &temporary].iter().flat_map(|folder| fs::read_dir(folder).unwrap()).collect();
    assert!(left.is_empty() && !scratch.store().exists(), "the demo leaves {left:?}");
}
