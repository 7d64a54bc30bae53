use super::*;

#[derive(Clone, Debug)]
enum Step {
    Checkpoint,
    Delete(usize),
    Tag(usize, u8),
    Run,
    Status(bool),
    Absorb,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Checkpoint),
        1 => (0usize..8).prop_map(Step::Delete),
        3 => (0usize..8, any::<u8>()).prop_map(|(i, tag)| Step::Tag(i, tag % 3)),
        1 => Just(Step::Run),
        1 => any::<bool>().prop_map(Step::Status),
        1 => Just(Step::Absorb),
    ];
    proptest::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However much of the journal is in RocksDB, what it adds up to is the same.
    #[test]
    fn folds_do_not_depend_on_what_was_absorbed(steps in steps()) {
        let test = TestStore::new();
        for (n, step) in steps.into_iter().enumerate() {
            let ids = test.ids();
            let pick = |i: usize| ids.get(i % ids.len().max(1)).copied();
            match step {
                Step::Checkpoint => { test.checkpoint(n as u64); }
                Step::Delete(i) => if let Some(id) = pick(i) { test.delete(id) },
                Step::Tag(i, tag) => if let Some(id) = pick(i) {
                    let kind = if tag == 0 { kind::CHECKPOINT_UNTAGGED } else { kind::CHECKPOINT_TAGGED };
                    append(&test, new(kind, id.to_string()).with("tag", format!("t{}", tag / 2))).unwrap();
                },
                Step::Run => { let _ = started(&test, &format!("r{n}"), None); }
                Step::Status(paused) => {
                    let status = if paused { "paused" } else { "error" };
                    let _ = append(&test, new(kind::SESSION_STATUS, "test").with("status", status));
                }
                Step::Absorb => test.store.absorb().unwrap(),
            }
        }
        let truth = View::from_journal(test.store.layout()).unwrap();
        let found = test.open().view();
        prop_assert_eq!(truth.sessions().unwrap(), found.sessions().unwrap());
        prop_assert_eq!(truth.runs().unwrap(), found.runs().unwrap());
        prop_assert_eq!(truth.all_marks().unwrap(), found.all_marks().unwrap());
        for tag in ["t0", "t1", "t"] {
            let marks = truth.all_marks().unwrap();
            let bears = |c: &&Checkpoint| marks.get(&c.record.id).is_some_and(|marks| marks.tags.contains(tag));
            let bearing: Vec<&Checkpoint> = truth.checkpoints().unwrap().iter().rev().filter(bears).collect();
            for view in [&truth, &*found] {
                let tagged = view.newest_first_tagged(tag).unwrap().collect::<Result<Vec<_>>>().unwrap();
                prop_assert_eq!(tagged.iter().collect::<Vec<_>>(), bearing.clone());
            }
        }
        prop_assert_eq!(truth.tags().unwrap(), found.tags().unwrap());
        prop_assert_eq!(truth.last_event().unwrap(), found.last_event().unwrap());
        for checkpoint in truth.checkpoints().unwrap() {
            prop_assert_eq!(found.checkpoint(checkpoint.record.id).unwrap(), Some(checkpoint.clone()));
        }
        is_clean(&test);
    }
}
