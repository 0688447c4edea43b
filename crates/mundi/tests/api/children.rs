//! Children over HTTP: spawn, external workers, cancel, budgets, events, and a server that is killed under them.

use crate::process::Server;
use reqwest::Method;
use serde_json::{Value, json};
use std::{path::Path, process::Command, time::Duration};

const U: &str = "/v1/u/default";
const W: &str = "/v1/u/default/worlds";

/// A world whose manifest allows children.
async fn parent(server: &Server, name: &str) {
    let programs = server.get(&format!("{U}/programs")).await.ok(200);
    let kv = programs.as_array().unwrap().iter().find(|program| program["name"] == "kv").unwrap();
    let manifest = json!({ "program": kv["program"], "effects": { "child.spawn": {} } });
    let stored = server.post(&format!("{U}/manifests"), &manifest).await.ok(201);
    server.post(W, &json!({ "world": name, "manifest": stored["hash"] })).await.ok(201);
}

async fn spawn(server: &Server, world: &str, form: Value) -> String {
    let child = server.post(&format!("{W}/{world}/children"), &form).await.ok(201);
    child["child_id"].as_str().unwrap().to_owned()
}

async fn task(server: &Server, verb: &str, form: &Value) -> crate::process::Answer {
    server.post(&format!("{U}/tasks/children/{verb}"), form).await
}

async fn claim(server: &Server) -> Vec<Value> {
    let form = json!({ "kinds": ["external"], "limit": 10, "wait": "2s" });
    task(server, "claim", &form).await.ok(200).as_array().unwrap().clone()
}

async fn child(server: &Server, world: &str, id: &str) -> Value {
    server.get(&format!("{W}/{world}/children/{id}")).await.ok(200)
}

/// Waits until a child has ended.
async fn ended(server: &Server, world: &str, id: &str) -> Value {
    for _ in 0..600 {
        let found = child(server, world, id).await;
        if found["phase"] == "terminal" {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it did not end: {}", child(server, world, id).await);
}

#[tokio::test]
async fn an_external_worker_claims_starts_reports_and_completes_a_child() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    parent(&server, "p").await;
    let form =
        json!({ "kind": "external", "params": { "page": 7 }, "budget": { "tokens": 100 }, "client_request_id": "a" });
    let id = spawn(&server, "p", form.clone()).await;
    assert_eq!(spawn(&server, "p", form.clone()).await, id, "the same request, the same child");
    for verb in ["tasks/claim", "tasks/children/claim"] {
        let long = json!({ "kinds": ["external"], "ttl": "2d" });
        server.post(&format!("{U}/{verb}"), &long).await.refused(400, "REQUEST_INVALID");
    }
    let why = server.get(&format!("{W}/p/why")).await.ok(200);
    assert!(why["causes"].as_array().unwrap().iter().any(|cause| cause["cause"] == "children"), "{why}");
    let mut other = form;
    other["params"] = json!(8);
    server.post(&format!("{W}/p/children"), &other).await.refused(409, "URM_REQUEST_CONFLICT");
    let headers = [("idempotency-key", "a")];
    let named = server.send(Method::POST, &format!("{W}/p/children"), &headers, &json!({ "kind": "external" })).await;
    named.refused(409, "URM_REQUEST_CONFLICT");

    let tasks = claim(&server).await;
    assert_eq!((tasks.len(), &tasks[0]["params"], &tasks[0]["child_id"]), (1, &json!({ "page": 7 }), &json!(id)));
    let held = json!({ "claim": tasks[0]["claim"] });
    task(&server, "complete", &held).await.refused(409, "URM_CHILD_CLAIM_LOST");
    task(&server, "start", &held).await.ok(200);
    assert_eq!(child(&server, "p", &id).await["phase"], "started");
    let report = json!({ "claim": tasks[0]["claim"], "spent": { "tokens": 40 } });
    assert_eq!(task(&server, "report", &report).await.ok(200)["accepted"], true);
    assert_eq!(task(&server, "report", &report).await.ok(200)["accepted"], true);
    let done = json!({ "claim": tasks[0]["claim"], "result": { "found": 3 }, "spent": { "tokens": 60 } });
    assert_eq!(task(&server, "complete", &done).await.ok(200)["outcome"], "passed");
    task(&server, "start", &held).await.refused(409, "URM_CHILD_CLAIM_LOST");
    let found = ended(&server, "p", &id).await;
    assert_eq!((&found["outcome"], &found["spent"]["tokens"]), (&json!("passed"), &json!(60)));

    let events = server.get(&format!("{W}/p/children/{id}/events")).await.ok(200);
    let names: Vec<_> = events.as_array().unwrap().iter().map(|event| event["event"].clone()).collect();
    assert_eq!(names, ["WORKER_START", "WORKER_PASS"]);
    let accept = [("accept", "application/x-ndjson")];
    let lines = server.send(Method::GET, &format!("{W}/p/children/{id}/events"), &accept, &Value::Null).await;
    assert_eq!(lines.text.lines().count(), 2);
    let listed = server.get(&format!("{W}/p/children")).await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    server.get(&format!("{W}/p/children/c_{}", "0".repeat(26))).await.refused(404, "URM_CHILD_NOT_FOUND");
}

#[tokio::test]
async fn budgets_and_cancels_end_children_and_answer_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    parent(&server, "p").await;
    let limits = json!({ "limits": { "tokens": 50 }, "client_request_id": "b" });
    let set = server.send(Method::PUT, &format!("{W}/p/budget"), &[], &limits).await.ok(200);
    assert_eq!(set["lanes"][2], json!({ "lane": "tokens", "total": 0, "limit": 50 }));
    let mode = json!({ "limits": {}, "accounting": "reservation_v1" });
    let refused = server.send(Method::PUT, &format!("{W}/p/budget"), &[], &mode).await;
    refused.refused(400, "URM_DISPATCH_ACCOUNTING_MODE_INVALID");
    let (a, b, c) = (
        spawn(&server, "p", json!({ "kind": "external" })).await,
        spawn(&server, "p", json!({ "kind": "external" })).await,
        spawn(&server, "p", json!({ "kind": "external" })).await,
    );
    let tasks = claim(&server).await;
    assert_eq!(tasks.len(), 2, "two run at a time");
    for task_ in &tasks {
        task(&server, "start", &json!({ "claim": task_["claim"] })).await.ok(200);
    }
    let spent = |task: &Value, tokens: u64| json!({ "claim": task["claim"], "spent": { "tokens": tokens } });
    assert_eq!(task(&server, "report", &spent(&tasks[0], 50)).await.ok(200)["accepted"], true);
    assert_eq!(task(&server, "report", &spent(&tasks[1], 1)).await.ok(200)["accepted"], false);
    assert_eq!(child(&server, "p", &b).await["code"], "URM_CHILD_BUDGET_EXCEEDED");

    let cancel = |id: &str| format!("{W}/p/children/{id}/cancel");
    let request = json!({ "client_request_id": "stop" });
    assert_eq!(server.post(&cancel(&a), &request).await.ok(200)["outcome"], "requested");
    assert_eq!(server.post(&cancel(&a), &request).await.ok(200)["outcome"], "requested");
    server.post(&cancel(&c), &request).await.refused(409, "URM_REQUEST_CONFLICT");
    let kept = task(&server, "heartbeat", &json!({ "claims": [tasks[0]["claim"], tasks[1]["claim"]] })).await.ok(200);
    assert_eq!((&kept["cancelled"][0], &kept["lost"][0]), (&tasks[0]["claim"], &tasks[1]["claim"]));
    let stopped = json!({ "claim": tasks[0]["claim"], "reason": "as it was asked" });
    assert_eq!(task(&server, "fail", &stopped).await.ok(200)["outcome"], "cancelled");
    let derived = server.post(&cancel(&c), &json!({})).await.ok(200);
    assert_eq!(derived, json!({ "outcome": "cancelled", "cancel_request_id": format!("cancel:{c}:0") }));
    let events = server.get(&format!("{W}/p/children/{c}/events")).await.ok(200);
    assert_eq!(events[0]["detail"]["cancel_request_id"], derived["cancel_request_id"]);
    let late = json!({ "outcome": "already_terminal", "cancel_request_id": derived["cancel_request_id"] });
    assert_eq!(server.post(&cancel(&c), &json!({ "client_request_id": "late" })).await.ok(200), late, "as on record");
    let none = json!({ "outcome": "already_terminal" });
    assert_eq!(server.post(&cancel(&b), &json!({})).await.ok(200), none, "nobody cancelled it");

    let wrong = json!({ "kind": "nobody-serves-this" });
    let id = spawn(&server, "p", wrong).await;
    assert_eq!(ended(&server, "p", &id).await["code"], "URM_CHILD_KIND_INVALID");
    server.post(W, &json!({ "world": "plain", "program": "kv" })).await.ok(201);
    server.post(&format!("{W}/plain/children"), &json!({ "kind": "external" })).await.refused(422, "OUTPUT_REFUSED");
}

#[tokio::test]
async fn a_server_that_is_killed_ends_what_it_ran_and_keeps_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let sleep = Path::new("/bin/sleep");
    let config = folder.path().join("mundi.toml");
    let lines = format!(
        "[process.commands.sleep]\nprogram = \"{}\"\ntakes_args = true\nfolder = \"/\"\n[process.commands.true]\nprogram = \"/bin/true\"\nfolder = \"/\"\n",
        sleep.display()
    );
    std::fs::write(&config, lines).unwrap();
    let environment = [("MUNDI_CONFIG", config.to_str().unwrap())];
    let server = Server::start_with(folder.path(), &environment);
    parent(&server, "p").await;
    let command = |name: &str, args: &[&str]| json!({ "kind": "process", "params": { "command": name, "args": args } });
    let long = spawn(&server, "p", command("sleep", &["600"])).await;
    let ok = spawn(&server, "p", command("true", &[])).await;
    assert_eq!(ended(&server, "p", &ok).await["outcome"], "passed");
    let query = json!({ "query": "select kind, outcome from children('p') where phase = 'terminal'" });
    assert_eq!(server.post(&format!("{U}/sql"), &query).await.ok(200)["rows"], json!([["process", "passed"]]));
    let metrics = server.send(Method::GET, "/metrics", &[], &Value::Null).await.text;
    let counted = "mundi_children_ended_total{kind=\"process\",code=\"ok\"} 1";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    // A command that runs longer than its budget of time is stopped, and has exceeded it.
    let mut slow = command("sleep", &["600"]);
    slow["budget"] = json!({ "duration_secs": 1 });
    let slow = spawn(&server, "p", slow).await;
    let found = ended(&server, "p", &slow).await;
    assert_eq!(found["code"], "URM_CHILD_BUDGET_EXCEEDED", "{found}");
    assert_eq!(found["reason"], "budget_exceeded:duration_secs");
    let external = spawn(&server, "p", json!({ "kind": "external" })).await;
    // Those that end without an executor are counted, too, and once.
    let stopped = spawn(&server, "p", json!({ "kind": "external" })).await;
    for _ in 0..2 {
        server.post(&format!("{W}/p/children/{stopped}/cancel"), &json!({ "client_request_id": "s" })).await.ok(200);
    }
    let metrics = server.send(Method::GET, "/metrics", &[], &Value::Null).await.text;
    let counted = "mundi_children_ended_total{kind=\"external\",code=\"URM_CHILD_CANCELLED\"} 1";
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    for _ in 0..100 {
        if child(&server, "p", &long).await["phase"] == "started" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.kill();
    let server = Server::start_with(folder.path(), &environment);
    let found = ended(&server, "p", &long).await;
    assert_eq!(found["code"], "URM_CHILD_TERMINATED_ON_RESTART");
    assert_eq!(child(&server, "p", &external).await["phase"], "queued");
    assert_eq!(claim(&server).await.len(), 1);
}

fn mundi(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_mundi")).args(arguments).output().unwrap()
}

#[tokio::test]
async fn all_children_of_a_world_are_cancelled_by_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    parent(&server, "p").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(spawn(&server, "p", json!({ "kind": "external" })).await);
    }
    let tasks = claim(&server).await;
    task(&server, "start", &json!({ "claim": tasks[0]["claim"] })).await.ok(200);
    let (url, request) = (format!("{W}/p/children/cancel"), json!({ "client_request_id": "stop" }));
    let answer = server.post(&url, &request).await.ok(200);
    assert_eq!(answer, json!({ "children": 3, "client_request_id": "stop" }));
    let later = spawn(&server, "p", json!({ "kind": "external" })).await;
    assert_eq!(server.post(&url, &request).await.ok(200), answer, "the same request, the same answer");
    for id in &ids {
        assert_eq!(child(&server, "p", id).await["cancel_request_id"], format!("stop:{id}"));
    }
    assert_eq!(child(&server, "p", &ids[0]).await["phase"], "started", "its worker stops it");
    assert_eq!(child(&server, "p", &ids[2]).await["outcome"], "cancelled");
    assert_eq!(child(&server, "p", &later).await["phase"], "queued", "it was spawned since");
    server.post(&format!("{W}/nowhere/children/cancel"), &request).await.refused(404, "WORLD_NOT_FOUND");
}

/// Each command as a user types it, against a server: what is shown, and the exit code of what is refused.
#[tokio::test]
async fn the_command_line_spawns_lists_follows_cancels_and_budgets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    parent(&server, "p").await;
    let url = server.url.clone();
    let run = |arguments: &[&str]| mundi(&[&["world"], arguments, &["--url", &url, "--format", "json"]].concat());
    let ok = |arguments: &[&str]| {
        let ran = run(arguments);
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice::<Value>(&ran.stdout).unwrap()
    };
    let refused = |arguments: &[&str]| {
        let ran = run(arguments);
        let error: Value = serde_json::from_slice(&ran.stderr).unwrap_or(Value::Null);
        (ran.status.code().unwrap(), error["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let spawn = ["child", "spawn", "p", "external", r#"{"page": 7}"#, "--budget", "tokens=9"];
    let spawn = [&spawn[..], &["--client-request-id", "job"]].concat();
    let made = ok(&spawn);
    assert_eq!((&made["params"], &made["budget"]), (&json!({ "page": 7 }), &json!({ "tokens": 9 })));
    assert_eq!(ok(&spawn)["child_id"], made["child_id"], "the same request, the same child");
    let id = made["child_id"].as_str().unwrap();
    let other = ["child", "spawn", "p", "external", "8", "--client-request-id", "job"];
    assert_eq!(refused(&other), (5, "URM_REQUEST_CONFLICT".to_owned()));
    assert_eq!(refused(&["child", "spawn", "p", "external", "--budget", "tokens"]).0, 3);
    let second = ok(&["child", "spawn", "p", "external"]);
    let second = second["child_id"].as_str().unwrap();

    let listed = ok(&["child", "list", "p"]);
    let ids: Vec<_> = listed["items"].as_array().unwrap().iter().map(|child| child["child_id"].clone()).collect();
    assert_eq!(ids, [id, second]);
    let table = mundi(&["world", "child", "list", "p", "--url", &url]);
    assert!(String::from_utf8_lossy(&table.stdout).lines().next().unwrap().starts_with("CHILD"));
    assert_eq!(ok(&["child", "describe", "p", id])["phase"], "queued");
    let nobody = format!("c_{}", "0".repeat(26));
    assert_eq!(refused(&["child", "describe", "p", &nobody]), (4, "URM_CHILD_NOT_FOUND".to_owned()));

    let cancelled = ok(&["child", "cancel", "p", id, "--client-request-id", "stop"]);
    assert_eq!(cancelled, json!({ "outcome": "cancelled", "cancel_request_id": "stop" }));
    assert_eq!(refused(&["child", "cancel", "p"]).0, 2, "a child, or all");
    assert_eq!(refused(&["child", "cancel", "p", id, "--all"]).0, 2);
    let all = ["child", "cancel", "p", "--all", "--client-request-id", "over"];
    assert_eq!(ok(&all), json!({ "children": 1, "client_request_id": "over" }));
    assert_eq!(ok(&all)["children"], 1, "the same request, the same answer");
    assert_eq!(ok(&["child", "describe", "p", second])["outcome"], "cancelled");

    let events = ok(&["child", "events", "p", id]);
    assert_eq!((&events[0]["event"], events.as_array().unwrap().len()), (&json!("WORKER_CANCEL"), 1));
    let lines = mundi(&["world", "child", "events", "p", id, "--url", &url]);
    assert!(lines.status.success());
    mundi_model::child::evidence::verify(&lines.stdout).unwrap();
    assert_eq!(ok(&["child", "events", "p", id, "--from", "1"]), json!([]));

    let set = ok(&["budget", "set", "p", "tokens=50", "duration_secs=none", "--client-request-id", "b"]);
    assert_eq!(set["lanes"][2], json!({ "lane": "tokens", "total": 0, "limit": 50 }));
    assert_eq!(ok(&["budget", "show", "p"]), set);
    assert_eq!(refused(&["budget", "set", "p", "tokens=60", "--client-request-id", "b"]).0, 5);
    assert_eq!(refused(&["budget", "set", "p", "money=1"]), (3, "REQUEST_INVALID".to_owned()));
    let table = mundi(&["world", "budget", "show", "p", "--url", &url]);
    let shown = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(shown.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ["tokens", "0", "50"]), "{shown}");
}

#[tokio::test]
async fn evidence_is_exported_appended_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    parent(&server, "p").await;
    let (file, url) = (folder.path().join("evidence.ndjson"), server.url.clone());
    let file = file.to_str().unwrap();
    let export = || {
        let ran = mundi(&["evidence", "export", "p", "--file", file, "--url", &url, "--format", "json"]);
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        serde_json::from_slice::<Value>(&ran.stdout).unwrap()
    };
    let id = spawn(&server, "p", json!({ "kind": "external" })).await;
    server.post(&format!("{W}/p/children/{id}/cancel"), &json!({})).await.ok(200);
    assert_eq!(export()["appended"], 1);
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/urm-events.1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_slice(&std::fs::read(spec).unwrap()).unwrap()).unwrap();
    for line in std::fs::read_to_string(file).unwrap().lines() {
        assert!(schema.is_valid(&serde_json::from_str(line).unwrap()), "{line}");
    }
    std::fs::write(file, std::fs::read_to_string(file).unwrap() + "{\"torn").unwrap();
    let verified = mundi(&["evidence", "verify", file, "--format", "json"]);
    assert_eq!(serde_json::from_slice::<Value>(&verified.stdout).unwrap()["torn_bytes"], 6);
    let id = spawn(&server, "p", json!({ "kind": "external" })).await;
    server.post(&format!("{W}/p/children/{id}/cancel"), &json!({})).await.ok(200);
    let again = export();
    assert_eq!((&again["appended"], &again["cut_bytes"]), (&json!(1), &json!(6)));
    std::fs::write(file, std::fs::read_to_string(file).unwrap().replacen("\"seq\":0", "\"seq\":1", 1)).unwrap();
    let broken = mundi(&["evidence", "verify", file]);
    assert!(!broken.status.success());
    assert!(String::from_utf8_lossy(&broken.stderr).contains("URM_SCHEDULER_REPLAY_ORDER_INVALID"));
}

#[test]
fn the_stop_gate_passes_on_its_fixtures_and_each_way_to_break_them_has_a_code() {
    let made = tempfile::tempdir().unwrap();
    let folder = made.path();
    assert!(mundi(&["gate", "--make", folder.to_str().unwrap()]).status.success());
    let stored = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/fixtures/stop_gate");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name();
        let (made, kept) = (folder.join(&name), stored.join(&name));
        let is_same = std::fs::read(made).unwrap() == std::fs::read(kept).unwrap();
        assert!(is_same, "{name:?}: `mundi gate --make spec/fixtures/stop_gate`");
    }
    let manifest = folder.join("vnext_plus9_manifest.json");
    let gate = || {
        let ran = mundi(&["gate", "--manifest", manifest.to_str().unwrap(), "--format", "json"]);
        let report = serde_json::from_slice::<Value>(&ran.stdout).unwrap_or(Value::Null);
        (ran.status.code(), report, String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    let (code, report, _) = gate();
    assert_eq!((code, &report["all_passed"]), (Some(0), &json!(true)), "{report}");
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/stop_gate_metrics.1.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_slice(&std::fs::read(spec).unwrap()).unwrap()).unwrap();
    assert!(schema.is_valid(&report), "{report}");
    for missing in ["schema", "vnext_plus9_manifest_hash", "replays_per_fixture", "metrics", "failures", "all_passed"] {
        let mut less = report.clone();
        less.as_object_mut().unwrap().remove(missing);
        assert!(!schema.is_valid(&less), "{missing}");
    }

    // The metrics that were there before come into the same report, and change nothing of it.
    let ran = mundi(&["gate", "--manifest", manifest.to_str().unwrap(), "--earlier", "--format", "json"]);
    let more = serde_json::from_slice::<Value>(&ran.stdout).unwrap();
    assert!(ran.status.success() && schema.is_valid(&more), "{more}");
    for metric in ["world_replay_determinism_pct", "simulation_determinism_pct", "engine_conformance_pct"] {
        assert_eq!(more["metrics"][metric]["pct"], json!(100.0), "{more}");
        assert!(report["metrics"][metric].is_null());
    }
    assert!(more["metrics"]["engine_conformance_pct"]["total"].as_u64().unwrap() > 20, "{more}");
    assert_eq!(more["vnext_plus9_manifest_hash"], report["vnext_plus9_manifest_hash"]);

    let original = std::fs::read_to_string(&manifest).unwrap();
    let mut parsed: Value = serde_json::from_str(&original).unwrap();
    let metric = "scheduler_dispatch_replay_determinism_pct";
    let name = parsed["metrics"][metric][0]["fixture"].as_str().unwrap().to_owned();
    let fixture = folder.join(&name);
    let bytes = std::fs::read_to_string(&fixture).unwrap();

    // A changed byte.
    std::fs::write(&fixture, bytes.replacen("running_total_v1", "running_total_v2", 1)).unwrap();
    let (code, report, _) = gate();
    assert_eq!((code, &report["failures"][0]["code"]), (Some(9), &json!("URM_GATE_ARTIFACT_CHANGED")));
    assert!(schema.is_valid(&report), "a report of a failure, too: {report}");
    assert!(report["metrics"][metric]["pct"].as_f64().unwrap() < 100.0);

    // What is changed and signed again fails by what it says.
    let mut resigned = |change: &dyn Fn(&mut Value)| {
        let mut artifact: Value = serde_json::from_str(&bytes).unwrap();
        change(&mut artifact);
        let text = mundi_model::json::to_canonical(&artifact);
        std::fs::write(&fixture, &text).unwrap();
        parsed["metrics"][metric][0]["sha256"] = mundi_model::Hash::of(text.as_bytes()).to_hex().into();
        parsed.as_object_mut().unwrap().remove("vnext_plus9_manifest_hash");
        let hash = mundi_model::Hash::of(mundi_model::json::to_canonical(&parsed).as_bytes()).to_hex();
        parsed["vnext_plus9_manifest_hash"] = hash.into();
        std::fs::write(&manifest, mundi_model::json::to_canonical(&parsed)).unwrap();
        let (code, report, _) = gate();
        assert_eq!(code, Some(9));
        report["failures"][0]["code"].clone()
    };
    let swapped = resigned(&|artifact| artifact["tokens"].as_array_mut().unwrap().swap(0, 1));
    assert_eq!(swapped, "URM_SCHEDULER_REPLAY_ORDER_INVALID");
    let unfounded = resigned(&|artifact| {
        let events = artifact["events"].as_array_mut().unwrap();
        let last = events.iter().rposition(|event| event["detail"]["phase_at_event"] == "terminal").unwrap();
        events.remove(last);
    });
    assert_eq!(unfounded, "URM_SCHEDULER_PHASE_EVENT_ATOMICITY_VIOLATION");

    // A manifest that was changed and not signed again.
    std::fs::write(
        &manifest,
        original.replacen("concurrent_budget_cancel_stability-0", "concurrent_budget_cancel_stability-1", 1),
    )
    .unwrap();
    let invalid = |manifest_code: &str| {
        let (code, report, said) = gate();
        assert_eq!(code, Some(9), "{said}");
        assert!(schema.is_valid(&report), "{report}");
        let codes: Vec<_> = report["failures"].as_array().unwrap().iter().map(|failure| &failure["code"]).collect();
        assert_eq!(codes, [manifest_code; 3], "{report}");
        assert_eq!((&report["metrics"][metric]["pct"], &report["all_passed"]), (&json!(0.0), &json!(false)));
    };
    invalid("URM_GATE_MANIFEST_STALE");

    // A manifest with its own hash that is none.
    let invalid_if = |change: &dyn Fn(&mut Value)| {
        let mut manifest_value: Value = serde_json::from_str(&original).unwrap();
        change(&mut manifest_value);
        manifest_value.as_object_mut().unwrap().remove("vnext_plus9_manifest_hash");
        let hash = mundi_model::Hash::of(mundi_model::json::to_canonical(&manifest_value).as_bytes()).to_hex();
        manifest_value["vnext_plus9_manifest_hash"] = hash.into();
        std::fs::write(&manifest, mundi_model::json::to_canonical(&manifest_value)).unwrap();
        invalid("JSON_MALFORMED");
    };
    invalid_if(&|manifest| manifest["schema"] = "stop_gate.vnext_plus10_manifest@1".into());
    invalid_if(&|manifest| manifest["metrics"][metric] = json!([]));
    invalid_if(&|manifest| manifest["metrics"][metric][0]["sha256"] = "00".into());
    invalid_if(&|manifest| manifest["more"] = json!(1));
}
