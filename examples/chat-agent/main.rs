//! An agent: a model that may use a tool, in a world that forgets nothing.

mod agent;
#[allow(unreachable_pub, reason = "elsewhere the same source is a crate of its own")]
#[path = "durable/rust/src/lib.rs"]
mod durable;
mod fake_model;

use mundi::{HttpConfig, LlmConfig, Node, NodeConfig, Programs, Value};
use mundi_native::Native;

type Failed = Box<dyn std::error::Error>;

/// A real endpoint if one is named, else the one that comes along.
fn model() -> Result<(LlmConfig, HttpConfig), Failed> {
    let base_url = match std::env::var("OPENAI_BASE_URL") {
        Ok(url) => url,
        Err(_) => format!("http://{}/v1", fake_model::start()?),
    };
    let config = LlmConfig {
        base_url: base_url.parse()?,
        api_key: std::env::var("OPENAI_API_KEY").ok(),
        model: std::env::var("MODEL").unwrap_or_else(|_| "fake".to_owned()),
        models_allowed: [].into(),
    };
    // What runs on this machine is reached only because it is allowed here by name.
    let http = HttpConfig { private_hosts_allowed: ["127.0.0.1".to_owned()].into(), ..HttpConfig::default() };
    Ok((config, http))
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let (flags, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument == "--durable");
    let question = words.into_iter().next().unwrap_or_else(|| "How warm is it in Lisbon?".to_owned());
    let folder = tempfile::tempdir()?;
    let (llm, http) = model()?;
    let programs = if flags.is_empty() {
        Programs::new().native("agent", 1, agent::Agent, agent::declare)
    } else {
        Programs::new().native("agent", 1, Native::<durable::Agent>::default(), agent::declare)
    };
    let config = NodeConfig { llm: Some(llm), http, ..NodeConfig::default() };
    let node = Node::open(folder.path(), programs, config).await?;
    let universe = node.universe("default").ok_or("it is always there")?;
    let conversation = universe.create("agent").await?;
    let answer = universe.call(conversation, "ask", Value::Text(question)).await?;
    print(&answer.to_json()?.to_string());
    node.drain().await;
    node.stop().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn print(text: &str) {
    println!("{text}");
}
