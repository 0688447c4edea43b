use chat_agent::Agent;
use mundi_sdk::{
    Bytes, Failure, Value,
    testing::{DurableWorld, Step, for_each_crash},
};
use serde_json::json;

/// The model says something, or wants pages.
fn says(content: &str, urls: &[&str]) -> Value {
    let call = |url: &&str| json!({ "id": url, "name": "fetch", "arguments": json!({ "url": url }).to_string() });
    let calls: Vec<Value> = urls.iter().map(call).collect();
    json!({ "model": "fake", "content": content, "finish_reason": null, "tool_calls": calls, "usage": null })
}

/// What the model is told in a step.
fn told(step: &Step) -> Vec<Value> {
    let messages = step.intents[0].params["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].clone()).collect()
}

fn asked(world: &mut DurableWorld<Agent>) -> Result<Step, Failure> {
    world.run("ask", "Where is it warmer?", "one")?;
    world.answer("llm.chat", says("Let me see.", &["http://a", "http://b"]))?;
    let page = json!({ "status": 200, "headers": {}, "body": Bytes::from("21 degrees") });
    world.answer("http.request", page)?;
    world.fail_effect("http.request", "EFFECT_FAILED", "no route")
}

#[test]
fn both_pages_are_fetched_and_the_model_hears_of_the_one_that_failed() {
    let mut world = DurableWorld::new();
    let step = asked(&mut world).unwrap();
    let told = told(&step);
    assert_eq!(told[..3], ["Where is it warmer?", "Let me see.", "21 degrees"]);
    assert!(told[3].as_str().unwrap().contains("no route"), "{told:?}");
    world.answer("llm.chat", says("At the first place.", &[])).unwrap();
    let instance = world.instance("ask", "one").unwrap();
    assert_eq!(instance.result, Some("At the first place.".into()));
    assert_eq!(instance.asks, ["effect llm.chat", "effect http.request", "effect http.request", "effect llm.chat"]);
}

#[test]
fn the_model_is_not_asked_twice_whenever_the_process_dies() {
    let steps = for_each_crash::<Agent>(|world| {
        asked(world)?;
        world.answer("llm.chat", says("At the first place.", &[])).map(drop)
    });
    assert_eq!(steps.unwrap(), 5);
}
