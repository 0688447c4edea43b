//! Pools over HTTP: commands, reads, every refusal with its result, shards, tokens, copies.

use crate::process::{Answer, Server};
use reqwest::Method;
use serde_json::{Value, json};

const P: &str = "/v1/u/default/pools";
const W: &str = "/v1/u/default/worlds";

async fn pool_with(server: &Server, name: &str, shards: u64, resources: u64, config: Value) {
    server.post(P, &json!({ "name": name, "shards": shards, "config": config })).await.ok(201);
    let resource = |n: u64| json!({ "resource": format!("gpu-{n}"), "labels": if n.is_multiple_of(2) { vec!["even"] } else { vec![] } });
    let resources: Vec<Value> = (0..resources).map(resource).collect();
    server.post(&format!("{P}/{name}/resources"), &json!({ "resources": resources })).await.ok(200);
}

async fn do_(server: &Server, verb: &str, form: Value) -> Answer {
    server.post(&format!("{P}/p/{verb}"), &form).await
}

/// A refusal of the kernel, with its result code.
#[track_caller]
fn refused(answer: Answer, status: u16, code: &str) -> Value {
    let problem = answer.refused(status, code);
    assert_eq!(problem["outcome"], "definite", "{problem}");
    assert_eq!(problem["result"].as_str().unwrap().to_uppercase(), code.trim_start_matches("POOL_"), "{problem}");
    problem
}

#[tokio::test]
async fn a_lease_is_reserved_activated_and_released_and_each_read_names_its_lsn() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 3, json!({})).await;
    let reserved =
        do_(&server, "reserve", json!({ "resources": ["gpu-0", "gpu-1"], "holder": "ada", "ttl_slots": 60 }))
            .await
            .ok(200);
    assert_eq!(
        (&reserved["result"], &reserved["lease_epoch"], &reserved["outcome"]),
        (&json!("ok"), &json!(1), &json!("definite"))
    );
    let lease = reserved["lease_id"].as_str().unwrap();
    let read = server.get(&format!("{P}/p/leases/{lease}?at_least={}", reserved["lsn"])).await.ok(200);
    assert!(read["applied_lsn"].as_u64() >= reserved["lsn"].as_u64(), "{read}");
    assert_eq!((&read["lease"]["state"], &read["lease"]["member_count"]), (&json!("reserved"), &json!(2)));
    let token = json!({ "lease_id": lease, "lease_epoch": 1, "holder": "ada" });
    do_(&server, "activate", token.clone()).await.ok(200);
    let busy = do_(&server, "reserve", json!({ "resources": ["gpu-1"], "holder": "bob", "ttl_slots": 60 })).await;
    refused(busy, 409, "RESOURCE_BUSY");
    let held = server.get(&format!("{P}/p/resources?holder=ada&state=active")).await.ok(200);
    assert_eq!(held["items"].as_array().unwrap().len(), 2);
    let released = do_(&server, "release", token.clone()).await.ok(200);
    assert_eq!(released["lease_epoch"], 2);
    refused(do_(&server, "release", token).await, 409, "STALE_EPOCH");
    let read = server.get(&format!("{P}/p/leases/{lease}")).await.ok(200);
    let states: Vec<_> = read["lease"]["history"].as_array().unwrap().iter().map(|it| it["state"].clone()).collect();
    assert_eq!(states, ["reserved", "active", "released"]);
    let resource = server.get(&format!("{P}/p/resources/gpu-0")).await.ok(200);
    assert_eq!((&resource["resource"]["name"], &resource["resource"]["version"]), (&json!("gpu-0"), &json!(4)));
    let described = server.get(&format!("{P}/p")).await.ok(200);
    assert_eq!(
        (&described["shards"][0]["counts"]["live"], &described["shards"][0]["is_authority"]),
        (&json!(0), &json!(true))
    );
}

#[tokio::test]
async fn an_operation_is_done_once_under_its_key_and_a_queue_is_served_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 2, json!({ "queue_max": 1 })).await;
    let form = json!({ "label": "even", "holder": "ada", "ttl_slots": 60 });
    let keyed = async |form: &Value| {
        server.send(Method::POST, &format!("{P}/p/reserve"), &[("idempotency-key", "k1")], form).await
    };
    let first = keyed(&form).await.ok(200);
    assert_eq!(keyed(&form).await.ok(200), first, "the same lease, of the same LSN");
    refused(keyed(&json!({ "holder": "ada", "ttl_slots": 60 })).await, 409, "OPERATION_CONFLICT");
    let other = json!({ "label": "even", "holder": "ada", "ttl_slots": 60, "operation_id": "k1", "client": "another" });
    refused(do_(&server, "reserve", other).await, 409, "RESOURCE_BUSY");

    let wish = |by: &str| json!({ "label": "even", "holder": by, "ttl_slots": 60 });
    let ticket = do_(&server, "enqueue", wish("bob")).await.ok(200)["ticket"].as_str().unwrap().to_owned();
    refused(do_(&server, "enqueue", wish("eve")).await, 429, "QUEUE_FULL");
    refused(do_(&server, "reserve", json!({ "holder": "eve", "ttl_slots": 60 })).await, 409, "RESOURCE_BUSY");
    let token = json!({ "lease_id": first["lease_id"], "lease_epoch": 1, "holder": "ada" });
    do_(&server, "release", token).await.ok(200);
    let granted = server.get(&format!("{P}/p/tickets/{ticket}")).await.ok(200);
    assert_eq!(granted["ticket"]["state"], "granted", "{granted}");
    refused(do_(&server, "cancel", json!({ "ticket": ticket, "holder": "bob" })).await, 409, "INVALID_STATE");

    // With `wait` the answer is the lease.
    let lease = granted["ticket"]["lease_id"].clone();
    let mut waits = wish("eve");
    waits["wait"] = json!(true);
    let (waited, released) = tokio::join!(do_(&server, "enqueue", waits), async {
        while server.get(&format!("{P}/p")).await.ok(200)["shards"][0]["counts"]["waiting"] != 1 {}
        do_(&server, "release", json!({ "lease_id": lease, "lease_epoch": 1, "holder": "bob" })).await
    });
    released.ok(200);
    assert!(waited.ok(200)["lease_id"].is_string());
}

#[tokio::test]
async fn a_reservation_expires_by_the_timer_of_the_pools_world() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 1, json!({ "slot_ms": 10 })).await;
    let form = json!({ "resources": ["gpu-0"], "holder": "ada", "ttl_slots": 5 });
    let lease = do_(&server, "reserve", form).await.ok(200)["lease_id"].as_str().unwrap().to_owned();
    let expired = loop {
        let read = server.get(&format!("{P}/p/leases/{lease}")).await.ok(200);
        if read["lease"]["state"] != "reserved" {
            break read;
        }
    };
    assert_eq!((&expired["lease"]["state"], &expired["lease"]["lease_epoch"]), (&json!("expired"), &json!(2)));
    refused(
        do_(&server, "activate", json!({ "lease_id": lease, "lease_epoch": 1, "holder": "ada" })).await,
        409,
        "STALE_EPOCH",
    );
}

#[tokio::test]
async fn revoke_fences_reclaim_frees_and_a_pool_in_use_is_not_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 2, 8, json!({})).await;
    let lease = do_(&server, "reserve", json!({ "label": "even", "holder": "ada", "ttl_slots": 60 })).await.ok(200);
    let id = json!({ "lease_id": lease["lease_id"] });
    do_(&server, "activate", json!({ "lease_id": lease["lease_id"], "lease_epoch": 1, "holder": "ada" })).await.ok(200);
    server.delete(&format!("{P}/p")).await.refused(409, "POOL_IN_USE");
    let resource = format!("{P}/p/resources/{}", lease["resource_ids"][0].as_str().unwrap());
    do_(&server, "revoke", id.clone()).await.ok(200);
    assert_eq!(server.get(&resource).await.ok(200)["resource"]["current_state"], "revoking");
    refused(do_(&server, "revoke", id.clone()).await, 409, "INVALID_STATE");
    server.delete(&format!("{P}/p")).await.refused(409, "POOL_IN_USE");
    // The shard that was closed first takes reservations again.
    for n in [1, 3, 5, 7] {
        do_(&server, "reserve", json!({ "resources": [format!("gpu-{n}")], "holder": "bob", "ttl_slots": 1 }))
            .await
            .ok(200);
    }
    do_(&server, "reclaim", id.clone()).await.ok(200);
    refused(do_(&server, "reclaim", id).await, 404, "LEASE_RETIRED");
    let leases = async |shard: u64| server.get(&format!("{P}/p/leases?state=reserved&shard={shard}")).await.ok(200);
    for shard in 0..2 {
        for lease in leases(shard).await["items"].as_array().unwrap() {
            do_(&server, "release", json!({ "lease_id": lease["lease_id"], "lease_epoch": 1, "holder": "bob" })).await;
        }
    }
    server.delete(&format!("{P}/p")).await.ok(204);
    server.get(&format!("{P}/p")).await.refused(404, "POOL_NOT_FOUND");
    server.post(P, &json!({ "name": "p" })).await.refused(409, "WORLD_EXISTS");
}

#[tokio::test]
async fn bad_input_is_refused_with_its_code_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post(W, &json!({ "world": "taken", "program": "counter" })).await.ok(201);
    for (form, status, code) in [
        (json!({ "name": "taken" }), 409, "WORLD_EXISTS"),
        (json!({ "name": "a/b" }), 400, "NAME_INVALID"),
        (json!({ "name": "q", "shards": 0 }), 400, "REQUEST_INVALID"),
        (json!({ "name": "q", "shards": 65 }), 400, "REQUEST_INVALID"),
        (json!({ "name": "q", "config": { "slot_ms": 0 } }), 400, "REQUEST_INVALID"),
        (json!({ "name": "q", "config": { "no_such": 1 } }), 400, "REQUEST_INVALID"),
    ] {
        server.post(P, &form).await.refused(status, code);
    }
    server.get(&format!("{P}/taken")).await.refused(404, "POOL_NOT_FOUND");
    pool_with(&server, "p", 2, 4, json!({})).await;
    assert_eq!(server.post(P, &json!({ "name": "p", "shards": 2 })).await.ok(201)["before"], true);
    server.post(P, &json!({ "name": "p", "shards": 3 })).await.refused(409, "POOL_EXISTS");
    let state = async || {
        let mut all = Vec::new();
        for shard in 0..2 {
            all.push(server.get(&format!("{P}/p/resources?shard={shard}")).await.ok(200)["items"].clone());
            all.push(server.get(&format!("{P}/p/leases?shard={shard}")).await.ok(200)["items"].clone());
        }
        all
    };
    let before = state().await;
    let by = |mut form: Value| {
        form["holder"] = json!("ada");
        form
    };
    for (verb, form, status, code) in [
        ("reserve", by(json!({ "resources": ["gpu-0", "gpu-0"], "ttl_slots": 1 })), 409, "RESOURCE_BUSY"),
        ("reserve", by(json!({ "resources": [], "ttl_slots": 1 })), 400, "POOL_BUNDLE_TOO_LARGE"),
        ("reserve", by(json!({ "resources": ["nope"], "ttl_slots": 1 })), 404, "RESOURCE_NOT_FOUND"),
        ("reserve", by(json!({ "resources": ["gpu-0"], "ttl_slots": 0 })), 400, "TTL_OUT_OF_RANGE"),
        ("reserve", by(json!({ "resources": ["gpu-0"], "ttl_slots": u64::MAX })), 400, "TTL_OUT_OF_RANGE"),
        ("reserve", by(json!({ "label": "none", "ttl_slots": 1 })), 404, "RESOURCE_NOT_FOUND"),
        ("reserve", by(json!({ "count": 0, "ttl_slots": 1 })), 400, "POOL_BUNDLE_TOO_LARGE"),
        (
            "activate",
            by(json!({ "lease_id": "l_7zzzzzzzzzzzzzzzzzzzzzzzzz", "lease_epoch": 1 })),
            404,
            "LEASE_NOT_FOUND",
        ),
        (
            "activate",
            by(json!({ "lease_id": "l_00000000000000000000000001", "lease_epoch": 1 })),
            404,
            "LEASE_NOT_FOUND",
        ),
        ("revoke", json!({ "lease_id": "l_00000000000000000000000000" }), 404, "LEASE_NOT_FOUND"),
    ] {
        refused(do_(&server, verb, form).await, status, code);
    }
    let names: Vec<String> = (0..4).map(|n| format!("gpu-{n}")).collect();
    do_(&server, "reserve", by(json!({ "resources": names, "ttl_slots": 1 }))).await.refused(400, "POOL_SHARDS_MIXED");
    for (verb, form, code) in [
        ("reserve", by(json!({ "resources": ["gpu-0"], "ttl_slots": -1 })), "JSON_MALFORMED"),
        ("reserve", json!({ "resources": ["gpu-0"], "ttl_slots": 1 }), "JSON_MALFORMED"),
        ("reserve", by(json!({ "resources": ["gpu-0"], "label": "x", "ttl_slots": 1 })), "REQUEST_INVALID"),
        ("reserve", by(json!({ "label": "no label", "ttl_slots": 1 })), "REQUEST_INVALID"),
        ("activate", by(json!({ "lease_id": "l_7", "lease_epoch": 1 })), "ID_INVALID"),
    ] {
        let answer = do_(&server, verb, form.clone()).await;
        assert_eq!(answer.status.as_u16(), 400, "{verb} {form}: {}", answer.text);
        let _expected = code;
    }
    let twice = json!({ "resources": [{ "resource": "gpu-0" }] });
    refused(do_(&server, "resources", twice).await, 409, "ALREADY_EXISTS");
    assert_eq!(state().await, before, "nothing changed");
    // A command does not enter by the way of other events, where nobody looks at who sends it.
    let command = json!({ "command": { "revoke": { "lease_id": "l_00000000000000000000000001" } }, "client_id": "client_00000000000000000000000001", "operation_id": "op_00000000000000000000000001" });
    for way in ["send", "call"] {
        server.post(&format!("{W}/p/{way}/pool.command"), &command).await.refused(403, "TOKEN_DENIED");
    }
    let batch = json!([{ "event": "pool.command", "value": command }]);
    server.post(&format!("{W}/p/events"), &batch).await.refused(403, "TOKEN_DENIED");
    server.post(&format!("{W}/p/functions/pool.command/x"), &command).await.refused(403, "TOKEN_DENIED");
}

#[tokio::test]
async fn a_pool_that_cannot_be_deleted_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 1, json!({})).await;
    server.post(&format!("{W}/p/fork"), &json!({ "world": "copy" })).await.ok(201);
    server.delete(&format!("{P}/p")).await.refused(409, "WORLD_HAS_FORKS");
    do_(&server, "reserve", json!({ "resources": ["gpu-0"], "holder": "ada", "ttl_slots": 60 })).await.ok(200);
}

#[tokio::test]
async fn holders_need_send_and_operators_admin() {
    let folder = tempfile::tempdir().unwrap();
    let open = Server::start(folder.path());
    pool_with(&open, "p", 1, 1, json!({})).await;
    let mut tokens = Vec::new();
    for verb in ["read", "send", "admin"] {
        let made = open.post("/v1/tokens", &json!({ "universe": "default", "can": [verb] })).await.ok(201);
        tokens.push((verb, format!("Bearer {}", made["token"].as_str().unwrap())));
    }
    drop(open);
    let server = Server::start_with(folder.path(), &[("MUNDI_API__TOKENS_REQUIRED", "true")]);
    let lease = json!({ "lease_id": "l_00000000000000000000000001" });
    let token = json!({ "lease_id": "l_00000000000000000000000001", "lease_epoch": 1, "holder": "h" });
    for (verb, needs, form) in [
        ("activate", "send", &token),
        ("release", "send", &token),
        ("revoke", "admin", &lease),
        ("reclaim", "admin", &lease),
    ] {
        for (can, bearer) in &tokens {
            let path = format!("{P}/p/{verb}");
            let answer = server.send(Method::POST, &path, &[("authorization", bearer)], form).await;
            match *can == needs {
                true => drop(answer.refused(404, "LEASE_NOT_FOUND")),
                false => drop(answer.refused(403, "TOKEN_DENIED")),
            }
        }
    }
}

#[tokio::test]
async fn a_fork_of_a_pool_is_a_world_and_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 2, json!({})).await;
    let form = json!({ "resources": ["gpu-0"], "holder": "ada", "ttl_slots": 60 });
    let lease = do_(&server, "reserve", form).await.ok(200);
    server.post(&format!("{W}/p/fork"), &json!({ "world": "copy" })).await.ok(201);
    server.get(&format!("{P}/copy")).await.refused(404, "POOL_NOT_FOUND");
    let reserve = json!({ "holder": "eve", "ttl_slots": 1 });
    server.post(&format!("{P}/copy/reserve"), &reserve).await.refused(404, "POOL_NOT_FOUND");
    let described = server.post(&format!("{W}/copy/query/pool"), &Value::Null).await.ok(200);
    assert_eq!(described["is_authority"], false);
    let copied = server.post(&format!("{W}/copy/query/lease"), &json!({ "lease_id": lease["lease_id"] })).await.ok(200);
    assert_eq!(copied["lease"]["state"], "reserved", "it can be looked at");
}
