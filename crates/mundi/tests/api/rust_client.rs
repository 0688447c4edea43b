//! `mundi-client` against the real server, which is killed in between.

use crate::process::Server;
use futures_util::TryStreamExt;
use mundi_client::{CallOptions, Error, Failure, Http, Kind, Mundi, QueryOptions};
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
