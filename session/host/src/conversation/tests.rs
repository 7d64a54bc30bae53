use std::time::{Duration, SystemTime};

use parhelia_store::OpenOptions;

use super::*;

const CONVERSATION: &str = "0b1c2d3e-0000-4000-8000-000000000001";

fn records(from: u32, until: u32) -> String {
    (from..until).map(|n| format!("{{\"n\":{n}}}\n")).collect()
}

/// Puts a conversation back that lies, with these texts, where it belongs and in another folder; the latter was written to last.
fn put_back_from(here: &str, elsewhere: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let store = parhelia_ledger::open(&store, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
    let (config, work) = (folder.path().join("config"), folder.path().join("work"));
    let of = |slug: &str| config.join("projects").join(slug).join(format!("{CONVERSATION}.jsonl"));
    let (place, other) = (KINDS[0].place(&config, &work, CONVERSATION), of("-copied"));
    for (path, text, age) in [(&place, here, 100), (&other, elsewhere, 10)] {
        make_parent(path).unwrap();
        fs::write(path, text).unwrap();
        let time = SystemTime::from(parhelia_store::clock::timestamp()) - Duration::from_secs(age);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
    let aside = folder.path().join("aside");
    let done = put_back(&store, None, (CONVERSATION, None), &config, &work, &aside, false).unwrap();
    assert_eq!(done.transcript.as_deref(), Some(place.as_path()));
    let mut kept: Vec<String> = done.moved.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    kept.sort();
    (fs::read_to_string(&place).unwrap(), kept)
}

#[test]
fn a_copy_that_is_only_the_beginning_takes_no_ones_place() {
    assert_eq!(put_back_from(&records(0, 9), &records(0, 5)), (records(0, 9), vec![records(0, 5)]));
}

#[test]
fn what_another_takes_the_place_of_is_kept_aside() {
    let (now, kept) = put_back_from(&records(0, 9), &records(5, 7));
    assert_eq!(now, records(5, 7));
    assert!(kept.contains(&records(0, 9)), "{kept:?}");
}
