//! Each kind of effect that comes with Mundi, asked for by a program in each language, on a real server.

use crate::{
    outside::{Asked, Outside},
    process::Server,
    program::{at, mundi},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The languages to run: all, or those that `MUNDI_GUESTS` names; with the folder that each has.
pub(crate) fn languages() -> Vec<(String, &'static str)> {
    let named = std::env::var("MUNDI_GUESTS").unwrap_or_else(|_| "rust,ts,python".to_owned());
    let folder = |lang: &str| match lang {
        "ts" => "typescript",
        "python" => "python",
        _ => "rust",
    };
    named.split(',').map(|lang| (lang.to_owned(), folder(lang))).collect()
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Builds a project and uploads it; gives the manifest.
pub(crate) fn deployed(server: &Server, project: &Path) -> String {
    let built = mundi().args(["program", "build", "--install"]).arg(project).output().unwrap();
    assert!(built.status.success(), "{}: {}", project.display(), String::from_utf8_lossy(&built.stderr));
    at(&server.url, &["program", "upload", project.to_str().unwrap()]).ok().trim_end().to_owned()
}

const STREAM: &str = concat!(
    "data: {\"model\":\"small-1\",\"choices\":[{\"delta\":{\"content\":\"fourty\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"-two\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\n\n",
    "data: [DONE]\n\n"
);

fn answer(asked: &Asked) -> (&'static str, String) {
    match &*asked.path {
        "/v1/chat/completions" => ("text/event-stream", STREAM.to_owned()),
        _ => {
            ("application/json", json!({ "you said": serde_json::from_str::<Value>(&asked.body).unwrap() }).to_string())
        }
    }
}

#[test]
#[ignore = "needs the compilers of guests: cargo xtask guests"]
fn every_kind_answers_a_program_in_every_language() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), Outside::start(answer));
    let model = format!("{}/v1", outside.url);
    let server = Server::start_with(
        folder.path(),
        &[
            ("MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED", "[\"127.0.0.1\"]"),
            ("MUNDI_LLM__BASE_URL", &model),
            ("MUNDI_LLM__MODEL", "small"),
            ("MUNDI_PROCESS__COMMANDS", "{ echo = { program = \"/bin/cat\", folder = \"/\" } }"),
        ],
    );
    for (lang, sources) in languages() {
        let project = repository().join("sdk/kinds").join(sources);
        let manifest = deployed(&server, &project);
        let name = format!("kinds-{lang}");
        at(&server.url, &["program", "upload", project.to_str().unwrap(), "--as", &name]).ok();
        let (world, other) = (format!("asks-{lang}"), format!("hears-{lang}"));
        for name in [&world, &other] {
            at(&server.url, &["world", "create", name, "--manifest", &manifest]).ok();
        }
        let ask = |asked: Value| -> Value {
            let reply = at(&server.url, &["world", "call", &world, "ask", &asked.to_string()]).ok();
            serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{lang}: {error}: {reply}"))
        };
        let note = |world: &str| at(&server.url, &["world", "query", world, "note"]).ok();

        let heard = ask(json!({ "kind": "http.request", "url": format!("{}/echo", outside.url) }));
        let said = json!({ "you said": { "hello": "wörld" } });
        let text = said.to_string();
        let expected =
            json!({ "status": 200, "type": "application/json", "json": said, "text": text, "bytes": text.len() });
        assert_eq!(heard, expected, "{lang}");
        assert_eq!(
            ask(json!({ "kind": "http.request", "url": "http://10.0.0.1/" })),
            json!({ "code": "EFFECT_DENIED" })
        );

        let heard = ask(json!({ "kind": "llm.chat" }));
        let usage = json!({ "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7 });
        assert_eq!((&heard["content"], &heard["usage"]), (&json!("fourty-two"), &usage), "{lang}: {heard}");

        assert_eq!(ask(json!({ "kind": "blob.put" })), json!({ "bytes": [0, 128, 255], "of": 3 }), "{lang}");
        let heard = ask(json!({ "kind": "process.run" }));
        assert_eq!(heard, json!({ "status": 0, "stdout": "in and out", "stderr": "" }), "{lang}");
        assert_eq!(ask(json!({ "kind": "timer" })), json!({ "fired": true }), "{lang}");

        let heard = ask(json!({ "kind": "fabric.send", "to": other }));
        assert_eq!(heard, json!({ "status": "ok", "to": other, "seq": true }), "{lang}: to a world by its name");
        let nobody = ask(json!({ "kind": "fabric.send", "to": "nobody" }));
        assert_eq!(nobody, json!({ "code": "WORLD_NOT_FOUND" }), "{lang}");
        while note(&other) != "\"hello\"\n" {
            std::thread::yield_now();
        }

        let heard = ask(json!({ "kind": "world.call", "to": other, "ask": "echo" }));
        assert_eq!(heard, json!({ "reply": { "echo": true } }), "{lang}");
        let failed = ask(json!({ "kind": "world.call", "to": other, "ask": "nothing" }));
        assert_eq!(failed, json!({ "code": "CALL_FAILED", "failed_code": "PROGRAM_FAILED" }), "{lang}");
        let nobody = ask(json!({ "kind": "world.call", "to": "nobody", "ask": "echo" }));
        assert_eq!(nobody, json!({ "code": "WORLD_NOT_FOUND", "failed_code": null }), "{lang}");

        for program in [&manifest, &name, &format!("{name}@1")] {
            let heard = ask(json!({ "kind": "world.spawn", "manifest": program }));
            assert_eq!(heard["status"], "ok", "{lang}: {program}: {heard}");
            while note(heard["world"].as_str().unwrap()) != "\"born\"\n" {
                std::thread::yield_now();
            }
        }
        let unknown = ask(json!({ "kind": "world.spawn", "manifest": format!("{name}@2") }));
        assert_eq!(unknown, json!({ "code": "PROGRAM_UNKNOWN" }), "{lang}");
        let heard = ask(json!({ "kind": "world.fork" }));
        assert_eq!(heard["status"], "ok", "{lang}: {heard}");
        assert!(heard["forked_at"].as_u64().unwrap() > 1, "{lang}: {heard}");
        assert_eq!(note(heard["world"].as_str().unwrap()), "null\n", "{lang}");
    }
}
