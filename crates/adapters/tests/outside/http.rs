use crate::{
    call, field, params,
    server::{Asked, Server},
};
use mundi_adapters::http::{HttpAdapter, HttpConfig};
use mundi_model::{Code, Height, IntentHash, Value, WorldId, pool::LeaseId};
use mundi_runtime::effects::{Adapter, Call};
use mundi_store::{
    keyspace::effect_pending::EffectLease,
    protocol::{Failure, Repeat},
};
use serde_json::json;
use std::time::Duration;

fn respond(asked: &Asked) -> (String, Vec<u8>) {
    let path = asked.line.split(' ').nth(1).unwrap_or_default();
    match path {
        "/hello" => ("200 OK\r\nx-answer: yes".into(), asked.body.clone().into_bytes()),
        "/missing" => ("404 Not Found".into(), b"no".to_vec()),
        "/busy" => ("503 Service Unavailable\r\nretry-after: 7".into(), Vec::new()),
        "/large" => ("200 OK".into(), vec![b'x'; 5_000]),
        "/here" => ("302 Found\r\nlocation: /hello".into(), Vec::new()),
        "/loop" => ("302 Found\r\nlocation: /loop".into(), Vec::new()),
        "/keep" => ("307 Temporary Redirect\r\nlocation: /hello".into(), Vec::new()),
        "/metadata" => ("302 Found\r\nlocation: http://169.254.169.254/latest".into(), Vec::new()),
        "/localhost" => ("302 Found\r\nlocation: http://localhost:1/".into(), Vec::new()),
        _ => ("500 Internal Server Error".into(), Vec::new()),
    }
}

/// An adapter that may reach the test's server.
fn allowing() -> HttpAdapter {
    HttpAdapter::new(HttpConfig {
        private_hosts_allowed: ["127.0.0.1".to_owned()].into(),
        body_bytes_max: 1_000,
        redirects_max: 3,
        read_timeout: Duration::from_millis(200),
        ..HttpConfig::default()
    })
    .unwrap()
}

async fn get(adapter: &HttpAdapter, url: &str) -> Result<Value, Failure> {
    adapter.call(&call("http.request", params(json!({ "url": url })))).await
}

/// The other side compares them, so a program cannot choose them.
#[tokio::test]
async fn a_request_under_a_lease_says_which_and_no_other_does() {
    let server = Server::start(respond).await;
    let lease_id = LeaseId::new(0, Height::new(7));
    let world = WorldId::from_bytes([9; 16]);
    let lease = EffectLease { pool: "gpus".into(), world, lease_id, lease_epoch: 3 };
    let forged = json!({ "Mundi-Lease": "gpus/l_x", "mundi-lease-epoch": "9" });
    for lease in [Some(lease), None] {
        let request = params(json!({ "url": server.url("/hello"), "headers": forged }));
        let is_leased = lease.is_some();
        allowing().call(&Call { lease, ..call("http.request", request) }).await.unwrap();
        let asked = server.asked().pop().unwrap();
        let expected = is_leased.then(|| (format!("gpus/{lease_id}"), "3".to_owned()));
        let said = asked.headers.get("mundi-lease").cloned().zip(asked.headers.get("mundi-lease-epoch").cloned());
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_asked_with_the_intent_as_its_key() {
    let server = Server::start(respond).await;
    let request = json!({
        "url": server.url("/hello"), "method": "POST", "headers": { "x-question": "what", "Idempotency-Key": "mine" },
        "body": "body",
    });
    let answer = allowing().call(&call("http.request", params(request))).await.unwrap();
    assert_eq!(*field(&answer, "status"), Value::Integer(200u16.into()));
    assert_eq!(*field(&answer, "body"), Value::Bytes(b"body".to_vec()));
    assert_eq!(*field(field(&answer, "headers"), "x-answer"), Value::Text("yes".into()));
    let asked = server.asked().remove(0);
    assert_eq!(asked.line, "POST /hello HTTP/1.1");
    assert_eq!(asked.headers["idempotency-key"], IntentHash::of(b"intent").to_string());
    assert_eq!(asked.headers["x-question"], "what");
}

#[tokio::test]
async fn a_status_is_an_answer_and_a_busy_server_is_tried_again() {
    let server = Server::start(respond).await;
    let answer = get(&allowing(), &server.url("/missing")).await.unwrap();
    assert_eq!(*field(&answer, "status"), Value::Integer(404u16.into()));
    let failure = get(&allowing(), &server.url("/busy")).await.unwrap_err();
    assert_eq!((failure.code, failure.repeat), (Code::EffectFailed, Repeat::AfterMs(7_000)));
}

#[tokio::test]
async fn an_answer_beyond_the_bound_is_refused() {
    let server = Server::start(respond).await;
    let failure = get(&allowing(), &server.url("/large")).await.unwrap_err();
    assert_eq!((failure.code, failure.repeat), (Code::EffectAnswerTooLarge, Repeat::Never));
}

#[tokio::test]
async fn a_silent_server_and_a_closed_port_may_be_tried_again() {
    let server = Server::start(respond).await;
    for url in [server.url("/hang"), "http://127.0.0.1:1/".to_owned()] {
        let failure = get(&allowing(), &url).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::EffectFailed, Repeat::Backoff), "{url}");
    }
}

#[tokio::test]
async fn redirects_are_followed_within_their_bound() {
    let server = Server::start(respond).await;
    let answer = get(&allowing(), &server.url("/here")).await.unwrap();
    assert_eq!(*field(&answer, "status"), Value::Integer(200u16.into()));
    let request = json!({ "url": server.url("/keep"), "method": "PUT", "body": "kept" });
    let answer = allowing().call(&call("http.request", params(request))).await.unwrap();
    assert_eq!(*field(&answer, "body"), Value::Bytes(b"kept".to_vec()));
    assert_eq!(get(&allowing(), &server.url("/loop")).await.unwrap_err().code, Code::EffectDenied);
    assert_eq!(server.asked().len(), 2 + 2 + 4);
}

#[tokio::test]
async fn private_addresses_are_denied_by_number_by_name_and_by_redirect() {
    let server = Server::start(respond).await;
    let strict = HttpAdapter::new(HttpConfig::default()).unwrap();
    let port = server.address.port();
    for url in [
        server.url("/hello"),
        format!("http://localhost:{port}/hello"),
        format!("http://[::1]:{port}/hello"),
        format!("http://[::ffff:127.0.0.1]:{port}/hello"),
        format!("http://2130706433:{port}/hello"),
        "http://169.254.169.254/".to_owned(),
        "ftp://127.0.0.1/".to_owned(),
    ] {
        let failure = get(&strict, &url).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::EffectDenied, Repeat::Never), "{url}");
    }
    assert!(server.asked().is_empty(), "nothing was sent");
    for path in ["/metadata", "/localhost"] {
        assert_eq!(get(&allowing(), &server.url(path)).await.unwrap_err().code, Code::EffectDenied, "{path}");
    }
}

#[tokio::test]
async fn headers_stay_with_the_host_that_they_were_meant_for() {
    let target = Server::start(respond).await;
    // The second server sends everyone to the first; its address is in the path, because a handler knows no state.
    let elsewhere = Server::start(|asked| {
        let port = asked.line.split(['/', ' ']).nth(2).unwrap_or_default();
        (format!("307 Temporary Redirect\r\nlocation: http://127.0.0.1:{port}/hello"), Vec::new())
    })
    .await;
    let url = elsewhere.url(&format!("/{}", target.address.port()));
    let request = json!({ "url": url, "headers": { "authorization": "secret" } });
    allowing().call(&call("http.request", params(request))).await.unwrap();
    assert_eq!(elsewhere.asked()[0].headers["authorization"], "secret");
    assert!(!target.asked()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_name_and_a_password_in_the_url_are_sent_as_a_header() {
    let server = Server::start(respond).await;
    let url = format!("http://ada:l%C3%B6ve@{}/hello", server.address);
    get(&allowing(), &url).await.unwrap();
    let asked = server.asked().remove(0);
    assert_eq!(asked.headers["authorization"], "Basic YWRhOmzDtnZl");
    assert_eq!(asked.headers["host"], server.address.to_string());
}

#[tokio::test]
async fn parameters_that_make_no_request_are_invalid() {
    for request in [
        json!({}),
        json!({ "url": "not a url" }),
        json!({ "url": "http://example.com", "method": "a b" }),
        json!({ "url": "http://example.com", "headers": { "a b": "c" } }),
        json!([]),
    ] {
        let failure = allowing().call(&call("http.request", params(request.clone()))).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::EffectParamsInvalid, Repeat::Never), "{request}");
    }
}
