//! Everything that has an address, beside events and tasks.

use crate::process::Server;
use reqwest::Method;
use serde_json::{Value, json};

const U: &str = "/v1/u/default";
const W: &str = "/v1/u/default/worlds";

async fn world(server: &Server, name: &str, program: &str) -> String {
    let created = server.post(W, &json!({ "world": name, "program": program })).await.ok(201);
    created["world"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_world_is_created_once_listed_described_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let id = world(&server, "a", "counter").await;
    let again = server.post(W, &json!({ "world": id, "program": "counter" })).await.ok(200);
    assert_eq!((&again["world"], &again["before"]), (&json!(id), &json!(true)));
    server.post(W, &json!({ "world": "a", "program": "kv" })).await.refused(409, "WORLD_EXISTS");
    server.post(W, &json!({ "program": "nope" })).await.refused(404, "PROGRAM_UNKNOWN");
    server.post(W, &json!({ "world": "a b", "program": "kv" })).await.refused(400, "NAME_INVALID");
    server.post(W, &json!({ "program": "kv", "color": "red" })).await.refused(400, "REQUEST_INVALID");
    server.post(W, &json!({})).await.refused(400, "REQUEST_INVALID");

    let described = server.get(&format!("{W}/a")).await.ok(200);
    assert_eq!((&described["world"], &described["program"]), (&json!(id), &json!("counter")));
    server.get(&format!("{W}/b")).await.refused(404, "WORLD_NOT_FOUND");

    server.post(&format!("{W}/a/archive"), &Value::Null).await.ok(204);
    server.post(&format!("{W}/a/send/add"), &json!(1)).await.refused(409, "WORLD_ARCHIVED");
    assert_eq!(server.get(&format!("{W}?state=archived")).await.ok(200)["items"].as_array().unwrap().len(), 1);
    server.post(&format!("{W}/a/unarchive"), &Value::Null).await.ok(204);
    server.post(&format!("{W}/a/call/add"), &json!(1)).await.ok(200);
    server.delete(&format!("{W}/a")).await.ok(204);
    server.post(&format!("{W}/a/send/add"), &json!(1)).await.refused(404, "WORLD_DELETED");
    server.post(&format!("{W}/a/send/add?delay=1s"), &json!(1)).await.refused(404, "WORLD_DELETED");
}

#[tokio::test]
async fn lists_come_in_pages_and_miss_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for n in 0..7 {
        world(&server, &format!("n{n}"), "counter").await;
    }
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{W}?limit=3{after}")).await.ok(200);
        found.extend(page["items"].as_array().unwrap().iter().map(|item| item["world"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!((found.len(), &found), (7, &sorted));
    for bad in ["limit=0", "limit=1001", "limit=x", "after=x", "state=gone", "colour=red"] {
        assert_eq!(server.get(&format!("{W}?{bad}")).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn the_past_can_be_asked_forked_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let parent = world(&server, "p", "kv").await;
    let put = |key: &str, value: i64| json!({ "key": key, "value": value });
    for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
        server.post(&format!("{W}/p/call/put"), &put(key, value)).await.ok(200);
    }
    let records = server.get(&format!("{W}/p/journal")).await.ok(200)["items"].clone();
    let records = records.as_array().unwrap();
    assert_eq!(records[0]["type"], "genesis");
    let head = records.len() as u64;
    assert!((0..).zip(records).all(|(height, record)| record["height"] == height));
    let two = server.get(&format!("{W}/p/journal?from=1&limit=2")).await.ok(200);
    assert_eq!((two["items"].as_array().unwrap().len(), &two["next"]), (2, &json!("3")));

    // Three records per call: ingress, reply, digest. After two of them both keys are there.
    let at = 7;
    assert_eq!(server.post(&format!("{W}/p/query/get?at={at}"), &json!("a")).await.ok(200), 1);
    assert_eq!(server.post(&format!("{W}/p/query/get"), &json!("a")).await.ok(200), 3);
    assert_eq!(server.get(&format!("{W}/p/cells/a?at={at}")).await.ok(200)["value"], 1);
    server.get(&format!("{W}/p/cells/b?at=4")).await.refused(404, "CELL_NOT_FOUND");
    let cells = server.get(&format!("{W}/p/cells?prefix=a")).await.ok(200);
    assert_eq!(cells["items"], json!([{ "key": "a", "value": 3 }]));
    server.post(&format!("{W}/p/query/get?at={}", head + 1), &json!("a")).await.refused(400, "HEIGHT_OUT_OF_RANGE");
    server.post(&format!("{W}/p/query/nope"), &json!("a")).await.refused(400, "QUERY_INVALID");

    let forked = server.post(&format!("{W}/p/fork"), &json!({ "world": "f", "at": at })).await.ok(201);
    assert_eq!((&forked["parent"], &forked["forked_at"]), (&json!(parent), &json!(at)));
    server.post(&format!("{W}/f/call/put"), &put("c", 9)).await.ok(200);
    let diff = server.get(&format!("{W}/p/diff?with=f")).await.ok(200);
    let expected = json!([
        { "key": "a", "left": 3, "right": 1 },
        { "key": "c", "right": 9 },
    ]);
    assert_eq!(diff, expected);
    let own = server.get(&format!("{W}/p/diff?at={at}")).await.ok(200);
    assert_eq!(own, json!([{ "key": "a", "left": 1, "right": 3 }]));
    server.post(&format!("{W}/p/fork"), &json!({ "at": 5 })).await.refused(400, "FORK_INVALID");
    server.post(&format!("{W}/p/fork"), &json!({ "effects": "maybe" })).await.refused(400, "REQUEST_INVALID");

    let lineage = server.get(&format!("{W}/f/lineage")).await.ok(200);
    assert_eq!(lineage["ancestors"], json!([{ "world": parent, "world_name": "p", "forked_at": at }]));
    let lineage = server.get(&format!("{W}/p/lineage")).await.ok(200);
    assert_eq!(lineage["forks"], json!([{ "world": forked["world"], "world_name": "f", "forked_at": at }]));
    let children = server.get(&format!("{W}?parent=p")).await.ok(200);
    assert_eq!(children["items"].as_array().unwrap().len(), 1);
    server.delete(&format!("{W}/p")).await.refused(409, "WORLD_HAS_FORKS");
}

#[tokio::test]
async fn a_fork_that_is_asked_for_again_is_the_same_and_another_one_under_its_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    world(&server, "p", "counter").await;
    world(&server, "q", "counter").await;
    server.post(&format!("{W}/p/call/add"), &json!(1)).await.ok(200);
    let (fork, form) = (format!("{W}/p/fork"), json!({ "world": "f" }));
    let first = server.post(&fork, &form).await.ok(201);
    server.post(&format!("{W}/p/call/add"), &json!(1)).await.ok(200);
    let again = server.post(&fork, &form).await.ok(200);
    assert_eq!(
        (&again["world"], &again["forked_at"]),
        (&first["world"], &first["forked_at"]),
        "the parent went on since"
    );
    assert_eq!((&first["before"], &again["before"]), (&json!(false), &json!(true)));
    server.post(&fork, &json!({ "world": "f", "at": first["forked_at"] })).await.ok(200);
    server.post(&fork, &json!({ "world": "f", "at": 1 })).await.refused(409, "WORLD_EXISTS");
    server.post(&fork, &json!({ "world": "f", "effects": "live" })).await.refused(409, "WORLD_EXISTS");
    server.post(&format!("{W}/q/fork"), &form).await.refused(409, "WORLD_EXISTS");
    server.post(&fork, &json!({ "world": "q" })).await.refused(409, "WORLD_EXISTS");
    server.delete(&format!("{W}/f")).await.ok(204);
    server.post(&fork, &form).await.refused(404, "WORLD_DELETED");
}

#[tokio::test]
async fn a_world_begins_with_the_snapshot_of_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let seed = world(&server, "p", "counter").await;
    server.post(&format!("{W}/p/call/add"), &json!(5)).await.ok(200);
    let height = server.post(&format!("{W}/p/snapshots"), &Value::Null).await.ok(200)["done"]["height"].clone();
    server.post(&format!("{W}/p/call/add"), &json!(5)).await.ok(200);
    for form in [json!({ "world": "p" }), json!({ "world": "p", "height": height })] {
        let form = json!({ "world": format!("s{}", form.to_string().len()), "seed": form });
        let created = server.post(W, &form).await.ok(201);
        assert_eq!(server.post(W, &form).await.ok(200)["world"], created["world"], "asked again, it is the same");
        let name = created["world"].as_str().unwrap();
        assert_eq!(server.post(&format!("{W}/{name}/call/add"), &json!(1)).await.ok(200), 6);
        assert_eq!(server.get(&format!("{W}/{name}/lineage")).await.ok(200)["ancestors"][0]["world"], seed);
    }
    let nowhere = json!({ "seed": { "world": "p", "height": 2 } });
    server.post(W, &nowhere).await.refused(404, "SNAPSHOT_NOT_FOUND");
    server.post(W, &json!({ "seed": { "world": "nobody" } })).await.refused(404, "WORLD_NOT_FOUND");
    server.post(W, &json!({ "program": "kv", "seed": { "world": "p" } })).await.refused(400, "REQUEST_INVALID");
}

#[tokio::test]
async fn a_tail_goes_on_with_what_is_appended_and_is_taken_up_where_it_broke_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    world(&server, "c", "counter").await;
    let tail = server.request(Method::GET, &format!("{W}/c/journal")).header("accept", "text/event-stream");
    let mut tail = tail.send().await.unwrap();
    assert_eq!(tail.headers()["content-type"], "text/event-stream");
    server.post(&format!("{W}/c/call/add"), &json!(4)).await.ok(200);
    let mut seen = String::new();
    while !seen.contains("id: 3\n") {
        seen.push_str(std::str::from_utf8(&tail.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(seen.contains("\"type\":\"genesis\"") && seen.contains("\"ok\":4"));
    drop(tail);
    let again = server.request(Method::GET, &format!("{W}/c/journal")).header("accept", "text/event-stream");
    let mut again = again.header("last-event-id", "2").send().await.unwrap();
    let first = again.chunk().await.unwrap().unwrap();
    assert!(first.starts_with(b"id: 3\n"), "{first:?}");
}

#[tokio::test]
async fn pauses_upgrades_snapshots_and_segments_reach_the_world() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    world(&server, "c", "counter").await;
    server.post(&format!("{W}/c/snapshots"), &Value::Null).await.ok(200);
    server.post(&format!("{W}/c/call/add"), &json!(1)).await.ok(200);
    let taken = server.post(&format!("{W}/c/snapshots"), &Value::Null).await.ok(200)["done"]["height"].clone();
    let newest = server.get(&format!("{W}/c/snapshots?limit=1")).await.ok(200);
    assert_eq!(newest["items"][0]["height"], taken);
    assert!(taken.as_u64() > Some(1), "{newest}");
    server.post(&format!("{W}/c/baseline?height={taken}"), &Value::Null).await.ok(200);
    server.post(&format!("{W}/c/baseline?height=999"), &Value::Null).await.refused(404, "SNAPSHOT_NOT_FOUND");
    assert_eq!(server.post(&format!("{W}/c/segments"), &Value::Null).await.ok(200)["done"]["segments"], 0);
    let put = json!({ "key": "k", "value": 1 });
    server.post(&format!("{W}/c/call/put"), &put).await.refused(400, "EVENT_INVALID");
    server.post(&format!("{W}/c/upgrade"), &json!({ "program": "kv" })).await.ok(202);
    // What is sent after an upgrade is taken by the new program, also while the upgrade still waits.
    server.post(&format!("{W}/c/call/put"), &put).await.ok(200);
    assert_eq!(server.get(&format!("{W}/c")).await.ok(200)["program"], "kv");
}

#[tokio::test]
async fn blobs_and_programs_are_named_by_their_hash() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let put = server.request(Method::POST, &format!("{U}/blobs")).body(bytes.clone()).send().await.unwrap();
    let put: Value = serde_json::from_str(&put.text().await.unwrap()).unwrap();
    let hash = put["hash"].as_str().unwrap();
    let got = server.request(Method::GET, &format!("{U}/blobs/{hash}")).send().await.unwrap();
    assert_eq!(got.headers()["content-length"], "300000");
    assert_eq!(&got.bytes().await.unwrap()[..], bytes);
    let wrong = server.send(Method::PUT, &format!("{U}/blobs/{hash}"), &[], &json!("other")).await;
    wrong.refused(400, "BLOB_HASH_MISMATCH");
    let missing = format!("{U}/blobs/h_{}", "0".repeat(64));
    server.get(&missing).await.refused(404, "BLOB_NOT_FOUND");
    server.get(&format!("{U}/blobs/x")).await.refused(400, "ID_INVALID");

    let programs = server.get(&format!("{U}/programs")).await.ok(200);
    let counter = programs.as_array().unwrap().iter().find(|program| program["name"] == "counter").unwrap();
    let manifest = server.get(&format!("{U}/manifests/{}", counter["manifest"].as_str().unwrap())).await.ok(200);
    assert_eq!(manifest["program"], counter["program"]);
    let stricter = json!({ "program": counter["program"], "events": { "add": { "minimum": 5 } } });
    let stored = server.post(&format!("{U}/manifests"), &stricter).await.ok(201);
    server.post(W, &json!({ "world": "s", "manifest": stored["hash"] })).await.ok(201);
    server.post(&format!("{W}/s/call/add"), &json!(4)).await.refused(400, "EVENT_INVALID");
    assert_eq!(server.post(&format!("{W}/s/call/add"), &json!(6)).await.ok(200), 6);
    let unknown = json!({ "program": format!("h_{}", "0".repeat(64)) });
    server.post(&format!("{U}/manifests"), &unknown).await.refused(404, "PROGRAM_UNKNOWN");
    let invalid = json!({ "program": counter["program"], "events": { "add": { "type": "nope" } } });
    server.post(&format!("{U}/manifests"), &invalid).await.refused(400, "MANIFEST_INVALID");
    let code = server.send(Method::PUT, &format!("{U}/programs/{hash}"), &[], &json!("x")).await;
    code.refused(400, "BLOB_HASH_MISMATCH");
}

#[tokio::test]
async fn effects_timers_and_dead_letters_can_be_seen_and_acted_upon() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let id = world(&server, "k", "kv").await;
    let remind = json!({ "key": "t", "value": 1, "in_ms": 3_600_000 });
    server.post(&format!("{W}/k/call/remind"), &remind).await.ok(200);
    let timers = server.get(&format!("{U}/timers?world=k")).await.ok(200);
    assert_eq!(timers["items"][0]["world"], id);

    // Nobody serves this kind, so it waits.
    let ask = json!({ "key": "e", "kind": "external.task", "params": { "n": 1 } });
    server.post(&format!("{W}/k/call/ask"), &ask).await.ok(200);
    let effects = server.get(&format!("{U}/effects?world=k&kind=external.task")).await.ok(200);
    let place = effects["items"][0]["effect"].as_str().unwrap();
    assert_eq!(effects["items"][0]["params"], json!({ "n": 1 }));
    assert_eq!(server.get(&format!("{U}/effects/{place}")).await.ok(200)["stage"], "pending");
    let retried = server.post(&format!("{U}/effects/retry/{place}"), &Value::Null).await.ok(200);
    assert_eq!(retried["changed"], false, "it was never tried");
    let cancelled = server.post(&format!("{U}/effects/cancel/{place}"), &json!({ "reason": "enough" })).await.ok(200);
    assert_eq!(cancelled["changed"], true);
    assert_eq!(server.get(&format!("{U}/effects")).await.ok(200)["items"], json!([]));
    server.get(&format!("{U}/effects/{place}")).await.refused(404, "EFFECT_NOT_FOUND");

    assert_eq!(server.get(&format!("{U}/dead-letters?queue=timers")).await.ok(200)["items"], json!([]));
    server.get(&format!("{U}/dead-letters?queue=nope")).await.refused(400, "REQUEST_INVALID");
    let letter = "effects.q_000000000000000000000000";
    server.delete(&format!("{U}/dead-letters/{letter}")).await.ok(204);
    server.get(&format!("{U}/dead-letters/{letter}")).await.refused(404, "DEAD_LETTER_NOT_FOUND");
    let bulk = json!({ "action": "drop", "queue": "effects" });
    assert_eq!(server.post(&format!("{U}/dead-letters"), &bulk).await.ok(200)["done"], 0);
}

#[tokio::test]
async fn workers_leases_and_assignments_can_be_seen_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let id = world(&server, "c", "counter").await;
    server.post(&format!("{W}/c/call/add"), &json!(1)).await.ok(200);
    let workers = server.get(&format!("{U}/workers")).await.ok(200);
    let worker = workers[0]["worker"].as_str().unwrap();
    let leases = server.get(&format!("{U}/leases")).await.ok(200);
    assert_eq!((&leases["items"][0]["world"], &leases["items"][0]["holder"]), (&json!(id), &json!(worker)));
    let pin = json!({ "worker": worker });
    server.send(Method::PUT, &format!("{W}/c/assignment"), &[], &pin).await.ok(204);
    assert_eq!(
        server.get(&format!("{U}/assignments/{worker}")).await.ok(200)["items"],
        json!([{ "world": id, "world_name": "c" }])
    );
    assert_eq!(server.get(&format!("{W}/c")).await.ok(200)["pinned"], true);
    server.delete(&format!("{W}/c/assignment")).await.ok(204);
    assert_eq!(server.post(&format!("{W}/c/call/add"), &json!(1)).await.ok(200), 2);
    server
        .send(Method::PUT, &format!("{W}/c/assignment"), &[], &json!({ "worker": "x" }))
        .await
        .refused(400, "ID_INVALID");
}

#[tokio::test]
async fn universes_are_made_by_name_and_share_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(200);
    server.post("/v1/universes", &json!({ "name": "No" })).await.refused(400, "NAME_INVALID");
    world(&server, "c", "counter").await;
    server.get("/v1/u/other/worlds/c").await.refused(404, "WORLD_NOT_FOUND");
    drop(server);
    let server = Server::start(folder.path());
    let names: Vec<_> = server.get("/v1/universes").await.ok(200).as_array().unwrap().to_vec();
    assert_eq!(
        names.iter().map(|universe| universe["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["default", "other"]
    );
    server.post("/v1/u/other/worlds", &json!({ "program": "kv" })).await.ok(201);
}
