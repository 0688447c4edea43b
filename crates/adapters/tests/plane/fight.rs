//! Two nodes over one engine fight for 200 worlds while leases are taken from them at random, for a minute of their time.

use crate::rig::{Outside, check, count, ops, start_with, with_worlds};
use mundi_model::Epoch;
use mundi_runtime::testing::{Rig, script_event};
use mundi_store::testing::{Rng, world_id};
use std::{collections::BTreeMap, time::Duration};

const WORLDS: u64 = 200;
const SECOND: Duration = Duration::from_secs(1);

/// Gives a world's lease back behind its holder's back: what a holder commits after this is refused.
fn revoke(rig: &Rig, world: u64, epochs: &mut BTreeMap<u64, Epoch>) -> bool {
    let ops = ops(rig);
    let lease = rig.executor.block_on(async move {
        let lease = ops.describe_world(world_id(world)).await.unwrap().lease?;
        // Someone else may have been faster.
        let _ = ops.release_lease(world_id(world), lease.epoch).await;
        Some(lease)
    });
    let Some(lease) = lease else { return false };
    let before = epochs.insert(world, lease.epoch);
    assert!(before.is_none_or(|before| before <= lease.epoch), "an epoch never goes back");
    true
}

#[test]
fn nothing_is_lost_or_done_twice_while_two_nodes_fight_for_two_hundred_worlds() {
    let seeds: u64 = std::env::var("MUNDI_FIGHT_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    for seed in 0..seeds {
        let (rig, outside, mut rng) = (with_worlds(seed, WORLDS), Outside::default(), Rng::new(seed));
        let _nodes = [start_with(&rig, 1, &outside), start_with(&rig, 2, &outside)];
        let (mut sent, mut epochs, mut revoked) = (BTreeMap::<u64, u64>::new(), BTreeMap::new(), 0);
        for tick in 0..600 {
            for _ in 0..1 + rng.below(3) {
                let world = 1 + rng.below(WORLDS);
                *sent.entry(world).or_default() += 1;
                let script = if rng.below(4) == 0 { format!("add n\nemit e{tick}") } else { "add n".to_owned() };
                let sending = rig.clone();
                rig.executor.block_on(async move {
                    // The label may still be in use: then the step fails, and n with it.
                    sending.send(world_id(world), vec![script_event(&script)]).await.unwrap()
                });
            }
            for _ in 0..4 {
                revoked += u32::from(revoke(&rig, 1 + rng.below(WORLDS), &mut epochs));
            }
            rig.executor.run_for(SECOND / 10);
        }
        assert!(revoked > 500, "{revoked}");
        rig.executor.run_for(SECOND * 90);
        let mut failed = 0;
        for world in 1..=WORLDS {
            check(&rig, world_id(world));
            let missing = sent.get(&world).copied().unwrap_or(0) - count(&rig, world_id(world), "n");
            failed += missing;
        }
        assert_eq!(failed, 0, "seed {seed}");
    }
}
