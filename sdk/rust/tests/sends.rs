//! The options that a program gives with a message, and those that it receives with one.

use mundi_sdk::{Cause, Event, Failure, Origin, Outgoing, Program, SendOptions, World, testing::TestWorld};
use serde_json::json;

/// Sends each event on, with the headers that it came with and its correlation id.
struct Relay;

impl Program for Relay {
    const OFFER: &'static str = r#"{"events": {"go": true}, "effects": {"fabric.send": {"message_ids": true}}}"#;

    fn handle(world: &mut World, event: &Event) -> Result<(), Failure> {
        let options = SendOptions {
            universe: Some("u_00000000000000000000000002".to_owned()),
            correlation_id: event.origin.correlation_id.clone(),
            headers: world.headers(),
            message_id: Some(format!("h_{:064}", 1)),
        };
        world.send_with("bob", &Outgoing::event("on", &7)?, &options, "on")
    }
}

#[test]
fn a_program_sets_and_hears_correlation_headers_universe_and_message_id() {
    let mut world = TestWorld::<Relay>::new();
    let origin = Origin { correlation_id: Some("order 7".to_owned()), ..Origin::default() };
    let cause = Cause::Event { schema: "go".to_owned(), value: vec![0xf6], key: None };
    let step = world.arrive(cause, origin, vec![("tenant".to_owned(), "a".to_owned())]).unwrap();
    let sent = &step.sent[0];
    assert_eq!((&*sent.to, sent.schema.as_deref(), &sent.value), ("bob", Some("on"), &json!(7)));
    assert_eq!(sent.options.universe.as_deref(), Some("u_00000000000000000000000002"));
    assert_eq!(sent.options.correlation_id.as_deref(), Some("order 7"));
    assert_eq!(sent.options.headers, [("tenant".to_owned(), "a".to_owned())]);
    assert_eq!(sent.options.message_id, Some(format!("h_{:064}", 1)));
    assert_eq!((&*step.intents[0].kind, &step.intents[0].params["dest_world"]), ("fabric.send", &json!("bob")));
}
