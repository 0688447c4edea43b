use mundi_sdk::testing::TestWorld;
use program::Counter;

#[test]
fn it_counts() {
    let mut world = TestWorld::<Counter>::new();
    assert_eq!(world.send("add", 2).unwrap().reply, Some(2.into()));
    assert_eq!(world.send("add", 3).unwrap().reply, Some(5.into()));
    assert_eq!(world.query("count", ()).unwrap(), 5);
}
