//! The documents: each command in them runs, or at least parses, prints what is shown, and each link leads somewhere.

use std::{collections::BTreeSet, path::Path};

use parhelia_tests::pages::{self, problems};

#[test]
fn every_command_of_the_documents_runs_and_prints_what_is_shown() {
    let mut found = Vec::new();
    for page in pages::all() {
        let name = page.strip_prefix(pages::repository()).unwrap_or(&page).display().to_string();
        found.extend(problems(&pages::text(&page)).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_wrong_page_is_noticed() {
    let noticed = |page: &str, problem: &str| {
        let found = problems(page);
        assert!(found.len() == 1 && found[0].contains(problem), "{page}: {found:?}");
    };
    noticed("```console\n$ echo one\ntwo\n```\n", "is shown to print");
    noticed("```console\n$ echo one\n```\n", "is shown to print");
    noticed("```console\n$ parhelia list\n```\n", "is shown to print");
    noticed("```sh\ntrue\nparhelia cat latest:x\ntrue\n```\n", "nothing behind it was run");
    noticed("<!-- setup\nexit 1\n-->\n", "nothing behind it was run");
    noticed("```sh norun\nparhelia list --no-such-flag\n```\n", "no command line");
    noticed("```ini\nExecStart=/usr/bin/parhelia creat\n```\n", "no command line");
    noticed("It is `parhelia lits`.\n", "no command line");
}

#[test]
fn a_right_page_has_no_problem() {
    let page = "Try it.\n\n<!-- setup\nmkdir work; cd work; echo text > file\n-->\n```sh\nparhelia -q create\n```\n\
        ```console\n$ parhelia ls\nfile\n\n$ parhelia cat \\\n>   latest:file\ntext\n```\n```sh norun\nsudo parhelia mount /mnt\n```\n";
    assert_eq!(problems(page), Vec::<String>::new());
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let mut dead = Vec::new();
    for page in pages::all() {
        let text = pages::text(&page);
        for link in links(&text) {
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { page.with_file_name(path) };
            let is_there = target.exists() && (heading.is_empty() || headings(&target).contains(heading));
            if !is_there {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn every_page_of_the_book_is_in_its_summary() {
    let docs = pages::repository().join("docs");
    let summary = pages::text(&docs.join("SUMMARY.md"));
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    let pages = pages::all().into_iter().filter_map(|page| Some(page.strip_prefix(&docs).ok()?.display().to_string()));
    let missing: Vec<String> = pages.filter(|page| page != "SUMMARY.md" && !listed.contains(page)).collect();
    assert!(missing.is_empty(), "SUMMARY.md lacks {missing:?}");
}

/// The targets of a page's links, but for those of the web.
fn links(page: &str) -> Vec<String> {
    let without_blocks: String = page.split("```").step_by(2).collect();
    let parts = without_blocks.split("](").skip(1).filter_map(|part| part.split_once(')'));
    parts.map(|(link, _)| link.to_owned()).filter(|link| !link.contains("://") && !link.contains(' ')).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = pages::text(page);
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    lines
        .map(|line| line.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_test_that_the_guarantees_name_exists() {
    let page = pages::text(&pages::repository().join("docs/guarantees.md"));
    let mut sources = String::new();
    for folder in [
        "tests",
        "store/src",
        "ledger/src",
        "session/host/src",
        "session/oversight/src",
        "session/knowledge/src",
        "session/life/src",
        "service/src",
        "cli/tests",
        "fuse/tests",
    ] {
        add_sources(&pages::repository().join(folder), &mut sources);
    }
    let named = page.split('`').skip(1).step_by(2).filter(|code| code.contains("::") || code.ends_with(".rs"));
    let is_there = |name: &&str| {
        let (file, test) = name.rsplit_once("::").map_or((*name, None), |(file, test)| (file, Some(test)));
        let has_file = !file.ends_with(".rs") || pages::repository().join(file).exists();
        let has_test = test.is_none_or(|test| match test.strip_suffix('*') {
            Some(beginning) => sources.contains(&format!("fn {beginning}")),
            None => sources.contains(&format!("fn {test}(")),
        });
        has_file && has_test
    };
    let missing: Vec<&str> = named.filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

/// The text of every source in a folder.
fn add_sources(folder: &Path, sources: &mut String) {
    for path in std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            add_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&pages::text(&path));
        }
    }
}
