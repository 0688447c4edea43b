//! Failed steps on the command line: seen, retried, skipped, fixed on a fork; and what programs log.

use crate::{guest::superstitious, process::Server, program::at};
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
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

/// Lines that a program logs are printed while its log is followed.
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

/// A process that does not outlive a test that fails.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A world of a program that logs, and the stderr of its process while it takes one event.
fn printed_with(filter: &str) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = crate::program::mundi();
    command.args(["dev", "--bind", "127.0.0.1:0", "--data"]).arg(folder.path().join("data"));
    command.env("MUNDI_LOG", filter).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = Guarded(command.spawn().unwrap());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let url = lines.find_map(|line| Some(line.split_once("API at ")?.1.split_whitespace().next()?.to_owned()));
    let url = url.expect("it says where it is");
    let program = folder.path().join("superstitious.wasm");
    fs::write(&program, superstitious()).unwrap();
    let manifest = at(&url, &["program", "upload", program.to_str().unwrap()]).ok();
    let created = at(&url, &["world", "create", "alice", "--manifest", manifest.trim()]).ok();
    assert_eq!(at(&url, &["world", "call", "alice", "go", "2"]).ok(), "2\n");
    // All lines are there when the process has ended in order.
    assert!(Command::new("kill").args(["-TERM", &server.0.id().to_string()]).status().unwrap().success());
    let printed = lines.collect::<Vec<_>>().join("\n");
    let data = std::io::read_to_string(server.0.stdout.take().unwrap()).unwrap();
    assert_eq!(data, "", "a log is no data");
    (created.trim().to_owned(), printed)
}

#[test]
fn what_a_program_logs_is_printed_with_world_and_height_as_mundi_log_says() {
    let (world, printed) = printed_with("mundi::program=info");
    let line = printed.lines().find(|line| line.contains("a number came")).unwrap_or_else(|| panic!("{printed}"));
    for part in ["INFO", "mundi::program", &format!("world={world}"), "name=\"alice\"", "height=1"] {
        assert!(line.contains(part), "`{part}` is not in {line}");
    }
    let (moment, rest) = line.split_once("Z ").unwrap();
    assert!(moment.starts_with("20") && moment.contains('T') && rest.trim_start().starts_with("INFO "), "{line}");
    let (_, printed) = printed_with("warn");
    assert!(!printed.contains("a number came"), "only warnings were wanted: {printed}");
    let mut misread = crate::program::mundi();
    let refused: crate::program::Done = misread.arg("dev").env("MUNDI_LOG", "mundi=loud").output().unwrap().into();
    refused.failed(3, "CONFIG_INVALID: MUNDI_LOG: ");
}
