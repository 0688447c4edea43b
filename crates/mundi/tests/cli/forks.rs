//! Forks by the command line.

use crate::{
    process::Server,
    program::{at, run},
};

#[test]
fn the_table_of_policies_is_in_the_help_and_on_its_page() {
    let table = mundi_model::FORK_POLICIES;
    assert!(run(&["world", "fork", "--help"]).ok().contains(table.trim_end()));
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/concepts/fork.md")).unwrap();
    assert!(page.contains(table));
    for policy in mundi_model::record::EffectPolicy::OFFERED {
        assert!(table.contains(&format!("| `{}`", policy.as_str())), "{policy:?}");
    }
}

#[tokio::test]
async fn a_sandbox_is_made_with_a_file_of_answers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = folder.path().join("answers.json");
    let answers = file.to_str().unwrap();
    at(&server.url, &["world", "create", "p", "--program", "kv"]).ok();
    let fork = ["world", "fork", "p", "s", "--effects", "sandbox", "--answers", answers];
    at(&server.url, &fork).failed(3, "ANSWERS_INVALID");
    std::fs::write(&file, "[{").unwrap();
    at(&server.url, &fork).failed(3, "ANSWERS_INVALID");
    std::fs::write(&file, r#"[{ "kind": "http.request", "payload": "scripted" }]"#).unwrap();
    at(&server.url, &fork).ok();
    let described = at(&server.url, &["--format", "json", "world", "describe", "s"]).ok();
    let described: serde_json::Value = serde_json::from_str(&described).unwrap();
    assert_eq!(described["effects"], "sandbox");
    let question = r#"{"key": "k", "kind": "http.request", "params": {"url": "http://127.0.0.1:1/"}}"#;
    at(&server.url, &["world", "call", "s", "ask", question]).ok();
    for _ in 0..200 {
        if at(&server.url, &["world", "query", "s", "get", "k"]).ok().contains("scripted") {
            return;
        }
    }
    panic!("the script did not answer");
}
