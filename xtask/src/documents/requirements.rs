//! Every file and test that `docs/internals/requirements.md` names exists.

use super::{files, read};
use std::collections::BTreeSet;

const PAGE: &str = "docs/internals/requirements.md";

/// The cells of each row that has an id.
fn rows(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter(|line| line.starts_with("| R-"));
    rows.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect()).collect()
}

/// `crate/file.rs` is a file of that name anywhere in the crate.
fn exists(file: &str, sources: &[String]) -> bool {
    let Some((home, name)) = file.split_once('/') else { return false };
    let (home, name) = (format!("crates/{home}/"), format!("/{name}"));
    sources.iter().any(|source| source.starts_with(&home) && source.ends_with(&name))
}

#[test]
fn every_requirement_names_a_file_and_a_test_that_exist() {
    let sources: Vec<_> = files(".rs").into_iter().filter(|path| path.starts_with("crates/")).collect();
    let tests: Vec<_> = sources.iter().map(|path| read(path).unwrap()).collect();
    let (mut ids, mut wrong) = (BTreeSet::new(), Vec::new());
    for row in rows(&read(PAGE).unwrap()) {
        let id = &row[0];
        if !ids.insert(id.clone()) {
            wrong.push(format!("{id} is there twice"));
        }
        match &row[..] {
            [_, _, file, test] => {
                if !exists(file, &sources) {
                    wrong.push(format!("{id}: there is no {file}"));
                }
                // Tests that run on every engine are declared by a macro.
                let declared = [format!("fn {test}("), format!("{test} => |engine|")];
                if !tests.iter().any(|text| declared.iter().any(|it| text.contains(it))) {
                    wrong.push(format!("{id}: there is no test {test}"));
                }
            }
            _ => wrong.push(format!("{id} names no file and no test")),
        }
    }
    assert!(wrong.is_empty(), "{PAGE}\n{}", wrong.join("\n"));
    assert!(ids.len() > 100, "only {} requirements were found", ids.len());
}

/// A comment that cites a requirement cites one that is there.
#[test]
fn every_requirement_that_a_source_cites_is_listed() {
    let page = read(PAGE).unwrap();
    let listed: BTreeSet<_> = rows(&page).into_iter().map(|row| row[0].clone()).collect();
    for source in files(".rs").iter().filter(|path| path.starts_with("crates/")) {
        let text = read(source).unwrap();
        for rest in text.split("(R-").skip(1) {
            let end =
                rest.find(|c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
            let cited = format!("R-{}", &rest[..end]);
            assert!(listed.contains(&cited), "{source} cites {cited}, which is not in {PAGE}");
        }
    }
}

/// A comment cites requirements, never a document that is not in the repository.
#[test]
fn no_source_cites_a_document_from_outside() {
    let outside = ["FACTS", "Seed 0", "seed 00", "Document 0", "document 00", "DESIGN.md", "STYLE.md"];
    let cites = |path: &String| {
        let text = read(path).unwrap();
        outside.iter().find(|word| text.contains(**word)).map(|word| format!("{path} cites `{word}`"))
    };
    let sources = files(".rs").into_iter().filter(|path| !path.starts_with("xtask/"));
    let wrong: Vec<_> = sources.chain(files(".md")).filter_map(|path| cites(&path)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
