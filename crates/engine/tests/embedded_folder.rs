//! The data folder: bad ones are refused with a code and left as they were; backups bring a state back.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test")]

mod support;

use mundi_engine::{Embedded, Engine, EngineError, RangeRead, Transaction, embedded};
use mundi_model::{Code, Coded};
use object_store::{ObjectStoreExt, memory::InMemory, path::Path as ObjectPath};
use pollster::block_on;
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

type Contents = Vec<(Vec<u8>, Vec<u8>)>;

fn options() -> embedded::Options {
    embedded::Options { segment_bytes: 64 << 10, memtable_bytes: 32 << 10, ..embedded::Options::default() }
}

/// A folder with some hundred keys, part of them in files of the tree.
fn filled(path: &Path) -> Contents {
    let engine = Embedded::open_with(path, &options()).unwrap();
    block_on(async {
        for number in 0..400u32 {
            let mut tx = engine.begin().await.unwrap();
            tx.put(format!("key-{number:05}").as_bytes(), vec![number as u8; 300]).unwrap();
            tx.commit().await.unwrap();
        }
    });
    contents(&engine).unwrap()
}

fn contents(engine: &Embedded) -> Result<Contents, EngineError> {
    block_on(async {
        let mut tx = engine.begin().await?;
        let page = tx.range(RangeRead::new(&b""[..], &b"\xff"[..], 10_000)).await?;
        Ok(page.items.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
    })
}

/// Every file below a folder but the lock, whose content is nothing.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if !path.ends_with("lock") {
            found.insert(path.display().to_string(), fs::read(&path).unwrap());
        }
    }
    found
}

fn refused(path: &Path) -> Code {
    Embedded::open_with(path, &options()).unwrap_err().code()
}

#[test]
fn a_folder_in_use_is_refused_and_free_again_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Embedded::open(folder.path()).unwrap();
    assert_eq!(refused(folder.path()), Code::FolderInUse);
    drop(engine);
    Embedded::open(folder.path()).unwrap();
}

#[test]
fn a_file_a_path_through_a_file_and_a_strangers_folder_are_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, b"mine").unwrap();
    assert_eq!(refused(&file), Code::FolderInvalid);
    assert_eq!(refused(&file.join("below")), Code::FolderInvalid);
    assert_eq!(refused(folder.path()), Code::FolderInvalid);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn another_format_a_lost_marker_and_a_lost_log_are_refused_untouched() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let marker = folder.path().join("log/format");
    let text = fs::read_to_string(&marker).unwrap();
    let check = |code: Code| {
        let before = files(folder.path());
        assert_eq!(refused(folder.path()), code);
        assert_eq!(files(folder.path()), before);
    };
    for other in [" 1 ", " 3 "] {
        fs::write(&marker, text.replace(" 2 ", other)).unwrap();
        check(Code::FolderVersion);
    }
    fs::write(&marker, "something else").unwrap();
    check(Code::EngineCorrupt);
    fs::remove_file(&marker).unwrap();
    check(Code::EngineCorrupt);
    fs::write(&marker, text).unwrap();
    let watermark = folder.path().join("log/acknowledged");
    let kept = fs::read(&watermark).unwrap();
    fs::remove_file(&watermark).unwrap();
    check(Code::EngineCorrupt);
    fs::write(&watermark, kept).unwrap();
    let list_of_files = folder.path().join("tree/current");
    let kept = fs::read(&list_of_files).unwrap();
    fs::remove_file(&list_of_files).unwrap();
    check(Code::EngineCorrupt);
    check(Code::EngineCorrupt);
    fs::write(&list_of_files, kept).unwrap();
    for name in fs::read_dir(folder.path().join("log")).unwrap().map(|entry| entry.unwrap().path()) {
        if name.extension().is_some_and(|extension| extension == "log") {
            fs::remove_file(name).unwrap();
        }
    }
    check(Code::EngineCorrupt);
}

#[test]
fn a_folder_without_permission_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let is_enforced = fs::read_dir(&closed).is_err(); // the superuser may do anything
    let outcome = Embedded::open(closed.join("data"));
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    if is_enforced {
        assert_eq!(outcome.unwrap_err().code(), Code::FolderDenied);
    }
}

#[test]
fn a_damaged_file_of_the_tree_is_noticed_or_harmless() {
    let folder = support::fast_folder();
    let expected = filled(folder.path());
    let tree = files(&folder.path().join("tree"));
    assert!(tree.len() > 2, "{:?}", tree.keys());
    let mut noticed = 0;
    for (name, bytes) in &tree {
        for offset in (0..bytes.len()).step_by(1 + bytes.len() / 60) {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 0x10;
            fs::write(name, damaged).unwrap();
            match Embedded::open_with(folder.path(), &options()).and_then(|engine| contents(&engine)) {
                Ok(found) => assert!(found == expected, "{name} at {offset}: wrong data was served"),
                Err(error) => {
                    assert_eq!(error.code(), Code::EngineCorrupt, "{name} at {offset}: {error}");
                    noticed += 1;
                }
            }
            // Opening may have written files; the next damage is done to the same folder as before.
            fs::remove_dir_all(folder.path().join("tree")).unwrap();
            fs::create_dir_all(folder.path().join("tree/tables")).unwrap();
            tree.iter().for_each(|(name, bytes)| fs::write(name, bytes).unwrap());
        }
    }
    assert!(noticed > 50, "only {noticed}");
}

const PREFIX: &str = "backups/one";

fn back_up(store: &InMemory) -> (tempfile::TempDir, Contents) {
    let folder = tempfile::tempdir().unwrap();
    let expected = filled(folder.path());
    let engine = Embedded::open_with(folder.path(), &options()).unwrap();
    let written = block_on(embedded::backup(&engine, store, &ObjectPath::from(PREFIX), |_| {})).unwrap();
    assert_eq!(written.keys, expected.len() as u64);
    (folder, expected)
}

fn restored(store: &InMemory, path: &Path) -> Result<Embedded, EngineError> {
    block_on(embedded::restore(path, &options(), store, &ObjectPath::from(PREFIX), |_| {}))?;
    Embedded::open_with(path, &options())
}

#[test]
fn a_backup_brings_the_state_back_and_stamps_go_on_rising() {
    let store = InMemory::new();
    let (original, expected) = back_up(&store);
    let stamp = |engine: &Embedded| {
        block_on(async {
            let mut tx = engine.begin().await.unwrap();
            tx.put(b"later", &b"x"[..]).unwrap();
            tx.commit().await.unwrap().stamp().unwrap()
        })
    };
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("restored");
    let engine = restored(&store, &target).unwrap();
    assert_eq!(contents(&engine).unwrap(), expected);
    let original = Embedded::open_with(original.path(), &options()).unwrap();
    assert_eq!(stamp(&engine), stamp(&original));
    drop(engine);
    assert_eq!(contents(&Embedded::open_with(&target, &options()).unwrap()).unwrap().len(), expected.len() + 1);
    assert_eq!(restored(&store, &target).unwrap_err().code(), Code::FolderInvalid);
    let again = block_on(embedded::backup(&original, &store, &ObjectPath::from(PREFIX), |_| {}));
    assert_eq!(again.unwrap_err().code(), Code::BackupFailed, "a good backup is not overwritten");
}

#[test]
fn a_backup_is_one_state_though_commits_go_on() {
    let folder = support::fast_folder();
    let engine = Embedded::open_with(folder.path(), &options()).unwrap();
    let write_round = |round: u32| {
        block_on(async {
            let mut tx = engine.begin().await.unwrap();
            for key in 0..50u32 {
                tx.put(format!("key-{key}").as_bytes(), vec![round as u8; 200]).unwrap();
            }
            tx.commit().await.unwrap();
        });
    };
    write_round(0);
    let store = InMemory::new();
    std::thread::scope(|scope| {
        scope.spawn(|| (1..100).for_each(write_round));
        block_on(embedded::backup(&engine, &store, &ObjectPath::from(PREFIX), |_| {})).unwrap();
    });
    let target = support::fast_folder();
    let found = contents(&restored(&store, &target.path().join("restored")).unwrap()).unwrap();
    assert_eq!(found.len(), 50);
    assert!(found.iter().all(|(_, value)| *value == found[0].1), "a torn backup");
}

#[test]
fn a_damaged_or_unfinished_backup_is_refused_and_the_folder_can_be_filled_again() {
    let store = InMemory::new();
    let (_original, expected) = back_up(&store);
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("restored");
    for name in ["manifest", "part-00000000"] {
        let path = ObjectPath::from(format!("{PREFIX}/{name}"));
        let good = block_on(async { store.get(&path).await.unwrap().bytes().await.unwrap() });
        for at in [0, good.len() / 2, good.len() - 9] {
            let mut damaged = good.to_vec();
            damaged[at] ^= 1;
            block_on(store.put(&path, damaged.into())).unwrap();
            assert_eq!(restored(&store, &target).unwrap_err().code(), Code::BackupInvalid, "{name} at {at}");
        }
        block_on(store.delete(&path)).unwrap();
        assert_eq!(restored(&store, &target).unwrap_err().code(), Code::BackupInvalid, "{name} missing");
        block_on(store.put(&path, good.into())).unwrap();
    }
    assert_eq!(refused(&target), Code::FolderInvalid, "half a restore does not open as an empty store");
    assert_eq!(contents(&restored(&store, &target).unwrap()).unwrap(), expected);
}
