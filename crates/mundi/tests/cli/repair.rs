//! Failed steps on the command line: seen, retried, skipped, fixed on a fork; and what programs log.

use crate::{guest::superstitious, process::Server, program::at};
use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
};

#[tokio::test]
async fn an_operator_sees_a_failure_and_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let document = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ask(&[&["--format", "json"], arguments].concat()).ok()).unwrap()
    };
    let upload = |name: &str, code: Vec<u8>| {
        let path = folder.path().join(name);
        fs::write(&path, code).unwrap();
        document(&["manifest", "show", ask(&["program", "upload", path.to_str().unwrap()]).ok().trim()])
    };
    let mut manifest = upload("superstitious.wasm", superstitious());
    manifest["on_failure"] = "hold".into();
    let stored = server.post("/v1/u/default/manifests", &manifest).await.ok(201);
    let hash = stored["hash"].as_str().unwrap();
    let other = ask(&["program", "upload", folder.path().join("superstitious.wasm").to_str().unwrap()]).ok();
    ask(&["world", "create", "alice", "--manifest", hash]).ok();
    ask(&["world", "skip", "alice"]).failed(5, "WORLD_NOT_ON_HOLD");
    let failed = ask(&["world", "call", "alice", "go", "13"]);
    assert!(failed.err.contains("PROGRAM_TRAPPED") && failed.err.contains("at height 1"), "{}", failed.err);
    while document(&["world", "list", "--on-hold"])["items"].as_array().unwrap().is_empty() {}
    assert_eq!(document(&["world", "list", "--failed"])["items"][0]["failures"], 1);
    assert!(ask(&["world", "list"]).ok().lines().next().unwrap().contains("FAILED"));
    let doctor = ask(&["doctor"]).ok();
    assert!(doctor.contains("failed worlds   look") && doctor.contains("worlds on hold  look"), "{doctor}");
    assert!(ask(&["world", "journal", "alice"]).ok().contains("at event go: PROGRAM_TRAPPED"));

    // On a branch with another manifest the world continues.
    ask(&["world", "fork", "alice", "branch", "--manifest", other.trim()]).ok();
    assert_eq!(ask(&["world", "call", "branch", "go", "2"]).ok(), "2\n");
    let manifest_of = |world: &str| document(&["world", "describe", world])["manifest"].clone();
    assert_eq!(manifest_of("branch"), other.trim());
    assert_eq!(manifest_of("alice"), hash, "the parent was only read");

    ask(&["world", "retry", "alice"]).ok();
    while document(&["world", "describe", "alice"])["hold"].is_null() {} // it fails again
    let skipped = document(&["world", "skip", "alice"]);
    assert!(skipped["operator"].is_string() && skipped["input"].is_string(), "{skipped}");
    assert_eq!(ask(&["world", "call", "alice", "go", "2"]).ok(), "2\n");
    assert!(ask(&["world", "journal", "alice"]).ok().contains("control skip"));
    assert_eq!(document(&["world", "list", "--failed"])["items"], serde_json::json!([]));
    let lines = ask(&["world", "logs", "alice"]).ok();
    assert_eq!(
        lines.lines().filter(|line| line.contains("a number came")).count(),
        3,
        "two attempts and one more: {lines}"
    );
    follows(&server, &ask);
}

/// What is logged is printed while it is followed.
fn follows(server: &Server, ask: &dyn Fn(&[&str]) -> crate::program::Done) {
    let mut follow = crate::program::mundi();
    follow.args(["--format", "json", "world", "logs", "alice", "--follow", "--url", &server.url]);
    let mut following = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut next = || serde_json::from_str::<serde_json::Value>(&lines.next().unwrap()).unwrap();
    (0..3).for_each(|number| assert_eq!(next()["number"], number));
    ask(&["world", "call", "alice", "go", "4"]).ok();
    let line = next();
    assert_eq!((&line["number"], &line["text"]), (&3.into(), &"a number came".into()));
    following.kill().unwrap();
    following.wait().unwrap();
}
