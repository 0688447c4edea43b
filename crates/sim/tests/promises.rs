//! The promises of the documents are backed by the evidence that they name: every test, checker and file that they speak of exists.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const DOCUMENTS: [&str; 3] = ["docs/reference/guarantees.md", "docs/internals/fault-model.md", "ARCHITECTURE.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All Rust sources of the crates, with their text.
fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("crates"), &mut found);
    found
}

/// The texts that a document sets in backticks; a block is one text.
fn named(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A sentence in one word: how tests are called here.
fn is_test_name(name: &str) -> bool {
    name.matches('_').count() >= 3 && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

#[test]
fn every_test_that_the_documents_name_is_in_the_sources() {
    let sources = sources();
    let mut tests = 0;
    for (document, name) in
        DOCUMENTS.iter().flat_map(|document| named(document).into_iter().map(move |n| (document, n)))
    {
        if is_test_name(&name) {
            let declared = format!("fn {name}(");
            assert!(sources.iter().any(|(_, text)| text.contains(&declared)), "{document}: there is no test {name}");
            tests += 1;
        }
    }
    assert!(tests >= 6, "only {tests} tests are named");
}

#[test]
fn every_file_that_the_documents_name_exists() {
    let sources = sources();
    let mut files = 0;
    for (document, name) in
        DOCUMENTS.iter().flat_map(|document| named(document).into_iter().map(move |n| (document, n)))
    {
        let path = name.trim_end_matches('/');
        if path.starts_with("crates/") || path.starts_with("xtask/") || path == "fuzz" {
            assert!(root().join(path).exists(), "{document}: there is no {name}");
            files += 1;
        } else if Path::new(path).extension().is_some_and(|extension| extension == "rs") {
            assert!(sources.iter().any(|(file, _)| file.ends_with(path)), "{document}: there is no {name}");
            files += 1;
        }
    }
    assert!(files >= 12, "only {files} files are named");
}

#[test]
fn a_planted_bug_may_survive_as_many_seeds_as_the_document_says() {
    let number = |text: &str, before: &str| -> u64 {
        let rest = text.split_once(before).unwrap().1;
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let said =
        number(&fs::read_to_string(root().join("docs/reference/guarantees.md")).unwrap(), "if it is not found within ");
    let test = fs::read_to_string(root().join("crates/sim/tests/mutants.rs")).unwrap();
    assert_eq!(said, number(&test, "const SEEDS_MAX: u64 = "));
}

#[test]
fn every_checker_is_named_and_every_checker_that_is_named_exists() {
    let text = fs::read_to_string(root().join("docs/reference/guarantees.md")).unwrap();
    let cells = text.lines().filter_map(|line| line.split('|').nth(2)).filter(|cell| cell.contains("checker"));
    let named: BTreeSet<_> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    let mut there = BTreeSet::new();
    for entry in fs::read_dir(root().join("crates/sim/src/checkers")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        there.extend(name.strip_suffix(".rs").filter(|name| *name != "mod").map(str::to_owned));
    }
    assert_eq!(named, there);
}
