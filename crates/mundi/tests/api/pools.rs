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
        ("reserve", by(json!({ "resources": ["gpu-0"], "ttl_slots": -1 })), "REQUEST_INVALID"),
        ("reserve", json!({ "resources": ["gpu-0"], "ttl_slots": 1 }), "REQUEST_INVALID"),
        ("reserve", by(json!({ "resources": ["gpu-0"], "label": "x", "ttl_slots": 1 })), "REQUEST_INVALID"),
        ("reserve", by(json!({ "label": "no label", "ttl_slots": 1 })), "REQUEST_INVALID"),
        ("reserve", by(json!({ "resources": [""], "ttl_slots": 1 })), "REQUEST_INVALID"),
        ("activate", by(json!({ "lease_id": "l_7", "lease_epoch": 1 })), "ID_INVALID"),
        ("resources", json!({ "resources": [] }), "REQUEST_INVALID"),
    ] {
        let problem = do_(&server, verb, form.clone()).await.refused(400, code);
        assert_eq!(problem["outcome"], "definite", "{verb} {form}: it was not sent");
    }
    let elsewhere = server.post(&format!("{P}/none/revoke"), &json!({ "lease_id": "l_7" })).await;
    assert_eq!(elsewhere.refused(404, "POOL_NOT_FOUND")["outcome"], "definite");
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

/// The name of a new world as the holder of a lease.
async fn holder_world(server: &Server, name: &str) -> String {
    let made = server.post(W, &json!({ "world": name, "program": "kv" })).await.ok(201);
    format!("holder_{}", made["world"].as_str().unwrap().trim_start_matches("w_"))
}

/// The id of an active lease of a holder.
async fn held_by(server: &Server, resource: &str, holder: &str) -> Value {
    let form = json!({ "resources": [resource], "holder": holder, "ttl_slots": 60 });
    let lease = do_(server, "reserve", form).await.ok(200)["lease_id"].clone();
    do_(server, "activate", json!({ "lease_id": lease, "lease_epoch": 1, "holder": holder })).await.ok(200);
    lease
}

#[tokio::test]
async fn the_world_of_a_pool_with_live_leases_stays_in_service() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 2, json!({})).await;
    let lease = held_by(&server, "gpu-0", "ada").await;
    let free = json!({ "resources": ["gpu-1"], "holder": "bob", "ttl_slots": 60 });
    let archive = format!("{W}/p/archive");
    server.delete(&format!("{W}/p")).await.refused(409, "POOL_IN_USE");
    server.post(&archive, &json!({})).await.refused(409, "POOL_IN_USE");
    let all = json!({ "verb": "delete", "filters": { "name": "p" } });
    let bulk = server.post("/v1/u/default/bulk", &all).await.ok(200);
    assert_eq!(bulk["items"][0]["code"], "POOL_IN_USE", "{bulk}");
    for forced in [false, true] {
        let other = json!({ "program": "counter", "forced": forced });
        server.post(&format!("{W}/p/upgrade"), &other).await.refused(409, "POOL_IN_USE");
    }
    let second = do_(&server, "reserve", free.clone()).await.ok(200)["lease_id"].clone();
    do_(&server, "release", json!({ "lease_id": second, "lease_epoch": 1, "holder": "bob" })).await.ok(200);
    do_(&server, "release", json!({ "lease_id": lease, "lease_epoch": 1, "holder": "ada" })).await.ok(200);

    server.post(&format!("{W}/p/fork"), &json!({ "world": "copy" })).await.ok(201);
    server.delete(&format!("{W}/p")).await.refused(409, "WORLD_HAS_FORKS");
    do_(&server, "cancel", json!({ "ticket": "l_00000000000000000000000001", "holder": "bob" }))
        .await
        .refused(404, "TICKET_NOT_FOUND");
    server.post(&archive, &json!({})).await.ok(204);
    do_(&server, "reserve", free.clone()).await.refused(409, "WORLD_ARCHIVED");
    server.post(&format!("{W}/p/unarchive"), &json!({})).await.ok(204);
    do_(&server, "reserve", free).await.ok(200);
}

/// Without a policy by which the pool is watched.
#[tokio::test]
async fn a_holder_that_is_archived_or_deleted_frees_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 1, json!({ "slot_ms": 10 })).await;
    let holder = holder_world(&server, "agent").await;
    let lease = held_by(&server, "gpu-0", &holder).await;
    let still_held = async || {
        let waits = json!({ "resources": ["gpu-0"], "holder": "eve", "ttl_slots": 1 });
        refused(do_(&server, "reserve", waits).await, 409, "RESOURCE_BUSY");
        let read = server.get(&format!("{P}/p/leases/{}", lease.as_str().unwrap())).await.ok(200);
        assert_eq!((&read["lease"]["state"], &read["lease"]["lease_epoch"]), (&json!("active"), &json!(1)));
    };
    server.post(&format!("{W}/agent/archive"), &json!({})).await.ok(204);
    still_held().await;
    server.post(&format!("{W}/agent/unarchive"), &json!({})).await.ok(204);
    server.delete(&format!("{W}/agent")).await.ok(204);
    still_held().await;
    do_(&server, "revoke", json!({ "lease_id": lease })).await.ok(200);
    do_(&server, "reclaim", json!({ "lease_id": lease })).await.ok(200);
    held_by(&server, "gpu-0", "eve").await;
}

/// However its authority ended, and whoever has the resource since.
#[tokio::test]
async fn a_holder_of_an_older_epoch_is_refused_wherever_it_acts() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 1, json!({ "slot_ms": 100 })).await;
    let read = async |lease: &Value| server.get(&format!("{P}/p/leases/{}", lease.as_str().unwrap())).await.ok(200);
    let acts_in_vain = async |lease: &Value, epoch: u64, others: &[&Value]| {
        let before = (read(lease).await["lease"].clone(), server.get(&format!("{P}/p/resources/gpu-0")).await.ok(200));
        for verb in ["activate", "release", "heartbeat"] {
            let token = json!({ "lease_id": lease, "lease_epoch": epoch, "holder": "ada" });
            do_(&server, verb, token).await.refused(409, "STALE_EPOCH");
            // Its epoch and the lease of another one do not make an authority, either.
            for other in others {
                let token = json!({ "lease_id": other, "lease_epoch": epoch, "holder": "ada" });
                let refused = do_(&server, verb, token).await;
                assert!(refused.status.is_client_error(), "{verb}: {}", refused.text);
            }
        }
        assert_eq!(read(lease).await["lease"], before.0);
        let resource = server.get(&format!("{P}/p/resources/gpu-0")).await.ok(200);
        assert_eq!(resource["resource"], before.1["resource"]);
    };
    let named = |lease: &Value| json!({ "lease_id": lease });

    let released = held_by(&server, "gpu-0", "ada").await;
    do_(&server, "release", json!({ "lease_id": released, "lease_epoch": 1, "holder": "ada" })).await.ok(200);
    acts_in_vain(&released, 1, &[]).await;

    let form = json!({ "resources": ["gpu-0"], "holder": "ada", "ttl_slots": 1 });
    let expired = do_(&server, "reserve", form).await.ok(200)["lease_id"].clone();
    while read(&expired).await["lease"]["state"] == "reserved" {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    acts_in_vain(&expired, 1, &[]).await;

    let revoked = held_by(&server, "gpu-0", "ada").await;
    do_(&server, "revoke", named(&revoked)).await.ok(200);
    acts_in_vain(&revoked, 1, &[]).await;
    do_(&server, "reclaim", named(&revoked)).await.ok(200);
    acts_in_vain(&revoked, 1, &[]).await;

    let next = held_by(&server, "gpu-0", "bob").await;
    for lost in [&released, &expired, &revoked] {
        acts_in_vain(lost, 1, &[&next]).await;
    }
    let token = json!({ "lease_id": next, "lease_epoch": 1, "holder": "bob" });
    do_(&server, "heartbeat", token.clone()).await.ok(204);
    do_(&server, "release", token).await.ok(200);
}

#[tokio::test]
async fn the_task_of_an_external_worker_has_the_lease_and_a_revoked_one_has_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 1, 1, json!({})).await;
    let holder = holder_world(&server, "agent").await;
    let lease = held_by(&server, "gpu-0", &holder).await;
    let ask = async |key: &str| {
        let named = json!({ "pool": "p", "lease_id": lease, "lease_epoch": 1 });
        let form = json!({ "key": key, "kind": "external.task", "params": { "n": 1, "lease": named } });
        server.post(&format!("{W}/agent/call/ask"), &form).await.ok(200);
    };
    let claim = async |wait: &str| {
        let form = json!({ "kinds": ["external.task"], "wait": wait, "ttl": "30s" });
        server.post("/v1/u/default/tasks/claim", &form).await.ok(200)
    };
    ask("held").await;
    let task = claim("20s").await[0].clone();
    let name = format!("p/{}", lease.as_str().unwrap());
    assert_eq!((&task["lease"], &task["lease_epoch"]), (&json!(name), &json!(1)), "{task}");
    server.post("/v1/u/default/tasks/complete", &json!({ "claim": task["claim"], "result": "done" })).await.ok(204);
    do_(&server, "revoke", json!({ "lease_id": lease })).await.ok(200);
    ask("revoked").await;
    assert_eq!(claim("1s").await, json!([]), "it is not begun");
    let receipt = loop {
        let found = server.post(&format!("{W}/agent/query/get"), &json!("revoked")).await.ok(200);
        if found != Value::Null {
            break found;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    assert_eq!(receipt["code"], "STALE_EPOCH", "{receipt}");
}

#[tokio::test]
async fn several_shards_are_one_pool_for_those_who_wait_and_those_who_list() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    pool_with(&server, "p", 3, 12, json!({})).await;
    let any = |count: u64| json!({ "count": count, "holder": "ada", "ttl_slots": 60 });
    let mut taken = 0;
    while taken < 11 {
        do_(&server, "reserve", any(1)).await.ok(200);
        taken += 1;
    }
    // Wherever it begins to look, the shard that has the last one grants it, and no queue of another shard.
    for _ in 0..6 {
        let granted = do_(&server, "enqueue", any(1)).await.ok(200);
        assert!(granted["lease_id"].is_string() && granted["ticket"].is_null(), "{granted}");
        let token = json!({ "lease_id": granted["lease_id"], "lease_epoch": 1, "holder": "ada" });
        do_(&server, "release", token).await.ok(200);
    }
    let keyed = async || {
        server.send(Method::POST, &format!("{P}/p/enqueue"), &[("idempotency-key", "k")], &any(1)).await.ok(200)
    };
    let first = keyed().await;
    assert_eq!(keyed().await, first, "sent again, it gets the same lease");
    assert!(do_(&server, "enqueue", any(1)).await.ok(200)["ticket"].is_string(), "all are taken");

    let list = async |noun: &str, limit: u64| {
        let (mut items, mut from) = (Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{P}/p/{noun}?limit={limit}{from}")).await.ok(200);
            items.extend(page["items"].as_array().unwrap().clone());
            match page["next"].as_str() {
                Some(next) => from = format!("&after={next}"),
                None => return items,
            }
        }
    };
    for limit in [1, 4, 5, 100] {
        let mut names: Vec<_> = list("resources", limit).await.iter().map(|it| it["name"].to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 12, "in pages of {limit}");
        assert_eq!(list("leases", limit).await.len(), 18);
    }
    assert!(list("resources", 100).await.iter().all(|it| it["shard"].as_u64() < Some(3)));
    let one = server.get(&format!("{P}/p/resources?shard=1&at_least={}", 1)).await.ok(200);
    assert_eq!(one["shard"], 1);
    server.get(&format!("{P}/p/resources?after=3/")).await.refused(400, "REQUEST_INVALID");
    server.get(&format!("{P}/p/resources?shard=1&after=2/")).await.refused(400, "REQUEST_INVALID");
    server.get(&format!("{P}/p/resources?at_least=1")).await.refused(400, "REQUEST_INVALID");
    let described = server.get(&format!("{P}/p?shard=2&at_least=2")).await.ok(200);
    assert_eq!(described["shards"].as_array().unwrap().len(), 1);
    assert!(described["shards"][0]["applied_lsn"].as_u64() >= Some(2), "{described}");
    server.get(&format!("{P}/p?at_least=2")).await.refused(400, "REQUEST_INVALID");
    server.get(&format!("{P}/p?shard=0&at_least=100000&timeout=100ms")).await.refused(408, "REQUEST_TIMEOUT");
}
