use mundi_sdk::{Status, kinds::{HttpRequest, HttpResponse}, testing::TestWorld};
use serde_json::json;
use todo_agent::TodoAgent;

fn world() -> TestWorld<TodoAgent> {
    let mut world = TestWorld::new();
    world.send("setup", json!({ "service": "http://service/minutes", "notify": "boss", "remind_ms": 1000 })).unwrap();
    world
}

fn answer(status: u16, body: &str) -> HttpResponse {
    HttpResponse { status, headers: Default::default(), body: body.into() }
}

#[test]
fn a_todo_is_estimated_answered_announced_and_reminded() {
    let mut world = world();
    let step = world.send("add", json!({ "id": "tea", "text": "make tea" })).unwrap();
    let asked: HttpRequest = step.intents[0].read().unwrap();
    assert_eq!((&*asked.url, asked.body.unwrap().text().unwrap()), ("http://service/minutes", r#"{"text":"make tea"}"#));
    let step = world.receipt("minutes/tea", Status::Ok, answer(200, r#"{"minutes":5}"#)).unwrap();
    assert_eq!(step.replies.into_values().collect::<Vec<_>>(), [json!({ "id": "tea", "state": "planned", "minutes": 5 })]);
    assert_eq!((&*step.sent[0].to, &step.sent[0].value), ("boss", &json!({ "id": "tea", "what": "planned" })));
    let step = world.fire("remind/tea").unwrap();
    assert_eq!(step.sent[0].value, json!({ "id": "tea", "what": "reminded" }));
    assert_eq!(world.query("todos", ()).unwrap()["tea"]["state"], "reminded");
}

#[test]
fn a_service_that_fails_is_told_to_the_caller() {
    let mut world = world();
    for (id, answered) in [("a", answer(500, "")), ("b", answer(200, "no json"))] {
        world.send("add", json!({ "id": id, "text": "x" })).unwrap();
        let step = world.receipt(&format!("minutes/{id}"), Status::Ok, answered).unwrap();
        assert_eq!(step.replies.into_values().next().unwrap()["state"], "failed");
        assert!(step.sent.is_empty() && step.timers.is_empty());
    }
    world.send("add", json!({ "id": "c", "text": "x" })).unwrap();
    world.fail("minutes/c", "EFFECT_DENIED", "10.0.0.1 is not a public address").unwrap();
    assert_eq!(world.query("todos", ()).unwrap()["c"]["state"], "failed");
    assert_eq!(world.send("add", json!({ "id": "Not an id", "text": "x" })).unwrap_err().code, "EVENT_INVALID");
}
