//! Names, labels, filters, bulk commands, why a world does not move, and SQL: over HTTP, of a node in this process.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use futures_util::stream::{self, StreamExt};
use mundi_server::{
    api::{AccessPolicy, Api, ApiLimits, router},
    config::Config,
    node::Node,
    programs::Programs,
    serve::{ServeLimits, Server as HttpServer},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path, time::Duration};

const U: &str = "/v1/u/default";
const W: &str = "/v1/u/default/worlds";

pub(crate) struct Server {
    http: HttpServer,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    async fn of(answer: reqwest::Response) -> Self {
        Self { status: answer.status().as_u16(), text: answer.text().await.unwrap() }
    }

    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) {
        let problem: Value = serde_json::from_str(&self.text).unwrap_or(Value::Null);
        assert_eq!((self.status, &problem["code"]), (status, &json!(code)), "{}", self.text);
    }
}

impl Server {
    async fn start(folder: &Path) -> Self {
        Self::start_both(folder).await.0
    }

    pub(crate) async fn start_with(folder: &Path, programs: Programs) -> Self {
        Self::start_both_with(folder, programs).await.0
    }

    async fn start_both(folder: &Path) -> (Self, Self) {
        Self::start_both_with(folder, Programs::builtin()).await
    }

    /// One node at two addresses: one asks for no token, one does.
    async fn start_both_with(folder: &Path, programs: Programs) -> (Self, Self) {
        let settings = [("MUNDI_DATA__FOLDER".to_owned(), folder.display().to_string())];
        let config = Config::load(None, settings, &[]).unwrap();
        let node = Node::open_configured(&config, programs).await.unwrap();
        let open = Api::new(node, ApiLimits::default(), AccessPolicy::default());
        let guarded = open.at(AccessPolicy { tokens_required: true, ..AccessPolicy::default() });
        let serve = async |router| {
            HttpServer::start(([127, 0, 0, 1], 0).into(), router, None, ServeLimits::default()).await.unwrap()
        };
        (Self { http: serve(router(open)).await }, Self { http: serve(router(guarded)).await })
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let _before = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.request(method, format!("http://{}{path}", self.http.address()))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::POST, path).body(body.to_string()).send().await.unwrap()).await
    }
}

async fn create(server: &Server, name: &str, program: &str, labels: Value) -> String {
    let created = server.post(W, &json!({ "world": name, "program": program, "labels": labels })).await.ok(201);
    assert_eq!(created["name"], name);
    created["world"].as_str().unwrap().to_owned()
}

async fn names(server: &Server, filters: &str) -> Vec<String> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{W}?limit=2&{filters}{after}")).await.ok(200);
        found.extend(page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { return found };
        after = format!("&after={next}");
    }
}

async fn sorted(server: &Server, filters: &str) -> Vec<String> {
    let mut found = names(server, filters).await;
    found.sort();
    found
}

/// The causes of a world, as soon as one of them is this.
async fn why(server: &Server, world: &str, cause: &str) -> Value {
    loop {
        let why = server.get(&format!("{W}/{world}/why")).await.ok(200);
        let found = why["causes"].as_array().unwrap().iter().find(|found| found["cause"] == cause);
        if let Some(found) = found {
            return found.clone();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forks_and_imports_have_names_and_are_found_by_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let alice = create(&server, "alice", "counter", json!({ "tier": "gold", "team": "x" })).await;
    server.post(&format!("{W}/alice/call/add"), &json!(5)).await.ok(200);
    for expected in ["alice-fork-1", "alice-fork-2"] {
        let fork = server.post(&format!("{W}/alice/fork"), &json!({ "labels": { "tier": "test" } })).await.ok(201);
        assert_eq!(fork["name"], expected);
        let described = server.get(&format!("{W}/{expected}")).await.ok(200);
        assert_eq!(described["labels"], json!({ "team": "x", "tier": "test" }), "inherited, and overridden");
        assert_eq!(
            (&described["parent"]["world"], &described["parent"]["world_name"]),
            (&json!(alice), &json!("alice"))
        );
        let from = described["first_height"].as_u64().unwrap();
        let begins =
            server.get(&format!("{W}/{expected}/journal?from={from}&limit=1")).await.ok(200)["items"][0].clone();
        assert_eq!((&begins["parent"], &begins["parent_name"]), (&json!(alice), &json!("alice")));
    }
    let id = "w_00000000000000000000000001";
    let fork = server.post(&format!("{W}/alice/fork"), &json!({ "world": id })).await.ok(201);
    assert_eq!((&fork["world"], &fork["name"]), (&json!(id), &json!("alice-fork-3")));
    assert_eq!(server.post(&format!("{W}/alice-fork-3/call/add"), &json!(1)).await.ok(200), 6);
    assert_eq!(
        server.get(&format!("{W}/alice-fork-3")).await.ok(200)["world"],
        id,
        "the id does not follow from the name"
    );
    let forks: Vec<Value> = stream::iter(0..8)
        .map(|_| async { server.post(&format!("{W}/alice/fork"), &json!({})).await.ok(201) })
        .buffer_unordered(8)
        .collect()
        .await;
    for field in ["world", "name"] {
        let different: BTreeSet<&str> = forks.iter().map(|fork| fork[field].as_str().unwrap()).collect();
        assert_eq!(different.len(), 8, "forks that are asked for at the same time are worlds of their own");
    }
    let lineage = server.get(&format!("{W}/alice/lineage")).await.ok(200);
    assert!(lineage["forks"].as_array().unwrap().iter().all(|child| child["world_name"].is_string()), "{lineage}");

    // In another universe it keeps its id and its name; here both are taken.
    let bundle = server.request(Method::GET, &format!("{W}/alice/bundle")).send().await.unwrap().bytes().await.unwrap();
    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    let import = async |path: String| {
        let sent = server.request(Method::POST, &path).body(bundle.clone()).send().await.unwrap();
        Answer::of(sent).await
    };
    let imported = import("/v1/u/other/bundles".to_owned()).await.ok(201);
    assert_eq!((&imported["world"], &imported["name"]), (&json!(alice), &json!("alice")));
    let called = server.post("/v1/u/other/worlds/alice/call/add", &json!(1)).await.ok(200);
    assert_eq!(called, 6, "found by its name, which its id does not follow from");
    let described = server.get("/v1/u/other/worlds/alice").await.ok(200);
    assert_eq!((&described["world"], &described["labels"]["tier"]), (&json!(alice), &json!("gold")));
    server.post("/v1/u/other/worlds", &json!({ "world": "alice", "program": "kv" })).await.refused(409, "WORLD_EXISTS");
    let id = "w_00000000000000000000000002";
    let imported = import(format!("{U}/bundles?world={id}")).await.ok(201);
    assert_eq!((&imported["world"], &imported["name"]), (&json!(id), &json!("alice-import-1")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worlds_are_found_counted_and_commanded_by_labels_and_other_filters() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    for n in 0..5 {
        create(&server, &format!("w{n}"), "counter", json!({ "customer": if n < 3 { "17" } else { "4" } })).await;
    }
    create(&server, "other", "kv", json!({})).await;
    assert_eq!(sorted(&server, "label=customer=17").await, ["w0", "w1", "w2"]);
    assert_eq!(sorted(&server, "label=customer").await.len(), 5);
    assert_eq!(sorted(&server, "name=w").await.len(), 5);
    assert_eq!(sorted(&server, "name_contains=he").await, ["other"]);
    assert_eq!(sorted(&server, "program=kv").await, ["other"]);
    assert_eq!(sorted(&server, "program=counter&label=customer=4").await, ["w3", "w4"]);
    assert_eq!(names(&server, "sort=name").await, ["other", "w0", "w1", "w2", "w3", "w4"]);
    assert_eq!(names(&server, "sort=created").await, ["w0", "w1", "w2", "w3", "w4", "other"]);
    assert_eq!(sorted(&server, "created_before=2001-01-01").await.len(), 0);
    assert_eq!(sorted(&server, "active_after=2001-01-01&name=other").await.len(), 0, "nobody opened it");
    server.post(&format!("{W}/other/call/put"), &json!({ "key": "a", "value": 1 })).await.ok(200);
    assert_eq!(sorted(&server, "active_after=2001-01-01&name=other").await, ["other"]);
    let active = names(&server, "sort=active").await;
    assert_eq!((active.len(), &*active[0]), (6, "other"), "the others were never opened, and come last");
    assert_eq!(sorted(&server, "name_contains=OTH").await, ["other"]);
    let count = server.get(&format!("{U}/world-count?label=customer=17")).await.ok(200);
    assert_eq!((&count["count"], &count["states"]["live"], &count["next"]), (&json!(3), &json!(3), &Value::Null));

    let changed = json!({ "set": { "customer": "5" }, "remove": ["nothing"] });
    assert_eq!(server.post(&format!("{W}/w0/labels"), &changed).await.ok(200)["labels"], json!({ "customer": "5" }));
    assert_eq!(sorted(&server, "label=customer=17").await, ["w1", "w2"]);
    server.post(&format!("{W}/w0/call/add"), &json!(1)).await.ok(200);
    let journal = server.get(&format!("{W}/w0/journal")).await.ok(200)["items"].clone();
    let of_labels = |record: &&Value| record["input"]["control"] == "label";
    let told: Vec<&Value> = journal.as_array().unwrap().iter().filter(of_labels).collect();
    assert_eq!(told.len(), 2, "at creation, and later: {journal}");
    assert_eq!(told[1]["input"]["labels"]["set"], json!({ "customer": "5" }));
    server.post(&format!("{W}/w0/labels"), &json!({ "set": { "a b": "" } })).await.refused(400, "LABEL_INVALID");
    server.get(&format!("{W}?after=i_00")).await.refused(400, "CURSOR_INVALID");

    let bulk = async |verb: &str, dry_run: bool| {
        let form = json!({ "verb": verb, "filters": { "label": "customer=17" }, "dry_run": dry_run, "limit": 1 });
        let first = server.post(&format!("{U}/bulk"), &form).await.ok(200);
        let mut rest = form.clone();
        rest["after"] = first["next"].clone();
        rest["limit"] = json!(100);
        let second = server.post(&format!("{U}/bulk"), &rest).await.ok(200);
        let items = [first["items"].as_array().unwrap().clone(), second["items"].as_array().unwrap().clone()].concat();
        items.iter().map(|item| item["result"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(bulk("pause", true).await, ["would", "would"]);
    assert_eq!(sorted(&server, "state=paused").await.len(), 0);
    assert_eq!(bulk("pause", false).await, ["done", "done"]);
    while sorted(&server, "state=paused").await != ["w1", "w2"] {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let by = why(&server, "w1", "paused").await;
    assert_eq!((&by["by"], &by["advice"]), (&json!("local"), &json!("mundi world resume")), "{by}");
    assert_eq!(bulk("resume", false).await, ["done", "done"]);
    let everything = [
        json!({}),
        json!({ "label": "" }),
        json!({ "label": "," }),
        json!({ "name": "" }),
        json!({ "name_contains": "" }),
        json!({ "dead_letters": false }),
    ];
    for filters in everything {
        let delete = json!({ "verb": "delete", "filters": filters });
        server.post(&format!("{U}/bulk"), &delete).await.refused(400, "REQUEST_INVALID");
    }
    assert_eq!(bulk("delete", false).await, ["done", "done"]);
    assert_eq!(sorted(&server, "label=customer=17").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_may_contain_a_comma_and_several_labels_are_several_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    create(&server, "comma", "counter", json!({ "region": "a,b" })).await;
    create(&server, "both", "counter", json!({ "region": "a", "b": "" })).await;
    create(&server, "one", "counter", json!({ "region": "a" })).await;
    assert_eq!(sorted(&server, "label=region%3Da%2Cb").await, ["comma"]);
    assert_eq!(sorted(&server, "label=region=a&label=b").await, ["both"], "all of them have to hold");
    assert_eq!(sorted(&server, "label=region=a").await, ["both", "one"]);
    server.get(&format!("{W}?name=a&name=b")).await.refused(400, "REQUEST_INVALID");
    let bulk = async |label: Value| {
        let form = json!({ "verb": "delete", "filters": { "label": label } });
        server.post(&format!("{U}/bulk"), &form).await
    };
    bulk(json!([])).await.refused(400, "REQUEST_INVALID");
    let done = bulk(json!("region=a,b")).await.ok(200);
    assert_eq!((done["items"].as_array().unwrap().len(), &done["items"][0]["name"]), (1, &json!("comma")));
    let done = bulk(json!(["region=a", "b"])).await.ok(200);
    assert_eq!((done["items"].as_array().unwrap().len(), &done["items"][0]["name"]), (1, &json!("both")));
    assert_eq!(sorted(&server, "label=region").await, ["one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_stand_beside_ids_in_tasks_steps_and_forks_and_a_list_and_a_description_say_the_same_of_a_wait() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let id = create(&server, "k", "kv", json!({})).await;
    let ask = json!({ "key": "b", "kind": "external.task", "params": { "task": "t" } });
    server.post(&format!("{W}/k/call/ask"), &ask).await.ok(200);
    let listed = server.get(&format!("{W}?name=k")).await.ok(200)["items"][0]["waits"].clone();
    assert_eq!((&listed, &server.get(&format!("{W}/k")).await.ok(200)["waits"]), (&json!("an effect"), &listed));
    let claim = json!({ "kinds": ["external.task"], "limit": 1 });
    let task = server.post(&format!("{U}/tasks/claim"), &claim).await.ok(200)[0].clone();
    assert_eq!((&task["world"], &task["world_name"]), (&json!(id), &json!("k")));
    assert_eq!(server.get(&format!("{W}/k/steps/1")).await.ok(200)["world_name"], "k");
    let fork = server.post(&format!("{W}/k/fork"), &json!({ "world": "branch" })).await.ok(201);
    assert_eq!((&fork["name"], &fork["parent_name"]), (&json!("branch"), &json!("k")));
    create(&server, "other", "kv", json!({})).await;
    let taken = server.post(&format!("{W}/k/fork"), &json!({ "world": "other" })).await;
    assert!(taken.text.contains("`other` (w_"), "{}", taken.text);
    taken.refused(409, "WORLD_EXISTS");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_has_pages() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    create(&server, "k", "kv", json!({})).await;
    for key in ["a", "b", "c", "d", "e"] {
        server.post(&format!("{W}/k/call/put"), &json!({ "key": key, "value": 1 })).await.ok(200);
    }
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{W}/k/diff?with_at=1&limit=2{after}")).await.ok(200);
        let keys = page.as_array().unwrap().iter().map(|cell| cell["key"].as_str().unwrap().to_owned());
        let before = found.len();
        found.extend(keys);
        if found.len() - before < 2 {
            break;
        }
        after = format!("&after={}", found.last().unwrap());
    }
    assert_eq!(found, ["a", "b", "c", "d", "e"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_effect_that_waits_for_room_in_a_budget_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let put = server.request(Method::PUT, "/v1/universes/default/quotas").body(json!({ "effects_max": 1 }).to_string());
    Answer::of(put.send().await.unwrap()).await.ok(204);
    create(&server, "k", "kv", json!({})).await;
    for key in ["a", "b"] {
        let ask = json!({ "key": key, "kind": "external.task", "params": {} });
        server.post(&format!("{W}/k/call/ask"), &ask).await.ok(200);
    }
    let claim = json!({ "kinds": ["external.task"], "limit": 2 });
    let claimed = server.post(&format!("{U}/tasks/claim"), &claim).await.ok(200);
    assert_eq!(claimed.as_array().unwrap().len(), 1);
    let budget = why(&server, "k", "budget").await;
    assert_eq!((&budget["budget"], &budget["limit"]), (&json!("effects_max"), &json!(1)), "{budget}");
    assert_eq!(budget["advice"], "wait, or mundi universe quotas set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_world_says_why_it_is_not_moving() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    create(&server, "k", "kv", json!({})).await;
    why(&server, "k", "nothing_to_do").await;
    server.post(&format!("{W}/k/call/remind"), &json!({ "key": "a", "value": 1, "in_ms": 600_000 })).await.ok(200);
    assert!(why(&server, "k", "timer").await["until"].is_string());
    let ask = json!({ "key": "b", "kind": "external.task", "params": { "task": "t" } });
    server.post(&format!("{W}/k/call/ask"), &ask).await.ok(200);
    let open = why(&server, "k", "effect").await;
    assert_eq!((&open["kind"], &open["attempt"]), (&json!("external.task"), &json!(0)), "{open}");
    let claim = json!({ "kinds": ["external.task"], "limit": 1 });
    let claimed = server.post(&format!("{U}/tasks/claim"), &claim).await.ok(200);
    let held = why(&server, "k", "effect").await;
    assert!(held["by"].is_string() && held["until"].is_string() && held["attempt"] == 1, "{held} {claimed}");
    assert_eq!(server.get(&format!("{W}?effects_older_than_s=0")).await.ok(200)["items"][0]["name"], "k");
    server.post(&format!("{W}/k/archive"), &Value::Null).await.ok(204);
    why(&server, "k", "archived").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_reads_every_table_within_its_universe() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let alice = create(&server, "alice", "kv", json!({ "team": "x" })).await;
    create(&server, "bob", "counter", json!({ "team": "y" })).await;
    for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
        server.post(&format!("{W}/alice/call/put"), &json!({ "key": key, "value": value })).await.ok(200);
    }
    server.post(&format!("{W}/alice/call/remind"), &json!({ "key": "a", "value": 1, "in_ms": 600_000 })).await.ok(200);
    let ask = json!({ "key": "b", "kind": "external.task", "params": { "task": "t" } });
    server.post(&format!("{W}/alice/call/ask"), &ask).await.ok(200);
    server.post(&format!("{W}/alice/fork"), &json!({})).await.ok(201);
    server.post(&format!("{W}/alice/snapshots"), &Value::Null).await.ok(200);
    let sql = async |query: &str| server.post(&format!("{U}/sql"), &json!({ "query": query })).await;
    let rows = async |query: &str| sql(query).await.ok(200)["rows"].clone();

    let counted = rows("select program, count(*) from worlds group by 1 order by 1").await;
    assert_eq!(counted, json!([["counter", 1], ["kv", 2]]));
    assert_eq!(
        rows("select name from worlds where world = (select world from worlds where name = 'bob')").await,
        json!([["bob"]])
    );
    assert_eq!(rows("select name from labels where key = 'team' and value = 'y'").await, json!([["bob"]]));
    assert_eq!(rows("select key, value from cells('alice') order by 1").await, json!([["a", 3], ["b", 2]]));
    let past = rows("select min(height) + 3 from journal('alice') where record ->> '$.input.value.value' = 1").await;
    let at = past[0][0].as_u64().unwrap();
    assert_eq!(rows(&format!("select key, value from cells('alice', {at})")).await, json!([["a", 1]]));
    assert_eq!(rows("select height, type from journal('alice') where height = 0").await, json!([[0, "genesis"]]));
    assert_eq!(rows("select count(*) from journal('alice') where height > -1 and height < 1").await, json!([[1]]));
    for nowhere in ["no name!", "nobody", "w_00000000000000000000000009"] {
        for table in ["worlds", "labels", "journal", "cells", "snapshots", "effects", "timers", "dead_letters"] {
            let query = format!("select count(*) from {table} where world = '{nowhere}'");
            assert_eq!(rows(&query).await, json!([[0]]), "{query}");
        }
    }
    sql("select count(*) from journal('nobody')").await.refused(404, "WORLD_NOT_FOUND");
    let all = rows("select count(*) from journal").await[0][0].as_u64().unwrap();
    let each = rows("select sum(n) from (select (select count(*) from journal(w.world)) n from worlds w)").await[0][0]
        .as_u64();
    assert_eq!(Some(all), each, "a join hands the world of each row to the journal");
    assert_eq!(rows("select kind, stage, name from effects").await, json!([["external.task", "pending", "alice"]]));
    let timers = rows("select count(*), min(name) from timers where name = 'alice'").await; // the fork keeps its own
    assert_eq!(timers, json!([[1, "alice"]]));
    assert_eq!(rows("select parent, parent_name from lineage").await, json!([[alice, "alice"]]));
    assert!(rows("select count(*) from snapshots('alice')").await[0][0].as_u64() >= Some(1));
    for table in ["attempts", "children", "dead_letters", "workers", "leases"] {
        sql(&format!("select * from {table}")).await.ok(200);
    }
    // Effects are found by their ids, stages and kinds as they are without the conditions.
    server.post(&format!("{W}/alice/call/ask"), &json!({ "key": "x", "kind": "llm.chat", "params": {} })).await.ok(200);
    let effect = rows("select effect from effects where kind = 'llm.chat'").await[0][0].clone();
    let effect = effect.as_str().unwrap();
    for (condition, pushed) in [
        (format!("effect = '{effect}'"), "effect="),
        ("effect = 'nonsense'".to_owned(), "effect="),
        (format!("effect = 'i_{}'", "0".repeat(64)), "effect="),
        ("stage = 'pending'".to_owned(), "stage="),
        ("stage = 'claimed'".to_owned(), "stage="),
        ("stage = 'nonsense'".to_owned(), "stage="),
        ("kind = 'external.task'".to_owned(), "kind="),
    ] {
        let query = format!("select effect, kind from effects where {condition} order by 1");
        let unindexed = rows(&format!("select effect, kind from effects where +{condition} order by 1")).await;
        assert_eq!(rows(&query).await, unindexed, "{query}");
        let plan = rows(&format!("explain query plan {query}")).await;
        assert!(plan[0][3].as_str().is_some_and(|step| step.ends_with(pushed)), "{plan}");
    }
    let found = rows(&format!("select kind, name from effects where effect = '{effect}'")).await;
    assert_eq!(found, json!([["llm.chat", "alice"]]));
    assert_eq!(rows(&format!("select count(*) from attempts where effect = '{effect}'")).await, json!([[0]]));
    let plan = rows("explain query plan select * from journal('alice') where height >= 3").await;
    assert!(plan[0][3].as_str().is_some_and(|step| step.contains("height>=") && step.contains("of=")), "{plan}");

    for bad in ["delete from worlds", "select * from nothing", "selec", "attach 'x' as y", "pragma user_version"] {
        sql(bad).await.refused(400, "SQL_INVALID");
    }
    let forever = "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t";
    let brief = json!({ "query": forever, "timeout_ms": 50 });
    server.post(&format!("{U}/sql"), &brief).await.refused(429, "SQL_TIMEOUT");
    let many = "with recursive t(n) as (select 1 union all select n + 1 from t limit 20000) select n from t";
    sql(many).await.refused(429, "SQL_TOO_LARGE");
    let stream = server.request(Method::POST, &format!("{U}/sql")).header("accept", "application/x-ndjson");
    let text = stream.body(json!({ "query": many }).to_string()).send().await.unwrap().text().await.unwrap();
    assert_eq!((text.lines().count(), text.lines().last()), (20_000, Some("{\"n\":20000}")));
    let csv = server.request(Method::POST, &format!("{U}/sql")).header("accept", "text/csv");
    let csv = csv.body(json!({ "query": "select name, labels from worlds where name = 'bob'" }).to_string());
    let csv = csv.send().await.unwrap();
    assert_eq!(csv.text().await.unwrap(), "name,labels\r\nbob,\"{\"\"team\"\":\"\"y\"\"}\"\r\n");

    server.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    let elsewhere = server.post("/v1/u/other/sql", &json!({ "query": "select count(*) from worlds" })).await.ok(200);
    assert_eq!(elsewhere["rows"], json!([[0]]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_hands_conditions_to_indexes_and_finds_the_same_without_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    for name in ["alice", "bob", "bobby", "carol"] {
        create(&server, name, "counter", json!({})).await;
    }
    server.post(&format!("{W}/bob/call/add"), &json!(1)).await.ok(200);
    let rows =
        async |query: &str| server.post(&format!("{U}/sql"), &json!({ "query": query })).await.ok(200)["rows"].clone();
    let created = rows("select created_at from worlds where name = 'bob'").await[0][0].as_str().unwrap().to_owned();
    let active = rows("select active_at from worlds where name = 'bob'").await[0][0].as_str().unwrap().to_owned();
    let second = format!("{}Z", &created[..19]);
    // With a unary plus SQLite hands a condition to no index.
    for (column, condition, pushed) in [
        ("name", "= 'bob'".to_owned(), "name="),
        ("name", "= 'ALICE' collate nocase".to_owned(), ""),
        ("name", "> 'alice'".to_owned(), "name>"),
        ("name", ">= 'bob' and +name <= 'bobby'".to_owned(), "name>="),
        ("name", "< 'bobby'".to_owned(), "name<"),
        ("name", "<= 'bobby'".to_owned(), "name<="),
        ("name", "glob 'bob*'".to_owned(), "name>="),
        ("name", "like 'BOB%'".to_owned(), ""),
        ("name", "= 'no name!'".to_owned(), "name="),
        ("name", "> 'z'".to_owned(), "name>"),
        ("created_at", format!(">= '{created}'"), "created_at>="),
        ("created_at", format!("> '{created}'"), "created_at>"),
        ("created_at", format!("<= '{created}'"), "created_at<="),
        ("created_at", format!("< '{created}'"), "created_at<"),
        ("created_at", format!("= '{created}'"), "created_at="),
        ("created_at", format!("< '{second}'"), "created_at<"),
        ("created_at", format!(">= '{second}'"), "created_at>="),
        ("created_at", "> '2999'".to_owned(), "created_at>"),
        ("active_at", format!(">= '{active}'"), "active_at>="),
        ("active_at", format!("< '{active}'"), "active_at<"),
    ] {
        let query = format!("select name from worlds where {column} {condition} order by 1");
        let unindexed = rows(&format!("select name from worlds where +{column} {condition} order by 1")).await;
        assert_eq!(rows(&query).await, unindexed, "{query}");
        let plan = rows(&format!("explain query plan {query}")).await;
        let plan = plan[0][3].as_str().unwrap();
        let (_, handed) = plan.rsplit_once(':').unwrap();
        assert!(if pushed.is_empty() { handed.is_empty() } else { handed.contains(pushed) }, "{query}: {plan}");
    }
    assert_eq!(rows("select name from worlds where name = 'ALICE' collate nocase").await, json!([["alice"]]));
    assert_eq!(rows("select count(*) from worlds where created_at > '2001-01-01'").await, json!([[4]]));
    let holder = "select count(*) from leases where world = (select world from worlds where name = 'bob')";
    assert_eq!(rows(holder).await, json!([[1]]));
    assert_eq!(rows("select count(*) from dead_letters where letter = 'effects.q_00'").await, json!([[0]]));
    let plan = rows("explain query plan select * from dead_letters where letter = 'effects.q_00'").await;
    assert!(plan[0][3].as_str().unwrap().ends_with("letter="), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_reads_pools_their_leases_and_resources_and_functions() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    server.post(&format!("{U}/pools"), &json!({ "name": "gpus", "shards": 2 })).await.ok(201);
    let resources =
        json!({ "resources": [{ "resource": "g0", "labels": ["a100"] }, { "resource": "g1" }, { "resource": "g2" }] });
    server.post(&format!("{U}/pools/gpus/resources"), &resources).await.ok(200);
    let reserve = json!({ "label": "a100", "holder": "agent", "ttl_slots": 1_000 });
    let lease = server.post(&format!("{U}/pools/gpus/reserve"), &reserve).await.ok(200);
    let rows =
        async |query: &str| server.post(&format!("{U}/sql"), &json!({ "query": query })).await.ok(200)["rows"].clone();
    assert_eq!(rows("select pool, shards, config ->> 'slot_ms' > 0 from pools").await, json!([["gpus", 2, 1]]));
    let found = rows("select lease_id, pool, state, json_array_length(resource_ids) from pool_leases").await;
    assert_eq!(found, json!([[lease["lease_id"], "gpus", "reserved", 1]]));
    assert_eq!(rows("select count(*) from pool_leases where state = 'active'").await, json!([[0]]));
    assert_eq!(rows("select count(*) from pool_leases where state = 'nonsense'").await, json!([[0]]));
    assert_eq!(rows("select count(*) from pool_leases where pool = 'nothing'").await, json!([[0]]));
    let named = rows("select name, state, lease_id from pool_resources where json_array_length(labels) = 1").await;
    assert_eq!(named, json!([["g0", "reserved", lease["lease_id"]]]));
    assert_eq!(rows("select count(*) from pool_resources").await, json!([[3]]));
    let each = rows("select count(*) from pool_resources where shard = 0 union all select count(*) from pool_resources where shard = 1").await;
    assert_eq!(each[0][0].as_u64().unwrap() + each[1][0].as_u64().unwrap(), 3);
    assert_eq!(rows("select count(*) from functions").await, json!([[0]]));
    create(&server, "k", "kv", json!({})).await;
    let head =
        json!({ "format": 2, "function": "order", "key": "17", "state": "running", "run": 0, "asked": 3, "waits": [] });
    server.post(&format!("{W}/k/call/put"), &json!({ "key": "$fn/i/order/17", "value": head })).await.ok(200);
    let found = rows("select name, instance, state, awaits from functions('k') where function = 'order'").await;
    assert_eq!(found, json!([["k", "order/17", "running", 3]]));
    assert_eq!(rows("select count(*) from functions where function = 'other'").await, json!([[0]]));
    assert_eq!(rows("select count(*) from functions('k', 1)").await, json!([[0]]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_assistant_reaches_no_universe_that_its_token_is_not_for() {
    let folder = tempfile::tempdir().unwrap();
    let (open, server) = Server::start_both(folder.path()).await;
    open.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    create(&open, "mine", "counter", json!({})).await;
    open.post("/v1/u/other/worlds", &json!({ "world": "theirs", "program": "counter" })).await.ok(201);
    let form = json!({ "can": ["read"], "label": "reader", "universe": "other" });
    let token = open.post("/v1/tokens", &form).await.ok(201)["token"].as_str().unwrap().to_owned();
    let ask = async |path: &str| {
        let call = json!({ "name": "find_worlds", "arguments": {} });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
        let request = server.request(Method::POST, path).bearer_auth(&token).body(message.to_string());
        Answer::of(request.send().await.unwrap()).await.ok(200)["result"].clone()
    };
    for own in ["/mcp", "/mcp?universe=other"] {
        assert_eq!(ask(own).await["structuredContent"]["items"][0]["name"], "theirs", "{own}");
    }
    let refused = ask("/mcp?universe=default").await;
    assert!(refused["isError"] == true && refused.to_string().contains("TOKEN_DENIED"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_is_refused_beyond_its_bounds_of_bytes_and_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    let sql = async |query: &str| server.post(&format!("{U}/sql"), &json!({ "query": query })).await;
    // 17 MiB in 17 rows: few rows, many bytes.
    let wide = "with recursive t(n) as (select 1 union all select n + 1 from t limit 17) select n, hex(zeroblob(524288)) from t";
    sql(wide).await.refused(429, "SQL_TOO_LARGE");
    sql(&wide.replace("limit 17", "limit 2")).await.ok(200);
    // What is sorted is kept: 400 MiB of it.
    let sorted = "with recursive t(n) as (select 1 union all select n + 1 from t limit 400) \
                  select count(*) from (select hex(randomblob(524288)) h from t order by h)";
    sql(sorted).await.refused(429, "SQL_TOO_LARGE");
    sql("select 1").await.ok(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_sees_only_its_universe_in_sql_and_in_lists() {
    let folder = tempfile::tempdir().unwrap();
    let (open, server) = Server::start_both(folder.path()).await;
    open.post("/v1/universes", &json!({ "name": "other" })).await.ok(201);
    create(&open, "mine", "counter", json!({})).await;
    open.post("/v1/u/other/worlds", &json!({ "world": "theirs", "program": "counter" })).await.ok(201);
    let form = json!({ "can": ["read"], "label": "reader", "universe": "default" });
    let token = open.post("/v1/tokens", &form).await.ok(201)["token"].as_str().unwrap().to_owned();
    let ask = async |path: &str, query: &str| {
        let request = server.request(Method::POST, path).bearer_auth(&token);
        Answer::of(request.body(json!({ "query": query }).to_string()).send().await.unwrap()).await
    };
    let every = "select name from worlds union all select name from journal union all select name from cells union all select name from leases";
    let seen =
        ask(&format!("{U}/sql"), &format!("select distinct name from ({every}) where name is not null")).await.ok(200);
    assert_eq!(seen["rows"], json!([["mine"]]));
    // By name, by id, and by the name of the other universe: nothing leads there.
    let theirs = "select count(*) from journal('theirs')";
    let refused = ask(&format!("{U}/sql"), theirs).await;
    assert!(refused.status == 404 || refused.status == 400, "{}", refused.text);
    ask("/v1/u/other/sql", "select 1").await.refused(403, "TOKEN_DENIED");
    let events = server.request(Method::GET, "/v1/u/other/events").bearer_auth(&token).send().await.unwrap();
    Answer::of(events).await.refused(403, "TOKEN_DENIED");
    server.post(&format!("{U}/sql"), &json!({ "query": "select 1" })).await.refused(401, "TOKEN_MISSING");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_says_what_it_stands_on_to_those_who_read_all_universes() {
    let folder = tempfile::tempdir().unwrap();
    let (open, guarded) = Server::start_both(folder.path()).await;
    let checkup = open.get("/v1/checkup").await.ok(200);
    assert_eq!((&checkup["engine"], &checkup["objects"]), (&json!("embedded"), &json!("LocalFileSystem")));
    assert_eq!(checkup["roles"], json!(["world", "adapter", "timer", "orchestrator", "watcher", "api"]));
    let finding = |check: &str, found: &str| json!({ "check": check, "verdict": "ok", "found": found, "advice": null });
    let expected = [finding("engine", "embedded, answers"), finding("objects", "LocalFileSystem, answers")];
    assert_eq!(checkup["findings"], json!(expected));
    let ask = async |form: Value| {
        let token = open.post("/v1/tokens", &form).await.ok(201)["token"].as_str().unwrap().to_owned();
        let request = guarded.request(Method::GET, "/v1/checkup").bearer_auth(&token);
        Answer::of(request.send().await.unwrap()).await
    };
    ask(json!({ "can": ["read"] })).await.ok(200);
    ask(json!({ "can": ["metrics"], "universe": "default" })).await.ok(200);
    ask(json!({ "can": ["read", "send", "admin"], "universe": "default" })).await.refused(403, "TOKEN_DENIED");
    guarded.get("/v1/checkup").await.refused(401, "TOKEN_MISSING");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_effects_are_listed_by_stage_and_paused_worlds_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    create(&server, "asks", "kv", json!({})).await;
    for key in ["a", "b"] {
        let ask = json!({ "key": key, "kind": "external.task", "params": {} });
        server.post(&format!("{W}/asks/call/ask"), &ask).await.ok(200);
    }
    let claim = json!({ "kinds": ["external.task"], "limit": 1, "wait": "10s", "ttl": "1h" });
    let claimed = server.post(&format!("{U}/tasks/claim"), &claim).await.ok(200);
    assert_eq!(claimed.as_array().map(Vec::len), Some(1), "{claimed}");
    for (stage, count) in [("pending", 1), ("waiting", 0), ("claimed", 1)] {
        let found = server.get(&format!("{U}/effects?stage={stage}")).await.ok(200);
        let stages: Vec<_> = found["items"].as_array().unwrap().iter().map(|it| it["stage"].clone()).collect();
        assert_eq!(stages, vec![json!(stage); count], "{found}");
    }
    server.get(&format!("{U}/effects?stage=lost")).await.refused(400, "REQUEST_INVALID");
    assert_eq!(server.get(&format!("{U}/summary")).await.ok(200)["worlds"]["paused"], 0);
    server.post(&format!("{W}/asks/pause"), &json!({})).await;
    // It is paused when its next turn took the command.
    while server.get(&format!("{U}/summary")).await.ok(200)["worlds"]["paused"] != 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The next event of a stream.
async fn changed(stream: &mut reqwest::Response, rest: &mut String) -> Vec<String> {
    loop {
        if let Some((event, more)) = rest.clone().split_once("\n\n") {
            *rest = more.to_owned();
            if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data:")) {
                let event: Value = serde_json::from_str(data).unwrap();
                let names = event["changed"].as_array().unwrap().iter();
                return names.map(|name| name.as_str().unwrap().to_owned()).collect();
            }
            continue;
        }
        rest.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().expect("the stream goes on")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_universe_says_what_changes_in_it_and_nothing_while_nothing_does() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).await;
    create(&server, "a", "kv", json!({})).await;
    let (mut stream, mut rest) =
        (server.request(Method::GET, &format!("{U}/events")).send().await.unwrap(), String::new());
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let all = ["worlds", "dead_letters", "workers", "timers"];
    assert_eq!(changed(&mut stream, &mut rest).await, all, "a reader looks once when it connects");
    // Each change is named, whatever is named beside it.
    let mut until = async |name: &str| while !changed(&mut stream, &mut rest).await.contains(&name.to_owned()) {};
    create(&server, "b", "counter", json!({})).await;
    until("worlds").await;
    server.post(&format!("{W}/a/labels"), &json!({ "set": { "tier": "gold" } })).await.ok(200);
    until("worlds").await;
    server.post(&format!("{W}/a/pause"), &Value::Null).await.ok(202);
    until("worlds").await;
    server.post(&format!("{W}/a/resume"), &Value::Null).await.ok(202);
    until("worlds").await;
    server.post(&format!("{W}/a/call/remind"), &json!({ "key": "a", "value": 1, "in_ms": 600_000 })).await.ok(200);
    until("timers").await;
}
