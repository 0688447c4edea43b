//! The rules of ARCHITECTURE.md about which crate may know what, checked against manifests and sources.

use crate::documents::{files, read};
use std::collections::BTreeMap;

/// Each crate, and the crates of the workspace that it may depend on. Those that it may not are as important.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("engine", &["model"]),
    ("store", &["model", "engine"]),
    ("kernel", &["model"]),
    ("wasm", &["model", "kernel"]),
    ("runtime", &["model", "engine", "store", "kernel"]),
    ("adapters", &["model", "store", "kernel", "runtime"]),
    ("native", &["model", "kernel", "sdk"]),
    ("sim", &["model", "engine", "store", "kernel", "native", "runtime", "adapters", "sdk"]),
    ("sql", &["model"]),
    ("server", &["model", "engine", "store", "kernel", "runtime", "adapters", "sql"]),
    ("bench", &["model", "engine", "store", "kernel", "wasm", "runtime", "server"]),
    ("mundi", &["model", "engine", "store", "kernel", "wasm", "runtime", "sim", "server", "bench", "client"]),
];

/// Libraries, and the only crates that may depend on them.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("tokio", &["engine", "adapters", "server", "bench", "mundi"]),
    ("hyper", &["adapters", "server"]),
    ("axum", &["server"]),
    ("wasmtime", &["wasm"]),
    ("tokio-postgres", &["engine"]),
    ("foundationdb", &["engine"]),
    ("rusqlite", &["sql"]),
];

/// In the sources of a crate, words that its code never says. Comments and tests may.
const WORDS: &[(&str, &[&str], &str)] = &[
    // Error texts speak of the awaits of functions; code cannot await without `async`.
    ("model", &["async"], "the model is data"),
    ("kernel", &["async", "await"], "a step waits for nothing"),
    (
        "engine",
        &["UniverseId", "WorldId", "IntentHash", "InboxSeq", "keyspace", "inbox", "mailbox", "journal", "world"],
        "an engine has keys and values, and does not know of what",
    ),
    ("server", &["keyspace", "Transaction"], "the server knows no key: it asks `runtime::control`"),
    ("mundi", &["keyspace", "Transaction"], "the program knows no key"),
    ("adapters", &["keyspace", "Transaction"], "an adapter knows no key"),
];

/// The names of the dependencies of a crate, those of its tests left out.
fn dependencies(home: &str) -> Vec<String> {
    let manifest = read(&format!("crates/{home}/Cargo.toml")).unwrap();
    let mut names = Vec::new();
    let mut counts = false;
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            counts = section.ends_with("dependencies]") && !section.contains("dev-dependencies");
        } else if counts && let Some(end) = line.find([' ', '.', '=']) {
            names.push(line[..end].to_owned());
        }
    }
    names
}

/// The code of a file up to its tests, without comments.
fn code(path: &str) -> String {
    let text = read(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// Whether code says a word: `Transaction`, and not `TransactionTooLarge`.
fn says(code: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        !before.ends_with(part) && !after.starts_with(part)
    })
}

#[test]
fn a_crate_depends_only_on_what_it_may_know() {
    let allowed: BTreeMap<_, _> = DEPENDENCIES.iter().copied().collect();
    let mut wrong = Vec::new();
    for manifest in files("Cargo.toml") {
        let Some(home) = manifest.strip_prefix("crates/").and_then(|path| path.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let Some(may) = allowed.get(home) else {
            wrong.push(format!("crates/{home} has no line in the table: say what it may know"));
            continue;
        };
        for name in dependencies(home) {
            if name.strip_prefix("mundi-").is_some_and(|other| !may.contains(&other)) {
                wrong.push(format!("crates/{home} depends on {name}"));
            }
            if LIBRARIES.iter().any(|(library, homes)| *library == name && !homes.contains(&home)) {
                wrong.push(format!("crates/{home} depends on {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "see ARCHITECTURE.md\n{}", wrong.join("\n"));
    for (home, _) in DEPENDENCIES {
        assert!(!dependencies(home).is_empty(), "crates/{home} was not read");
    }
}

#[test]
fn code_names_nothing_that_its_crate_must_not_know() {
    let mut wrong = Vec::new();
    let sources = files(".rs");
    for (home, words, why) in WORDS {
        let prefix = format!("crates/{home}/src/");
        let own: Vec<_> = sources.iter().filter(|path| path.starts_with(&prefix)).collect();
        assert!(own.len() > 5, "crates/{home} was not found");
        for path in own {
            let code = code(path);
            let said = words.iter().filter(|word| says(&code, word));
            wrong.extend(said.map(|word| format!("{path} says `{word}`: {why}")));
        }
    }
    assert!(wrong.is_empty(), "see ARCHITECTURE.md\n{}", wrong.join("\n"));
}

#[test]
fn a_word_is_found_as_a_whole() {
    assert!(says("use mundi_store::keyspace::token;", "keyspace") && says("a.await?", "await"));
    assert!(!says("TransactionTooLarge", "Transaction") && !says("keyspaces", "keyspace"));
}
