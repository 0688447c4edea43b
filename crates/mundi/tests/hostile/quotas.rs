//! Tenants beyond their quotas: they are refused with all that a client needs to know, and others are served meanwhile.

use crate::{
    components::{settled, upload},
    guest::{adder, asker},
    process::{Answer, Server},
    scaled,
};
use mundi_model::Hash;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use std::time::Duration;

const LOUD: &str = "/v1/u/loud";
const QUIET: &str = "/v1/u/default";

async fn start(folder: &std::path::Path, environment: &[(&str, &str)]) -> Server {
    let server = Server::start_with(folder, environment);
    server.post("/v1/universes", &json!({ "name": "loud" })).await.ok(201);
    for universe in [LOUD, QUIET] {
        server.post(&format!("{universe}/worlds"), &json!({ "world": "c", "program": "counter" })).await.ok(201);
    }
    server
}

async fn set(server: &Server, quotas: Value) {
    server.send(Method::PUT, "/v1/universes/loud/quotas", &[], &quotas).await.ok(204);
}

/// A refusal with all its fields.
#[track_caller]
fn exceeded(answer: Answer, scope: &str, quota: &str, limit: u64) -> Value {
    let header: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    let problem = answer.refused(429, "QUOTA_EXCEEDED");
    assert_eq!(
        (&problem["scope"], &problem["quota"], &problem["limit"]),
        (&json!(scope), &json!(quota), &json!(limit))
    );
    // Of bytes, what was asked for may be more than what is left.
    let current = problem["current"].as_u64().unwrap();
    assert!(current >= limit || quota == "stored_bytes_max", "{problem}");
    assert!(header >= 1 && problem["retry_after_s"] == header, "{problem}");
    problem
}

#[tokio::test]
async fn a_tenant_beyond_its_rate_is_refused_and_another_one_is_served_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    // One a second: a machine has to be slow indeed to take two hundred of them.
    set(&server, json!({ "events_per_second_max": 1 })).await;
    let (loud, quiet) = (format!("{LOUD}/worlds/c"), format!("{QUIET}/worlds/c"));
    let (mut taken, mut refused) = (0, 0);
    for number in 1..=scaled(200) {
        let answer = server.post(&format!("{loud}/send/add"), &json!(1)).await;
        if answer.status == 202 {
            taken += 1;
        } else {
            exceeded(answer, "universe", "events_per_second_max", 1);
            refused += 1;
        }
        assert_eq!(server.post(&format!("{quiet}/call/add"), &json!(1)).await.ok(200), json!(number));
    }
    assert!(taken > 0 && refused > 0, "{taken} taken, {refused} refused");
    // A batch is taken whole, and whatever follows waits for it.
    set(&server, json!({ "events_per_second_max": 10 })).await;
    let batch = vec![json!({ "event": "add", "value": 0 }); 1_024];
    server.post(&format!("{loud}/events"), &json!(batch)).await.ok(202);
    exceeded(server.post(&format!("{loud}/call/add"), &json!(0)).await, "universe", "events_per_second_max", 10);
    // The address is written in another way, and another handler takes it.
    exceeded(
        server.post(&format!("{LOUD}/worlds/%63/call/add"), &json!(0)).await,
        "universe",
        "events_per_second_max",
        10,
    );
    // What is refused is told in metrics, and what counts in the usage.
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("mundi_quota_limit{universe=\"loud\",quota=\"events_per_second_max\"} 10"), "{metrics}");
    assert!(metrics.contains("mundi_quota_refused_total{scope=\"universe\",quota=\"events_per_second_max\"} "));
    let usage = server.get(&format!("{LOUD}/usage")).await.ok(200);
    assert_eq!(usage["quotas"]["events_per_second_max"]["limit"], 10);
    assert_eq!(usage["quotas"]["worlds_max"], json!({ "limit": null, "current": 1 }));
    // Without a quota all is taken again, at once.
    set(&server, json!({})).await;
    for _ in 0..20 {
        server.post(&format!("{loud}/send/add"), &json!(0)).await.ok(202);
    }
}

#[tokio::test]
async fn a_universe_holds_no_more_than_its_quota_and_what_is_there_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    set(&server, json!({ "worlds_max": 3 })).await;
    let make = async |name: &str| {
        server.post(&format!("{LOUD}/worlds"), &json!({ "world": name, "program": "counter" })).await
    };
    make("d").await.ok(201);
    let fork = server.post(&format!("{LOUD}/worlds/c/fork"), &json!({ "world": "f" })).await;
    fork.ok(201);
    let problem = exceeded(make("e").await, "universe", "worlds_max", 3);
    assert_eq!(problem["current"], 3);
    exceeded(server.post(&format!("{LOUD}/worlds/c/fork"), &json!({})).await, "universe", "worlds_max", 3);
    make("d").await.ok(200);
    server.post(&format!("{QUIET}/worlds"), &json!({ "program": "counter" })).await.ok(201);

    let put = async |bytes: usize, fill: u8| {
        let request = server.request(Method::POST, &format!("{LOUD}/blobs")).body(vec![fill; bytes]);
        Answer::of(request.send().await.unwrap()).await
    };
    // Worlds write objects of their own meanwhile: the bounds leave some room for them.
    let usage = server.get(&format!("{LOUD}/usage")).await.ok(200);
    let of = |name: &str, what: &str| usage[name][what].as_u64().unwrap();
    let sum = |what: &str| of("inline_objects", what) + of("stored_objects", what);
    let bytes_max = sum("bytes") + of("segments", "bytes") + 200_000;
    set(&server, json!({ "stored_bytes_max": bytes_max })).await;
    put(100_000, 1).await.ok(201);
    exceeded(put(150_000, 2).await, "universe", "stored_bytes_max", bytes_max);
    // One that does not say how long it is: it is found out on the way.
    let chunks = futures_util::stream::iter((0..15).map(|n| Ok::<_, std::io::Error>(vec![n; 10_000])));
    let request = server.request(Method::POST, &format!("{LOUD}/blobs")).body(reqwest::Body::wrap_stream(chunks));
    exceeded(Answer::of(request.send().await.unwrap()).await, "universe", "stored_bytes_max", bytes_max);
    put(50_000, 3).await.ok(201);
    let blobs_max = sum("count") + 20;
    set(&server, json!({ "blobs_max": blobs_max })).await;
    let mut taken = 0;
    let refused = loop {
        let answer = put(1 + taken, 4).await;
        if answer.status != 201 {
            break answer;
        }
        taken += 1;
    };
    // What comes with the server is in the usage, and does not count against the quota.
    exceeded(refused, "universe", "blobs_max", blobs_max);
    assert!(taken > 0);

    set(&server, json!({ "programs_max": 1 })).await;
    let upload = async |code: &[u8]| {
        let path = format!("{LOUD}/programs/{}", Hash::of(code));
        Answer::of(server.request(Method::PUT, &path).body(code.to_vec()).send().await.unwrap()).await
    };
    let (one, other) = (asker(""), asker("(drop (i32.const 1))"));
    upload(&one).await.ok(201);
    exceeded(upload(&other).await, "universe", "programs_max", 1);
    upload(&one).await.ok(201);
    // Stored as a blob first, it is no program yet.
    let blob = server.request(Method::POST, &format!("{LOUD}/blobs")).body(other.clone());
    Answer::of(blob.send().await.unwrap()).await.ok(201);
    exceeded(upload(&other).await, "universe", "programs_max", 1);
}

/// Bodies that do not say how long they are: what is beyond the quota of a token is refused on the way, and is not there afterwards.
#[tokio::test]
async fn a_token_stores_no_more_than_its_quota_whatever_a_body_says_of_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    let form = json!({ "universe": "loud", "can": ["read", "send"], "quotas": { "stored_bytes_max": 100_000 } });
    let token = server.post("/v1/tokens", &form).await.ok(201)["token"].as_str().unwrap().to_owned();
    let put = async |pieces: u8, fill: u8| {
        let body = vec![fill; usize::from(pieces) * 10_000];
        let chunks: Vec<_> = body.chunks(10_000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
        let request = server.request(Method::POST, &format!("{LOUD}/blobs")).bearer_auth(&token);
        let request = request.body(reqwest::Body::wrap_stream(futures_util::stream::iter(chunks)));
        (Hash::of(&body), Answer::of(request.send().await.unwrap()).await)
    };
    let (hash, refused) = put(11, 1).await;
    exceeded(refused, "token", "stored_bytes_max", 100_000);
    server.get(&format!("{LOUD}/blobs/{hash}")).await.refused(404, "BLOB_NOT_FOUND");
    // It was charged for nothing: all of the quota is left, and no more than that.
    put(6, 2).await.1.ok(201);
    put(4, 3).await.1.ok(201);
    exceeded(put(1, 4).await.1, "token", "stored_bytes_max", 100_000);
}

async fn tail(server: &Server, universe: &str, token: &str) -> Response {
    let request = server.client.get(format!("{}{universe}/worlds/c/journal", server.url)).bearer_auth(token);
    request.header("accept", "text/event-stream").send().await.unwrap()
}

#[tokio::test]
async fn a_token_has_no_more_than_its_own_quota_and_the_next_one_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[("MUNDI_QUOTAS__PER_TOKEN__STREAMS_MAX", "1")]).await;
    let make = async |quotas: Value| {
        let form = json!({ "universe": "loud", "can": ["read", "send"], "quotas": quotas });
        let made = server.post("/v1/tokens", &form).await.ok(201);
        (made["id"].as_str().unwrap().to_owned(), made["token"].as_str().unwrap().to_owned())
    };
    let (id, one) = make(json!({ "worlds_max": 1, "events_per_second_max": 2 })).await;
    let (_, other) = make(json!({})).await;
    let world = async |token: &str| {
        let authorization = format!("Bearer {token}");
        let headers = [("authorization", authorization.as_str())];
        server.send(Method::POST, &format!("{LOUD}/worlds"), &headers, &json!({ "program": "counter" })).await
    };
    world(&one).await.ok(201);
    exceeded(world(&one).await, "token", "worlds_max", 1);
    world(&other).await.ok(201);
    // What was brought in with it counts, whether it is still there or not, and also after a restart.
    let streams = tail(&server, LOUD, &one).await;
    assert_eq!(streams.status(), 200);
    let second = Answer::of(tail(&server, LOUD, &one).await).await;
    exceeded(second, "token", "streams_max", 1); // by the configuration
    assert_eq!(tail(&server, LOUD, &other).await.status(), 200);
    drop(streams);
    let free = async { while tail(&server, LOUD, &one).await.status() != 200 {} };
    tokio::time::timeout(Duration::from_secs(60), free).await.expect("a stream that ended makes room");
    let send = async |token: &str| {
        let request = server.request(Method::POST, &format!("{LOUD}/worlds/c/send/add")).bearer_auth(token).body("0");
        Answer::of(request.send().await.unwrap()).await
    };
    let mut refused = None;
    for _ in 0..scaled(100) {
        let answer = send(&one).await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
    }
    exceeded(refused.expect("a hundred events within a second"), "token", "events_per_second_max", 2);
    send(&other).await.ok(202);
    server.send(Method::PUT, &format!("/v1/tokens/{id}/quotas"), &[], &json!({ "worlds_max": 2 })).await.ok(204);
    world(&one).await.ok(201);
    exceeded(world(&one).await, "token", "worlds_max", 2);
    for _ in 0..10 {
        send(&one).await.ok(202);
    }
    server
        .send(Method::PUT, "/v1/tokens/0000000000000000/quotas", &[], &json!({}))
        .await
        .refused(404, "TOKEN_NOT_FOUND");
    server
        .send(Method::PUT, "/v1/universes/loud/quotas", &[], &json!({ "words": 1 }))
        .await
        .refused(400, "REQUEST_INVALID");
}

#[tokio::test]
async fn who_administers_one_universe_does_not_decide_how_much_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    set(&server, json!({ "calls_max": 7 })).await;
    let made = server.post("/v1/tokens", &json!({ "universe": "loud", "can": ["read", "admin"] })).await.ok(201);
    let authorization = format!("Bearer {}", made["token"].as_str().unwrap());
    let headers = [("authorization", authorization.as_str())];
    let raised = server.send(Method::PUT, "/v1/universes/loud/quotas", &headers, &json!({})).await;
    raised.refused(403, "TOKEN_DENIED");
    let quotas = server.send(Method::GET, &format!("{LOUD}/quotas"), &headers, &Value::Null).await.ok(200);
    assert_eq!((&quotas["set"], &quotas["quotas"]["calls_max"]["limit"]), (&json!({ "calls_max": 7 }), &json!(7)));
}

/// By counts: a world that takes all the fuel of its universe takes fewer steps than one that has all the fuel that it wants.
#[tokio::test]
async fn a_universe_that_uses_up_its_fuel_waits_and_another_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    // About a million of fuel for each step, and as much for the universe in an hour.
    let hungry = asker(
        "(local.set $event (i32.const 300000))
         (loop $again (local.set $event (i32.sub (local.get $event) (i32.const 1))) (br_if $again (local.get $event)))",
    );
    for universe in [LOUD, QUIET] {
        let path = format!("{universe}/programs/{}", Hash::of(&hungry));
        Answer::of(server.request(Method::PUT, &path).body(hungry.clone()).send().await.unwrap()).await.ok(201);
        let manifest = loop {
            let state = server.get(&path).await.ok(200);
            if state["state"] == "ready" {
                break state["manifest"].clone();
            }
            assert_ne!(state["state"], "refused", "{state}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        let manifest = server.post(&format!("{universe}/manifests"), &manifest).await.ok(201)["hash"].clone();
        server.post(&format!("{universe}/worlds"), &json!({ "world": "h", "manifest": manifest })).await.ok(201);
    }
    set(&server, json!({ "fuel_per_second_max": 300 })).await;
    let steps = scaled(20);
    for universe in [LOUD, QUIET] {
        for _ in 0..steps {
            server.post(&format!("{universe}/worlds/h/send/go"), &Value::Null).await.ok(202);
        }
    }
    let head = async |universe: &str| {
        server.get(&format!("{universe}/worlds/h")).await.ok(200)["inbox_items"].as_u64().unwrap()
    };
    let fuel = async || {
        let quotas = server.get(&format!("{LOUD}/quotas")).await.ok(200);
        quotas["quotas"]["fuel_per_second_max"]["current"].as_u64().unwrap()
    };
    while head(QUIET).await > 0 || fuel().await <= 300 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A cycle that has begun is not stopped; the next one waits for an hour.
    let mut waits = false;
    for _ in 0..20 {
        server.post(&format!("{LOUD}/worlds/h/send/go"), &Value::Null).await.ok(202);
        tokio::time::sleep(Duration::from_millis(200)).await;
        waits = head(LOUD).await > 0;
        if waits {
            break;
        }
    }
    assert!(waits, "what is sent after the fuel was used up waits");
    assert!(fuel().await > 300);
    // With its fuel back it continues.
    set(&server, json!({})).await;
    while head(LOUD).await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!server.get("/metrics").await.text.contains("mundi_paced_cycles_total 0\n"));
}

/// A universe that may have no effect at all: what it asks for waits, and is done when it may.
#[tokio::test]
async fn effects_of_a_universe_wait_for_its_quota_and_those_of_another_one_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[("MUNDI_UNIVERSES__LOUD__QUOTAS__EFFECTS_MAX", "0")]).await;
    let tell = async |universe: &str, value: usize| {
        for name in ["from", "to"] {
            let answer = server.post(&format!("{universe}/worlds"), &json!({ "world": name, "program": "kv" })).await;
            assert!(answer.status.is_success(), "{}", answer.text);
        }
        let to = server.get(&format!("{universe}/worlds/to")).await.ok(200)["world"].clone();
        let told = json!({ "world": to, "key": "k", "value": value });
        server.post(&format!("{universe}/worlds/from/send/tell"), &told).await.ok(202);
    };
    let arrived =
        async |universe: &str| server.post(&format!("{universe}/worlds/to/query/get"), &json!("k")).await.ok(200);
    let until = async |universe: &str, value: usize| {
        while arrived(universe).await != json!(value) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tell(LOUD, 1).await;
    for value in 1..=scaled(5) {
        tell(QUIET, value).await;
        until(QUIET, value).await;
    }
    let waiting = async || server.get(&format!("{LOUD}/effects")).await.ok(200)["items"].as_array().unwrap().len();
    while waiting().await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!((waiting().await, arrived(LOUD).await), (1, Value::Null));
    set(&server, json!({ "effects_max": 1 })).await;
    until(LOUD, 1).await;
}

#[tokio::test]
async fn external_workers_get_no_more_effects_than_the_quotas_of_their_universe() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    let code = asker("");
    let path = format!("{LOUD}/programs/{}", Hash::of(&code));
    Answer::of(server.request(Method::PUT, &path).body(code).send().await.unwrap()).await.ok(201);
    let manifest = loop {
        let state = server.get(&path).await.ok(200);
        if state["state"] == "ready" {
            break state["manifest"].clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let manifest = server.post(&format!("{LOUD}/manifests"), &manifest).await.ok(201)["hash"].clone();
    server.post(&format!("{LOUD}/worlds"), &json!({ "world": "a", "manifest": manifest })).await.ok(201);
    for _ in 0..5 {
        server.post(&format!("{LOUD}/worlds/a/send/go"), &Value::Null).await.ok(202);
    }
    let asked = async || server.get(&format!("{LOUD}/effects")).await.ok(200)["items"].as_array().unwrap().len();
    while asked().await < 5 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    set(&server, json!({ "effects_per_second_max": 1 })).await;
    let claim = async || {
        let form = json!({ "kinds": ["outside"], "limit": 10 });
        let tasks = server.post(&format!("{LOUD}/tasks/claim"), &form).await.ok(200);
        tasks.as_array().unwrap().iter().map(|task| task["claim"].clone()).collect::<Vec<_>>()
    };
    let first = claim().await;
    assert_eq!(first.len(), 1, "five wait, and one may begin");
    // Those that are in progress count until they are answered, failed or lost.
    set(&server, json!({ "effects_max": 3 })).await;
    let more = claim().await;
    assert_eq!((more.len(), claim().await.len()), (2, 0), "three at a time");
    let usage = server.get(&format!("{LOUD}/usage")).await.ok(200);
    assert_eq!(usage["quotas"]["effects_max"], json!({ "limit": 3, "current": 3 }));
    server.post(&format!("{LOUD}/tasks/complete"), &json!({ "claim": first[0], "result": 1 })).await.ok(204);
    assert_eq!(claim().await.len(), 1);
    let failed = json!({ "claim": more[0], "reason": "as it was told", "retryable": false });
    server.post(&format!("{LOUD}/tasks/fail"), &failed).await.ok(204);
    assert_eq!(claim().await.len(), 1);
    set(&server, json!({})).await;
    assert_eq!(claim().await.len(), 0, "all five were claimed");
}

/// A result that is stored as an object because it is large counts like one that was sent.
#[tokio::test]
async fn results_of_tasks_count_for_the_universe_and_for_the_token_of_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    let code = asker("");
    upload(&server, LOUD, &code).await;
    let manifest = settled(&server, LOUD, &code).await["manifest"].clone();
    let manifest = server.post(&format!("{LOUD}/manifests"), &manifest).await.ok(201)["hash"].clone();
    server.post(&format!("{LOUD}/worlds"), &json!({ "world": "a", "manifest": manifest })).await.ok(201);
    for _ in 0..4 {
        server.post(&format!("{LOUD}/worlds/a/send/go"), &Value::Null).await.ok(202);
    }
    let mut claims = Vec::new();
    while claims.len() < 4 {
        let form = json!({ "kinds": ["outside"], "limit": 10, "wait": "1s" });
        let tasks = server.post(&format!("{LOUD}/tasks/claim"), &form).await.ok(200);
        claims.extend(tasks.as_array().unwrap().iter().map(|task| task["claim"].clone()));
    }
    let complete = async |token: Option<&str>, claim: &Value, bytes: usize| -> Answer {
        let form = json!({ "claim": claim, "result": "r".repeat(bytes) });
        let request = server.request(Method::POST, &format!("{LOUD}/tasks/complete")).body(form.to_string());
        let request = token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        Answer::of(request.send().await.unwrap()).await
    };
    for (quota, limit) in [("stored_bytes_max", 1), ("blobs_max", 0)] {
        set(&server, json!({ (quota): limit })).await;
        exceeded(complete(None, &claims[0], 20_000).await, "universe", quota, limit);
    }
    // A small one is no object, and one that was refused is still claimed.
    complete(None, &claims[0], 1_000).await.ok(204);
    set(&server, json!({})).await;
    complete(None, &claims[1], 20_000).await.ok(204);

    let form = json!({ "universe": "loud", "can": ["work"], "quotas": { "stored_bytes_max": 30_000 } });
    let made = server.post("/v1/tokens", &form).await.ok(201);
    let token = made["token"].as_str();
    complete(token, &claims[2], 20_000).await.ok(204);
    exceeded(complete(token, &claims[3], 20_000).await, "token", "stored_bytes_max", 30_000);
    let path = format!("/v1/tokens/{}/quotas", made["id"].as_str().unwrap());
    server.send(Method::PUT, &path, &[], &json!({ "blobs_max": 1 })).await.ok(204);
    exceeded(complete(token, &claims[3], 20_000).await, "token", "blobs_max", 1);
    complete(token, &claims[3], 1_000).await.ok(204);
}

/// A program that comes in a bundle counts like one that was uploaded.
#[tokio::test]
async fn a_bundle_brings_no_more_programs_than_the_quota() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    let (first, second) = (asker(""), asker("(drop (i32.const 1))"));
    upload(&server, LOUD, &first).await;
    settled(&server, LOUD, &first).await;
    upload(&server, QUIET, &second).await;
    let manifest = settled(&server, QUIET, &second).await["manifest"].clone();
    let manifest = server.post(&format!("{QUIET}/manifests"), &manifest).await.ok(201)["hash"].clone();
    server.post(&format!("{QUIET}/worlds"), &json!({ "world": "b", "manifest": manifest })).await.ok(201);
    let exported = async |world: &str| {
        let answer = server.request(Method::GET, &format!("{QUIET}/worlds/{world}/bundle")).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.bytes().await.unwrap().to_vec()
    };
    let (with_program, without) = (exported("b").await, exported("c").await);
    let import = async |name: &str, file: &[u8]| -> Answer {
        let request = server.request(Method::POST, &format!("{LOUD}/bundles?world={name}"));
        let request = request.header("content-type", "application/octet-stream").body(file.to_vec());
        Answer::of(request.send().await.unwrap()).await
    };
    set(&server, json!({ "programs_max": 1 })).await;
    exceeded(import("b", &with_program).await, "universe", "programs_max", 1);
    server.get(&format!("{LOUD}/worlds/b")).await.refused(404, "WORLD_NOT_FOUND");
    import("built-in", &without).await.ok(201);
    set(&server, json!({ "programs_max": 2 })).await;
    import("b", &with_program).await.ok(201);
    let usage = server.get(&format!("{LOUD}/usage")).await.ok(200);
    assert_eq!(usage["quotas"]["programs_max"], json!({ "limit": 2, "current": 2 }));
    // One that is there counts once.
    import("again", &with_program).await.ok(201);
    let third = server.request(Method::PUT, &format!("{LOUD}/programs/{}", Hash::of(&adder()))).body(adder());
    exceeded(Answer::of(third.send().await.unwrap()).await, "universe", "programs_max", 2);
}

#[tokio::test]
async fn pools_payloads_and_queries_count_and_tokens_have_no_quota_that_nobody_looks_at() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]).await;
    set(&server, json!({ "worlds_max": 3 })).await;
    let pool = async |name: &str, shards: u64| {
        server.post(&format!("{LOUD}/pools"), &json!({ "name": name, "shards": shards })).await
    };
    let refused = pool("large", 9).await.refused(429, "QUOTA_EXCEEDED");
    assert_eq!((&refused["quota"], &refused["current"]), (&json!("worlds_max"), &json!(1)), "there is room for two");
    pool("small", 2).await.ok(201);
    pool("small", 2).await.ok(201);
    exceeded(pool("other", 1).await, "universe", "worlds_max", 3);

    // Payloads above 16 KiB are objects.
    server.post(&format!("{QUIET}/worlds"), &json!({ "world": "k", "program": "kv" })).await.ok(201);
    set(&server, json!({ "worlds_max": 4 })).await;
    server.post(&format!("{LOUD}/worlds"), &json!({ "world": "k", "program": "kv" })).await.ok(201);
    let put = |bytes: usize| json!({ "key": "k", "value": "v".repeat(bytes) });
    set(&server, json!({ "stored_bytes_max": 1 })).await;
    for verb in ["send", "call"] {
        let path = format!("{LOUD}/worlds/k/{verb}/put");
        exceeded(server.post(&path, &put(20_000)).await, "universe", "stored_bytes_max", 1);
        assert!(server.post(&path, &put(1_000)).await.status.is_success());
    }
    let batch = json!([{ "event": "put", "value": put(20_000) }]);
    exceeded(server.post(&format!("{LOUD}/worlds/k/events"), &batch).await, "universe", "stored_bytes_max", 1);
    server.post(&format!("{QUIET}/worlds/k/call/put"), &put(20_000)).await.ok(200);

    // A rate that lets nothing begin.
    set(&server, json!({ "fuel_per_second_max": 0 })).await;
    let query = server.post(&format!("{LOUD}/worlds/c/query/count"), &Value::Null).await;
    exceeded(query, "universe", "fuel_per_second_max", 0);

    for quota in ["fuel_per_second_max", "effects_max", "effects_per_second_max"] {
        let quotas = json!({ (quota): 1 });
        let new = json!({ "can": ["send"], "quotas": quotas });
        server.post("/v1/tokens", &new).await.refused(400, "REQUEST_INVALID");
        let token = server.post("/v1/tokens", &json!({ "can": ["send"] })).await.ok(201)["id"].clone();
        let path = format!("/v1/tokens/{}/quotas", token.as_str().unwrap());
        server.send(Method::PUT, &path, &[], &quotas).await.refused(400, "REQUEST_INVALID");
    }
}
