//! A node crashes at every await on the way from an input to all its answers.
//!
//! Which point it was is told by what it left behind. Points 2 and 3 (after the drain and before the append, after the
//! append and before the cursor) cannot be distinguished from outside, because a turn is one transaction: head and cursor
//! move together or not at all, which is what is checked. For the same reason a timer is due or delivered, never between.

use crate::rig::{Outside, check, count, ops, start_with, tell, with_worlds};
use mundi_model::Height;
use mundi_runtime::testing::{Node, Rig};
use mundi_store::{Clock, keyspace::effect_place::EffectStage, testing::world_id};
use std::{collections::BTreeMap, time::Duration};

const SECOND: Duration = Duration::from_secs(1);

fn prepare() -> (Rig, Node, Outside) {
    let (rig, outside) = (with_worlds(4, 1), Outside::default());
    let due_ns = rig.executor.now_ns();
    tell(&rig, world_id(1), &format!("add n\nemit e\ntimer t {due_ns}"));
    let node = start_with(&rig, 1, &outside);
    (rig, node, outside)
}

/// The state that a dead node left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Nothing,
    LeaseOnly,
    TurnCommitted,
    EffectClaimed,
    EffectCalled,
    ReceiptWaits,
    TimerDelivered,
    Everything,
}

fn look(rig: &Rig, outside: &Outside) -> Left {
    let (ops, world) = (ops(rig), world_id(1));
    let (described, effects, timers) = rig.executor.block_on(async move {
        let effects = ops.list_effects(Some(world), None, None, 10).await.unwrap().items;
        let timers = ops.list_timers(Some(world), None, 10).await.unwrap().items;
        (ops.describe_world(world).await.unwrap(), effects, timers)
    });
    let moved = described.head.unwrap().height > Height::new(1);
    assert_eq!(moved, described.cursor.is_some(), "head and cursor move together");
    let claimed = effects.iter().any(|effect| effect.place.stage == EffectStage::Claimed);
    let called = !outside.calls().is_empty();
    assert!(!called || moved, "nothing is carried out that is not journaled");
    assert!(!moved || called || !effects.is_empty(), "what is journaled is published");
    match (described.lease.is_some(), moved) {
        (false, false) => Left::Nothing,
        (true, false) => Left::LeaseOnly,
        (_, true) if claimed && !called => Left::EffectClaimed,
        (_, true) if claimed => Left::EffectCalled,
        (_, true) if !effects.is_empty() && !timers.is_empty() => Left::TurnCommitted,
        (_, true) if !effects.is_empty() => Left::TimerDelivered,
        (_, true) if described.inbox.items > 0 => Left::ReceiptWaits,
        _ => Left::Everything,
    }
}

#[test]
fn a_node_that_dies_at_any_await_loses_no_input_and_repeats_no_answer() {
    let (rig, node, _) = prepare();
    let before = rig.executor.polls();
    rig.executor.run_for(SECOND / 10);
    let undisturbed = rig.executor.polls() - before;
    drop(node);
    assert!(undisturbed > 200, "{undisturbed}");
    let mut found = BTreeMap::<Left, u32>::new();
    // Every await takes minutes (`cargo xtask nightly` does it); a prime stride meets each point often enough in seconds.
    let stride = if std::env::var("MUNDI_EVERY_AWAIT").is_ok() { 1 } else { 13 };
    for polls in (0..undisturbed).step_by(stride) {
        let (rig, node, outside) = prepare();
        for _ in 0..polls {
            if !rig.executor.poll_one() {
                break;
            }
        }
        node.crash();
        *found.entry(look(&rig, &outside)).or_default() += 1;
        let second = start_with(&rig, 2, &outside);
        rig.executor.run_for(SECOND * 35);
        assert_eq!(count(&rig, world_id(1), "n"), 1, "after {polls} polls");
        check(&rig, world_id(1));
        drop(second);
    }
    for left in [Left::Nothing, Left::LeaseOnly, Left::TurnCommitted, Left::EffectClaimed, Left::EffectCalled] {
        assert!(found.contains_key(&left), "no crash left {left:?}: {found:?}");
    }
    assert!(found.contains_key(&Left::TimerDelivered) || found.contains_key(&Left::ReceiptWaits), "{found:?}");
}
