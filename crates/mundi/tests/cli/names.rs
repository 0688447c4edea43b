//! The name that a world is created under is stored, listed and shown.

use crate::{process::Server, program::at};
use serde_json::Value;

#[test]
fn a_name_is_stored_and_shown_wherever_a_world_is() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let json = |arguments: &[&str]| -> Value {
        let arguments = [&["--format", "json"], arguments].concat();
        serde_json::from_str(&at(&server.url, &arguments).ok()).unwrap()
    };
    at(&server.url, &["world", "create", "alice", "--program", "counter"]).ok();
    at(&server.url, &["world", "create", "alice", "--program", "counter"]).ok();
    at(&server.url, &["world", "call", "alice", "add", "2"]).ok();
    at(&server.url, &["world", "fork", "alice", "bob"]).ok();
    let id = "w_00000000000000000000000009";
    at(&server.url, &["world", "create", id, "--program", "counter"]).ok();
    for (world, name) in [("alice", Value::from("alice")), ("bob", "bob".into()), (id, Value::Null)] {
        assert_eq!(json(&["world", "describe", world])["name"], name, "{world}");
    }
    let alice = json(&["world", "describe", "alice"])["world"].as_str().unwrap().to_owned();
    assert_eq!(json(&["world", "describe", &alice])["name"], "alice", "by its id");
    let mut names: Vec<_> =
        json(&["world", "list"])["items"].as_array().unwrap().iter().map(|world| world["name"].to_string()).collect();
    names.sort();
    assert_eq!(names, ["\"alice\"", "\"bob\"", "null"]);
    // A program may be told a name, too.
    at(&server.url, &["world", "create", "notes", "--program", "kv"]).ok();
    at(&server.url, &["world", "create", "copy", "--program", "kv"]).ok();
    at(&server.url, &["world", "call", "notes", "tell", r#"{"world": "copy", "key": "a", "value": 1}"#]).ok();
    while at(&server.url, &["world", "query", "copy", "get", "a"]).ok() != "1\n" {}
    let listed = at(&server.url, &["world", "list"]).ok();
    assert!(listed.starts_with("NAME") && listed.contains("alice"), "{listed}");
}
