//! Bundles between two folders and their servers, by the command line alone.

use crate::{
    guest::{adder, asker},
    process::Server,
    program::{at, run},
};
use serde_json::{Value, json};
use std::{path::Path, process::Command};

#[tokio::test]
async fn a_world_goes_from_one_folder_to_another_as_a_file_and_both_prove_it() {
    let (home, abroad) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, two) = (Server::start(home.path()), Server::start(abroad.path()));
    let id = at(&one.url, &["world", "create", "alice", "--program", "counter"]).ok().trim().to_owned();
    for _ in 0..20 {
        at(&one.url, &["world", "send", "alice", "add", "2"]).ok();
    }
    assert_eq!(at(&one.url, &["world", "call", "alice", "add", "2"]).ok(), "42\n");
    let file = home.path().join("alice.mundi");
    let file = file.to_str().unwrap();
    at(&one.url, &["world", "export", "alice", "--output", file]).ok();
    assert!(run(&["verify", file]).ok().contains(&id));
    let proof: Value = serde_json::from_str(&run(&["--format", "json", "verify", file]).ok()).unwrap();
    assert_eq!((&proof["world"], &proof["name"]), (&json!(id), &json!("alice")));
    assert_eq!(at(&two.url, &["world", "import", file]).ok().trim(), id);
    at(&two.url, &["world", "import", file]).failed(5, "--as NAME");
    at(&two.url, &["world", "import", file, "--as", "again"]).ok();
    for world in [&*id, "again"] {
        assert_eq!(at(&two.url, &["world", "call", world, "add", "1"]).ok(), "43\n");
    }
    let journal = |url: &str, world: &str| {
        let text = at(url, &["--format", "json", "world", "journal", world, "--limit", "1000"]).ok();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["items"].as_array().unwrap().clone()
    };
    let (there, here) = (journal(&two.url, &id), journal(&one.url, "alice"));
    assert_eq!(there[..here.len()], here[..]);
    at(&one.url, &["verify", "--all"]).ok();
    at(&two.url, &["verify", "--all"]).ok();

    let mut bytes = std::fs::read(file).unwrap();
    let at_byte = bytes.len() - 200;
    bytes[at_byte] ^= 1;
    let forged = home.path().join("forged.mundi");
    std::fs::write(&forged, bytes).unwrap();
    let forged = forged.to_str().unwrap();
    run(&["verify", forged]).failed(7, "BUNDLE_INVALID");
    at(&two.url, &["world", "import", forged, "--as", "forged"]).failed(7, "BUNDLE_INVALID");
    at(&two.url, &["world", "describe", "forged"]).failed(4, "WORLD_NOT_FOUND");
    for (server, folder) in [(one, home), (two, abroad)] {
        server.kill();
        let data = folder.path().join("data");
        run(&["verify", "--data", data.to_str().unwrap()]).ok();
        run(&["doctor", "--worlds", "--data", data.to_str().unwrap()]).ok();
    }
}

/// What a unit test in Python says of a bundle and a component; nothing if it passes. `None` where there is no Python.
fn replayed_in_python(bundle: &str, component: &str, more: &str) -> Option<String> {
    let bin = Path::new(env!("CARGO_BIN_EXE_mundi")).parent().unwrap().to_owned();
    let path = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    let path = std::env::join_paths([bin].into_iter().chain(path)).unwrap();
    let code = format!("from mundi.testing import replay_bundle; replay_bundle({bundle:?}, {component:?}{more})");
    let mut python = Command::new("python3");
    python.args(["-c", &code]).env("PATH", path);
    python.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/python"));
    let said = python.env("PYTHONDONTWRITEBYTECODE", "1").output().ok()?;
    Some(String::from_utf8(said.stderr).unwrap())
}

#[tokio::test]
async fn a_bundle_is_replayed_with_a_program_that_no_server_has() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (same, other) = (file("same.wasm", &adder()), file("other.wasm", &asker("")));
    let bundle = file("shop.mundi", b"");
    let server = Server::start(folder.path());
    let manifest = at(&server.url, &["program", "upload", &same]).ok();
    at(&server.url, &["world", "create", "shop", "--manifest", manifest.trim()]).ok();
    for (add, sum) in [("2", "2\n"), ("3", "5\n")] {
        assert_eq!(at(&server.url, &["world", "call", "shop", "add", add]).ok(), sum);
    }
    at(&server.url, &["world", "export", "shop", "--output", &bundle]).ok();
    // A world with an effect that is open, and a program that asks for another one.
    let (asks, asks_else) = (file("asks.wasm", &asker("")), file("else.wasm", &asker("unreachable")));
    let manifest = at(&server.url, &["program", "upload", &asks]).ok();
    at(&server.url, &["world", "create", "busy", "--manifest", manifest.trim()]).ok();
    at(&server.url, &["world", "send", "busy", "go", "null"]).ok();
    while !at(&server.url, &["effect", "list"]).ok().contains("outside") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let busy = file("busy.mundi", b"");
    at(&server.url, &["world", "export", "busy", "--output", &busy]).ok();
    server.kill();

    let replay_of = |bundle: &str, program: &str, more: &[&str]| {
        run(&[&["--format", "json", "world", "replay", "--bundle", bundle, "--program", program], more].concat())
    };
    let replay = |program: &str, more: &[&str]| replay_of(&bundle, program, more);
    let report: Value = serde_json::from_str(&replay(&same, &[]).ok()).unwrap();
    let report = &report["items"][0];
    assert_eq!((&report["world_name"], &report["divergence"]), (&json!("shop"), &Value::Null), "{report}");
    assert!(report["records"].as_u64().unwrap() >= 6, "{report}");
    replay(&same, &["--outputs-only"]).ok();
    assert_eq!(replay(&other, &["--outputs-only"]).code, 9);
    // An upgrade compares from the oldest open work on, and nothing if none is open.
    replay(&same, &["--open-work"]).ok();
    replay(&other, &["--open-work"]).ok();
    replay_of(&busy, &asks, &["--open-work"]).ok();
    assert_eq!(replay_of(&busy, &asks_else, &["--open-work"]).code, 9);
    let differs = replay(&other, &[]);
    assert_eq!(differs.code, 9, "{}{}", differs.out, differs.err);
    assert!(differs.err.contains("first shop at height 1"), "{}", differs.err);
    let nowhere = folder.path().join("nowhere");
    replay(nowhere.to_str().unwrap(), &[]).failed(3, "nowhere");

    if let Some(said) = replayed_in_python(&bundle, &same, "") {
        assert_eq!(said, "");
        assert_eq!(replayed_in_python(&bundle, &same, ", open_work=True").unwrap(), "");
        let said = replayed_in_python(&bundle, &other, "").unwrap();
        assert!(said.contains("AssertionError") && said.contains("first shop at height 1"), "{said}");
    }
}
