//! `mundi-client` against the real server, which is killed in between.

use crate::process::Server;
use futures_util::TryStreamExt;
use mundi_client::{Bulk, CallOptions, Children, Error, Failure, Http, Kind, Mundi, QueryOptions};
use reqwest::Method;
use serde_json::{Value, json};
use std::{future::Future, path::Path, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// The same folder and the same address.
fn again(folder: &Path, server: Server) -> Server {
    let host = server.url.trim_start_matches("http://").to_owned();
    server.kill();
    Server::start_with(folder, &[("MUNDI_API__BIND", &host)])
}

async fn until<T, F: Future<Output = T>>(ask: impl Fn() -> F, is_wanted: impl Fn(&T) -> bool) -> T {
    let asking = async {
        loop {
            let found = ask().await;
            if is_wanted(&found) {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking).await.expect("it did not become as wanted")
}

#[tokio::test]
async fn worlds_are_created_called_queried_forked_compared_and_moved() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mundi = Mundi::new(&server.url);
    let counter = json!({ "program": "counter" });
    let alice = mundi.create(Some("alice"), &counter).await?;
    let sent = alice.send("add", &5).await?;
    let options = QueryOptions { at_least: sent["seq"].as_str().map(str::to_owned), ..QueryOptions::default() };
    assert_eq!(alice.query_with::<u64>("count", &Value::Null, options).await?, 5);
    assert_eq!(alice.call::<u64>("add", &7).await?, 12);
    let head = alice.get().await?["head"].as_u64();
    let bob = alice.fork(Some("bob"), &json!({ "at": head })).await?;
    assert_eq!(bob.call::<u64>("add", &1).await?, 13);
    assert_eq!(alice.diff(&[("with", "bob".to_owned())]).await?.len(), 1);
    assert!(alice.verify().await?["records"].as_u64() > Some(0));
    let cells: Vec<Value> = alice.cells("", None).try_collect().await?;
    assert_eq!(alice.cell(cells[0]["key"].as_str().unwrap(), head).await?, cells[0]);
    let records: Vec<Value> = alice.journal(0).try_collect().await?;
    assert_eq!(Some(records.len() as u64), head);
    let long = mundi.create(Some("long"), &counter).await?;
    for _ in 0..120 {
        long.send("add", &1).await?;
    }
    long.call::<u64>("add", &1).await?;
    let records: Vec<Value> = long.journal(0).try_collect().await?;
    assert_eq!(Some(records.len() as u64), long.get().await?["head"].as_u64(), "pages are followed");
    let worlds: Vec<Value> = mundi.list(&[("limit", "1".to_owned())]).try_collect().await?;
    assert_eq!(worlds.len(), 3, "pages are followed");
    let bundle: Vec<_> = alice.export().await?.try_collect().await.unwrap();
    let imported = mundi.import(bundle.concat(), Some("carol")).await?;
    assert!(imported["arrived_at"].as_u64() > Some(0));
    let blob = mundi.put_blob("some bytes").await?;
    assert_eq!(mundi.get_blob(blob["hash"].as_str().unwrap()).await?, "some bytes");
    let missing = mundi.world("nobody").get().await.unwrap_err();
    assert_eq!((&*missing.code, missing.kind, missing.status), ("WORLD_NOT_FOUND", Kind::NotFound, 404));
    assert!(missing.hint.contains("List the worlds"));
    let nobody = Mundi::from(Http::new("http://127.0.0.1:9", None, "default").retry_for(Duration::ZERO));
    assert_eq!(nobody.whoami().await.unwrap_err().kind, Kind::Unreachable);
    Ok(())
}

#[tokio::test]
async fn calls_and_a_followed_journal_survive_kill_9() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mundi = Mundi::new(&server.url);
    let world = mundi.create(Some("storm"), &json!({ "program": "counter" })).await?;
    let calling: Vec<_> = (0..4)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                for _ in 0..25 {
                    world.call::<u64>("add", &1).await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    let following = tokio::spawn({
        let mut records = world.follow(0);
        async move {
            let mut heights = Vec::new();
            while let Some(record) = records.try_next().await? {
                heights.push(record["height"].as_u64().unwrap());
                if record["input"]["value"] == 99 {
                    break;
                }
            }
            Ok::<_, Error>(heights)
        }
    });
    tokio::time::sleep(Duration::from_millis(150)).await;
    let server = again(folder.path(), server);
    for call in calling {
        call.await.unwrap()?;
    }
    assert_eq!(world.call::<u64>("add", &99).await?, 199, "each was made once");
    let heights = following.await.unwrap()?;
    assert_eq!(heights, (0..heights.len() as u64).collect::<Vec<_>>(), "none is missing, none comes twice");

    // A call that is not answered in time goes on by its name, also after the server was killed.
    world.pause().await?;
    until(async || world.get().await, |it| it.as_ref().is_ok_and(|it| it["state"] == "paused")).await?;
    let short = CallOptions { timeout: Some(Duration::from_millis(300)), ..CallOptions::default() };
    let error = world.call_with::<u64>("add", &1, short).await.unwrap_err();
    assert!(error.is_call_timeout());
    let server = again(folder.path(), server);
    world.resume().await?;
    assert_eq!(world.reply::<u64>(error.call().unwrap()).await?, 200);
    drop(server);
    Ok(())
}

#[tokio::test]
async fn a_worker_carries_effects_out_and_stops_gracefully() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let mundi = Mundi::new(&server.url);
    let world = mundi.create(Some("works"), &json!({ "program": "kv" })).await?;
    let stop = Arc::new(Notify::new());
    let worker = mundi.worker().concurrency(4).ttl(Duration::from_millis(1_500)).wait(Duration::from_secs(1));
    let worker = worker.adapter("rust").handle("external.task", async |task| {
        if task.params["final"] == true {
            return Err(Failure::Final("never".to_owned()));
        }
        if task.attempt < 2 && task.params["again"] == true {
            return Err(Failure::Retry("not yet".to_owned(), Some(Duration::from_millis(10))));
        }
        tokio::time::sleep(Duration::from_millis(task.params["sleep_ms"].as_u64().unwrap_or(0))).await;
        Ok(json!({ "doubled": task.params["n"].as_u64().unwrap() * 2 }))
    });
    let working = tokio::spawn({
        let stop = stop.clone();
        worker.run(async move { stop.notified().await })
    });
    let ask = async |key: &str, params: Value| {
        world.call::<Value>("ask", &json!({ "key": key, "kind": "external.task", "params": params })).await
    };
    let got =
        async |key: &str| until(async || world.query::<Value>("get", &key).await.unwrap(), |it| !it.is_null()).await;
    ask("plain", json!({ "n": 1 })).await?;
    ask("again", json!({ "n": 2, "again": true })).await?;
    ask("final", json!({ "n": 3, "final": true })).await?;
    assert_eq!(got("plain").await, json!({ "doubled": 2 }));
    assert_eq!(got("again").await, json!({ "doubled": 4 }));
    got("final").await;

    // Longer than its claim is valid, and the server is killed meanwhile.
    ask("long", json!({ "n": 4, "sleep_ms": 2_500 })).await?;
    let open = async || mundi.effects(&[]).try_collect::<Vec<_>>().await.unwrap();
    until(open, |it| it.iter().any(|effect| effect["stage"] == "claimed")).await;
    server = again(folder.path(), server);
    assert_eq!(got("long").await, json!({ "doubled": 8 }));

    ask("last", json!({ "n": 5, "sleep_ms": 300 })).await?;
    until(open, |it| it.iter().any(|effect| effect["stage"] == "claimed")).await;
    stop.notify_one();
    working.await.unwrap()?;
    assert_eq!(got("last").await, json!({ "doubled": 10 }), "what was begun is answered");
    drop(server);
    Ok(())
}

#[tokio::test]
async fn labels_change_and_worlds_are_commanded_in_bulk_page_by_page() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mundi = Mundi::new(&server.url);
    for n in 0..3 {
        let options = json!({ "program": "counter", "labels": { "fleet": "red", "n": n.to_string() } });
        mundi.create(Some(&format!("bulk-{n}")), &options).await?;
    }
    let changes = [("fleet", Some("blue")), ("tier", Some("gold")), ("n", None)];
    assert_eq!(mundi.world("bulk-0").label(&changes).await?, json!({ "fleet": "blue", "tier": "gold" }));
    let red = [("label", "fleet=red".to_owned())];
    assert_eq!(mundi.count(&red).await?["count"], 2);
    let bulk = Bulk { verb: "pause".to_owned(), filters: json!({ "label": "fleet=red" }), ..Bulk::default() };
    let would: Vec<Value> = mundi.bulk(Bulk { dry_run: true, ..bulk.clone() }).try_collect().await?;
    assert_eq!((would[0]["items"][0]["result"].as_str(), would.len()), (Some("would"), 1));
    // Interrupted after the first page; the second command goes on behind it.
    let one = Bulk { limit: Some(1), ..bulk };
    let first = mundi.bulk(one.clone()).try_next().await?.unwrap();
    let after = first["next"].as_str().map(str::to_owned);
    let rest: Vec<Value> = mundi.bulk(Bulk { after, ..one }).try_collect().await?;
    let items = [first].into_iter().chain(rest).flat_map(|page| page["items"].as_array().cloned().unwrap());
    let mut done: Vec<_> = items.map(|it| (it["name"].clone(), it["result"].clone())).collect();
    done.sort_by_key(|(name, _)| name.to_string());
    assert_eq!(done, [("bulk-1", "done"), ("bulk-2", "done")].map(|(name, result)| (json!(name), json!(result))));
    until(async || mundi.world("bulk-2").get().await, |it| it.as_ref().is_ok_and(|it| it["state"] == "paused")).await?;
    let error = mundi.bulk(Bulk { verb: "delete".to_owned(), filters: json!({}), ..Bulk::default() }).try_next().await;
    assert_eq!(error.unwrap_err().kind, Kind::Invalid, "no filter");
    Ok(())
}

/// A world that may have children.
async fn parent(mundi: &Mundi) -> Result<Children, Error> {
    let programs = mundi.http().ask(Method::GET, &mundi.http().of("programs"), None).await?;
    let kv = programs.as_array().unwrap().iter().find(|program| program["name"] == "kv").unwrap();
    let manifest = json!({ "program": kv["program"], "effects": { "child.spawn": {} } });
    let stored = mundi.http().ask(Method::POST, &mundi.http().of("manifests"), Some(&manifest)).await?;
    Ok(mundi.create(Some("parent"), &json!({ "manifest": stored["hash"] })).await?.children())
}

#[tokio::test]
async fn children_are_spawned_once_followed_past_kill_9_and_cancelled() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mundi = Mundi::new(&server.url);
    let children = parent(&mundi).await?;
    children.set_budget(&json!({ "tokens": 100 })).await?;
    let form = json!({ "kind": "external", "params": { "page": 7 }, "budget": { "tokens": 60 } });
    let first = children.spawn(&form, Some("a")).await?["child_id"].as_str().unwrap().to_owned();
    assert_eq!(children.spawn(&form, Some("a")).await?["child_id"], *first);
    let second = children.spawn(&json!({ "kind": "external" }), None).await?["child_id"].as_str().unwrap().to_owned();
    let listed: Vec<Value> = children.list().map_ok(|child| child["child_id"].clone()).try_collect().await?;
    assert_eq!(listed, [json!(first), json!(second)]);
    let task = async |verb: &str, form: Value| {
        mundi.http().ask(Method::POST, &mundi.http().of(&format!("tasks/children/{verb}")), Some(&form)).await
    };
    let claimed = task("claim", json!({ "kinds": ["external"], "limit": 1, "wait": "10s", "ttl": "1h" })).await?;
    let claim = claimed[0]["claim"].clone();
    task("start", json!({ "claim": claim })).await?;
    let following =
        tokio::spawn(children.follow(&first, 0).map_ok(|it| it["event"].clone()).try_collect::<Vec<Value>>());
    let cancelled = children.cancel(&second, Some("stop")).await?;
    assert_eq!(cancelled, json!({ "outcome": "cancelled", "cancel_request_id": "stop" }));
    let server = again(folder.path(), server);
    let complete = json!({ "claim": claim, "result": { "found": 3 }, "spent": { "tokens": 40 } });
    // Connections of before the restart are still in the pool; the worker repeats its request.
    while let Err(error) = task("complete", complete.clone()).await {
        assert_eq!(error.code, "UNREACHABLE");
    }
    assert_eq!(following.await.unwrap()?, [json!("WORKER_START"), json!("WORKER_PASS")]);
    assert_eq!(children.cancel(&first, None).await?["outcome"], "already_terminal");
    assert_eq!(children.get(&first).await?["outcome"], "passed");
    assert_eq!(children.events(&first, 1).await?.len(), 1);
    let budget = children.budget().await?;
    assert!(budget["lanes"].as_array().unwrap().iter().any(|lane| lane["lane"] == "tokens" && lane["total"] == 40));
    drop(server);
    Ok(())
}

/// As far as no component is needed: instances are cells, and a handler of an event answers as a function would.
#[tokio::test]
async fn functions_are_run_listed_and_described() -> Result<(), Error> {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let mundi = Mundi::new(&server.url);
    let counter = mundi.create(Some("c"), &json!({ "program": "counter" })).await?.functions();
    assert_eq!(counter.run::<u64>("add", "17", &5).await?, 5);
    let world = mundi.create(Some("cells"), &json!({ "program": "kv" })).await?;
    for key in ["17", "18"] {
        let head = json!({ "function": "order", "key": key, "state": "running", "asked": 1, "run": 0, "waits": [[1, "effect", "stock.reserve", 5]] });
        world.call::<Value>("put", &json!({ "key": format!("$fn/i/order/{key}"), "value": head })).await?;
    }
    let functions = world.functions();
    let listed: Vec<Value> = functions.list(&[("limit", "1".to_owned())]).try_collect().await?;
    assert_eq!(listed.iter().map(|it| &it["instance"]).collect::<Vec<_>>(), ["order/17", "order/18"]);
    let head = world.get().await?["head"].as_u64();
    assert_eq!(functions.describe("order/17", None).await?["waits"][0]["name"], "stock.reserve");
    assert_eq!(functions.describe("order/17", head).await?["state"], "running");
    for refused in [
        functions.cancel("order/19", Some("no")).await,
        functions.pause("order/19").await,
        functions.resume("order/19").await,
    ] {
        assert_eq!(refused.unwrap_err().code, "FUNCTION_NOT_FOUND");
    }
    Ok(())
}
