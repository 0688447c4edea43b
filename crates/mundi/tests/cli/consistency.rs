//! The visibility of sent events to a query, and the ways to wait for it.

use crate::{
    process::Server,
    program::{Done, at, mundi},
};
use serde_json::Value;
use std::process::{Child, Command, Stdio};

fn state(server: &Server, world: &str) -> String {
    let found = at(&server.url, &["--format", "json", "world", "describe", world]).ok();
    serde_json::from_str::<Value>(&found).unwrap()["state"].as_str().unwrap().to_owned()
}

/// A query that waits, in a process of its own.
fn ask(server: &Server, at_least: &str) -> Child {
    let mut query: Command = mundi();
    query.env("MUNDI_URL", &server.url).args(["world", "query", "alice", "count", "--timeout", "5m", "--at-least"]);
    query.arg(at_least).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn answered(query: Child) -> String {
    Done::from(query.wait_with_output().unwrap()).ok()
}

#[test]
fn a_query_waits_until_the_world_has_taken_in_what_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let run = |arguments: &[&str]| at(&server.url, arguments);
    run(&["world", "create", "alice", "--program", "counter"]).ok();
    // A place that was just sent to, whichever way the event took.
    for total in 1..=5 {
        let place = run(&["world", "send", "alice", "add", "1"]).ok();
        assert_eq!(answered(ask(&server, place.trim())), format!("{total}\n"));
    }
    // A world that takes nothing in is waited for, and no longer than was said.
    run(&["world", "pause", "alice"]).ok();
    while state(&server, "alice") != "paused" {
        std::thread::yield_now(); // each question is a process of its own
    }
    let place = run(&["world", "send", "alice", "add", "10"]).ok();
    let place = place.trim();
    assert_eq!(run(&["world", "query", "alice", "count"]).ok(), "5\n", "a query does not wait by itself");
    let late = run(&["world", "query", "alice", "count", "--at-least", place, "--timeout", "10ms"]);
    late.failed(6, "REQUEST_TIMEOUT");
    let query = ask(&server, place);
    run(&["world", "resume", "alice"]).ok();
    assert_eq!(answered(query), "15\n");
    // A height is taken, too; what is neither is refused, and so is a world that is not there.
    let head = run(&["--format", "json", "world", "describe", "alice"]).ok();
    let head = serde_json::from_str::<Value>(&head).unwrap()["head"].to_string();
    assert_eq!(answered(ask(&server, &head)), "15\n");
    run(&["world", "query", "alice", "count", "--at-least", "soon"]).failed(3, "at_least");
    run(&["world", "query", "nobody", "count", "--at-least", place]).failed(4, "WORLD_NOT_FOUND");
}
