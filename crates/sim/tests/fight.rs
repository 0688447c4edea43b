//! Two nodes over one engine fight for 200 worlds while leases are taken from them at random, for a minute of their time:
//! every promise is kept.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_kernel::{
    manifest::{EffectRule, Schema},
    program::{Cause, Event, Failure, Host, Outgoing, Program},
};
use mundi_model::{Value, WorldId, cbor};
use mundi_sim::Simulation;
use mundi_store::testing::Rng;
use std::{collections::BTreeMap, time::Duration};

const WORLDS: usize = 200;

/// Counts events; `pass` also sends one on to another world, which counts it, too.
struct Relay;

impl Program for Relay {
    fn handle(&self, host: &mut dyn Host, event: &Event<'_>) -> Result<(), Failure> {
        let Cause::Event { schema, value, .. } = event.cause else { return Ok(()) };
        let count = host.get("n")?.map_or(0, |bytes| bytes[0]);
        host.put("n", &[count + 1])?;
        if schema == "pass" {
            let to = cbor::decode::<String>(value).unwrap().parse().unwrap();
            let null = cbor::encode(&Value::Null);
            host.send(to, &Outgoing::Event { schema: "count", value: &null }, &event.seq.to_string())?;
        }
        Ok(())
    }
}

#[test]
fn every_promise_is_kept_while_two_nodes_fight_for_two_hundred_worlds() {
    let seeds: u64 = std::env::var("MUNDI_FIGHT_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(1);
    for seed in 0..seeds {
        let mut simulation = Simulation::new(seed).workers(2).faults("latency".parse().unwrap());
        let mut manifest = simulation.program("relay", 1, Relay);
        for event in ["count", "pass"] {
            manifest.events.insert(event.into(), Schema::anything());
        }
        manifest.effects.insert("fabric.send".into(), EffectRule::default());
        let mut universe = simulation.start().unwrap();
        let worlds: Vec<WorldId> = (0..WORLDS).map(|_| universe.create(&manifest).unwrap()).collect();
        let mut rng = Rng::new(seed);
        let mut pick = || worlds[usize::try_from(rng.below(WORLDS as u64)).unwrap()];
        let (mut expected, mut revoked) = (BTreeMap::<WorldId, u8>::new(), 0);
        for _ in 0..600 {
            for event in 0..3 {
                let (world, other) = (pick(), pick());
                *expected.entry(world).or_default() += 1;
                if event == 0 {
                    *expected.entry(other).or_default() += 1;
                    universe.send(world, "pass", &Value::Text(other.to_string())).unwrap();
                } else {
                    universe.send(world, "count", &Value::Null).unwrap();
                }
                revoked += u32::from(universe.revoke(pick()).unwrap()) + u32::from(universe.revoke(world).unwrap());
            }
            universe.run_for(Duration::from_millis(100));
        }
        assert!(revoked > 300, "{revoked}");
        universe.rest().unwrap();
        for (world, count) in expected {
            assert_eq!(universe.cell(world, "n").unwrap(), Some(vec![count]), "seed {seed}");
        }
        universe.finish().unwrap();
    }
}
