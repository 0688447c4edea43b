//! The first real program, as its README says: built, uploaded, run beside a real service, killed, forked, upgraded. Its own tests run in
//! `crates/wasm/tests/guests/projects.rs`.

use crate::{
    kinds::{deployed, languages, repository},
    outside::{Asked, Outside},
    process::Server,
    program::at,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Five minutes for everything; more for what has more letters would be no easier to check.
fn answer(asked: &Asked) -> (&'static str, String) {
    let todo: Value = serde_json::from_str(&asked.body).unwrap();
    ("application/json", json!({ "minutes": 5, "text": todo["text"] }).to_string())
}

/// The example in a folder of its own, so that a test may change it.
fn copied(sources: &str, folder: &Path) -> PathBuf {
    let (from, to) = (repository().join("examples/todo-agent").join(sources), folder.join(sources));
    copy(&from, &to);
    let cargo = to.join("Cargo.toml");
    if let Ok(text) = fs::read_to_string(&cargo) {
        let sdk = repository().join("sdk/rust").canonicalize().unwrap();
        fs::write(&cargo, text.replace("../../../sdk/rust", sdk.to_str().unwrap())).unwrap();
    }
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap().map(Result::unwrap) {
        match entry.file_name().to_str().unwrap() {
            "target" | "node_modules" | "__pycache__" => {}
            name if entry.path().is_dir() => copy(&entry.path(), &to.join(name)),
            name => drop(fs::copy(entry.path(), to.join(name)).unwrap()),
        }
    }
}

/// The next version of the program: it says another number.
fn raise_version(project: &Path) {
    let (path, old, new) = [
        ("src/lib.rs", "VERSION: u32 = 1", "VERSION: u32 = 2"),
        ("src/program.ts", "VERSION = 1", "VERSION = 2"),
        ("program.py", "VERSION = 1", "VERSION = 2"),
    ]
    .into_iter()
    .find(|(path, ..)| project.join(path).is_file())
    .unwrap();
    let text = fs::read_to_string(project.join(path)).unwrap();
    assert!(text.contains(old));
    fs::write(project.join(path), text.replace(old, new)).unwrap();
}

fn start(folder: &Path) -> Server {
    Server::start_with(folder, &[("MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED", "[\"127.0.0.1\"]")])
}

/// Asks until the answer is the one that is wanted.
fn until(server: &Server, world: &str, query: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer: Value = serde_json::from_str(&at(&server.url, &["world", "query", world, query]).ok()).unwrap();
        if wanted(&answer) {
            return answer;
        }
        std::thread::yield_now(); // each question is a process of its own
    }
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn the_todo_agent_runs_is_killed_forked_and_upgraded_in_every_language() {
    for (lang, sources) in languages() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), Outside::start(answer));
        let project = copied(sources, folder.path());
        let server = start(folder.path());
        assert_eq!(deployed(&server, &project), "todo-agent@1", "{lang}");
        for world in ["agent", "boss"] {
            at(&server.url, &["world", "create", world, "--program", "todo-agent"]).ok();
        }
        let setup = json!({ "service": format!("{}/minutes", outside.url), "notify": "boss", "remind_ms": 200 });
        assert_eq!(at(&server.url, &["world", "call", "agent", "setup", &setup.to_string()]).ok(), "true\n");
        let add = |server: &Server, world: &str, id: &str| {
            let todo = json!({ "id": id, "text": "make tea" }).to_string();
            let reply = at(&server.url, &["world", "call", world, "add", &todo]).ok();
            serde_json::from_str::<Value>(&reply).unwrap()
        };
        let planned = |id: &str| json!({ "id": id, "state": "planned", "minutes": 5 });
        assert_eq!(add(&server, "agent", "tea"), planned("tea"), "{lang}");
        until(&server, "agent", "todos", |todos| todos["tea"]["state"] == "reminded");
        until(&server, "boss", "notices", |notices| *notices == json!({ "tea/planned": 1, "tea/reminded": 1 }));
        let before = describe(&server, "agent")["head"].as_u64().unwrap();

        // Killed while the service thinks about a todo: the world asks again, by the same name, and continues.
        outside.close();
        let todo = json!({ "id": "milk", "text": "buy milk" }).to_string();
        at(&server.url, &["world", "send", "agent", "add", &todo]).ok();
        while outside.asked().len() < 2 {
            std::thread::yield_now();
        }
        server.kill();
        outside.open();
        let server = start(folder.path());
        until(&server, "agent", "todos", |todos| todos["milk"]["state"] == "reminded");
        let all = json!({ "milk/planned": 1, "milk/reminded": 1, "tea/planned": 1, "tea/reminded": 1 });
        until(&server, "boss", "notices", |notices| *notices == all);
        let keys: Vec<_> = outside.asked()[1..].iter().map(|asked| asked.key.clone()).collect();
        assert!(keys.len() > 1 && keys.iter().all(|key| *key == keys[0] && !key.is_empty()), "{lang}: {keys:?}");

        // A branch from before the second todo.
        at(&server.url, &["world", "fork", "agent", "branch", "--at", &before.to_string()]).ok();
        let todos = until(&server, "branch", "todos", |_| true);
        assert_eq!(todos.as_object().unwrap().keys().collect::<Vec<_>>(), ["tea"], "{lang}");
        assert_eq!(add(&server, "branch", "nap"), planned("nap"), "{lang}");

        // The next version takes over where the first one is.
        raise_version(&project);
        assert_eq!(deployed(&server, &project), "todo-agent@2", "{lang}");
        at(&server.url, &["world", "replay", "agent", "--program", "todo-agent@2"]).ok();
        at(&server.url, &["world", "upgrade", "agent", "--program", "todo-agent@2"]).ok();
        until(&server, "agent", "version", |version| *version == 2);
        assert_eq!(add(&server, "agent", "walk"), planned("walk"), "{lang}");
        let todos = until(&server, "agent", "todos", |todos| todos["walk"]["state"] == "reminded");
        assert_eq!(todos.as_object().unwrap().keys().collect::<Vec<_>>(), ["milk", "tea", "walk"], "{lang}");
        at(&server.url, &["world", "verify", "agent"]).ok();
    }
}

fn describe(server: &Server, world: &str) -> Value {
    serde_json::from_str(&at(&server.url, &["--format", "json", "world", "describe", world]).ok()).unwrap()
}
