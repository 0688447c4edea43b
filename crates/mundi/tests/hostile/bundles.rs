//! Bundles of a forger, who computes every checksum again, and bundles that expand.

use crate::{
    process::{Answer, Server},
    scaled,
};
use mundi_model::Value;
use mundi_sim::forgery::{bomb, with_header};
use reqwest::Method;
use serde_json::json;

const U: &str = "/v1/u/default";

async fn exported(server: &Server) -> Vec<u8> {
    server.post(&format!("{U}/worlds"), &json!({ "world": "c", "program": "counter" })).await.ok(201);
    for _ in 0..10 {
        server.post(&format!("{U}/worlds/c/call/add"), &json!(1)).await.ok(200);
    }
    let answer = server.request(Method::GET, &format!("{U}/worlds/c/bundle")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.bytes().await.unwrap().to_vec()
}

async fn import(server: &Server, name: &str, file: Vec<u8>) -> Answer {
    let request = server.request(Method::POST, &format!("{U}/bundles?world={name}"));
    let request = request.header("content-type", "application/octet-stream").body(file);
    Answer::of(request.send().await.unwrap()).await
}

#[tokio::test]
async fn a_forged_bundle_is_refused_and_what_no_record_proves_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = exported(&server).await;
    let world = "forged";
    let chain = with_header(&file, |fields| fields[4] = Value::Bytes(vec![7; 32])).unwrap();
    let head = with_header(&file, |fields| fields[3] = Value::Integer(3u64.into())).unwrap();
    let other = with_header(&file, |fields| fields[2] = Value::Bytes(vec![7; 16])).unwrap();
    for forged in [chain, head, other] {
        let answer = import(&server, world, forged).await;
        let status = answer.status.as_u16();
        assert!((400..500).contains(&status), "{status}: {}", answer.text);
        assert!(answer.json["code"].as_str().unwrap().starts_with("BUNDLE_"), "{}", answer.text);
    }
    assert_eq!(server.get(&format!("{U}/worlds/{world}")).await.status, 404);
    // The name and the labels are the exporter's.
    let renamed = with_header(&file, |fields| fields[7] = Value::Text("mallory".into())).unwrap();
    let imported = import(&server, world, renamed).await.ok(201);
    assert_eq!(imported["proof"]["unproven"], json!(["name", "labels", "children"]));
    let proof = server.post(&format!("{U}/worlds/c/verify"), &json!({})).await.ok(200);
    assert_eq!(proof.get("unproven"), None, "all of a world is proven");
}

#[tokio::test]
async fn a_bundle_that_expands_is_refused_before_it_fills_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let file = exported(&server).await;
    let file = bomb(&file, scaled(24)).unwrap();
    assert!(file.len() < 600_000, "{} bytes, of which there are a hundred million", file.len());
    import(&server, "b", file).await.refused(400, "BUNDLE_TOO_LARGE");
    server.get("/livez").await.ok(200);
}
