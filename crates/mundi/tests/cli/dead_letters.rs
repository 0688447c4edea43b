//! Real dead letters, from the command line: what was sent for later to a world that is gone by then.

use crate::{process::Server, program::at};
use serde_json::Value;
use std::time::Duration;

#[tokio::test]
async fn dead_letters_are_listed_told_replayed_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let listed = |more: &[&str]| -> Value {
        let all = ask(&[&["--format", "json", "dead-letter", "list"], more].concat()).ok();
        serde_json::from_str::<Value>(&all).unwrap()["items"].take()
    };
    let until = async |count: usize| {
        loop {
            let found = listed(&[]).as_array().unwrap().clone();
            if found.len() == count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let gone = ask(&["world", "create", "gone", "--program", "kv"]).ok();
    // Not before the world is gone, however slowly three commands run.
    for key in ["a", "b"] {
        let put = format!(r#"{{"key": "{key}", "value": 1}}"#);
        ask(&["world", "send", "gone", "put", &put, "--delay", "5s"]).ok();
    }
    ask(&["world", "delete", "gone", "--yes"]).ok();

    let letters = until(2).await;
    assert!(letters.iter().all(|letter| letter["world"] == gone.trim() && letter["code"] == "WORLD_DELETED"));
    let page = ask(&["--format", "json", "dead-letter", "list", "--limit", "1"]).ok();
    let next = serde_json::from_str::<Value>(&page).unwrap()["next"].as_str().unwrap().to_owned();
    assert_eq!(
        listed(&["--after", &next]),
        Value::Array(letters[1..].to_vec()),
        "a page goes on where the last one ended"
    );
    assert_eq!(listed(&["--queue", "effects"]), Value::Array(Vec::new()));
    assert_eq!(listed(&["--queue", "mailboxes"]).as_array().unwrap().len(), 2);

    let first = letters[0]["letter"].as_str().unwrap();
    let told = ask(&["dead-letter", "describe", first]).ok();
    assert!(told.contains("item.input.event") && told.contains("put"), "what it carries can be read:\n{told}");
    ask(&["dead-letter", "describe", "nope"]).failed(3, "expected QUEUE.PLACE");
    ask(&["dead-letter", "describe", "effects.q_000000000000000000000000"]).failed(4, "effects.q_0000");

    ask(&["dead-letter", "drop"]).failed(2, "required");
    ask(&["dead-letter", "drop", "--queue", "mailboxes"]).failed(2, "drop all letters of mailboxes for good?");
    let wrong = ask(&["dead-letter", "replay", "effects.q_000000000000000000000000"]);
    assert!(wrong.code == 1 && wrong.out.contains("there is no dead letter effects.q_"), "{}{}", wrong.out, wrong.err);
    assert!(ask(&["dead-letter", "replay", first]).ok().contains("done     1"), "by its name alone");
    // It is tried again, fails again, and comes to lie behind the other.
    let again = until(2).await;
    assert!(again.iter().all(|letter| letter["letter"] != first), "{again:?}");
    assert!(ask(&["dead-letter", "drop", "--yes", again[0]["letter"].as_str().unwrap()]).ok().contains("done     1"));
    let code = ["dead-letter", "drop", "--yes", "--queue", "mailboxes", "--code", "LEASE_HELD"];
    assert!(ask(&code).ok().contains("done     0"), "none failed so");
    assert!(ask(&["dead-letter", "drop", "-y", "--queue", "mailboxes"]).ok().contains("done     1"));
    until(0).await;
}
