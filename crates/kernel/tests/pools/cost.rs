//! What a command costs does not grow with the pool.

use crate::rig::{Pool, holder, new_resource};
use mundi_kernel::{
    lease_kernel::{command::Command, config::PoolConfig},
    manifest::Limits,
};

/// Host calls that every command below makes do with, whatever the size of the pool.
const CALLS_MAX: u64 = 400;

fn cycle(pool: &mut Pool) {
    let any = |count| Command::ReserveAny { label: "a".into(), count, holder_id: Some(holder(1)), ttl_slots: 10 };
    let reserved = pool.run(any(2));
    let lease = reserved.lease_id.expect("two are available");
    assert_eq!(pool.activate(lease, 1, 1), "ok");
    assert_eq!(pool.result(Command::revoke(lease)), "ok");
    assert_eq!(pool.result(Command::Reclaim { lease_id: lease }), "ok");
    let second = pool.run(any(1)).lease_id.expect("one is available");
    assert_eq!(pool.release(second, 1, 1), "ok");
}

#[test]
fn a_command_makes_do_with_the_same_budget_in_a_pool_of_any_size() {
    for size in [100, 20_000] {
        let limits = Limits { step_calls_max: CALLS_MAX, ..Limits::default() };
        let mut pool = Pool::within(PoolConfig::default(), limits);
        for first in (0..size).step_by(5) {
            let resources = (first..first + 5).map(|n| new_resource(n, &["a"])).collect();
            assert_eq!(pool.result(Command::CreateResource { resources }), "ok");
        }
        for _ in 0..50 {
            cycle(&mut pool);
            pool.pass_slots(7);
        }
        // A budget that is too small is noticed: a step that fails gives no outcome, and the helpers above panic.
        let resources = (size..size + 100).map(|n| new_resource(n, &["a"])).collect();
        let request = Command::CreateResource { resources };
        assert!(pool.try_run(request).unwrap_err().contains("BUDGET_EXHAUSTED"));
    }
}
