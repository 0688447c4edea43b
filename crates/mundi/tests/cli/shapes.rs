//! Help, tables, JSON, errors and exit codes, compared with files.

use crate::{
    process::Server,
    program::{at, is_as_in, mundi, run},
};

const NOUNS: [&str; 14] = [
    "blob",
    "config",
    "dead-letter",
    "effect",
    "function",
    "lease",
    "manifest",
    "pool",
    "resource",
    "timer",
    "token",
    "universe",
    "worker",
    "world",
];

#[test]
fn the_help_is_as_in_the_files() {
    is_as_in("help.txt", &run(&["help"]).ok());
    for noun in NOUNS {
        is_as_in(&format!("help-{noun}.txt"), &run(&["help", noun]).ok());
    }
    is_as_in("help-verify.txt", &run(&["help", "verify"]).ok());
    is_as_in("help-doctor.txt", &run(&["help", "doctor"]).ok());
    is_as_in("help-sql.txt", &run(&["help", "sql"]).ok());
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(&["completions", shell]).ok().contains("dead-letter"), "{shell}");
    }
}

#[test]
fn a_seed_of_the_simulator_is_told_as_one_document_and_the_same_twice() {
    let seed = || run(&["sim", "--seed", "3", "--format", "json"]).ok();
    let told = seed();
    let document: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(document["trace_hash"].is_string() && document["failure"].is_null(), "{told}");
    assert_eq!(seed(), told);
    assert!(run(&["sim", "--seed", "3"]).ok().contains("every promise was kept"));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let piped = |arguments: &str| {
        let line = format!(
            "{} {arguments} 2>&1 | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}",
            mundi().get_program().display()
        );
        let done = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    };
    for arguments in ["completions zsh", "config show", "help world"] {
        assert!(["0\n", "141\n"].contains(&&*piped(arguments)), "{arguments}");
    }
}

#[tokio::test]
async fn tables_and_documents_are_as_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    ask(&["world", "create", "alice", "--program", "counter"]).ok();
    assert_eq!(ask(&["world", "call", "alice", "add", "5"]).ok(), "5\n");
    let both = |name: &str, arguments: &[&str]| {
        is_as_in(&format!("{name}.txt"), &ask(arguments).ok());
        let json = ask(&[&["--format", "json"], arguments].concat()).ok();
        let document: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(document.is_object(), "one document: {json}");
        is_as_in(&format!("{name}.json"), &json);
    };
    // In the order of their ids, which are drawn: with one world there is one order.
    both("world-list", &["world", "list"]);
    both("verify-all", &["verify", "--all"]);
    both("lease-list", &["lease", "list", "--limit", "1"]);
    ask(&["world", "fork", "alice", "bob", "--at", "4"]).ok();
    assert_eq!(ask(&["world", "call", "bob", "add", "7"]).ok(), "12\n");
    both("world-journal", &["world", "journal", "alice"]);
    both("world-cells", &["world", "cells", "alice"]);
    both("world-step", &["world", "step", "alice", "1", "--cells", "10"]);
    both("universe-summary", &["universe", "summary"]);
    both("whoami", &["whoami"]);
    let differs = |arguments: &[&str]| {
        let done = ask(arguments);
        assert_eq!(done.code, 9, "{}", done.err);
        done.out
    };
    is_as_in("world-diff.txt", &differs(&["world", "diff", "alice", "bob"]));
    is_as_in("world-diff.json", &differs(&["--format", "json", "world", "diff", "alice", "bob"]));
    ask(&["world", "diff", "alice", "alice"]).ok();
    both("world-lineage", &["world", "lineage", "bob"]);
    both("world-lineage-of-parent", &["world", "lineage", "alice"]);
    both("world-verify", &["world", "verify", "alice"]);
    both("world-replay", &["world", "replay", "alice", "--program", "counter"]);
    both("universe-list", &["universe", "list"]);
    both("manifest-list", &["manifest", "list"]);
    both("world-describe", &["world", "describe", "alice"]);
    both("manifest-show", &["manifest", "show", "counter"]);
    both("program-describe", &["program", "describe", "counter"]);
    both("timer-list", &["timer", "list"]);
    both("effect-list", &["effect", "list"]);
    both("dead-letter-list", &["dead-letter", "list", "--queue", "effects"]);
    both("worker-list", &["worker", "list"]);
    both("doctor", &["doctor"]);
    both("token-list", &["token", "list"]);
    assert_eq!(ask(&["world", "query", "alice", "count", "--at", "4"]).ok(), "5\n");
}

#[tokio::test]
async fn pools_and_resources_are_as_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ask(&[&["--format", "json"], arguments].concat()).ok()).unwrap()
    };
    assert_eq!(ask(&["pool", "create", "gpus", "--set", "queue_max=5"]).ok(), "gpus\n");
    is_as_in("resource-create.txt", &ask(&["resource", "create", "gpus", "gpu-0", "gpu-1", "--label", "a100"]).ok());
    ask(&["resource", "create", "gpus", "gpu-0"]).failed(5, "ALREADY_EXISTS");
    is_as_in("pool-list.txt", &ask(&["pool", "list"]).ok());
    is_as_in("resource-list.txt", &ask(&["resource", "list", "gpus"]).ok());
    is_as_in("resource-list.json", &ask(&["--format", "json", "resource", "list", "gpus"]).ok());
    let reserved = json(&["pool", "reserve", "gpus", "gpu-0", "--holder", "ada", "--ttl", "600"]);
    let lease = reserved["lease_id"].as_str().unwrap();
    ask(&["pool", "activate", "gpus", lease, "--epoch", "1", "--holder", "ada"]).ok();
    is_as_in("pool-leases.txt", &ask(&["pool", "leases", "gpus", "--state", "active", "--holder", "ada"]).ok());
    let read = json(&["pool", "lease", "gpus", lease]);
    assert_eq!(read["lease"]["state"], "active", "{read}");
    ask(&["pool", "delete", "gpus"]).failed(5, "POOL_IN_USE");
    ask(&["pool", "revoke", "gpus", lease]).ok();
    ask(&["pool", "release", "gpus", lease, "--epoch", "1", "--holder", "ada"]).failed(5, "STALE_EPOCH");
    ask(&["pool", "reclaim", "gpus", lease]).ok();
    let ticket =
        json(&["pool", "enqueue", "gpus", "--count", "2", "--holder", "bob", "--ttl", "600"])["ticket"].clone();
    let granted = json(&["pool", "ticket", "gpus", ticket.as_str().unwrap()]);
    assert_eq!(granted["ticket"]["state"], "granted", "{granted}");
    let lease = granted["ticket"]["lease_id"].as_str().unwrap();
    ask(&["pool", "release", "gpus", lease, "--epoch", "1", "--holder", "bob"]).ok();
    ask(&["pool", "delete", "gpus"]).ok();
    ask(&["pool", "describe", "gpus"]).failed(4, "POOL_NOT_FOUND");
}

/// `--shard` names one shard of several, and `--at-least` waits for a command there.
#[tokio::test]
async fn reads_of_a_pool_go_to_a_shard_and_wait_for_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ask(&[&["--format", "json"], arguments].concat()).ok()).unwrap()
    };
    ask(&["pool", "create", "gpus", "--shards", "2"]).ok();
    let names: Vec<String> = (0..8).map(|number| format!("gpu-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    ask(&[&["resource", "create", "gpus"], &names[..]].concat()).ok();
    for (shard, other) in [("0", "1"), ("1", "0")] {
        let shards = json(&["pool", "describe", "gpus", "--shard", shard])["shards"].clone();
        assert_eq!(shards.as_array().unwrap().len(), 1, "{shards}");
        assert_eq!(shards[0]["shard"].to_string(), shard);
        let listed = json(&["resource", "list", "gpus", "--shard", shard])["items"].clone();
        let elsewhere = json(&["resource", "list", "gpus", "--shard", other])["items"].clone();
        let (listed, elsewhere) = (listed.as_array().unwrap(), elsewhere.as_array().unwrap());
        assert!(!listed.is_empty() && listed.iter().all(|it| !elsewhere.contains(it)), "{listed:?}");
        assert_eq!(listed.len() + elsewhere.len(), 8);
    }
    // An LSN is one of a shard.
    for list in [&["pool", "describe"], &["pool", "leases"], &["resource", "list"]] {
        ask(&[&list[..], &["gpus", "--at-least", "1"]].concat()).failed(3, "REQUEST_INVALID");
    }

    ask(&["pool", "create", "seats"]).ok();
    ask(&["resource", "create", "seats", "s-0", "s-1"]).ok();
    let reserved = json(&["pool", "reserve", "seats", "s-0", "--holder", "ada", "--ttl", "600"]);
    let lease = reserved["lease_id"].as_str().unwrap();
    let enqueued = json(&["pool", "enqueue", "seats", "--count", "2", "--holder", "bob", "--ttl", "600"]);
    let ticket = enqueued["ticket"].as_str().unwrap();
    let applied = json(&["pool", "describe", "seats"])["shards"][0]["applied_lsn"].as_u64().unwrap();
    let next = (applied + 1).to_string();
    let reads: [&[&str]; 6] = [
        &["pool", "lease", "seats", lease],
        &["pool", "ticket", "seats", ticket],
        &["pool", "describe", "seats"],
        &["pool", "leases", "seats"],
        &["resource", "describe", "seats", "s-0"],
        &["resource", "list", "seats"],
    ];
    let waits = reads.map(|read| {
        let arguments: Vec<String> = read.iter().chain(&["--at-least", &next]).map(|word| (*word).to_owned()).collect();
        let url = server.url.clone();
        std::thread::spawn(move || at(&url, &arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    });
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    assert!(waits.iter().all(|read| !read.is_finished()), "the command is not there yet");
    ask(&["resource", "create", "seats", "s-2"]).ok();
    waits.into_iter().for_each(|read| drop(read.join().unwrap().ok()));
}

#[tokio::test]
async fn an_operator_sees_what_is_occupied_and_sweeps() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let document = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ask(&[&["--format", "json"], arguments].concat()).ok()).unwrap()
    };
    ask(&["world", "create", "alice", "--program", "counter"]).ok();
    ask(&["world", "create", "bob", "--program", "counter"]).ok();
    ask(&["world", "delete", "bob"]).failed(2, "--yes");
    ask(&["world", "delete", "bob", "--yes"]).ok();
    let usage = document(&["universe", "usage"]);
    assert_eq!((&usage["worlds"], &usage["worlds_deleted"]), (&1.into(), &1.into()), "{usage}");
    assert!(usage["engine_disk_bytes"].as_u64().unwrap() > 0 && usage["kept_objects"].as_u64().unwrap() > 0);
    assert!(ask(&["universe", "usage"]).ok().contains("inline_objects.count"));
    let dry = document(&["universe", "sweep", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["worlds"], &dry["removed"]), (&true.into(), &1.into(), &0.into()), "{dry}");
    let swept = document(&["universe", "sweep"]);
    assert_eq!(swept["run"].as_u64().unwrap(), dry["run"].as_u64().unwrap() + 1);
    assert_eq!(document(&["universe", "sweep", "--no-wait"])["run"].as_u64().unwrap(), 3);
    assert_eq!(ask(&["world", "call", "alice", "add", "5"]).ok(), "5\n");
    let unknown = format!("h_{}", "0".repeat(64));
    ask(&["program", "delete", &unknown]).failed(4, "PROGRAM_UNKNOWN");
    ask(&["manifest", "delete", &unknown]).failed(4, "PROGRAM_UNKNOWN");
    let built_in = document(&["manifest", "list"])["items"][0]["manifest"].as_str().unwrap().to_owned();
    ask(&["manifest", "delete", &built_in]).failed(3, "built into this server");
}

#[tokio::test]
async fn errors_have_codes_say_what_to_do_and_end_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    ask(&["world", "create", "alice", "--program", "counter"]).ok();
    ask(&["world", "call", "alice", "add", "5"]).ok();
    ask(&["world", "fork", "alice", "--at", "0"]).failed(3, "heights 1 to 4");
    ask(&["world", "fork", "alice", "--at", "99"]).failed(3, "heights 1 to 4");
    ask(&["world", "fork", "alice", "--at", "2"]).failed(3, "heights that end one are 1 and 3");
    run(&["world"]).failed(2, "Usage");
    run(&["nonsense"]).failed(2, "unrecognized");
    ask(&["world", "create", "a b", "--program", "counter"]).failed(3, "NAME_INVALID");
    ask(&["world", "create", "dave"]).failed(2, "--program");
    ask(&["world", "call", "alice", "nope"]).failed(3, "EVENT_INVALID");
    ask(&["world", "describe", "nobody"]).failed(4, "`mundi world list`");
    ask(&["world", "describe", "nobody"]).failed(4, "there is no world `nobody`");
    ask(&["world", "describe", "a/b"]).failed(3, "NAME_INVALID");
    ask(&["program", "describe", "nope"]).failed(4, "no program is called `nope`");
    ask(&["world", "pause", "alice"]).ok();
    let late = ask(&["world", "call", "alice", "add", "1", "--timeout", "100ms"]);
    assert!(late.code == 6 && late.err.contains("`mundi world reply WORLD CALL`"), "{}", late.err);
    let call = late.err.split_whitespace().find(|word| word.starts_with("s_")).unwrap().to_owned();
    ask(&["world", "resume", "alice"]).ok();
    assert_eq!(ask(&["world", "reply", "alice", &call]).ok(), "6\n");
    ask(&["world", "create", "--program", "nope"]).failed(4, "`mundi program list`");
    ask(&["world", "create", "alice", "--program", "kv"]).failed(5, "WORLD_EXISTS");
    at("http://127.0.0.1:1", &["world", "list"]).failed(6, "`mundi dev` starts one");
    run(&["verify", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]).failed(7, "BUNDLE_INVALID");
    run(&["verify", "/nowhere/at/all.mundi"]).failed(3, "/nowhere/at/all.mundi");
    let refused = ask(&["--format", "json", "world", "describe", "nobody"]);
    let error: serde_json::Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["exit"]), (&"WORLD_NOT_FOUND".into(), &4.into()));
    let differs = ask(&["world", "diff", "alice", "--at", "1"]);
    assert_eq!(differs.code, 9, "{}", differs.err);
    let diverges = ask(&["world", "replay", "alice", "--program", "kv"]);
    assert_eq!(diverges.code, 9, "{}", diverges.err);
    assert!(diverges.err.contains("first alice at height 1"), "{}", diverges.err);
    assert!(!diverges.err.contains('\x1b'), "colours are for terminals");
}

#[tokio::test]
async fn a_token_that_is_missing_or_too_weak_has_an_exit_code_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let can = ["token", "create", "--can", "read", "--data", data.to_str().unwrap()];
    let token = run(&can).ok();
    let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
    at(&server.url, &["world", "list"]).failed(8, "MUNDI_TOKEN");
    at(&server.url, &["world", "list", "--token", token.trim()]).ok();
    at(&server.url, &["world", "create", "x", "--program", "counter", "--token", token.trim()])
        .failed(8, "TOKEN_DENIED");
}

/// Both have `--format`: once they were of two types, and every bench panicked.
#[test]
fn benches_take_the_option_that_all_commands_have() {
    for format in ["table", "json"] {
        let nothing = ["bench", "fleet", "--database", "postgres://nowhere", "--runs", "0", "--format", format];
        run(&nothing).ok();
    }
}
