//! The cost of a command does not grow with the pool.

use crate::rig::{Pool, UNIVERSE, holder, new_resource, resource};
use mundi_kernel::{
    LoadError, MemoryObjects, Objects, World,
    cells::diff,
    fork::{ForkRequest, fork_in},
    lease_kernel::{command::Command, config::PoolConfig},
    snapshot::{KernelSnapshot, TakenSnapshot},
};
use mundi_model::{Hash, WorldId, limits, record::EffectPolicy};
use serde_json::json;
use std::{cell::Cell, sync::Arc};

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
        let mut pool = Pool::within(PoolConfig::default(), |limits| limits.step_calls_max = CALLS_MAX);
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

/// As many as an inline payload holds with all their labels.
const CREATED_AT_ONCE: usize = 20;

/// Resources, each with as many labels as it may have, of the greatest length; each label is shared by two of them.
fn create_with_all_labels(pool: &mut Pool, resources: u64) {
    let labels = |n: u64| -> Vec<String> {
        let width = limits::POOL_LABEL_BYTES_MAX - 2;
        (0..limits::POOL_LABELS_MAX).map(|label| format!("{label}-{:0width$}", n / 2)).collect()
    };
    for first in (0..resources).step_by(CREATED_AT_ONCE) {
        let some = first..resources.min(first + CREATED_AT_ONCE as u64);
        let resources = some
            .map(|n| {
                let labels = labels(n);
                new_resource(u128::from(n), &labels.iter().map(String::as_str).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(pool.result(Command::CreateResource { resources }), "ok");
    }
}

fn bundle(first: u64, count: u64) -> Command {
    let resource_ids = (first..first + count).map(|n| resource(u128::from(n))).collect();
    Command::ReserveBundle { resource_ids, holder_id: Some(holder(1)), ttl_slots: 10 }
}

fn free_resources(pool: &Pool) -> usize {
    pool.query("resources", json!({ "state": "available", "limit": 1_000 }))["items"].as_array().unwrap().len()
}

/// Every bound is at its maximum: the size of a bundle, the labels of a resource, and what is removed beside.
#[test]
fn the_largest_commands_fit_into_the_budget_of_a_step() {
    let max = limits::POOL_BUNDLE_MAX;
    let mut pool = Pool::new(PoolConfig { bundle_max: max, history_slots: 20, ..PoolConfig::default() });
    create_with_all_labels(&mut pool, limits::POOL_CREATE_MAX as u64);
    // History that the commands below remove: eight leases of this size with each of them.
    for _ in 0..24 {
        let lease = pool.run(bundle(0, max)).lease_id.expect("it fits");
        assert_eq!(pool.release(lease, 1, 1), "ok");
    }
    pool.pass_slots(20);
    // Every second resource, so that of each label one resource stays.
    let resource_ids = (0..max).map(|n| resource(u128::from(2 * n))).collect();
    let held = pool.run(Command::ReserveBundle { resource_ids, holder_id: Some(holder(1)), ttl_slots: 10 });
    let held = held.lease_id.expect("it fits");
    let rest = pool.run(bundle(2 * max, max)).lease_id.expect("it fits");
    let all = pool.run(Command::ReserveAny {
        label: String::new(),
        count: u32::try_from(max).unwrap(),
        holder_id: Some(holder(1)),
        ttl_slots: 10,
    });
    let all = all.lease_id.expect("it fits");
    let enqueue = |by, count: u64| Command::EnqueueReserve {
        label: String::new(),
        count: u32::try_from(count).unwrap(),
        holder_id: Some(holder(by)),
        ttl_slots: 10,
        wait: false,
    };
    let ticket = pool.run(enqueue(2, max)).ticket.expect("it waits");
    for lease in [held, rest, all] {
        assert_eq!(pool.activate(lease, 1, 1), "ok");
    }
    pool.pass_slots(1);
    assert_eq!(pool.release(held, 1, 1), "ok", "and the same step grants as many to the one that waits");
    let granted = pool.query("ticket", json!({ "ticket": ticket }))["ticket"].clone();
    assert_eq!(granted["state"], "granted");
    let granted = serde_json::from_value(granted["lease_id"].clone()).unwrap();
    assert_eq!(pool.activate(granted, 2, 1), "ok");
    assert_eq!(pool.result(Command::revoke(granted)), "ok");
    assert_eq!(pool.result(Command::Reclaim { lease_id: granted }), "ok");
}

#[test]
fn bundles_that_run_out_at_once_expire_in_steps_that_fit() {
    let mut pool = Pool::new(PoolConfig::default());
    let (bundles, size) = (limits::POOL_EXPIRE_BATCH_MAX as u64, limits::POOL_BUNDLE_DEFAULT);
    create_with_all_labels(&mut pool, bundles * size);
    for at in 0..bundles {
        assert_eq!(pool.result(bundle(at * size, size)), "ok");
    }
    pool.pass_slots(10);
    let mut steps = 0;
    while pool.fire_due().is_some() {
        steps += 1;
    }
    let counts = pool.query("pool", json!(null))["counts"].clone();
    assert_eq!((&counts["live"], &counts["expirations"]), (&json!(0), &json!(0)), "all expired");
    assert_eq!(steps, bundles * size / limits::POOL_EXPIRE_MEMBERS_MAX);
    assert_eq!(free_resources(&pool), 1_000, "a page of them");
}

/// A timer is closed before its step runs, so a step that fails leaves none.
#[test]
fn a_timer_whose_step_failed_is_set_again() {
    let mut pool = Pool::within(PoolConfig::default(), |limits| limits.step_calls_max = CALLS_MAX);
    for n in 1..=32 {
        assert_eq!(pool.result(Command::CreateResource { resources: vec![new_resource(n, &[])] }), "ok");
        assert_eq!(pool.reserve(n, 7).result.as_str(), "ok");
    }
    pool.pass_slots(10);
    assert_eq!(pool.fire_due().expect("the timer").0, "expire");
    assert_eq!(pool.query("pool", json!(null))["counts"]["live"], 32, "the step needs more than it has");
    assert_eq!(pool.fire_due(), None);
    pool.reserve(99, 7);
    assert_eq!(pool.fire_due(), None, "a timer may be on its way for so long");
    pool.pass_slots(limits::POOL_TIMER_LATE_MS_MAX / 1_000);
    pool.reserve(99, 7);
    assert_eq!(pool.fire_due().expect("set again").0, "expire");
}

/// Objects, and how many were loaded.
struct Counting<'a> {
    objects: &'a MemoryObjects,
    loads: Cell<usize>,
}

impl Objects for Counting<'_> {
    fn load(&self, hash: &Hash) -> Result<Arc<[u8]>, LoadError> {
        self.loads.set(self.loads.get() + 1);
        self.objects.load(hash)
    }
}

fn save(pool: &mut Pool) -> TakenSnapshot {
    let taken = pool.world.snapshot(&pool.objects).unwrap();
    pool.objects.extend(taken.objects.iter().cloned());
    pool.objects.put(taken.bytes.to_vec());
    pool.world.saved(&taken);
    taken
}

/// New objects of a snapshot, objects that a diff loads, differing cells, and objects that a fork loads; after the same commands.
fn costs(size: u64) -> [usize; 4] {
    let mut pool = Pool::new(PoolConfig::default());
    for first in (0..size).step_by(100) {
        let resources = (first..first + 100).map(|n| new_resource(n.into(), &["a"])).collect();
        assert_eq!(pool.result(Command::CreateResource { resources }), "ok");
    }
    let before = save(&mut pool);
    cycle(&mut pool);
    let after = save(&mut pool);
    let counting = Counting { objects: &pool.objects, loads: Cell::new(0) };
    let roots = [&before, &after].map(|taken| KernelSnapshot::from_bytes(&taken.bytes).unwrap().cells());
    let differing = diff(&counting, roots[0], roots[1], |found| found.map(Result::unwrap).count());
    let diffed = counting.loads.replace(0);
    let parent = KernelSnapshot::from_bytes(&after.bytes).unwrap();
    let copy = ForkRequest::new(WorldId::from_bytes([9; 16]), EffectPolicy::Suppress, 1);
    let branch = fork_in(&parent, UNIVERSE, copy).unwrap();
    let mut objects = pool.objects.clone();
    objects.put(branch.bytes.to_vec());
    let counting = Counting { objects: &objects, loads: Cell::new(0) };
    World::restore(&counting, pool.registry.clone(), &branch.note).unwrap();
    [after.objects.len(), diffed, differing, counting.loads.get()]
}

#[test]
fn a_snapshot_a_diff_and_a_fork_of_a_pool_cost_what_changed() {
    let (small, large) = (costs(1_000), costs(20_000));
    assert_eq!(small[2], large[2], "the same cells differ");
    assert!(large[2] < 60, "those of a few commands: {}", large[2]);
    for (at, what) in ["a snapshot", "a diff", "the cells", "a fork"].into_iter().enumerate() {
        // The tree is a little deeper, and a change touches one path through it.
        assert!(large[at] <= 3 * small[at].max(4), "{what}: {} objects, and {} in a small pool", large[at], small[at]);
    }
}
