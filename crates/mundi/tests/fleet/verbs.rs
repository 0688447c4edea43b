//! Every operation of the API, asked of a process that has no other role, while each other role is a process of its own.
//!
//! Which operations there are is what `tests/api/verbs.txt` says, which is held against the served document: one that is new and not
//! asked for here makes this test fail.

#[path = "../api/guest.rs"]
#[expect(dead_code, reason = "one of its guests is enough here")]
mod guest;

use crate::member::{Fleet, Member};
use mundi_model::Hash;
use serde_json::{Value, json};
use std::{cell::RefCell, collections::BTreeSet, time::Duration};

/// Of requests: longer than a busy machine takes, and than any lease of this test lasts.
const TIMEOUT: Duration = Duration::from_secs(60);

const U: &str = "/v1/u/{universe}";
const W: &str = "/v1/u/{universe}/worlds/{world}";
const P: &str = "/v1/u/{universe}/pools/{pool}";

struct Operator<'a> {
    http: reqwest::Client,
    api: &'a Member,
    /// The operations that were requested, as the list of all operations names them.
    asked: RefCell<BTreeSet<String>>,
}

struct Answer {
    operation: String,
    status: u16,
    /// The name of a call, under which its reply is found.
    call: Option<String>,
    bytes: Vec<u8>,
}

impl Answer {
    #[track_caller]
    fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}: {}", self.operation, String::from_utf8_lossy(&self.bytes));
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    #[track_caller]
    fn refused(self, code: &str) {
        let problem: Value = serde_json::from_slice(&self.bytes).unwrap_or(Value::Null);
        assert_eq!(problem["code"], code, "{}", self.operation);
    }
}

impl<'a> Operator<'a> {
    fn new(api: &'a Member) -> Self {
        let _before = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build().unwrap();
        Self { http, api, asked: RefCell::default() }
    }

    /// An operation, with what stands for the names in its address after the universe; a query may follow the last one.
    async fn ask(&self, method: &str, path: &str, names: &[&str], body: impl Into<reqwest::Body>) -> Answer {
        let universe = path.contains("{universe}").then_some(&"default");
        let mut names = universe.into_iter().chain(names);
        let fill =
            |part: &str| if part.starts_with('{') { (*names.next().unwrap()).to_owned() } else { part.to_owned() };
        let mut address = path.split('/').map(fill).collect::<Vec<_>>().join("/");
        names.for_each(|query| address.push_str(query));
        let operation = format!("{method} {path}");
        self.asked.borrow_mut().insert(operation.clone());
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.http.request(method, format!("{}{address}", self.api.url)).body(body);
        let mut answer = request.send().await.unwrap();
        let call = answer.headers().get("mundi-call").map(|call| call.to_str().unwrap().to_owned());
        let status = answer.status().as_u16();
        let bytes = match answer.headers().get("content-type").is_some_and(|it| it == "text/event-stream") {
            true => answer.chunk().await.unwrap().unwrap_or_default(), // it goes on
            false => answer.bytes().await.unwrap(),
        };
        Answer { operation, status, call, bytes: bytes.to_vec() }
    }

    async fn get(&self, path: &str, names: &[&str]) -> Answer {
        self.ask("GET", path, names, "").await
    }

    async fn post(&self, path: &str, names: &[&str], body: &Value) -> Answer {
        self.ask("POST", path, names, body.to_string()).await
    }

    async fn of_world(&self, verb: &str, names: &[&str], body: &Value) -> Answer {
        self.post(&format!("{W}/{verb}"), names, body).await
    }

    async fn call(&self, world: &str, event: &str, body: &Value) -> Value {
        self.of_world("call/{event}", &[world, event], body).await.ok(200)
    }

    async fn create(&self, world: &str, program: &str) {
        self.post(&format!("{U}/worlds"), &[], &json!({ "world": world, "program": program })).await.ok(201);
    }

    async fn describe(&self, world: &str) -> Value {
        self.get(W, &[world]).await.ok(200)
    }

    async fn pool_command(&self, verb: &str, names: &[&str], form: &Value) -> Answer {
        self.post(&format!("{P}/{verb}"), names, form).await
    }

    async fn of_pool(&self, nouns: &str, names: &[&str]) -> Value {
        self.get(&format!("{P}{nouns}"), names).await.ok(200)
    }

    /// A lease, as it is once the command was applied whose result this is.
    async fn pool_lease(&self, pool: &str, lease: &str, result: &Value) -> Value {
        let read = self.of_pool("/leases/{lease}", &[pool, lease, &format!("?at_least={}", result["lsn"])]).await;
        assert!(read["applied_lsn"].as_u64() >= result["lsn"].as_u64(), "{read}");
        read["lease"].clone()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_works_with_each_role_in_a_process_of_its_own() {
    let fleet = Fleet::start(Duration::from_secs(3));
    let mut worlds = ["world", "world"].map(|roles| fleet.member(roles));
    let mut others = ["orchestrator", "adapter", "timer", "watcher", "api"].map(|roles| fleet.member(roles));
    worlds.iter_mut().chain(&mut others).for_each(|member| fleet.launch(member));
    let [.., api] = &others;
    let operator = Operator::new(api);
    lives(&operator).await;
    upkeep(&operator).await;
    past(&operator).await;
    queues(&operator).await;
    stores(&operator).await;
    pools(&operator).await;
    pool_queue(&operator).await;
    pool_taken_back(&operator).await;
    pool_watched(&operator).await;
    children(&operator).await;
    functions(&operator).await;
    workers(&operator).await;
    worlds.iter_mut().for_each(Member::kill);
    nobody_runs_worlds(&operator).await;
    let known = include_str!("../api/verbs.txt").lines().filter_map(|line| line.split_once(' '));
    let known: BTreeSet<String> = known.map(|(_, operation)| operation.trim().to_owned()).collect();
    let asked = operator.asked.into_inner();
    let missing: Vec<_> = known.difference(&asked).collect();
    assert!(missing.is_empty(), "nobody asked for {missing:?}");
    assert_eq!(asked.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// A child that an external worker runs, one that is cancelled, one that fails, and what they spend.
async fn children(operator: &Operator<'_>) {
    let programs = operator.get(&format!("{U}/programs"), &[]).await.ok(200);
    let kv = programs.as_array().unwrap().iter().find(|program| program["name"] == "kv").unwrap();
    let manifest = json!({ "program": kv["program"], "effects": { "child.spawn": {} } });
    let stored = operator.post(&format!("{U}/manifests"), &[], &manifest).await.ok(201);
    let form = json!({ "world": "parent", "manifest": stored["hash"] });
    operator.post(&format!("{U}/worlds"), &[], &form).await.ok(201);
    let limits = json!({ "limits": { "tokens": 50 } }).to_string();
    operator.ask("PUT", &format!("{W}/budget"), &["parent"], limits).await.ok(200);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let spawned = operator.of_world("children", &["parent"], &json!({ "kind": "external" })).await.ok(201);
        ids.push(text(&spawned["child_id"]));
    }
    let cancel = operator.of_world("children/{child}/cancel", &["parent", &ids[2]], &json!({})).await.ok(200);
    assert_eq!(cancel["outcome"], "cancelled");
    let task = async |verb: &str, form: &Value| operator.post(&format!("{U}/tasks/children/{verb}"), &[], form).await;
    let claim = json!({ "kinds": ["external"], "limit": 2, "wait": "5s" });
    let mut tasks = Vec::new();
    while tasks.len() < 2 {
        tasks.extend(task("claim", &claim).await.ok(200).as_array().unwrap().clone());
    }
    let held = |at: usize| json!({ "claim": tasks[at]["claim"] });
    task("start", &held(0)).await.ok(200);
    task("start", &held(1)).await.ok(200);
    task("heartbeat", &json!({ "claims": [tasks[0]["claim"], tasks[1]["claim"]] })).await.ok(200);
    task("report", &json!({ "claim": tasks[0]["claim"], "spent": { "tokens": 7 } })).await.ok(200);
    assert_eq!(task("complete", &held(0)).await.ok(200)["outcome"], "passed");
    let failed = json!({ "claim": tasks[1]["claim"], "reason": "no such page" });
    assert_eq!(task("fail", &failed).await.ok(200)["outcome"], "failed");
    let budget = operator.get(&format!("{W}/budget"), &["parent"]).await.ok(200);
    assert_eq!(budget["lanes"][2]["total"], 7, "{budget}");
    let listed = operator.get(&format!("{W}/children"), &["parent"]).await.ok(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    let child = operator.get(&format!("{W}/children/{{child}}"), &["parent", &ids[0]]).await.ok(200);
    assert_eq!((&child["phase"], &child["outcome"]), (&json!("terminal"), &json!("passed")));
    let events = operator.get(&format!("{W}/children/{{child}}/events"), &["parent", &ids[0]]).await.ok(200);
    assert_eq!(events.as_array().unwrap().len(), 2);
    operator.of_world("children", &["parent"], &json!({ "kind": "external" })).await.ok(201);
    let all = operator.of_world("children/cancel", &["parent"], &json!({ "client_request_id": "all" })).await.ok(200);
    assert_eq!(all["children"], 1, "the others have ended");
}

/// The event of a function runs in the process of its world; a world without instances has nothing to show.
async fn functions(operator: &Operator<'_>) {
    operator.create("functions", "counter").await;
    let (all, one) = (format!("{W}/functions"), format!("{W}/functions/{{instance}}"));
    assert_eq!(operator.post(&one, &["functions", "add/17"], &json!(5)).await.ok(200), 5);
    assert_eq!(operator.get(&all, &["functions"]).await.ok(200)["items"], json!([]));
    operator.get(&one, &["functions", "add/17"]).await.refused("FUNCTION_NOT_FOUND");
    operator.ask("DELETE", &one, &["functions", "add/17"], "").await.refused("FUNCTION_NOT_FOUND");
    operator.ask("PUT", &one, &["functions", "add/17", "?paused=true"], "").await.refused("FUNCTION_NOT_FOUND");
}

/// Worlds are created, changed and deleted, while they run elsewhere.
async fn lives(operator: &Operator<'_>) {
    operator.create("a", "counter").await;
    operator.create("b", "counter").await;
    assert_eq!(operator.call("a", "add", &json!(1)).await, 1);
    assert!(operator.describe("a").await["lease"]["holder"].is_string(), "it runs");
    for verb in ["pause", "resume"] {
        operator.of_world(verb, &["a"], &Value::Null).await.ok(202);
    }
    assert_eq!(operator.call("a", "add", &json!(1)).await, 2);
    for verb in ["archive", "unarchive"] {
        operator.of_world(verb, &["a"], &Value::Null).await.ok(204);
    }
    assert_eq!(operator.call("a", "add", &json!(1)).await, 3);
    operator.of_world("upgrade", &["a"], &json!({ "program": "kv", "forced": true })).await.ok(202);
    operator.call("a", "put", &json!({ "key": "k", "value": 1 })).await;
    operator.get(&format!("{U}/worlds"), &[]).await.ok(200);
    for verb in ["retry", "skip"] {
        operator.of_world(verb, &["a"], &Value::Null).await.refused("WORLD_NOT_ON_HOLD");
    }
    operator.get(&format!("{U}/events"), &[]).await.ok(200);
    assert_eq!(operator.get(&format!("{W}/logs"), &["a"]).await.ok(200)["items"], json!([]));
    let labels = operator.of_world("labels", &["a"], &json!({ "set": { "team": "x" } })).await.ok(200);
    assert_eq!(labels["labels"]["team"], "x");
    let why = operator.get(&format!("{W}/why"), &["a"]).await.ok(200);
    assert!(why["causes"][0]["cause"].is_string(), "{why}");
    assert_eq!(operator.get(&format!("{U}/world-count"), &["?label=team=x"]).await.ok(200)["count"], 1);
    let dry = json!({ "verb": "pause", "filters": { "label": "team=x" }, "dry_run": true });
    let would = operator.post(&format!("{U}/bulk"), &[], &dry).await.ok(200);
    assert_eq!((&would["items"][0]["name"], &would["items"][0]["result"]), (&json!("a"), &json!("would")));
    let query = json!({ "query": "select name from worlds where state = 'live' order by 1" });
    let rows = operator.post(&format!("{U}/sql"), &[], &query).await.ok(200);
    assert_eq!(rows["rows"], json!([["a"], ["b"]]));
    // Deleted while it runs, and while nobody has ever run it.
    assert!(operator.describe("a").await["lease"]["holder"].is_string(), "it runs");
    for world in ["a", "b"] {
        for _ in 0..2 {
            operator.ask("DELETE", W, &[world], "").await.ok(204);
        }
        operator.of_world("call/{event}", &[world, "add"], &json!(1)).await.refused("WORLD_DELETED");
    }
}

/// Operations that write under the lease of a world that another process runs.
async fn upkeep(operator: &Operator<'_>) {
    operator.create("c", "counter").await;
    operator.call("c", "add", &json!(1)).await;
    let holder = operator.describe("c").await["lease"]["holder"].clone();
    assert!(holder.is_string(), "it runs");
    let taken = operator.of_world("snapshots", &["c"], &Value::Null).await.ok(200)["done"].clone();
    assert!(taken["height"].as_u64() > Some(1), "{taken}");
    let again = operator.of_world("snapshots", &["c"], &Value::Null).await.ok(200);
    assert_eq!(again["done"], Value::Null, "nothing happened since");
    let list = operator.get(&format!("{W}/snapshots"), &["c"]).await.ok(200);
    assert_eq!(list["items"][0]["height"], taken["height"]);
    let query = format!("?height={}", taken["height"]);
    let promoted = operator.of_world("baseline", &["c", &query], &Value::Null).await.ok(200);
    assert_eq!(promoted["done"]["height"], taken["height"]);
    operator.of_world("baseline", &["c", "?height=999"], &Value::Null).await.refused("SNAPSHOT_NOT_FOUND");
    assert_eq!(operator.call("c", "add", &json!(1)).await, 2, "it goes on");
    for _ in 0..3 {
        let events: Vec<Value> = (0..900).map(|_| json!({ "event": "add", "value": 1 })).collect();
        operator.of_world("events", &["c"], &Value::Array(events)).await.ok(202);
    }
    assert_eq!(operator.call("c", "add", &json!(0)).await, 2_702);
    operator.of_world("snapshots", &["c"], &Value::Null).await.ok(200);
    // Its worker may have done so by itself, after the snapshot: then there is nothing left.
    let exported = operator.of_world("segments", &["c"], &Value::Null).await.ok(200);
    assert!(exported["done"]["segments"].is_u64(), "{exported}");
    assert!(operator.describe("c").await["exported_to"].as_u64() > Some(1_000));
    assert_eq!(operator.of_world("segments", &["c"], &Value::Null).await.ok(200)["done"]["segments"], 0);
    assert_eq!(operator.call("c", "add", &json!(1)).await, 2_703);
}

/// Operations that only read take no lease.
async fn past(operator: &Operator<'_>) {
    operator.create("p", "kv").await;
    operator.call("p", "put", &json!({ "key": "a", "value": 1 })).await;
    operator.of_world("send/{event}", &["p", "put"], &json!({ "key": "b", "value": 2 })).await.ok(202);
    let called = operator.of_world("call/{event}", &["p", "put"], &json!({ "key": "a", "value": 3 })).await;
    let call = called.call.clone().expect("a call has a name");
    let reply = called.ok(200);
    assert_eq!(operator.get(&format!("{W}/calls/{{call}}"), &["p", &call]).await.ok(200), reply);
    operator.of_world("query/{query}", &["p", "get"], &json!("a")).await.ok(200);
    for (path, names) in [
        ("cells", vec!["p"]),
        ("cells/{key}", vec!["p", "a"]),
        ("diff", vec!["p", "?at=4"]),
        ("steps/{height}", vec!["p", "4"]),
    ] {
        operator.get(&format!("{W}/{path}"), &names).await.ok(200);
    }
    let journal = operator.get(&format!("{W}/journal"), &["p"]).await.ok(200);
    assert_eq!(journal["items"][0]["type"], "genesis");
    operator.of_world("fork", &["p"], &json!({ "world": "f", "at": 4 })).await.ok(201);
    operator.call("f", "put", &json!({ "key": "c", "value": 9 })).await;
    operator.get(&format!("{W}/lineage"), &["f"]).await.ok(200);
    operator.of_world("verify", &["p"], &Value::Null).await.ok(200);
    operator.of_world("rehearse", &["p"], &json!({ "program": "kv" })).await.ok(200);
    let bundle = operator.get(&format!("{W}/bundle"), &["p"]).await;
    assert_eq!(bundle.status, 200);
    operator.ask("POST", &format!("{U}/bundles"), &["?world=imported"], bundle.bytes).await.ok(201);
    operator.call("imported", "put", &json!({ "key": "d", "value": 1 })).await;
}

async fn queues(operator: &Operator<'_>) {
    operator.create("k", "kv").await;
    operator.call("k", "remind", &json!({ "key": "t", "value": 1, "in_ms": 3_600_000 })).await;
    operator.get(&format!("{U}/timers"), &[]).await.ok(200);
    let ask = async |key: &str| {
        operator.call("k", "ask", &json!({ "key": key, "kind": "external.task", "params": {} })).await;
    };
    ask("cancelled").await;
    let effects = operator.get(&format!("{U}/effects"), &["?kind=external.task"]).await.ok(200);
    let effect = text(&effects["items"][0]["effect"]);
    operator.get(&format!("{U}/effects/{{effect}}"), &[&effect]).await.ok(200);
    operator.post(&format!("{U}/effects/retry/{{effect}}"), &[&effect], &Value::Null).await.ok(200);
    let cancel = json!({ "reason": "enough" });
    operator.post(&format!("{U}/effects/cancel/{{effect}}"), &[&effect], &cancel).await.ok(200);
    ask("answered").await;
    let effects = operator.get(&format!("{U}/effects"), &["?kind=external.task"]).await.ok(200);
    let effect = text(&effects["items"][0]["effect"]);
    let answer = json!({ "status": "ok", "payload": 1 });
    operator.post(&format!("{U}/effects/answer/{{effect}}"), &[&effect], &answer).await.ok(200);
    for (key, end) in [("done", "complete"), ("failed", "fail")] {
        ask(key).await;
        let claim = json!({ "kinds": ["external.task"], "wait": "20s", "ttl": "30s" });
        let tasks = operator.post(&format!("{U}/tasks/claim"), &[], &claim).await.ok(200);
        let claim = &tasks[0]["claim"];
        operator.post(&format!("{U}/tasks/heartbeat"), &[], &json!({ "claims": [claim] })).await.ok(200);
        let form = match end {
            "complete" => json!({ "claim": claim, "result": 1 }),
            _ => json!({ "claim": claim, "reason": "no", "retryable": false }),
        };
        operator.post(&format!("{U}/tasks/{end}"), &[], &form).await.ok(204);
    }
    operator.get(&format!("{U}/dead-letters"), &["?queue=effects"]).await.ok(200);
    let bulk = json!({ "action": "drop", "queue": "effects" });
    operator.post(&format!("{U}/dead-letters"), &[], &bulk).await.ok(200);
    let letter = "effects.q_000000000000000000000000";
    operator.get(&format!("{U}/dead-letters/{{letter}}"), &[letter]).await.refused("DEAD_LETTER_NOT_FOUND");
    operator.ask("DELETE", &format!("{U}/dead-letters/{{letter}}"), &[letter], "").await.ok(204);
}

async fn stores(operator: &Operator<'_>) {
    operator.get("/metrics", &[]).await.ok(200);
    operator.get("/v1/universes", &[]).await.ok(200);
    operator.get("/v1/whoami", &[]).await.ok(200);
    let checkup = operator.get("/v1/checkup", &[]).await.ok(200);
    assert_eq!((&checkup["engine"], &checkup["draining"]), (&json!("postgres"), &json!(false)));
    let checks = checkup["findings"].as_array().unwrap().iter();
    let checks: Vec<_> = checks.map(|it| text(&it["check"])).collect();
    for wanted in ["engine", "database", "fsync", "connections", "clock", "objects"] {
        assert!(checks.iter().any(|it| it == wanted), "no {wanted} in {checks:?}");
    }
    operator.post("/v1/universes", &[], &json!({ "name": "other" })).await.ok(201);
    operator.get(U, &[]).await.ok(200);
    let token = operator.post("/v1/tokens", &[], &json!({ "can": ["read"] })).await.ok(201);
    operator.get("/v1/tokens", &[]).await.ok(200);
    let id = text(&token["id"]);
    operator.ask("PUT", "/v1/tokens/{token}/quotas", &[&id], r#"{"worlds_max": 9}"#).await.ok(204);
    operator.ask("PUT", "/v1/universes/{name}/quotas", &["default"], r#"{"worlds_max": 90}"#).await.ok(204);
    operator.get(&format!("{U}/quotas"), &[]).await.ok(200);
    let revoke = operator.http.delete(format!("{}/v1/tokens/{id}", operator.api.url)).send().await.unwrap();
    assert_eq!(revoke.status(), 204);
    operator.asked.borrow_mut().insert("DELETE /v1/tokens/{token}".to_owned());
    let blob = operator.ask("POST", &format!("{U}/blobs"), &[], "some bytes").await.ok(201);
    let hash = text(&blob["hash"]);
    assert_eq!(operator.ask("PUT", &format!("{U}/blobs/{{hash}}"), &[&hash], "some bytes").await.status / 100, 2);
    assert_eq!(operator.get(&format!("{U}/blobs/{{hash}}"), &[&hash]).await.bytes, b"some bytes");
    operator.get(&format!("{U}/programs"), &[]).await.ok(200);
    // A component that one process compiles for its check and another one for its worlds.
    let (code, program) = (guest::adder(), format!("{U}/programs/{{program}}"));
    let hash = Hash::of(&code).to_string();
    operator.ask("PUT", &program, &[&hash], code).await.ok(201);
    let manifest = loop {
        let state = operator.get(&program, &[&hash]).await.ok(200);
        if state["state"] == "ready" {
            break state["manifest"].clone();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let stored = text(&operator.post(&format!("{U}/manifests"), &[], &manifest).await.ok(201)["hash"]);
    operator.get(&format!("{U}/manifests/{{manifest}}"), &[&stored]).await.ok(200);
    let versions = format!("{U}/programs/{{program}}/versions");
    operator.post(&versions, &["adder"], &json!({ "manifest": stored })).await.ok(201);
    assert_eq!(operator.get(&versions, &["adder"]).await.ok(200)[0]["name"], "adder@1");
    operator.post(&format!("{U}/worlds"), &[], &json!({ "world": "w", "program": "adder" })).await.ok(201);
    assert_eq!(operator.call("w", "add", &json!(3)).await, 3);
    let manifest = format!("{U}/manifests/{{manifest}}");
    operator.ask("DELETE", &manifest, &[&stored], "").await.refused("PROGRAM_NAMED");
    operator.ask("DELETE", &program, &["adder@1"], "").await.ok(204);
    operator.ask("DELETE", &manifest, &[&stored], "").await.ok(204);
    operator.ask("DELETE", &program, &[&hash], "").await.ok(204);
    assert_eq!(operator.call("w", "add", &json!(4)).await, 7);
    operator.get(&format!("{U}/usage"), &[]).await.ok(200);
    operator.get(&format!("{U}/summary"), &[]).await.ok(200);
    operator.post(&format!("{U}/sweep"), &[], &json!({ "dry_run": true })).await.ok(202);
    operator.get(&format!("{U}/sweep"), &[]).await.ok(200);
}

/// A pool whose shards are worlds of other processes: what one of them decides is what this one reads.
async fn pools(operator: &Operator<'_>) {
    let pools = format!("{U}/pools");
    let form = json!({ "name": "gpus", "shards": 2 });
    for before in [false, true] {
        assert_eq!(operator.post(&pools, &[], &form).await.ok(201)["before"], before);
    }
    let listed = operator.get(&pools, &[]).await.ok(200);
    assert_eq!((&listed[0]["pool"], &listed[0]["shards"]), (&json!("gpus"), &json!(2)));
    let label = |n: u64| if n == 0 { "rare" } else { "common" };
    let resources: Vec<Value> =
        (0..8).map(|n| json!({ "resource": format!("gpu-{n}"), "labels": [label(n)] })).collect();
    let made = operator.pool_command("resources", &["gpus"], &json!({ "resources": resources })).await.ok(200);
    let made = made.as_array().unwrap();
    assert!(made.iter().all(|shard| shard["result"] == "ok"), "{made:?}");
    let mut items = 0;
    for shard in made {
        let query = format!("?shard={}&state=available&at_least={}", shard["shard"], shard["lsn"]);
        items += operator.of_pool("/resources", &["gpus", &query]).await["items"].as_array().unwrap().len();
    }
    assert_eq!(items, 8, "each lies in one shard");

    let form = json!({ "label": "rare", "holder": "ada", "ttl_slots": 3_600, "operation_id": "once" });
    let reserved = operator.pool_command("reserve", &["gpus"], &form).await.ok(200);
    assert_eq!(operator.pool_command("reserve", &["gpus"], &form).await.ok(200), reserved, "done once");
    let lease = text(&reserved["lease_id"]);
    assert_eq!(operator.pool_lease("gpus", &lease, &reserved).await["state"], "reserved");
    let token = json!({ "lease_id": lease, "lease_epoch": 1, "holder": "ada" });
    let active = operator.pool_command("activate", &["gpus"], &token).await.ok(200);
    assert_eq!(operator.pool_lease("gpus", &lease, &active).await["state"], "active");
    let query = format!("?holder=ada&state=active&shard={}", reserved["shard"]);
    assert_eq!(operator.of_pool("/leases", &["gpus", &query]).await["items"][0]["lease_id"], lease.as_str());
    let held = operator.of_pool("/resources/{resource}", &["gpus", "gpu-0"]).await["resource"].clone();
    assert_eq!((&held["name"], &held["current_state"]), (&json!("gpu-0"), &json!("active")));
    let other = json!({ "resources": ["gpu-0"], "holder": "bob", "ttl_slots": 1 });
    operator.pool_command("reserve", &["gpus"], &other).await.refused("RESOURCE_BUSY");
    operator.ask("DELETE", P, &["gpus"], "").await.refused("POOL_IN_USE");
    let released = operator.pool_command("release", &["gpus"], &token).await.ok(200);
    assert_eq!(released["lease_epoch"], 2);
    assert_eq!(operator.pool_lease("gpus", &lease, &released).await["state"], "released");
    operator.pool_command("release", &["gpus"], &token).await.refused("STALE_EPOCH");
}

/// A waiting client gets what another client's lease gives back, also one that only the process with the timers sees end.
async fn pool_queue(operator: &Operator<'_>) {
    let form = json!({ "name": "brief", "config": { "slot_ms": 10, "ttl_slots_max": 360_000 } });
    operator.post(&format!("{U}/pools"), &[], &form).await.ok(201);
    let resources = json!({ "resources": [{ "resource": "one" }] });
    operator.pool_command("resources", &["brief"], &resources).await.ok(200);
    let wish = |holder: &str, slots: u64| json!({ "holder": holder, "ttl_slots": slots });
    let first = operator.pool_command("reserve", &["brief"], &wish("ada", 360_000)).await.ok(200);
    let ticket = text(&operator.pool_command("enqueue", &["brief"], &wish("bob", 360_000)).await.ok(200)["ticket"]);
    let state = async || operator.of_pool("/tickets/{ticket}", &["brief", &ticket]).await["ticket"].clone();
    assert_eq!(state().await["state"], "waiting");
    assert_eq!(operator.of_pool("", &["brief"]).await["shards"][0]["counts"]["waiting"], 1);
    operator.pool_command("cancel", &["brief"], &json!({ "ticket": ticket, "holder": "bob" })).await.ok(200);
    assert_eq!(state().await["state"], "cancelled");
    let ticket = text(&operator.pool_command("enqueue", &["brief"], &wish("bob", 5)).await.ok(200)["ticket"]);
    let token = json!({ "lease_id": first["lease_id"], "lease_epoch": 1, "holder": "ada" });
    operator.pool_command("release", &["brief"], &token).await.ok(200);
    let granted = operator.of_pool("/tickets/{ticket}", &["brief", &ticket]).await["ticket"].clone();
    assert_eq!(granted["state"], "granted", "{granted}");
    // Nobody activates it: it expires, and whoever waits here is answered with the lease.
    let mut waits = wish("eve", 360_000);
    waits["wait"] = json!(true);
    let waited = operator.pool_command("enqueue", &["brief"], &waits).await.ok(200);
    let lease = text(&granted["lease_id"]);
    assert_eq!(operator.pool_lease("brief", &lease, &waited).await["state"], "expired");
    let token = json!({ "lease_id": waited["lease_id"], "lease_epoch": 1, "holder": "eve" });
    operator.pool_command("release", &["brief"], &token).await.ok(200);
    operator.ask("DELETE", P, &["brief"], "").await.ok(204);
    operator.get(P, &["brief"]).await.refused("POOL_NOT_FOUND");
}

async fn pool_taken_back(operator: &Operator<'_>) {
    let form = json!({ "label": "rare", "holder": "ada", "ttl_slots": 3_600 });
    let reserved = operator.pool_command("reserve", &["gpus"], &form).await.ok(200);
    let lease = text(&reserved["lease_id"]);
    let token = json!({ "lease_id": lease, "lease_epoch": 1, "holder": "ada" });
    operator.pool_command("activate", &["gpus"], &token).await.ok(200);
    let id = json!({ "lease_id": lease });
    for (verb, state, of_resource) in [("revoke", "revoking", "revoking"), ("reclaim", "revoked", "available")] {
        let result = operator.pool_command(verb, &["gpus"], &id).await.ok(200);
        assert_eq!(operator.pool_lease("gpus", &lease, &result).await["state"], state);
        let resource = operator.of_pool("/resources/{resource}", &["gpus", "gpu-0"]).await;
        assert_eq!(resource["resource"]["current_state"], of_resource);
        operator.pool_command("release", &["gpus"], &token).await.refused("STALE_EPOCH");
    }
}

/// The watcher is a process of its own, and the pool's world runs in another one.
async fn pool_watched(operator: &Operator<'_>) {
    let watch = format!("{P}/watch");
    let policy = json!({ "holder_ended": true, "reclaim_after_ms": 10 });
    operator.ask("PUT", &watch, &["gpus"], policy.to_string()).await.ok(200);
    assert_eq!(operator.of_pool("/watch", &["gpus"]).await["watch"], policy);
    let form = json!({ "label": "rare", "holder": "eve", "ttl_slots": 3_600 });
    let lease = text(&operator.pool_command("reserve", &["gpus"], &form).await.ok(200)["lease_id"]);
    let token = json!({ "lease_id": lease, "lease_epoch": 1, "holder": "eve" });
    operator.pool_command("activate", &["gpus"], &token).await.ok(200);
    operator.pool_command("heartbeat", &["gpus"], &token).await.ok(204);
    let revoke = json!({ "lease_id": lease, "reclaim_after_ms": 10 });
    operator.pool_command("revoke", &["gpus"], &revoke).await.ok(200);
    operator.pool_command("heartbeat", &["gpus"], &token).await.refused("STALE_EPOCH");
    while operator.of_pool("/leases/{lease}", &["gpus", &lease]).await["lease"]["state"] != "revoked" {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    operator.ask("DELETE", &watch, &["gpus"], "").await.ok(204);
}

async fn workers(operator: &Operator<'_>) {
    operator.create("m", "counter").await;
    operator.call("m", "add", &json!(1)).await;
    operator.get(&format!("{U}/leases"), &[]).await.ok(200);
    let workers = operator.get(&format!("{U}/workers"), &[]).await.ok(200);
    let worker = text(&workers[0]["worker"]);
    let assignment = format!("{W}/assignment");
    operator.ask("PUT", &assignment, &["m"], json!({ "worker": worker }).to_string()).await.ok(204);
    assert_eq!(operator.call("m", "add", &json!(1)).await, 2);
    operator.get(&format!("{U}/assignments/{{worker}}"), &[&worker]).await.ok(200);
    operator.ask("DELETE", &assignment, &["m"], "").await.ok(204);
    operator.post(&format!("{U}/workers/drain/{{worker}}"), &[&worker], &Value::Null).await.ok(202);
}

/// The workers are dead, and their leases and assignments stand.
async fn nobody_runs_worlds(operator: &Operator<'_>) {
    operator.of_world("snapshots", &["m"], &Value::Null).await.ok(200);
    let newest = operator.get(&format!("{W}/snapshots"), &["m"]).await.ok(200)["items"][0]["height"].clone();
    let query = format!("?height={newest}");
    operator.of_world("baseline", &["m", &query], &Value::Null).await.ok(200);
    operator.of_world("segments", &["m"], &Value::Null).await.ok(200);
    operator.ask("DELETE", W, &["m"], "").await.ok(204);
    // A pool is read, and what becomes of a command is not known.
    assert_eq!(operator.of_pool("", &["gpus"]).await["shards"][1]["counts"]["live"], 0);
    let form = json!({ "label": "rare", "holder": "ada", "ttl_slots": 3_600 });
    let answer = operator.pool_command("reserve", &["gpus", "?timeout=200ms"], &form).await;
    let problem: Value = serde_json::from_slice(&answer.bytes).unwrap();
    assert_eq!(problem["outcome"], "indefinite", "{problem}");
}
