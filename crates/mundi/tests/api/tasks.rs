//! External adapter workers: the protocol step by step, and the example in Python.

use crate::process::Server;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const T: &str = "/v1/u/default/tasks";
const W: &str = "/v1/u/default/worlds";

async fn ask(server: &Server, key: &str, params: Value) {
    server.post(W, &json!({ "world": "k", "program": "kv" })).await;
    let ask = json!({ "key": key, "kind": "external.task", "params": params });
    server.post(&format!("{W}/k/call/ask"), &ask).await.ok(200);
}

async fn answered(server: &Server, key: &str) -> Value {
    for _ in 0..750 {
        let found = server.post(&format!("{W}/k/query/get"), &json!(key)).await.ok(200);
        if found != Value::Null {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no answer under {key}");
}

async fn claim(server: &Server, wait: &str, ttl: &str) -> Value {
    let form = json!({ "kinds": ["external.task"], "wait": wait, "ttl": ttl });
    server.post(&format!("{T}/claim"), &form).await.ok(200)
}

#[tokio::test]
async fn a_task_is_claimed_kept_completed_and_its_world_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    assert_eq!(claim(&server, "0s", "30s").await, json!([]));
    let (tasks, ()) = tokio::join!(claim(&server, "20s", "30s"), async {
        tokio::time::sleep(Duration::from_millis(100)).await; // it waits by now, and is woken
        ask(&server, "a", json!({ "n": 4 })).await;
    });
    let task = &tasks[0];
    assert_eq!((&task["params"], &task["attempt"]), (&json!({ "n": 4 }), &json!(1)));
    assert_eq!(claim(&server, "0s", "30s").await, json!([]), "nobody else gets it");
    let kept = server.post(&format!("{T}/heartbeat"), &json!({ "claims": [task["claim"]] })).await.ok(200);
    assert_eq!(kept, json!({ "lost": [], "withdrawn": [] }));
    let done = json!({ "claim": task["claim"], "result": { "it": 8 } });
    server.post(&format!("{T}/complete"), &done).await.ok(204);
    assert_eq!(answered(&server, "a").await, json!({ "it": 8 }));
    server.post(&format!("{T}/complete"), &done).await.ok(204); // the answer was lost on its way: harmless
    server.post(&format!("{T}/complete"), &json!({ "claim": "c_00" })).await.refused(400, "ID_INVALID");
    server.post(&format!("{T}/claim"), &json!({ "kinds": [] })).await.refused(400, "REQUEST_INVALID");
}

#[tokio::test]
async fn a_worker_that_dies_loses_its_claim_to_the_next_and_a_failure_without_retry_is_final() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    ask(&server, "a", json!({})).await;
    let dead = claim(&server, "5s", "1s").await[0].clone();
    let next = claim(&server, "20s", "30s").await[0].clone();
    assert_eq!((&next["intent"], &next["attempt"]), (&dead["intent"], &json!(2)));
    let late = json!({ "claim": dead["claim"], "result": "late" });
    server.post(&format!("{T}/complete"), &late).await.refused(409, "EFFECT_CLAIM_LOST");
    let late = json!({ "claim": dead["claim"], "reason": "late", "retryable": false });
    server.post(&format!("{T}/fail"), &late).await.refused(409, "EFFECT_CLAIM_LOST");
    let lost = server.post(&format!("{T}/heartbeat"), &json!({ "claims": [dead["claim"]] })).await.ok(200);
    assert_eq!(lost["lost"], json!([dead["claim"]]));
    let failed = json!({ "claim": next["claim"], "reason": "no such thing", "retryable": false });
    server.post(&format!("{T}/fail"), &failed).await.ok(204);
    assert!(answered(&server, "a").await.to_string().contains("no such thing"));
    server.post(&format!("{T}/fail"), &failed).await.ok(204); // the answer was lost on its way: harmless
}

#[tokio::test]
async fn an_operator_answers_by_hand_and_the_worker_that_holds_the_claim_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    ask(&server, "a", json!({})).await;
    let task = claim(&server, "5s", "30s").await[0].clone();
    let at = format!("/v1/u/default/effects/answer/{}", task["intent"].as_str().unwrap());
    let answer = json!({ "status": "ok", "payload": { "by": "hand" } });
    server.post(&at, &json!({ "status": "maybe" })).await.refused(400, "REQUEST_INVALID");
    let token = server.post("/v1/tokens", &json!({ "can": ["admin"], "label": "night shift" })).await.ok(201);
    let shown = format!("Bearer {}", token["token"].as_str().unwrap());
    let answered = server.send(Method::POST, &at, &[("authorization", &shown)], &answer).await.ok(200);
    assert_eq!(answered, json!({ "changed": true, "operator": "night shift" }));
    assert_eq!(self::answered(&server, "a").await, json!({ "by": "hand" }));
    let late = json!({ "claim": task["claim"], "result": "late" });
    server.post(&format!("{T}/complete"), &late).await.refused(409, "EFFECT_CLAIM_LOST");
    server.post(&at, &answer).await.refused(404, "EFFECT_NOT_FOUND");
    let again = json!({ "status": "ok", "payload": { "by": "hand" }, "world": "k" });
    let repeated = server.send(Method::POST, &at, &[("authorization", &shown)], &again).await.ok(200);
    assert_eq!(repeated["changed"], false);
    server.post(&at, &again).await.refused(409, "RECEIPT_CLOSED"); // of somebody else
    let other = json!({ "status": "error", "world": "k" });
    server.post(&at, &other).await.refused(409, "RECEIPT_CLOSED");
    let journal = server.get(&format!("{W}/k/journal")).await.ok(200);
    let receipts: Vec<_> = journal["items"].as_array().unwrap().iter().map(|record| &record["input"]).collect();
    let receipts: Vec<_> = receipts.into_iter().filter(|input| input["receipt"] == task["intent"]).collect();
    assert_eq!(receipts.len(), 1);
    assert_eq!(receipts[0]["operator"], json!({ "token": token["id"], "name": "night shift" }));
}

const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

fn signing(arguments: &[&str]) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/external-adapter/signing.py");
    let done = Command::new("python3").arg("-B").arg(script).args(arguments).output().ok()?;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(String::from_utf8(done.stdout).unwrap().trim().to_owned())
}

#[tokio::test]
async fn a_receipt_that_must_be_signed_is_taken_with_its_signature_and_refused_without() {
    let Some(public) = signing(&["public", SEED]) else {
        eprintln!("python3 is not installed: nothing was signed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let keys = format!("{{ adapter_keys = {{ python = \"{public}\" }} }}");
    let server = Server::start_with(folder.path(), &[("MUNDI_UNIVERSES__DEFAULT", &keys)]);
    ask(&server, "a", json!({ "n": 21 })).await;
    let task = claim(&server, "5s", "30s").await[0].clone();
    let result = json!({ "doubled": 42 });
    let complete = |adapter: &str, signature: Option<&str>| json!({ "claim": task["claim"], "result": result, "adapter": adapter, "signature": signature });
    let at = format!("{T}/complete");
    server.post(&at, &complete("python", None)).await.refused(400, "SIGNATURE_MISSING");
    server.post(&at, &complete("python", Some(&"0".repeat(128)))).await.refused(400, "SIGNATURE_INVALID");
    server.post(&at, &complete("python", Some("zz"))).await.refused(400, "SIGNATURE_INVALID");
    server.post(&at, &complete("other", Some(&"0".repeat(128)))).await.refused(400, "SIGNATURE_INVALID");
    let fail = json!({ "claim": task["claim"], "reason": "no", "retryable": false, "adapter": "python" });
    server.post(&format!("{T}/fail"), &fail).await.refused(400, "SIGNATURE_MISSING");
    let fields = |hash: &str| {
        json!([task["universe"], task["world"], task["intent"], task["kind"], "ok", hash, "python"]).to_string()
    };
    let wrong = signing(&["sign", SEED, &fields("h_00")]).unwrap(); // of another payload
    server.post(&at, &complete("python", Some(&wrong))).await.refused(400, "SIGNATURE_INVALID");
    let payload = mundi_model::cbor::encode(&mundi_model::Value::from(result.clone()));
    let hash = mundi_model::Hash::of(&payload).to_string();
    let right = signing(&["sign", SEED, &fields(&hash)]).unwrap();
    server.post(&at, &complete("python", Some(&right))).await.ok(204);
    assert_eq!(answered(&server, "a").await, result);
    let journal = server.get(&format!("{W}/k/journal")).await.ok(200);
    let inputs = journal["items"].as_array().unwrap().iter().map(|record| &record["input"]);
    let receipt = inputs.filter(|input| input["receipt"] == task["intent"]).collect::<Vec<_>>();
    assert_eq!((&receipt[0]["adapter"], &receipt[0]["signature"]), (&json!("python"), &json!(right)));
}

#[tokio::test]
async fn a_manifest_asks_for_signed_receipts_of_any_worker() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let u = "/v1/u/default";
    let programs = server.get(&format!("{u}/programs")).await.ok(200);
    let kv = programs.as_array().unwrap().iter().find(|program| program["name"] == "kv").unwrap().clone();
    let mut manifest = server.get(&format!("{u}/manifests/{}", kv["manifest"].as_str().unwrap())).await.ok(200);
    manifest["effects"]["external.task"] = json!({ "signed": true });
    let stored = server.post(&format!("{u}/manifests"), &manifest).await.ok(201);
    server.post(W, &json!({ "world": "k", "manifest": stored["hash"] })).await.ok(201);
    let asked = json!({ "key": "a", "kind": "external.task", "params": {} });
    server.post(&format!("{W}/k/call/ask"), &asked).await.ok(200);
    let task = claim(&server, "5s", "30s").await[0].clone();
    assert_eq!(task["signed"], true);
    let plain = json!({ "claim": task["claim"], "result": 1 });
    server.post(&format!("{T}/complete"), &plain).await.refused(400, "SIGNATURE_MISSING");
}

#[tokio::test]
async fn the_example_in_python_carries_out_effects_and_signs_its_receipts() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("python3 is not installed: the example was not run");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = format!("{{ adapter_keys = {{ python = \"{}\" }} }}", signing(&["public", SEED]).unwrap());
    let server = Server::start_with(folder.path(), &[("MUNDI_UNIVERSES__DEFAULT", &keys)]);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/external-adapter/worker.py");
    let mut worker = Command::new("python3");
    worker.arg("-B").arg(example).env("MUNDI_URL", &server.url).env("MUNDI_SIGNING_SEED", SEED);
    let mut worker = worker.stderr(Stdio::inherit()).spawn().unwrap();
    ask(&server, "a", json!({ "n": 21, "succeeds_at": 2 })).await;
    ask(&server, "b", json!({ "no": "n" })).await;
    let (first, second) = (answered(&server, "a").await, answered(&server, "b").await);
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(first, json!({ "doubled": 42 }));
    assert!(second.to_string().contains('n'), "{second}");
}
