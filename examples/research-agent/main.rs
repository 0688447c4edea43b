//! A planner with three agents under one token budget; and a fork, in which the third one may say more.

mod fake_model;
mod planner;

use mundi::{
    ClientRequest, EffectPolicy, ForkAt, Hash, HttpConfig, LlmConfig, Node, NodeConfig, Programs, Universe, Value,
    WorldId, child::Lane,
};

type Failed = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let llm = LlmConfig {
        base_url: format!("http://{}/v1", fake_model::start()?).parse()?,
        api_key: None,
        model: "fake".to_owned(),
        models_allowed: [].into(),
    };
    let http = HttpConfig { private_hosts_allowed: ["127.0.0.1".to_owned()].into(), ..HttpConfig::default() };
    let programs = Programs::new().native("planner", 1, planner::Planner, planner::declare);
    let config = NodeConfig { llm: Some(llm), http, ..NodeConfig::default() };
    let node = Node::open(folder.path(), programs, config).await?;
    let universe = node.universe("default").ok_or("it is always there")?;
    research(&universe).await?;
    node.drain().await;
    node.stop().await;
    Ok(())
}

async fn research(universe: &Universe) -> Result<(), Failed> {
    let planner = universe.create("planner").await?;
    set_tokens(universe, planner, 150).await?;
    tell(universe, planner, "research", "tea").await?;
    report(universe, planner, "tea").await?;
    tell(universe, planner, "research", "coffee").await?;
    tell(universe, planner, "stop", "coffee").await?;
    report(universe, planner, "coffee").await?;

    let before = universe.ops().describe_world(planner).await?.head.ok_or("it has a journal")?;
    tell(universe, planner, "research", "cocoa").await?;
    report(universe, planner, "cocoa").await?;
    print(&format!("tokens: {}", tokens(universe, planner).await?));

    // As it was before the third agent, with more tokens.
    let (fork, at) = (WorldId::from_bytes([7; 16]), ForkAt::Height(before.height));
    universe.ops().world_fork(planner, fork, at, EffectPolicy::Suppress, now_ns(universe)).await?;
    set_tokens(universe, fork, 1_000).await?;
    tell(universe, fork, "research", "cocoa").await?;
    print("in the fork:");
    report(universe, fork, "cocoa").await?;
    print(&format!("tokens: {}", tokens(universe, fork).await?));
    Ok(())
}

fn now_ns(universe: &Universe) -> u64 {
    universe.plane().clock.now_ns()
}

async fn tell(universe: &Universe, world: WorldId, event: &str, topic: &str) -> Result<(), Failed> {
    universe.send(world, event, Value::Text(topic.to_owned())).await?;
    Ok(())
}

/// Waits until the agent of a topic has ended.
async fn report(universe: &Universe, world: WorldId, topic: &str) -> Result<(), Failed> {
    let said = universe.call(world, "report", Value::Text(topic.to_owned())).await?;
    print(&format!("{topic}: {}", said.to_json()?));
    Ok(())
}

async fn set_tokens(universe: &Universe, world: WorldId, limit: u64) -> Result<(), Failed> {
    let payload = Hash::of(&limit.to_be_bytes());
    let request = ClientRequest { client_request_id: format!("tokens-{limit}"), payload };
    universe.ops().budget_set(world, vec![(Lane::Tokens, Some(limit))], &request).await?;
    Ok(())
}

async fn tokens(universe: &Universe, world: WorldId) -> Result<u64, Failed> {
    let lanes = universe.ops().budget(world).await?;
    Ok(lanes.iter().find(|(lane, _)| *lane == Lane::Tokens).map_or(0, |(_, budget)| budget.total))
}

#[expect(clippy::print_stdout, reason = "this is what the example is for")]
fn print(text: &str) {
    println!("{text}");
}
