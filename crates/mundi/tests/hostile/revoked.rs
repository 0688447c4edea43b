//! A token that is revoked while something is done with it.

use crate::{
    member::{Fleet, Member},
    process::{Server, client},
    scaled,
};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use std::time::Duration;

/// Far beyond what it takes on a busy machine, and far below the 300 s for which a stream is held open.
const LONG: Duration = Duration::from_secs(60);

/// The live tail of a world, from which something was read already.
async fn tail(client: &Client, url: &str, token: &str) -> Response {
    let request = client.get(format!("{url}/v1/u/default/worlds/c/journal")).bearer_auth(token);
    let mut response = request.header("accept", "text/event-stream").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.chunk().await.unwrap().is_some());
    response
}

async fn ends(mut response: Response) {
    let ended = async { while let Ok(Some(_)) = response.chunk().await {} };
    tokio::time::timeout(LONG, ended).await.expect("the stream of a revoked token ends");
}

/// A machine that is busy may keep a stream from ending in its time, not again and again.
const TRIES: usize = 5;

/// By the order of events: a stream of a token that was just revoked ends before a timer of one second fires that was set afterwards.
async fn ends_before_a_second(client: &Client, [revokes, streams]: [&str; 2]) -> bool {
    let post = async |path: &str, body: Value| {
        let answer = client.post(format!("{revokes}/v1{path}")).body(body.to_string()).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {text}");
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let made = post("/tokens", json!({ "can": ["read"] })).await;
    let (id, token) = (made["id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let stream = tail(client, streams, token).await;
    assert_eq!(client.delete(format!("{revokes}/v1/tokens/{id}")).send().await.unwrap().status(), 204);
    post("/u/default/worlds/t/call/remind", json!({ "key": id, "value": 1, "in_ms": 1_000 })).await;
    let fired = async {
        while post("/u/default/worlds/t/query/get", json!(id)).await.is_null() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        biased;
        () = ends(stream) => true,
        () = fired => false,
    }
}

async fn one_of_some_ends_before_a_second(client: &Client, members: [&str; 2]) {
    for _ in 0..TRIES {
        if ends_before_a_second(client, members).await {
            return;
        }
    }
    panic!("{TRIES} times in a row a timer of one second fired before the stream of a revoked token had ended");
}

#[tokio::test]
async fn a_stream_ends_within_a_second_after_its_token_was_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    for (world, program) in [("c", "counter"), ("t", "kv")] {
        server.post("/v1/u/default/worlds", &json!({ "world": world, "program": program })).await.ok(201);
    }
    one_of_some_ends_before_a_second(&server.client, [&server.url, &server.url]).await;
}

#[tokio::test]
async fn whatever_is_done_with_a_revoked_token_ends_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    server.post("/v1/u/default/worlds", &json!({ "world": "c", "program": "counter" })).await.ok(201);
    for _ in 0..scaled(1) {
        revoke_in_use(&server).await;
    }
}

async fn revoke_in_use(server: &Server) {
    let make = async || server.post("/v1/tokens", &json!({ "can": ["read", "work", "send", "admin"] })).await.ok(201);
    let (bad, good) = (make().await, make().await);
    let [bad_token, good_token] = [&bad, &good].map(|made| made["token"].as_str().unwrap().to_owned());
    let streams = [tail(&server.client, &server.url, &bad_token).await, tail(&client(), &server.url, &bad_token).await];
    let mut kept = tail(&server.client, &server.url, &good_token).await;
    let claim = server.client.post(format!("{}/v1/u/default/tasks/claim", server.url)).bearer_auth(&bad_token);
    let claim = claim.body(json!({ "kinds": ["external.task"], "wait": "300s" }).to_string()).send();
    let claim = tokio::spawn(tokio::time::timeout(LONG, claim));
    server.delete(&format!("/v1/tokens/{}", bad["id"].as_str().unwrap())).await.ok(204);
    for stream in streams {
        ends(stream).await;
    }
    let claim = claim.await.unwrap().expect("who waits with a revoked token is cut off");
    assert!(claim.is_err() || claim.unwrap().status() == 401);
    // The other one continues: what happens now is seen there.
    server.post("/v1/u/default/worlds/c/call/add", &json!(1)).await.ok(200);
    let seen = tokio::time::timeout(LONG, async {
        let mut text = String::new();
        while !text.contains("\"event\":\"add\"") {
            text.push_str(&String::from_utf8_lossy(&kept.chunk().await.unwrap().unwrap()));
        }
    });
    seen.await.expect("a token that was not revoked keeps its stream");
    // A token that revokes itself is notified that it did.
    let own = server.client.delete(format!("{}/v1/tokens/{}", server.url, good["id"].as_str().unwrap()));
    assert_eq!(own.bearer_auth(&good_token).send().await.unwrap().status(), 204);
    ends(kept).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_revoked_in_every_process_of_a_fleet() {
    let fleet = Fleet::start(Duration::from_secs(5));
    let [mut one, mut other] = [fleet.member("api,world,adapter,timer,orchestrator"), fleet.member("api")];
    fleet.launch(&mut one);
    fleet.launch(&mut other);
    let client = client();
    let post = async |member: &Member, path: &str, body: Value| {
        let answer = client.post(format!("{}{path}", member.url)).body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        serde_json::from_str::<Value>(&answer.text().await.unwrap()).unwrap()
    };
    for (world, program) in [("c", "counter"), ("t", "kv")] {
        post(&one, "/v1/u/default/worlds", json!({ "world": world, "program": program })).await;
    }
    let made = post(&one, "/v1/tokens", json!({ "can": ["read"] })).await;
    let token = made["token"].as_str().unwrap();
    let streams = [tail(&client, &one.url, token).await, tail(&client, &other.url, token).await];
    let revoke = client.delete(format!("{}/v1/tokens/{}", one.url, made["id"].as_str().unwrap()));
    assert_eq!(revoke.send().await.unwrap().status(), 204);
    for stream in streams {
        ends(stream).await;
    }
    one_of_some_ends_before_a_second(&client, [&one.url, &other.url]).await;
}
