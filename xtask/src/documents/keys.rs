//! `docs/internals/keys.md` has a row for each key family, which says what the family's file says.

use super::{files, read};
use std::collections::BTreeMap;

const PAGE: &str = "docs/internals/keys.md";
const FAMILIES: &str = "crates/store/src/keyspace/mod.rs";

/// Values that are no type of the family's file.
const PLAIN: [&str; 6] = ["empty", "counter", "8 bytes", "hashes", "frame", "records"];

/// A family as [`FAMILIES`] lists it: its ordinal as two hex digits, and its name in the code.
fn families() -> BTreeMap<String, String> {
    let text = read(FAMILIES).unwrap();
    let family = |line: &str| {
        let (name, rest) = line.trim().split_once(" = 0x")?;
        Some((rest.get(..2)?.to_owned(), name.to_owned()))
    };
    let found: BTreeMap<_, _> = text.lines().filter(|line| line.ends_with("\";")).filter_map(family).collect();
    found.into_iter().filter(|(_, name)| name != "World").collect() // the prefix of the families of a world
}

/// Whether the head of a family's file says that its key changes in this way.
fn says(head: &str, changes: &str) -> bool {
    match changes {
        "immutable" => head.contains("mmutable"),
        "monotonic" => ["onotonic", "only rise", "only moves forward"].iter().any(|word| head.contains(word)),
        "free" => head.contains("Free"),
        "counter" => head.contains("counter") || head.contains("Counter") || head.contains("rises"),
        _ => false,
    }
}

#[test]
fn every_key_family_has_a_row_that_says_what_its_file_says() {
    let page = read(PAGE).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let (mut families, mut wrong) = (families(), Vec::new());
    assert!(families.len() > 50, "only {} families were found", families.len());
    let sources: Vec<_> =
        files(".rs").into_iter().filter(|path| path.starts_with("crates/store/src/keyspace/")).collect();
    let sources: Vec<_> = sources.iter().map(|path| read(path).unwrap()).collect();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
        let [ordinal, form, value, changes] = &cells[..] else { panic!("{row}") };
        let Some(name) = families.remove(ordinal) else {
            wrong.push(format!("{ordinal} is no family, or is there twice"));
            continue;
        };
        // The file, or in a file of two families the function, whose comment begins with the key.
        let begins = [format!("//! `{form}`"), format!("/// `{form}`")];
        let file = sources.iter().find(|text| {
            text.contains(&format!("Family::{name}")) && begins.iter().any(|begin| text.contains(begin.as_str()))
        });
        let Some(file) = file else {
            wrong.push(format!("{ordinal}: no file of {name} has the key `{form}`"));
            continue;
        };
        if !PLAIN.contains(&value.as_str()) && !file.contains(value.as_str()) {
            wrong.push(format!("{ordinal}: the file of {name} has no `{value}`"));
        }
        let head: String = file.lines().take_while(|line| line.starts_with("//!")).collect();
        let counts = changes == "counter" && file.contains("rises");
        if !says(&head, changes) && !counts {
            wrong.push(format!("{ordinal}: the file of {name} does not say that the key is {changes}"));
        }
    }
    wrong.extend(families.iter().map(|(ordinal, name)| format!("{ordinal} ({name}) has no row")));
    assert!(wrong.is_empty(), "{PAGE}\n{}", wrong.join("\n"));
}
