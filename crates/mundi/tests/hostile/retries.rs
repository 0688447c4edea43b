//! Effects that shall be tried for ever, or never again.

use crate::{
    components::{settled, upload},
    guest::asker,
    process::Server,
};
use mundi_model::limits::EFFECT_BACKOFF_MS_MAX;
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const U: &str = "/v1/u/default";

#[expect(clippy::disallowed_methods, reason = "it is compared with when an effect is due")]
fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn the_outside_parks_no_effect_for_ever_and_no_manifest_tries_one_billions_of_times() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let code = asker("");
    upload(&server, U, &code).await;
    let mut manifest = settled(&server, U, &code).await["manifest"].clone();
    manifest["effects"]["outside"]["retry"] =
        json!({ "attempts_max": 1u64 << 32, "backoff_ms": 0, "backoff_ms_max": 0 });
    server.post(&format!("{U}/manifests"), &manifest).await.refused(400, "MANIFEST_INVALID");
    manifest["effects"]["outside"]["retry"]["attempts_max"] = json!(3);
    let manifest = server.post(&format!("{U}/manifests"), &manifest).await.ok(201)["hash"].clone();
    server.post(&format!("{U}/worlds"), &json!({ "world": "a", "manifest": manifest })).await.ok(201);
    server.post(&format!("{U}/worlds/a/send/go"), &Value::Null).await.ok(202);
    let task = loop {
        let form = json!({ "kinds": ["outside"], "limit": 1 });
        let tasks = server.post(&format!("{U}/tasks/claim"), &form).await.ok(200);
        if let Some(task) = tasks.as_array().unwrap().first() {
            break task.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let later = json!({ "claim": task["claim"], "reason": "later", "retry_after_ms": u64::MAX });
    server.post(&format!("{U}/tasks/fail"), &later).await.ok(204);
    let effects = server.get(&format!("{U}/effects")).await.ok(200);
    let due_ns = effects["items"][0]["not_before_ns"].as_u64().unwrap();
    let wait_ms = due_ns / 1_000_000 - now_ms();
    assert!((EFFECT_BACKOFF_MS_MAX - 600_000..=EFFECT_BACKOFF_MS_MAX).contains(&wait_ms), "{effects}");
}
