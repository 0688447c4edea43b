//! Journals: heights are contiguous, a record never changes, each names the hash of the one below, and the head is where
//! the records end.

use super::Evidence;
use crate::history::{Fact, Histories, WorldAddress, WorldHistory};
use bytes::Bytes;
use mundi_model::{Hash, Height, cbor, record::Record};
use mundi_store::keyspace::journal_head::Position;
use std::collections::BTreeMap;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let all = evidence.history.worlds.iter();
    all.filter(|(_, history)| history.state().is_some()).try_for_each(|(place, history)| {
        one(&evidence.history, *place, history).map_err(|why| format!("{}: {why}", place.1))
    })
}

fn one(all: &Histories, place: WorldAddress, history: &WorldHistory) -> Result<(), String> {
    let meta = history.metas().next().ok_or("it has records and was never created")?;
    let mut chain = match &meta.lineage {
        None => Record::CHAIN_START,
        Some(lineage) => {
            let below = usize::try_from(lineage.forked_at.get()).unwrap_or(0).checked_sub(1);
            let parent = all.lineage((place.0, lineage.parent));
            below.and_then(|below| parent.get(below)).map_or(Record::CHAIN_START, |bytes| Hash::of(bytes))
        }
    };
    let (mut next, mut written): (Height, BTreeMap<Height, &Bytes>) = (meta.first_height, BTreeMap::new());
    for (number, fact) in &history.facts {
        match fact {
            Fact::Record(height, bytes) => {
                if written.insert(*height, bytes).is_some_and(|before| before != bytes) {
                    return Err(format!("the record {height} was changed (commit {number})"));
                }
                if *height < next {
                    continue;
                }
                let record: Record = cbor::decode(bytes).map_err(|error| error.to_string())?;
                if *height > next || record.height != *height {
                    return Err(format!("after {next} came {height} (commit {number})"));
                }
                if record.prev != chain {
                    return Err(format!("the record {height} does not follow the one below (commit {number})"));
                }
                (next, chain) = (next.next(), Hash::of(bytes));
            }
            Fact::Head(Position { head, .. }) if (head.height, head.chain) != (next, chain) => {
                return Err(format!("the head is {} and the records end at {next} (commit {number})", head.height));
            }
            _ => {}
        }
    }
    Ok(())
}
