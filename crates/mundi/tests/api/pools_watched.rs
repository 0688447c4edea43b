//! Pools that are watched: evidence, revoke, reclaim, by the real server process.

use crate::process::Server;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

const P: &str = "/v1/u/default/pools";
const W: &str = "/v1/u/default/worlds";
const OFTEN: (&str, &str) = ("MUNDI_WATCHER__INTERVAL_MS", "20");

async fn pool(server: &Server, name: &str) {
    server.post(P, &json!({ "name": name })).await.ok(201);
    let resources = json!({ "resources": [{ "resource": "gpu-0" }, { "resource": "gpu-1" }] });
    server.post(&format!("{P}/{name}/resources"), &resources).await.ok(200);
}

async fn watch(server: &Server, name: &str, policy: Value) -> Value {
    server.send(Method::PUT, &format!("{P}/{name}/watch"), &[], &policy).await.ok(200)
}

/// A lease that is active; gives the token of its holder.
async fn active(server: &Server, name: &str, resource: &str, holder: &str) -> Value {
    let form = json!({ "resources": [resource], "holder": holder, "ttl_slots": 600 });
    let reserved = server.post(&format!("{P}/{name}/reserve"), &form).await.ok(200);
    let token = json!({ "lease_id": reserved["lease_id"], "lease_epoch": 1, "holder": holder });
    server.post(&format!("{P}/{name}/activate"), &token).await.ok(200);
    token
}

/// The lease, once it is in this state.
async fn once(server: &Server, name: &str, token: &Value, state: &str) -> Value {
    let path = format!("{P}/{name}/leases/{}", token["lease_id"].as_str().unwrap());
    loop {
        let lease = server.get(&path).await.ok(200)["lease"].clone();
        if lease["state"] == state {
            return lease;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_silent_holder_and_a_deleted_world_lose_their_leases_and_a_policy_is_shown_and_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[OFTEN]);
    pool(&server, "p").await;
    assert_eq!(server.get(&format!("{P}/p/watch")).await.ok(200)["watch"], Value::Null);
    for bad in [
        json!({ "silent_after_ms": 0 }),
        json!({ "reclaim_after_ms": u64::MAX }),
        json!({ "probe": { "url": "ftp://h" } }),
        json!({ "probe": { "url": "http://h/{world}" } }),
        json!({ "probe": { "url": "http://h", "failures_max": 0 } }),
        json!({ "unknown": 1 }),
    ] {
        server.send(Method::PUT, &format!("{P}/p/watch"), &[], &bad).await.refused(400, "REQUEST_INVALID");
    }
    let nobody = server.send(Method::PUT, &format!("{P}/nobody/watch"), &[], &json!({})).await;
    nobody.refused(404, "POOL_NOT_FOUND");
    server.post(W, &json!({ "world": "agent", "program": "counter" })).await.ok(201);
    let agent = server.get(&format!("{W}/agent")).await.ok(200)["world"].as_str().unwrap().to_owned();
    let holder = format!("holder_{}", agent.trim_start_matches("w_"));
    let of_world = active(&server, "p", "gpu-1", &holder).await;
    let policy = json!({ "holder_ended": true, "silent_after_ms": 100, "reclaim_after_ms": 100 });
    assert_eq!(watch(&server, "p", policy.clone()).await["watch"], policy);
    assert_eq!(server.get(&format!("{P}/p")).await.ok(200)["watch"], policy);

    let token = active(&server, "p", "gpu-0", "ada").await;
    let lease = once(&server, "p", &token, "revoked").await;
    assert_eq!(lease["evidence"][0]["kind"], "silent", "{lease}");
    let states: Vec<_> = lease["history"].as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["reserved", "active", "revoking", "revoked"]);
    for verb in ["heartbeat", "release"] {
        server.post(&format!("{P}/p/{verb}"), &token).await.refused(409, "STALE_EPOCH");
    }
    active(&server, "p", "gpu-0", "bob").await;
    let kept = server.get(&format!("{P}/p/leases/{}", of_world["lease_id"].as_str().unwrap())).await.ok(200);
    assert_eq!(kept["lease"]["state"], "active", "a world sends no heartbeats, and is not asked for them");

    server.delete(&format!("{W}/agent")).await.ok(204);
    let lease = once(&server, "p", &of_world, "revoked").await;
    assert_eq!(lease["evidence"][0]["kind"], "holder_ended", "{lease}");
    server.delete(&format!("{P}/p/watch")).await.ok(204);
    assert_eq!(server.get(&format!("{P}/p/watch")).await.ok(200)["watch"], Value::Null);
    let metrics = server.get("/metrics").await.text;
    for line in [
        "mundi_pool_resources{universe=\"default\",pool=\"p\",state=\"available\"}",
        "mundi_pool_leases{universe=\"default\",pool=\"p\",state=\"ended\"}",
        "mundi_pool_queue_length{universe=\"default\",pool=\"p\"} 0",
        "mundi_pool_commands_total{result=\"ok\"}",
        "mundi_watcher_reclaims_total",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_holder_that_is_heard_keeps_its_lease_and_other_tokens_are_not_heard() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[("MUNDI_WATCHER__INTERVAL_MS", "1000")]);
    pool(&server, "p").await;
    watch(&server, "p", json!({ "silent_after_ms": 600_000, "reclaim_after_ms": 0 })).await;
    let token = active(&server, "p", "gpu-0", "ada").await;
    let beat = async |token: &Value| server.post(&format!("{P}/p/heartbeat"), token).await;
    beat(&token).await.ok(204);
    let with = |name: &str, value: Value| {
        let mut other = token.clone();
        other[name] = value;
        other
    };
    beat(&with("holder", json!("eve"))).await.refused(409, "HOLDER_MISMATCH");
    beat(&with("lease_epoch", json!(2))).await.refused(409, "STALE_EPOCH");
    beat(&with("lease_id", json!("l_00000000000000000000000001"))).await.refused(409, "STALE_EPOCH");
    server.post(&format!("{P}/p/release"), &token).await.ok(200);
    beat(&token).await.refused(409, "STALE_EPOCH");
}

/// Switched off, it does nothing; a process that has the role goes on where the record stands, however the one before ended.
#[tokio::test]
async fn a_delayed_reclaim_waits_for_a_process_that_watches() {
    let folder = tempfile::tempdir().unwrap();
    let without = ["server", "--roles", "api,world,orchestrator,timer"];
    let server = Server::start_as(folder.path(), &without, "API at ", &[OFTEN]);
    pool(&server, "p").await;
    let token = active(&server, "p", "gpu-0", "ada").await;
    let revoke = json!({ "lease_id": token["lease_id"], "reclaim_after_ms": 50 });
    let unwatched = server.post(&format!("{P}/p/revoke"), &revoke).await;
    assert!(unwatched.refused(400, "REQUEST_INVALID")["detail"].as_str().unwrap().contains("not watched"));
    watch(&server, "p", json!({ "silent_after_ms": 1, "reclaim_after_ms": 50 })).await;
    server.post(&format!("{P}/p/revoke"), &revoke).await.ok(200);
    let busy = json!({ "resources": ["gpu-0"], "holder": "bob", "ttl_slots": 60 });
    server.post(&format!("{P}/p/reserve"), &busy).await.refused(409, "RESOURCE_BUSY");
    let silent = active(&server, "p", "gpu-1", "eve").await;
    let lease = server.get(&format!("{P}/p/leases/{}", token["lease_id"].as_str().unwrap())).await.ok(200);
    assert_eq!((&lease["lease"]["state"], &lease["lease"]["reclaim_after_ms"]), (&json!("revoking"), &json!(50)));
    server.kill();
    // Killed in the middle again and again: each begins to count from zero, and one of them ends it.
    for _ in 0..3 {
        let server = Server::start_with(folder.path(), &[OFTEN]);
        server.get(&format!("{P}/p")).await.ok(200);
        server.kill();
    }
    let server = Server::start_with(folder.path(), &[OFTEN]);
    once(&server, "p", &token, "revoked").await;
    let lease = once(&server, "p", &silent, "revoked").await;
    assert_eq!(lease["evidence"].as_array().unwrap().len(), 1, "what was seen is on record once: {lease}");
    active(&server, "p", "gpu-0", "bob").await;
}

/// A fork of a pool's world is no pool: it has no policy, and its leases no authority.
#[tokio::test]
async fn a_fork_of_a_pool_is_not_watched() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_with(folder.path(), &[OFTEN]);
    pool(&server, "p").await;
    let token = active(&server, "p", "gpu-0", "ada").await;
    server.post(&format!("{W}/p/fork"), &json!({ "world": "copy" })).await.ok(201);
    let refused = server.send(Method::PUT, &format!("{P}/copy/watch"), &[], &json!({ "silent_after_ms": 1 })).await;
    refused.refused(404, "POOL_NOT_FOUND");
    watch(&server, "p", json!({ "silent_after_ms": 50, "reclaim_after_ms": 0 })).await;
    once(&server, "p", &token, "revoked").await;
    let query = json!({ "lease_id": token["lease_id"] });
    let copy = server.post(&format!("{W}/copy/query/lease"), &query).await.ok(200);
    assert_eq!(copy["lease"]["state"], "active", "no watcher touches a copy: {copy}");
}

/// A service that answers everything with a status.
fn answering(status: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 1_024];
            drop(stream.read(&mut head));
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    port
}

#[tokio::test]
async fn a_probe_that_fails_again_and_again_revokes_and_one_that_is_well_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let allowed = ("MUNDI_HTTP__PRIVATE_HOSTS_ALLOWED", "[\"127.0.0.1\"]");
    let server = Server::start_with(folder.path(), &[OFTEN, allowed]);
    let mut tokens = Vec::new();
    for (name, status) in [("well", "204 No Content"), ("ill", "503 Service Unavailable")] {
        pool(&server, name).await;
        let url = format!("http://127.0.0.1:{}/{{resource}}/{{lease}}", answering(status));
        watch(&server, name, json!({ "probe": { "url": url, "failures_max": 2 }, "reclaim_after_ms": 0 })).await;
        tokens.push(active(&server, name, "gpu-0", "ada").await);
    }
    let lease = once(&server, "ill", &tokens[1], "revoked").await;
    assert_eq!(lease["evidence"][0]["kind"], "probe_failed", "{lease}");
    let well = server.get(&format!("{P}/well/leases/{}", tokens[0]["lease_id"].as_str().unwrap())).await.ok(200);
    assert_eq!(well["lease"]["state"], "active");
}
