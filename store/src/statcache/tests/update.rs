use super::*;

#[test]
fn few_changes_of_a_folder_cost_what_they_are_and_come_back_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    let (mut cache, names) = big(&layout, workspace);
    let whole = cache.end;
    let mut now = cache.section(cache.trailer.root_section).unwrap();
    let mut costs = Vec::new();
    // Changed, removed and added at both ends and between, over and over.
    for round in 0..40_u64 {
        let mut next = now.clone();
        next.tree = TreeId([round as u8; 32]);
        let at = (round as usize * 7) % next.entries.len();
        next.entries[at].ino += 1;
        if round % 3 == 0 {
            let gone = [0, at, next.entries.len() - 1][round as usize / 3 % 3];
            next.entries.remove(gone);
        }
        if round % 4 == 0 {
            let name =
                [format!("a{round}"), format!("f{:03}x{round}", round % 60), format!("z{round}")][round as usize / 4 % 3].clone();
            let new = section(&[&name], round).entries.remove(0);
            let place = next.entries.partition_point(|entry| entry.node.name < new.node.name);
            next.entries.insert(place, new);
        }
        let mut writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
        assert!(writer.temporary.is_none(), "it is continued");
        let begin = writer.end;
        let known = (cache.trailer.root_section, &now);
        let root = writer.append_entries(next.tree, next.filesystem, &next.entries, Some(known)).unwrap();
        costs.push(writer.end - begin);
        let found = writer.lookup(root).unwrap().find(&next.entries[at.min(next.entries.len() - 1)].node.name);
        assert!(found.is_some());
        writer.finish(root, Ulid::generate(), next.tree, &Clock::now(), 5).unwrap();
        cache = StatCache::open(&layout, workspace).unwrap();
        assert_eq!(cache.section(root), Some(next.clone()), "round {round}");
        now = next;
    }
    let (cheap, dear): (Vec<u64>, Vec<u64>) = costs.iter().partition(|cost| **cost < whole / 8);
    // After eight patches a section is written whole, so that reading it stays cheap.
    assert_eq!((cheap.len(), dear.len()), (36, 4), "{costs:?}");
    // Of another filesystem nothing is taken over, nor where much has changed.
    let mut writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
    let known = (cache.trailer.root_section, &now);
    let begin = writer.end;
    let root = writer.append_entries(now.tree, FilesystemId([8; 16]), &now.entries, Some(known)).unwrap();
    assert!(writer.end - begin > whole / 2);
    let other = section(&names.iter().map(String::as_str).collect::<Vec<_>>(), 3);
    let begin = writer.end;
    let second = writer.append_entries(other.tree, other.filesystem, &other.entries, Some(known)).unwrap();
    assert!(writer.end - begin > whole / 2);
    writer.finish(root, Ulid::generate(), now.tree, &Clock::now(), 5).unwrap();
    let cache = StatCache::open(&layout, workspace).unwrap();
    assert_eq!(cache.section(root), Some(Section { filesystem: FilesystemId([8; 16]), ..now }));
    assert_eq!(cache.section(second), Some(other));
}

#[test]
fn until_an_update_is_finished_the_old_cache_holds() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    fs::create_dir(layout.cache()).unwrap();
    let workspace = Path::new("/invented/workspace");
    let (cache, _) = big(&layout, workspace);
    let path = path_for(&layout, workspace);
    let (bytes, then) = (fs::read(&path).unwrap(), cache.section(cache.trailer.root_section).unwrap());
    let is_as_then = || {
        let found = StatCache::open(&layout, workspace).unwrap();
        assert_eq!((found.trailer, found.section(found.trailer.root_section)), (cache.trailer, Some(then.clone())));
    };
    let mut first = Writer::create(&layout, workspace, Some(&cache)).unwrap();
    let root = first.append(&section(&["x"], 0)).unwrap();
    assert!(first.lookup(root).unwrap().find(b"x").is_some());
    is_as_then();
    // A second one, at the same time, continues nothing.
    let second = Writer::create(&layout, workspace, Some(&cache)).unwrap();
    assert!(!second.keeps_old && second.temporary.is_some());
    drop(second);
    // One that is given up leaves nothing; one that was killed leaves bytes that the next one cuts off.
    drop(first);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    fs::write(&path, [&bytes[..], &[7; 5000]].concat()).unwrap();
    is_as_then();
    let cache_again = StatCache::open(&layout, workspace).unwrap();
    let mut third = Writer::create(&layout, workspace, Some(&cache_again)).unwrap();
    let root = third.append(&section(&["y"], 0)).unwrap();
    third.finish(root, Ulid::generate(), TreeId([3; 32]), &Clock::now(), 5).unwrap();
    let found = StatCache::open(&layout, workspace).unwrap();
    assert_eq!(found.section(root), Some(section(&["y"], 0)));
    assert!(fs::metadata(&path).unwrap().len() < bytes.len() as u64 + 500);
    // Whoever has opened it before still reads what it was, and continues nothing of it.
    assert_eq!(cache_again.section(cache_again.trailer.root_section), Some(then));
    assert!(!Writer::create(&layout, workspace, Some(&cache_again)).unwrap().keeps_old);
}
