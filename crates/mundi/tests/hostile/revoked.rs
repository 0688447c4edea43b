//! A token that is revoked while something is done with it.

use crate::{
    member::{Fleet, Member},
    process::{Server, client},
    scaled,
};
use reqwest::{Client, Response};
use serde_json::json;
use std::time::{Duration, Instant};

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
    let post = async |member: &Member, path: &str, body: serde_json::Value| {
        let answer = client.post(format!("{}{path}", member.url)).body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 201);
        serde_json::from_str::<serde_json::Value>(&answer.text().await.unwrap()).unwrap()
    };
    post(&one, "/v1/u/default/worlds", json!({ "world": "c", "program": "counter" })).await;
    let made = post(&one, "/v1/tokens", json!({ "can": ["read"] })).await;
    let token = made["token"].as_str().unwrap();
    let streams = [tail(&client, &one.url, token).await, tail(&client, &other.url, token).await];
    let revoke = client.delete(format!("{}/v1/tokens/{}", one.url, made["id"].as_str().unwrap()));
    assert_eq!(revoke.send().await.unwrap().status(), 204);
    #[expect(clippy::disallowed_methods, reason = "how long it took is printed, and nothing depends on it")]
    let since = Instant::now();
    for (stream, process) in streams.into_iter().zip(["that revoked", "beside it"]) {
        ends(stream).await;
        eprintln!("the stream of the process {process} ended {:?} after the token was revoked", since.elapsed());
    }
}
