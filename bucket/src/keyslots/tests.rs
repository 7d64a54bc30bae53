use std::sync::Arc;

use object_store::memory::InMemory;
use proptest::prelude::*;

use super::*;
use crate::{random::OsRandom, seal::MasterKey};

const STORE: [u8; 16] = [5; 16];

fn passphrase(text: &str) -> Secret {
    Secret::Passphrase(text.to_owned().into())
}

fn fresh() -> (Document, Keyring, PrivateKey) {
    let (random, key) = (OsRandom::new(), PrivateKey::fresh(&OsRandom::new()).unwrap());
    let (document, keys) = Document::new(STORE, &Secret::Key(key.clone()), "laptop", &random).unwrap();
    (document, keys, key)
}

fn same(a: &Keyring, b: &Keyring) -> bool {
    a.newest() == b.newest() && (1..=a.newest()).all(|generation| a.key(generation) == b.key(generation))
}

#[test]
fn each_kind_of_slot_opens_all_generations() {
    let (random, phrase) = (OsRandom::new(), RecoveryPhrase::fresh(&OsRandom::new()).unwrap());
    let (document, keys, key) = fresh();
    let document = document.with_slot(&passphrase("correct horse"), "team", &keys, &random).unwrap();
    let document = document.with_slot(&Secret::Recovery(phrase.clone()), "paper", &keys, &random).unwrap();
    let (document, keys) = document.rotated(&keys, &random).unwrap();
    let other = PrivateKey::fresh(&random).unwrap();
    let document = document.with_public_key(other.public(), "server", &keys, &random).unwrap();
    let bytes = document.encode().unwrap();
    let read = Document::decode("keys", document.number(), &bytes).unwrap();
    let phrase = RecoveryPhrase::parse(&phrase.text().to_lowercase()).unwrap();
    for secret in [Secret::Key(key), passphrase("correct horse"), Secret::Recovery(phrase), Secret::Key(other)] {
        assert!(same(&read.open(&secret, None).unwrap(), &keys));
    }
    for secret in [passphrase("wrong"), Secret::Key(PrivateKey::fresh(&random).unwrap())] {
        assert!(matches!(read.open(&secret, None), Err(Error::Locked(_))));
    }
}

#[test]
fn a_removed_slot_opens_nothing_newer() {
    let random = OsRandom::new();
    let (document, keys, key) = fresh();
    let other = PrivateKey::fresh(&random).unwrap();
    let document = document.with_public_key(other.public(), "server", &keys, &random).unwrap();
    let document = document.without_slot("laptop", &random).unwrap();
    let (document, _) = document.rotated(&keys, &random).unwrap();
    assert!(matches!(document.open(&Secret::Key(key), None), Err(Error::Locked(_))));
    assert!(document.without_slot("server", &random).is_err(), "the last slot");
    assert!(document.without_slot("nobody", &random).is_err());
}

#[test]
fn keys_that_the_owner_of_the_bucket_wraps_are_refused() {
    let random = OsRandom::new();
    let (document, keys, _) = fresh();
    let document = document.with_slot(&passphrase("p"), "team", &keys, &random).unwrap();
    let known = document.fingerprint().unwrap();
    // The owner knows the public keys of the slots, and wraps a generation of his own for them.
    let (own, own_keys, _) = fresh();
    let mut forged = document.clone();
    forged.replace_first_generation(&own, &own_keys, &random);
    assert!(matches!(forged.open(&passphrase("p"), None), Err(Error::Damaged { .. })), "the passphrase vouches for another key");
    assert!(matches!(forged.open(&passphrase("p"), Some(&known)), Err(Error::Damaged { .. })), "the machine knows another key");
    assert!(document.open(&passphrase("p"), Some(&known)).is_ok());
    // A generation that the one before does not vouch for.
    let (mut rotated, rotated_keys) = document.rotated(&keys, &random).unwrap();
    assert!(same(&rotated.open(&passphrase("p"), Some(&known)).unwrap(), &rotated_keys));
    rotated.break_vouch();
    assert!(matches!(rotated.open(&passphrase("p"), None), Err(Error::Damaged { .. })));
    // An own generation before the one that the machine knows, to forge older objects with.
    let (mut rotated, _) = document.rotated(&keys, &random).unwrap();
    let known_second = rotated.fingerprint().unwrap();
    rotated.forge_first_of_two(&MasterKey::new([9; 32]), &random);
    assert!(matches!(rotated.open(&passphrase("p"), Some(&known_second)), Err(Error::Damaged { .. })));
    // A generation that is not listed, to seal what is written from now on, or the names that the first one hides.
    for generation in [0, 2, u32::MAX] {
        let mut injected = document.clone();
        injected.inject(generation, &MasterKey::new([9; 32]), &random);
        for known in [None, Some(&known)] {
            let opened = injected.open(&passphrase("p"), known).unwrap();
            assert!(same(&opened, &keys) && opened.key(generation).is_none(), "generation {generation}");
            assert_eq!(opened.hidden_name(b"s"), keys.hidden_name(b"s"));
        }
    }
    // Generations that are listed in another way than one after the other.
    for numbers in [&[][..], &[0, 1], &[1, 1], &[2, 1], &[1, 3], &[1, u32::MAX]] {
        let (mut rotated, _) = document.rotated(&keys, &random).unwrap();
        rotated.renumber(numbers);
        let fault = rotated.open(&passphrase("p"), Some(&known)).unwrap_err();
        assert!(matches!(&fault, Error::Damaged { cause, .. } if cause.contains("from 1 in order")), "{numbers:?}: {fault}");
        let stored = rotated.encode().unwrap();
        assert!(matches!(Document::decode("keys", rotated.number(), &stored), Err(Error::Damaged { .. })), "{numbers:?}");
    }
    // An older document than the one that this machine has used.
    let newer = Fingerprint { generation: 2, ..known };
    assert!(matches!(document.open(&passphrase("p"), Some(&newer)), Err(Error::Damaged { .. })));
}

#[test]
fn a_cost_that_takes_all_memory_is_refused() {
    let random = OsRandom::new();
    let (document, keys, _) = fresh();
    let document = document.with_slot(&passphrase("p"), "team", &keys, &random).unwrap();
    let text = String::from_utf8(document.encode().unwrap()).unwrap();
    for (usual, costly) in [
        ("\"memory_kib\":65536", "\"memory_kib\":4000000000"),
        ("\"memory_kib\":65536", "\"memory_kib\":262145"),
        ("\"passes\":3", "\"passes\":9"),
        ("\"lanes\":1", "\"lanes\":9"),
        ("\"passes\":3", "\"passes\":0"),
    ] {
        let changed: Document = serde_json::from_str(&text.replace(usual, costly)).unwrap();
        let fault = changed.open(&passphrase("p"), None).unwrap_err();
        assert!(matches!(&fault, Error::Damaged { cause, .. } if cause.contains("of slot team")), "{costly}: {fault}");
    }
}

#[test]
fn a_bad_slot_does_not_stop_the_others() {
    let random = OsRandom::new();
    let (document, keys, _) = fresh();
    let document = document.with_slot(&passphrase("p"), "first", &keys, &random).unwrap();
    let document = document.with_slot(&passphrase("p"), "second", &keys, &random).unwrap();
    let text = String::from_utf8(document.encode().unwrap()).unwrap();
    let mac = text.find("\"mac\":\"").unwrap() + 7;
    let forged = format!("{}{}{}", &text[..mac], "00".repeat(32), &text[mac + 64..]);
    for changed in [text.replacen("\"passes\":3", "\"passes\":33", 1), forged] {
        let changed: Document = serde_json::from_str(&changed).unwrap();
        assert!(same(&changed.open(&passphrase("p"), None).unwrap(), &keys));
    }
}

#[test]
fn a_document_that_takes_hours_to_open_is_refused() {
    let random = OsRandom::new();
    let (document, keys, key) = fresh();
    let document = document.with_slot(&passphrase("p"), "team", &keys, &random).unwrap();
    let with_slots = |count: usize| {
        let mut value = serde_json::to_value(&document).unwrap();
        let slots = value["slots"].as_array_mut().unwrap();
        for copy in 1..count {
            let mut slot = slots[1].clone();
            slot["label"] = format!("copy {copy}").into();
            slots.push(slot);
        }
        serde_json::from_value::<Document>(value).unwrap()
    };
    let most = with_slots(16);
    assert!(Document::decode("keys", 2, &most.encode().unwrap()).is_ok());
    let fault = most.with_slot(&passphrase("q"), "one more", &keys, &random).unwrap_err();
    assert!(matches!(&fault, Error::Invalid(what) if what.contains("more than 16 slots of passphrases")), "{fault}");
    let fault = Document::decode("keys", 2, &with_slots(17).encode().unwrap()).unwrap_err();
    assert!(matches!(&fault, Error::Damaged { cause, .. } if cause.contains("more than 16 slots of passphrases")), "{fault}");
    assert!(with_slots(17).open(&passphrase("p"), None).is_err());
    assert!(with_slots(16).open(&Secret::Key(key), None).is_ok());
}

#[test]
fn a_mistyped_phrase_is_told() {
    let phrase = RecoveryPhrase::fresh(&OsRandom::new()).unwrap();
    let text = phrase.text();
    assert_eq!((text.len(), text.matches('-').count()), (44, 8));
    for at in (0..text.len()).filter(|at| text.as_bytes()[*at] != b'-') {
        let mut typed = text.as_bytes().to_vec();
        typed[at] = if typed[at] == b'7' { b'8' } else { b'7' };
        let fault = RecoveryPhrase::parse(std::str::from_utf8(&typed).unwrap());
        assert!(fault.is_err() || fault.unwrap().text() != text);
    }
    assert!(RecoveryPhrase::parse("").is_err() && RecoveryPhrase::parse(&"A".repeat(100)).is_err());
}

#[tokio::test]
async fn of_two_changes_at_once_one_is_made() {
    let (random, client) = (OsRandom::new(), Client::of(Arc::new(InMemory::new()), None, "p"));
    let (document, keys, key) = fresh();
    assert!(read(&client, &Effort::PROBE).await.unwrap().is_none());
    assert!(write(&client, &document, &Effort::PROBE).await.unwrap());
    let first = document.rotated(&keys, &random).unwrap().0;
    let second = document.rotated(&keys, &random).unwrap().0;
    assert!(write(&client, &first, &Effort::PROBE).await.unwrap());
    assert!(!write(&client, &second, &Effort::PROBE).await.unwrap());
    assert!(write(&client, &first, &Effort::PROBE).await.unwrap(), "the same bytes again");
    assert_eq!(read(&client, &Effort::PROBE).await.unwrap().unwrap().number(), 2);
    assert_eq!(unlock(&client, &Secret::Key(key), None, &Effort::PROBE).await.unwrap().newest(), 2);
}

proptest! {
    #[test]
    fn any_document_is_answered(text in "\\PC{0,200}") {
        prop_assert!(Document::decode("keys", 1, text.as_bytes()).is_err());
        prop_assert!(RecoveryPhrase::parse(&text).is_err());
    }
}
