//! Programs with names: upload, list, create, upgrade all worlds of one; and the loop of `mundi program dev`.

use crate::{
    guest::{adder, asker},
    process::Server,
    program::{Done, at, mundi, run},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Stdio},
    time::Duration,
};

/// A project that was built: only what an upload reads of it.
fn project(folder: &Path, offer: &Value, component: &[u8]) -> String {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("mundi.json"), offer.to_string()).unwrap();
    fs::write(folder.join("program.wasm"), component).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[expect(clippy::needless_pass_by_value, reason = "it is looked at once")]
fn json(done: Done) -> Value {
    serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{}{}", done.out, done.err))
}

#[tokio::test]
async fn an_upload_gives_a_version_which_is_listed_described_run_shown_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    let at_hand = folder.path().join("todo");
    let upload = |offer: Value, component: &[u8]| ask(&["program", "upload", &project(&at_hand, &offer, component)]);
    let named = || json!({ "name": "todo" });
    assert_eq!(upload(named(), &adder()).ok(), "todo@1\n");
    assert_eq!(upload(named(), &adder()).ok(), "todo@1\n", "it is the newest already");
    assert_eq!(upload(named(), &asker("")).ok(), "todo@2\n");
    let taken = json!({ "name": "todo", "version": 2 });
    upload(taken.clone(), &adder()).failed(5, "PROGRAM_VERSION_TAKEN");
    assert_eq!(upload(taken, &asker("")).ok(), "todo@2\n", "the same manifest is no conflict");
    assert_eq!(upload(json!({ "name": "todo", "version": 7 }), &adder()).ok(), "todo@7\n");
    assert_eq!(ask(&["program", "upload", at_hand.to_str().unwrap(), "--as", "other@3"]).ok(), "other@3\n");
    upload(json!({ "name": "counter" }), &adder()).failed(3, "comes with this server");
    upload(json!({ "name": "To Do" }), &adder()).failed(3, "NAME_INVALID");
    assert!(upload(json!({}), &adder()).ok().starts_with("h_"), "no name, no version");

    let listed = json(ask(&["--format", "json", "program", "list"]));
    let of = |name: &str| listed["items"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    let versions =
        |name: &str| of(name)["versions"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of("todo")["version"].clone(), versions("todo")),
        (json!(7), vec![json!("todo@7"), json!("todo@2"), json!("todo@1")])
    );
    assert_eq!(
        (of("kv")["built_in"].clone(), versions("kv")),
        (json!(true), vec![json!("kv@3"), json!("kv@2"), json!("kv@1")])
    );
    assert!(ask(&["program", "list", "todo"]).ok().contains("todo@2 "));
    ask(&["program", "list", "nobody"]).failed(4, "PROGRAM_UNKNOWN");
    let described = json(ask(&["program", "describe", "todo@2"]));
    assert_eq!(
        (described["name"].clone(), described["manifest"]["events"].clone()),
        (json!("todo@2"), json!({ "go": true }))
    );
    assert!(ask(&["manifest", "show", "todo"]).ok().contains("\"add\""), "the newest");

    ask(&["world", "create", "newest", "--program", "todo"]).ok();
    assert_eq!(ask(&["world", "call", "newest", "add", "2"]).ok(), "2\n");
    ask(&["world", "create", "second", "--program", "todo@2"]).ok();
    ask(&["world", "create", "older", "--program", "kv@1"]).ok();
    ask(&["world", "create", "x", "--program", "todo@3"]).failed(4, "PROGRAM_UNKNOWN");
    ask(&["world", "create", "x", "--program", "todo@0"]).failed(3, "NAME_INVALID");
    let shown = |world: &str| json(ask(&["--format", "json", "world", "describe", world]))["program"].clone();
    assert_eq!([shown("newest"), shown("second"), shown("older")], ["todo@7", "todo@2", "kv@1"]);
    let table = ask(&["world", "list"]).ok();
    assert!(["todo@7 ", "todo@2 ", "kv@1 "].iter().all(|name| table.contains(name)), "{table}");
    let lists = |program: &str| {
        let listed = json(ask(&["--format", "json", "world", "list", "--program", program]));
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["program"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(lists("todo").len(), 2, "all versions");
    assert_eq!(lists("todo@2"), ["todo@2"]);

    let manifest = described["manifest_hash"].as_str().unwrap();
    ask(&["manifest", "delete", manifest]).failed(5, "PROGRAM_NAMED");
    ask(&["program", "delete", "todo"]).failed(3, "say which version");
    ask(&["program", "delete", "kv@1"]).failed(3, "comes with this server");
    ask(&["program", "delete", "todo@2"]).ok();
    ask(&["program", "delete", "todo@2"]).failed(4, "PROGRAM_UNKNOWN");
    assert_eq!(shown("second"), Value::Null, "it runs on, without a name");
    ask(&["manifest", "delete", manifest]).ok();
    server.kill();

    let server = Server::start(folder.path());
    let listed = at(&server.url, &["program", "list", "todo"]).ok();
    assert!(listed.contains("todo@7") && listed.contains("todo@1") && !listed.contains("todo@2"), "{listed}");
}

#[tokio::test]
async fn all_worlds_of_a_program_are_upgraded_until_one_diverges_and_the_rest_by_a_second_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let ask = |arguments: &[&str]| at(&server.url, arguments);
    for component in [asker(""), asker("unreachable")] {
        ask(&["program", "upload", &project(&folder.path().join("ask"), &json!({ "name": "ask" }), &component)]).ok();
    }
    for world in ["a", "b", "c"] {
        ask(&["world", "create", world, "--program", "ask@1"]).ok();
    }
    ask(&["world", "create", "bystander", "--program", "counter"]).ok();
    let runs = || {
        let listed = json(ask(&["--format", "json", "world", "list", "--program", "ask"]));
        let mut all = listed["items"].as_array().unwrap().clone();
        all.sort_by_key(|it| it["world"].as_str().unwrap().to_owned()); // the list is by version, then by id
        let (ids, programs): (Vec<_>, Vec<_>) = all
            .iter()
            .map(|it| (it["world"].as_str().unwrap().to_owned(), it["program"].as_str().unwrap().to_owned()))
            .unzip();
        (ids, programs)
    };
    let (ids, _) = runs();
    // The second one has an effect open, of which the new program knows nothing.
    ask(&["world", "send", &ids[1], "go", "null"]).ok();
    while !ask(&["effect", "list"]).ok().contains("outside") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let upgrade = |more: &[&str]| {
        let done = ask(&[&["--format", "json", "program", "upgrade", "ask"], more].concat());
        let code = done.code;
        let rows = json(done)["items"].as_array().unwrap().clone();
        let row = |row: &Value| (row["world"].as_str().unwrap().to_owned(), row["result"].as_str().unwrap().to_owned());
        (code, rows.iter().map(row).collect::<Vec<_>>())
    };
    let row = |at: usize, result: &str| (ids[at].clone(), result.to_owned());
    assert_eq!(upgrade(&["--dry-run"]), (9, vec![row(0, "rehearsed"), row(1, "DIVERGES")]));
    assert_eq!(runs().1, ["ask@1", "ask@1", "ask@1"], "a rehearsal changes nothing");
    assert_eq!(upgrade(&["--to", "2"]), (9, vec![row(0, "upgraded"), row(1, "DIVERGES")]));
    assert_eq!(runs().1, ["ask@2", "ask@1", "ask@1"], "those after it are untouched");
    assert_eq!(
        upgrade(&["--continue"]),
        (9, vec![row(1, "DIVERGES"), row(2, "upgraded")]),
        "what was done is not done again"
    );
    assert_eq!(runs().1, ["ask@2", "ask@1", "ask@2"]);
    assert_eq!(upgrade(&["--to", "1"]), (0, vec![row(0, "upgraded"), row(2, "upgraded")]));
    assert_eq!(upgrade(&["--to", "1"]), (0, vec![]));
    ask(&["program", "upgrade", "ask", "--to", "9"]).failed(4, "PROGRAM_UNKNOWN");
}

/// `mundi program dev`, and what it prints.
struct Dev {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Dev {
    fn start(url: &str, folder: &Path, arguments: &[&str]) -> Self {
        let mut command = mundi();
        command.env("MUNDI_URL", url).args(["--format", "json", "program", "dev"]).arg(folder).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Self { child, said }
    }

    /// Its next event of this kind. A build that fails ends a wait for anything else.
    fn next(&mut self, event: &str) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended before it said {event}");
            let said: Value = serde_json::from_str(&line).unwrap();
            if said["event"] == event {
                return said;
            }
            assert_ne!(said["event"], "failed", "{said:#}");
        }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// From a saved file to a running change, with the compiler that people use.
#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn a_saved_file_becomes_a_running_change_and_what_breaks_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let project = folder.path().join("tea");
    run(&["program", "new", "--lang", "rust", project.to_str().unwrap()]).ok();
    let source = project.join("src/lib.rs");
    let edit = |from: &str, to: &str| {
        let text = fs::read_to_string(&source).unwrap();
        assert!(text.contains(from), "the template has no `{from}`: {text}");
        fs::write(&source, text.replace(from, to)).unwrap();
    };
    let call = |add: &str| at(&server.url, &["world", "call", "shop", "add", add]).ok();
    let mut dev = Dev::start(&server.url, &project, &["--world", "shop"]);
    let first = dev.next("running");
    assert_eq!((first["world"].clone(), first["how"].clone()), (json!("shop"), json!("created")), "{first}");
    assert_eq!(call("2"), "2\n");
    assert_eq!(dev.next("event")["line"], "add 2", "what the world does is printed");

    // A test that fails keeps the change away from the world.
    edit("unwrap_or(0) + by;", "unwrap_or(0) + by + 100;");
    let failed = dev.next("failed");
    let detail = failed["detail"].as_str().unwrap();
    assert!(detail.contains("cargo test failed") && detail.contains("panicked at"), "what failed is said: {failed}");
    assert_eq!(call("1"), "3\n");
    // With a test that wants it, it comes.
    let tests = project.join("tests/counter.rs");
    fs::write(&tests, "").unwrap();
    let second = dev.next("running");
    assert_eq!((second["world"].clone(), second["how"].clone()), (json!("shop"), json!("upgraded")), "{second}");
    assert_ne!(second["manifest"], first["manifest"]);
    assert_eq!(call("1"), "104\n");

    // What the program logs is printed, and so is a step that fails.
    edit(
        "world.put(\"count\", &count)?;",
        "world.log(mundi_sdk::Level::Warn, \"counted\");\n    if count > 300 { return Err(Failure::new(\"too many\")); }\n    world.put(\"count\", &count)?;",
    );
    dev.next("running");
    assert_eq!(call("1"), "205\n");
    let logged = dev.next("log");
    assert_eq!((&logged["line"], &logged["log"]["level"]), (&json!("warn counted"), &json!("warn")), "{logged}");
    assert_ne!(at(&server.url, &["world", "call", "shop", "add", "1"]).code, 0);
    let failure = dev.next("failure");
    assert_eq!(failure["line"], "PROGRAM_FAILED: too many", "{failure}");
    eprintln!("from a saved file to a running change: {} ms", second["took_ms"]);

    // A world that is on hold at an input that failed keeps its place: the next version takes that input.
    let offer = project.join("mundi.json");
    let mut declared: Value = serde_json::from_str(&fs::read_to_string(&offer).unwrap()).unwrap();
    declared["on_failure"] = "hold".into();
    fs::write(&offer, declared.to_string()).unwrap();
    assert_eq!(dev.next("running")["how"], "upgraded");
    let described = |world: &str| json(at(&server.url, &["--format", "json", "world", "describe", world]));
    assert_ne!(at(&server.url, &["world", "call", "shop", "add", "1"]).code, 0);
    while described("shop")["state"] != "on_hold" {}
    edit("count > 300", "count > 100_000");
    let mended = dev.next("running");
    assert_eq!(mended["world"], "shop", "{mended}");
    assert_eq!(mended["how"], "upgraded, and takes the input again that failed", "{mended}");
    let count = || at(&server.url, &["world", "query", "shop", "count"]).ok();
    while count() != "306\n" {}

    // A world that is paused is upgraded and stays paused.
    at(&server.url, &["world", "pause", "shop"]).ok();
    while described("shop")["state"] != "paused" {}
    edit("count > 100_000", "count > 100_001");
    let paused = dev.next("running");
    assert_eq!(
        (&paused["world"], &paused["how"]),
        (&json!("shop"), &json!("upgraded: it is paused, see `mundi world resume`"))
    );
    at(&server.url, &["world", "resume", "shop"]).ok();

    // Where open work would go another way, a fork with the state of the world takes its place.
    edit(
        "world.put(\"count\", &count)?;",
        "world.put(\"count\", &count)?;\n    world.set_timer_in_ms(\"nap\", 3_600_000, &count)?;",
    );
    assert_eq!(dev.next("running")["how"], "upgraded");
    assert_eq!(call("1"), "407\n");
    edit("unwrap_or(0) + by + 100;", "unwrap_or(0) + by + 1_000;");
    let forked = dev.next("running");
    assert_eq!((&forked["world"], &forked["how"]), (&json!("shop-2"), &json!("forked")), "{forked}");
    assert_eq!(at(&server.url, &["world", "call", "shop-2", "add", "1"]).ok(), "1408\n", "with the count of shop");
    assert_eq!(described("shop-2")["parent"]["world"], described("shop")["world"]);
}
