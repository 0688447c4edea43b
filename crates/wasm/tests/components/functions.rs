//! Compiled functions that the next component finds.

use mundi_model::limits;
use mundi_wasm::Compiler;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

/// Two functions: one differs from component to component, as does the data; the other one is the same in all.
fn component(number: u32) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $m
                (memory 1) (data (i32.const 0) "{number}")
                (func (export "own") (result i32) (i32.const {number}))
                (func (export "shared") (param i32) (result i32)
                    (loop $again
                        (local.set 0 (i32.add (local.get 0) (i32.const 3)))
                        (br_if $again (i32.lt_s (local.get 0) (i32.const 99))))
                    (local.get 0)))
            (core instance (instantiate $m)))"#
    );
    wat::parse_str(text).unwrap()
}

/// The compiled component; in a folder, what was compiled for it is left there.
fn compiled(folder: Option<&Path>, number: u32) -> Vec<u8> {
    let compiler = Compiler::new(folder).unwrap();
    let code = compiler.compile(&component(number)).unwrap();
    compiler.keep();
    code
}

/// The files of a folder with their sizes: each compilation that found not all functions has added one.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let about = |entry: fs::DirEntry| (entry.path(), entry.metadata().unwrap().len());
    fs::read_dir(folder).unwrap().map(|entry| about(entry.unwrap())).collect()
}

fn changed(path: &Path, seconds: u64) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(moment).unwrap();
}

/// Tries until a function was found. The name that the compiler asks by also depends on what its thread compiled before, so it finds most
/// functions and not always all.
const TRIES: usize = 50;

#[test]
fn functions_of_another_component_are_found_and_the_code_is_the_same_byte_for_byte() {
    let alone = compiled(None, 7);
    let added = |number: u32, folder: &Path| {
        let before = files(folder);
        assert!(compiled(Some(folder), number) == if number == 7 { alone.clone() } else { compiled(None, number) });
        files(folder).into_iter().filter(|file| !before.contains(file)).map(|(_, bytes)| bytes).sum::<u64>()
    };
    let sizes = || {
        let folder = tempfile::tempdir().unwrap();
        [1, 7, 7].map(|number| added(number, folder.path()))
    };
    let tried: Vec<_> = (0..TRIES).map(|_| sizes()).collect();
    assert!(tried.iter().any(|[first, own, _]| 0 < *own && own < first), "its own function alone: {tried:?}");
    assert!(tried.iter().any(|[.., again]| *again == 0), "all functions were found: {tried:?}");
}

#[test]
fn damaged_functions_are_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let whole = compiled(None, 1);
    let kept = || {
        files(folder.path()).iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        compiled(Some(folder.path()), 1);
        fs::read(&files(folder.path())[0].0).unwrap()
    };
    let added_with = |bytes: &[u8]| {
        files(folder.path()).iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        let damaged = folder.path().join("damaged");
        fs::write(&damaged, bytes).unwrap();
        assert!(compiled(Some(folder.path()), 1) == whole, "what is damaged is not used");
        let added: Vec<u64> = files(folder.path()).iter().filter(|(path, _)| *path != damaged).map(|it| it.1).collect();
        added.iter().sum::<u64>()
    };
    assert!((0..TRIES).any(|_| added_with(&kept()) == 0), "whole");
    let bytes = kept();
    let size = bytes.len() as u64;
    let flipped = |at: usize| {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        flipped
    };
    assert!((0..TRIES).map(|_| added_with(&flipped(0))).all(|one| 0 < one && one <= size), "one function is damaged");
    for at in [bytes.len() - 1, bytes.len() - 9, bytes.len() - 60] {
        assert_eq!(added_with(&flipped(at)), size, "the index is damaged, at {at}");
    }
    for len in [0, 7, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(added_with(&bytes[..len]), size, "{len} bytes are left");
    }
}

#[test]
fn functions_that_nobody_uses_give_way() {
    let is_kept = || {
        let folder = tempfile::tempdir().unwrap();
        compiled(Some(folder.path()), 1);
        let first = files(folder.path()).remove(0).0;
        changed(&first, 1);
        for number in 0..limits::COMPILED_FUNCTION_FILES_MAX {
            let other = folder.path().join(number.to_string());
            fs::write(&other, "no functions").unwrap();
            changed(&other, 2);
        }
        compiled(Some(folder.path()), 2);
        assert_eq!(files(folder.path()).len(), limits::COMPILED_FUNCTION_FILES_MAX);
        first.exists()
    };
    assert!((0..TRIES).any(|_| is_kept()), "it was used just now, for the function that both have");
}
