//! A fork or an imported copy of a pool is no authority.

use crate::rig::{Pool, SHARD, UNIVERSE, holder, resource};
use mundi_kernel::{
    World,
    fork::{ForkRequest, arrive, fork_in},
    lease_kernel::command::Command,
    replay::Replay,
    snapshot::KernelSnapshot,
};
use mundi_model::{UniverseId, WorldId, record::EffectPolicy};
use serde_json::json;

const COPY: WorldId = WorldId::from_bytes([9; 16]);
const ELSEWHERE: UniverseId = UniverseId::from_bytes([8; 16]);

/// The pool as a branch of itself.
fn become_copy(pool: &mut Pool, is_import: bool) {
    let taken = pool.world.snapshot(&pool.objects).unwrap();
    pool.objects.extend(taken.objects.iter().cloned());
    pool.world.saved(&taken);
    let parent = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let policy = EffectPolicy::Suppress;
    let branch = match is_import {
        // Under its own id: only the universe tells it apart.
        true => arrive(&parent, ELSEWHERE, ForkRequest::new(crate::rig::POOL, policy, 1)),
        false => fork_in(&parent, UNIVERSE, ForkRequest::new(COPY, policy, 1)),
    };
    let branch = branch.unwrap();
    pool.objects.put(branch.bytes.to_vec());
    let world = World::restore(&pool.objects, pool.registry.clone(), &branch.note).unwrap();
    let mut replay = Replay::from_world(world);
    replay.run(&pool.objects, std::slice::from_ref(&branch.record), None).unwrap();
    pool.world = replay.finish().unwrap();
}

#[test]
fn a_copy_publishes_no_authority_and_its_leases_have_a_shard_of_their_own() {
    for is_import in [false, true] {
        let mut pool = Pool::of(3);
        let held = pool.reserve(1, 7).lease_id.unwrap();
        pool.activate(held, 7, 1);
        pool.authorities.clear();
        become_copy(&mut pool, is_import);
        let described = pool.query("pool", json!(null));
        assert_eq!(described["is_authority"], false);
        assert_ne!(described["shard"], SHARD);
        let lease = pool.reserve(2, 8).lease_id.unwrap();
        assert_ne!(lease.shard(), SHARD, "no lease of a copy has the id of one of the original");
        assert_eq!(pool.activate(lease, 8, 1), "ok", "it can be experimented with");
        assert_eq!(pool.release(held, 7, 1), "ok");
        assert_eq!(
            pool.result(Command::Reserve { resource_id: resource(1), holder_id: Some(holder(9)), ttl_slots: 5 }),
            "ok"
        );
        assert!(pool.authorities.is_empty(), "nothing that an effect could be begun under");
    }
}
