use crate::{
    call, field, params,
    server::{Asked, Server},
};
use mundi_adapters::{
    http::{HttpAdapter, HttpConfig},
    llm::{LlmAdapter, LlmConfig},
};
use mundi_model::{Code, Value};
use mundi_runtime::effects::Adapter;
use mundi_store::protocol::Repeat;
use serde_json::json;

const STREAM: &str = r#"data: {"model":"small-1","choices":[{"delta":{"content":"four"}}]}

data: {"choices":[{"delta":{"content":"ty-two"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}

data: [DONE]

"#;

fn respond(asked: &Asked) -> (String, Vec<u8>) {
    let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
    match body["messages"][0]["content"].as_str() {
        Some("refuse") => ("400 Bad Request".into(), br#"{"error":"no"}"#.to_vec()),
        Some("crash") => ("500 Internal Server Error".into(), Vec::new()),
        Some("break") => ("200 OK".into(), STREAM.as_bytes()[..100].to_vec()),
        _ => ("200 OK\r\ncontent-type: text/event-stream".into(), STREAM.as_bytes().to_vec()),
    }
}

fn adapter(server: &Server) -> LlmAdapter {
    let allowed = ["127.0.0.1".to_owned()].into();
    let http = HttpAdapter::new(HttpConfig { private_hosts_allowed: allowed, ..HttpConfig::default() }).unwrap();
    let config = LlmConfig {
        base_url: server.url("/v1").parse().unwrap(),
        api_key: Some("sk-secret".into()),
        model: "small".into(),
        models_allowed: ["large".to_owned()].into(),
    };
    LlmAdapter::new(http, config)
}

fn ask(content: &str) -> Value {
    params(json!({ "messages": [{ "role": "user", "content": content }], "options": { "temperature": 0 } }))
}

#[tokio::test]
async fn a_streamed_answer_is_collected_with_its_usage() {
    let server = Server::start(respond).await;
    let answer = adapter(&server).call(&call("llm.chat", ask("6 x 7?"))).await.unwrap();
    assert_eq!(*field(&answer, "content"), Value::Text("fourty-two".into()));
    assert_eq!(*field(&answer, "model"), Value::Text("small-1".into()));
    assert_eq!(*field(&answer, "finish_reason"), Value::Text("stop".into()));
    assert_eq!(*field(field(&answer, "usage"), "total_tokens"), Value::Integer(7u8.into()));
    assert!(!format!("{answer:?}").contains("secret"));

    let asked = server.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(asked.headers["authorization"], "Bearer sk-secret");
    let body: serde_json::Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!((&body["model"], &body["stream"], &body["temperature"]), (&json!("small"), &json!(true), &json!(0)));
}

#[tokio::test]
async fn only_models_of_the_configuration_are_asked() {
    let server = Server::start(respond).await;
    let with = |model: &str| params(json!({ "messages": [], "model": model }));
    assert!(adapter(&server).call(&call("llm.chat", with("large"))).await.is_ok());
    let failure = adapter(&server).call(&call("llm.chat", with("huge"))).await.unwrap_err();
    assert_eq!((failure.code, failure.repeat), (Code::EffectDenied, Repeat::Never));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_final_and_a_broken_stream_is_not() {
    let server = Server::start(respond).await;
    for (content, repeat) in [("refuse", Repeat::Never), ("crash", Repeat::Backoff), ("break", Repeat::Backoff)] {
        let failure = adapter(&server).call(&call("llm.chat", ask(content))).await.unwrap_err();
        assert_eq!((failure.code, failure.repeat), (Code::EffectFailed, repeat), "{content}: {}", failure.reason);
        assert!(!failure.reason.contains("secret"));
    }
}
