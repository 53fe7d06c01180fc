//! The folder: what is found, what is not, what goes.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn put(cache: &Cache, key: u128, program: &[u8]) -> PathBuf {
    let scratch = Scratch::new(cache.folder()).unwrap();
    let sealed = seal(scratch.folder(), key, program).unwrap();
    cache.take(&sealed, key).unwrap()
}

fn set_age(path: &Path, seconds: u64) {
    let modified = SystemTime::now() - Duration::from_secs(seconds);
    File::open(path).unwrap().set_modified(modified).unwrap();
}

#[test]
fn what_was_put_is_found_under_its_key_alone_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let path = put(&cache, 7, b"a program");
    assert_eq!(cache.find(7), Some((path.clone(), b"a program".to_vec())));
    assert_eq!(cache.find(8), None);
    std::fs::rename(&path, cache.path(8)).unwrap();
    assert_eq!(cache.find(8), None, "another's file under this name");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_with_any_byte_changed_or_missing_is_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let path = put(&cache, 7, b"a program");
    let whole = std::fs::read(&path).unwrap();
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(cache.find(7), None, "byte {position}");
        std::fs::write(&path, &whole[..position]).unwrap();
        assert_eq!(cache.find(7), None, "cut at {position}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert!(cache.find(7).is_some());
}

#[test]
fn beyond_the_bound_the_least_recently_used_go() {
    let folder = tempfile::tempdir().unwrap();
    let size = 1000 + TAIL_BYTES as u64;
    let cache = Cache::open_bounded(folder.path(), 3 * size).unwrap();
    for key in 0..3 {
        set_age(&put(&cache, key, &[0; 1000]), 100 - key as u64);
    }
    assert!(cache.find(0).is_some(), "three fit; this use renews the first");
    put(&cache, 3, &[0; 1000]);
    let found: Vec<u128> = (0..4).filter(|key| cache.find(*key).is_some()).collect();
    assert_eq!(found, [0, 2, 3]);
    put(&cache, 4, &[0; 5000]);
    let found: Vec<u128> = (0..5).filter(|key| cache.find(*key).is_some()).collect();
    assert_eq!(found, [4], "what was just compiled stays, whatever its size");
}

#[test]
fn scratch_folders_left_over_go_and_those_in_use_stay() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    let (old, new) = (Scratch::new(folder.path()).unwrap(), Scratch::new(folder.path()).unwrap());
    set_age(old.folder(), SCRATCH_AGE_MAX.as_secs() + 60);
    put(&cache, 1, b"a program");
    assert!(!old.folder().exists() && new.folder().exists());
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let set = |mode| std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(mode)).unwrap();
    for (mode, is_used) in [(0o700, true), (0o755, true), (0o770, false), (0o702, false), (0o1777, false)] {
        set(mode);
        assert_eq!(Cache::open(folder.path()).is_some(), is_used, "{mode:o}");
    }
    let metadata = folder.path().metadata().unwrap();
    set(0o700);
    assert!(!is_private(&folder.path().metadata().unwrap(), metadata.uid() + 1), "of another user");
}

#[test]
fn a_folder_is_made_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    assert!(Cache::open(&below).is_some());
    for made in [folder.path().join("a"), below] {
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Cache::open(&file).is_none());
    assert!(Cache::open(&file.join("below")).is_none());
}

#[test]
fn keys_tell_parts_apart() {
    assert_ne!(key(&["ab", "c"]), key(&["a", "bc"]));
    assert_eq!(key(&["ab", "c"]), key(&["ab", "c"]));
}
