//! Concurrent writers leave the same state as a replay of their commits, one by one in the order of their
//! stamps, leaves behind.
//!
//! This is where group commit goes wrong: two adds of one group that both start from the state before it, a
//! range delete that does not see the puts of its own group, a stamp order that is not the order of application.

use super::{
    oracle::{Map, Write},
    script::some_writes,
};
use crate::{
    Engine, Transaction,
    conformance::{
        Finding, Proof, Seeded, Subject,
        tools::{Items, beside, contents, ensure, shown_items, stamp_of, wipe},
    },
};
use mundi_model::Stamp;
use std::collections::BTreeMap;

const TASKS: u64 = 6;
const COMMITS: usize = 20;

/// A round costs as much as so many scripts of the model.
const SEEDS_PER_ROUND: u64 = 40;

/// Six tasks put, add, delete and stamp blindly in the same few places; the stamps explain the outcome.
pub async fn concurrent_writes_equal_their_replay<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for round in 0..subject.seeds() / SEEDS_PER_ROUND {
        wipe(&engine).await?;
        let tasks = (0..TASKS).map(|task| write_blindly(engine.clone(), round * TASKS + task)).collect();
        let commits = in_order(beside(subject, tasks).await?.into_iter().flatten())?;
        let (found, expected) = (contents(&engine).await?, replayed(&commits));
        let is_same = found == expected;
        let (found, expected) = (shown_items(&found), shown_items(&expected));
        ensure!(is_same, "round {round} left {found}, and its replay in the order of stamps leaves {expected}");
    }
    Ok(())
}

type Commit = (Stamp, Vec<Write>);

async fn write_blindly<E: Engine>(engine: E, seed: u64) -> Result<Vec<Commit>, Finding> {
    let mut seeded = Seeded::new(seed);
    let mut commits = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        let writes = some_writes(&mut seeded);
        let mut tx = engine.begin().await?;
        for write in &writes {
            write.to(&mut tx)?;
        }
        commits.push((stamp_of(tx.commit().await?)?, writes));
    }
    Ok(commits)
}

fn in_order(commits: impl Iterator<Item = Commit>) -> Result<BTreeMap<Stamp, Vec<Write>>, Finding> {
    let mut ordered = BTreeMap::new();
    for (stamp, writes) in commits {
        ensure!(ordered.insert(stamp, writes).is_none(), "two commits have {stamp:?}");
    }
    Ok(ordered)
}

fn replayed(commits: &BTreeMap<Stamp, Vec<Write>>) -> Items {
    let mut map = Map::new();
    for (stamp, writes) in commits {
        for write in writes {
            write.apply(&mut map, Some(*stamp));
        }
    }
    map.into_iter().collect()
}
