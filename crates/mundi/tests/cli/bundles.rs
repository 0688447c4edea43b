//! Bundles between two folders and their servers, by the command line alone.

use crate::{
    process::Server,
    program::{at, run},
};
use serde_json::{Value, json};

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
