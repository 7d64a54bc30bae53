use proptest::prelude::*;

use super::*;

const NAME: [u8; 32] = [7; 32];

fn keys() -> Keyring {
    Keyring::plain().with(1, MasterKey::new([1; 32])).with(2, MasterKey::new([2; 32]))
}

fn every_sealing() -> Vec<(Sealing, Keyring)> {
    let sealings = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305].map(|cipher| (keys().sealing(cipher, 12), keys()));
    sealings.into_iter().chain([(Keyring::plain().sealing(Cipher::Aes256Gcm, 12), Keyring::plain())]).collect()
}

fn content(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn sealed(content: &[u8], sealing: Sealing, keys: &Keyring) -> Vec<u8> {
    Seal::new("packs/a", NAME, sealing, keys).unwrap().seal_whole(content, keys).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn contents_come_back(length in 0usize..40_000, cut in any::<[prop::sample::Index; 2]>()) {
        for (sealing, keys) in every_sealing() {
            let content = content(length);
            let stored = sealed(&content, sealing, &keys);
            prop_assert_eq!(stored.len() as u64, Shape::of(length as u64, sealing).unwrap().stored_bytes());
            let (_, whole) = open_whole("packs/a", stored.clone(), &keys).unwrap();
            prop_assert!(whole == content);
            let mut ends = cut.map(|index| index.index(length + 1) as u64);
            ends.sort_unstable();
            let range = ends[0]..ends[1];
            if range.is_empty() {
                continue;
            }
            let seal = Seal::new("packs/a", NAME, sealing, &keys).unwrap();
            let at = seal.stored_range(length as u64, &range).unwrap();
            let fetched = stored[at.start as usize..at.end as usize].to_vec();
            let opened = seal.open_range(length as u64, &range, fetched).unwrap();
            prop_assert!(opened == content[range.start as usize..range.end as usize]);
        }
    }

    #[test]
    fn any_range_of_the_stored_form_can_be_made_again(length in 0usize..40_000, cut in any::<[prop::sample::Index; 2]>()) {
        let (sealing, keys) = every_sealing().remove(0);
        let (content, seal) = (content(length), Seal::new("packs/a", NAME, sealing, &keys).unwrap());
        let stored = sealed(&content, sealing, &keys);
        let mut ends = cut.map(|index| index.index(stored.len() + 1));
        ends.sort_unstable();
        let made = seal.seal_range(&content[..], &keys, ends[0] as u64..ends[1] as u64).unwrap();
        prop_assert!(made == stored[ends[0]..ends[1]]);
    }

    #[test]
    fn noise_is_no_object(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(open_whole("packs/a", bytes, &keys()).is_err());
    }
}

#[test]
fn each_changed_byte_is_found() {
    for (sealing, keys) in every_sealing() {
        let stored = sealed(&content(5_000), sealing, &keys);
        for at in 0..stored.len() {
            let mut changed = stored.clone();
            changed[at] ^= 1 << (at % 8);
            let fault = open_whole("packs/a", changed, &keys).unwrap_err();
            assert!(matches!(fault, Error::Damaged { .. }), "byte {at}: {fault}");
        }
    }
}

#[test]
fn each_cut_is_found_and_a_cut_between_pieces_is_named() {
    for (sealing, keys) in every_sealing() {
        let stored = sealed(&content(9_000), sealing, &keys);
        for length in 0..stored.len() {
            let fault = open_whole("packs/a", stored[..length].to_vec(), &keys).unwrap_err().to_string();
            let pieces = (length as u64).saturating_sub(HEADER_BYTES) / (4096 + TAG_BYTES);
            if pieces > 0 && length as u64 == HEADER_BYTES + pieces * (4096 + TAG_BYTES) {
                assert!(fault.contains("it was cut behind piece"), "{length}: {fault}");
            }
        }
    }
}

#[test]
fn pieces_that_were_swapped_and_objects_that_were_moved_are_found() {
    for (sealing, keys) in every_sealing() {
        let stored = sealed(&content(9_000), sealing, &keys);
        let mut swapped = stored.clone();
        let (first, second) = swapped[HEADER_BYTES as usize..].split_at_mut(4096 + TAG_BYTES as usize);
        first.swap_with_slice(&mut second[..4096 + TAG_BYTES as usize]);
        assert!(matches!(open_whole("packs/a", swapped, &keys), Err(Error::Damaged { .. })));
        assert!(matches!(open_whole("packs/b", stored, &keys), Err(Error::Damaged { .. })));
    }
}

#[test]
fn a_wrong_key_is_told_from_damage() {
    let keys = keys();
    let stored = sealed(b"content", keys.sealing(Cipher::Aes256Gcm, 12), &keys);
    let other = Keyring::plain().with(2, MasterKey::new([3; 32]));
    assert!(matches!(open_whole("packs/a", stored.clone(), &other), Err(Error::WrongKey { generation: 2, .. })));
    let older = Keyring::plain().with(1, MasterKey::new([1; 32]));
    assert!(matches!(open_whole("packs/a", stored.clone(), &older), Err(Error::NoKey { generation: 2, .. })));
    assert!(matches!(open_whole("packs/a", stored, &Keyring::plain()), Err(Error::NoKey { generation: 2, .. })));
}

#[test]
fn an_unencrypted_object_does_not_pass_in_an_encrypted_bucket() {
    let plain = Keyring::plain();
    let stored = sealed(b"content", plain.sealing(Cipher::Aes256Gcm, 12), &plain);
    let fault = open_whole("packs/a", stored, &keys()).unwrap_err();
    assert!(fault.to_string().contains("it is not encrypted"), "{fault}");
}

#[test]
fn two_objects_of_one_content_share_no_bytes() {
    let (keys, sealing) = (keys(), keys().sealing(Cipher::Aes256Gcm, 12));
    let first = sealed(&content(5_000), sealing, &keys);
    let second = Seal::new("packs/a", [8; 32], sealing, &keys).unwrap().seal_whole(&content(5_000), &keys).unwrap();
    let same = first[72..].iter().zip(&second[72..]).filter(|(a, b)| a == b).count();
    assert!(same < 100, "{same} bytes are the same");
}
