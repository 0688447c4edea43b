//! Replay: from genesis, and from the baseline, every living world comes to the same state, byte for byte, as its live
//! worker did (each turn ends with a digest of it); and what the store gives back, from segments and tail, is what was
//! committed.

use super::Evidence;
use crate::{
    cluster::{Ground, SimPlane},
    history::{Fact, Histories, WorldAddress, WorldHistory},
    log::{Commit, Write},
};
use bytes::Bytes;
use mundi_kernel::{MemoryObjects, World, replay::Replay};
use mundi_model::{Epoch, Hash, Height, cbor};
use mundi_runtime::world::WorldHost;
use mundi_store::{
    Fence,
    journal::History,
    keyspace::{
        Family, Parts,
        cas_meta::{Body, CasMeta},
        world_meta::WorldState,
    },
    testing::object_contents,
};
use std::collections::BTreeMap;

/// The contents of the store for each living world: its whole journal, and the height of a restored host.
pub(crate) type ReadBack = BTreeMap<WorldAddress, Result<(Vec<Bytes>, (Height, Hash)), String>>;

pub(crate) async fn read_back(plane: &SimPlane, history: &Histories) -> ReadBack {
    let mut read_back = BTreeMap::new();
    for (place, _) in history.worlds.iter().filter(|(_, history)| history.state() == Some(WorldState::Live)) {
        read_back.insert(*place, read_one(plane, *place).await);
    }
    read_back
}

async fn read_one(plane: &SimPlane, (universe, world): WorldAddress) -> Result<(Vec<Bytes>, (Height, Hash)), String> {
    let segments = plane.segments.clone();
    let history = History::open(&plane.engine, segments, universe, world, Height::GENESIS).await;
    let records = history.map_err(|error| error.to_string())?.collect().await.map_err(|error| error.to_string())?;
    // Reading needs no lease: nothing is written under this fence.
    let fence = Fence { universe, world, epoch: Epoch::INITIAL };
    let host = WorldHost::restore(plane.clone(), fence).await.map_err(|error| error.to_string())?;
    Ok((records.into_iter().map(|record| record.bytes).collect(), (host.head(), host.chain())))
}

/// Everything in the content store: large bodies from the objects, small ones from the log.
pub(crate) async fn objects(ground: &Ground, commits: &[Commit]) -> Result<MemoryObjects, String> {
    let mut objects = MemoryObjects::new();
    let stored = object_contents(&*ground.objects.inner()).await.map_err(|error| error.to_string())?;
    for bytes in stored.into_values() {
        objects.put(bytes.to_vec());
    }
    for write in commits.iter().flat_map(|commit| &commit.writes) {
        if let Write::Put(key, value) = write
            && Parts::of(key).is_some_and(|parts| parts.family == Family::CasMeta)
            && let Ok(CasMeta { body: Body::Inline(bytes), .. }) = cbor::decode(value)
        {
            objects.put(bytes);
        }
    }
    Ok(objects)
}

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for (place, history) in evidence.history.worlds.iter().filter(|(_, history)| history.exists()) {
        one(evidence, *place, history).map_err(|why| format!("{}: {why}", place.1))?;
    }
    Ok(())
}

fn one(evidence: &Evidence, place: WorldAddress, history: &WorldHistory) -> Result<(), String> {
    let records = evidence.history.lineage(place);
    let objects = &evidence.objects;
    let first = records.first().ok_or("it has no record")?;
    let replay = Replay::from_genesis(objects, evidence.registry.clone(), first);
    let mut replay = replay.map_err(|error| format!("from genesis: {error}"))?;
    replay.run(objects, &records[1..], None).map_err(|error| format!("from genesis: {error}"))?;
    let from_genesis = end(evidence, replay).map_err(|error| format!("from genesis: {error}"))?;

    let note = history.facts.iter().rev().find_map(|(_, fact)| match fact {
        Fact::Baseline(note) => Some(note),
        _ => None,
    });
    let note = note.ok_or("it has no baseline")?;
    let restored = World::restore(objects, evidence.registry.clone(), note);
    let mut replay = Replay::from_world(restored.map_err(|error| format!("from the baseline: {error}"))?);
    let tail = records.get(usize::try_from(note.height.get()).unwrap_or(0)..).unwrap_or_default();
    replay.run(objects, tail, None).map_err(|error| format!("from the baseline at {}: {error}", note.height))?;
    let from_baseline = end(evidence, replay).map_err(|error| format!("from the baseline: {error}"))?;
    if from_genesis != from_baseline {
        return Err(format!("from genesis it is {from_genesis:?}, from its baseline {from_baseline:?}"));
    }
    match evidence.read_back.get(&place) {
        None => Ok(()),
        Some(Err(error)) => Err(format!("it cannot be read back: {error}")),
        Some(Ok((read, _))) if *read != records => Err("its journal reads otherwise than it was written".to_owned()),
        Some(Ok((_, end))) if (end.0, end.1) != (from_genesis.0, from_genesis.1) => {
            Err(format!("restored it stands at {end:?}, replayed at {from_genesis:?}"))
        }
        Some(Ok(_)) => Ok(()),
    }
}

/// Where a replay came to: height, chain, outcome digest, and the hash of a snapshot of all that it knows.
fn end(evidence: &Evidence, replay: Replay) -> Result<(Height, Hash, Hash, Hash), String> {
    let mut world = replay.finish().map_err(|error| error.to_string())?;
    let taken = world.snapshot(&evidence.objects).map_err(|error| error.to_string())?;
    Ok((world.head(), world.chain(), world.digest(), taken.note.snapshot))
}
