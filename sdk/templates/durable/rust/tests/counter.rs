use mundi_sdk::testing::{DurableWorld, TestWorld};
use program::Counter;
use serde_json::json;

#[test]
fn it_counts() {
    let mut world = TestWorld::<Counter>::new();
    assert_eq!(world.send("add", 2).unwrap().reply, Some(2.into()));
    assert_eq!(world.send("add", 3).unwrap().reply, Some(5.into()));
    assert_eq!(world.query("count", ()).unwrap(), 5);
}

#[test]
fn it_counts_later() {
    let mut world = DurableWorld::<Counter>::new();
    let begun = world.run("later", json!({ "by": 3, "after": "1h" }), "one").unwrap();
    assert_eq!((begun.state.as_str(), begun.status), ("running", Some("adds 3 after 1h".into())));
    world.skip("1h").unwrap();
    assert_eq!(world.instance("later", "one").unwrap().result, Some(3.into()));
}
