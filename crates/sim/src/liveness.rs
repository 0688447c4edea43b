//! Liveness: whether everything that was begun has ended.

use crate::history::WorldAddress;
use bytes::Bytes;
use mundi_engine::{EngineError, Memory};
use mundi_model::{InboxSeq, cbor};
use mundi_store::{
    keyspace::{
        Family, Parts,
        assignment::{self, Assignment},
        journal_head,
        lease::Lease,
        lease_term::LeaseTerm,
        ready,
        world_meta::{WorldMeta, WorldState},
    },
    testing::engine_contents,
};
use std::collections::{BTreeMap, BTreeSet};

/// The work that is still in progress, each as a sentence; empty when all is quiet.
pub(crate) async fn unrest(memory: &Memory, now_ns: u64) -> Result<Vec<String>, EngineError> {
    let contents = engine_contents(memory).await?;
    let mut found = Vec::new();
    let (mut last, mut cursors) = (BTreeMap::new(), BTreeMap::new());
    let (mut live, mut held, mut run_out) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    for (key, value) in &contents {
        let Some(Parts { universe, world, family, rest }) = Parts::of(key) else { continue };
        let place = world.map(|world| (universe, world));
        match (family, place) {
            (Family::InboxEntry, Some(place)) => drop(last.insert(place, rest.to_vec())),
            (Family::JournalHead, Some(place)) => {
                let position = journal_head::decode(key, value).ok();
                cursors.insert(place, position.and_then(|position| position.cursor));
            }
            (Family::WorldMeta, Some(place)) if is_running(value) => drop(live.insert(place)),
            (Family::Lease, Some(place)) => {
                held.extend(cbor::decode::<Lease>(value).ok().and_then(|lease| lease.holder).map(|it| (place, it)));
            }
            // One that a crashed worker left expires, and nobody needs to know.
            (Family::LeaseTerm, Some(place)) if has_run_out(value, now_ns) => drop(run_out.insert(place)),
            (Family::EffectPending | Family::EffectInflight | Family::EffectRetry, _) => {
                found.push(format!("an effect is not answered ({})", family.as_str()));
            }
            (Family::TimerDue, _) => found.push("a timer has not fired".to_owned()),
            (Family::DeadLetter, _) => found.push("there is a dead letter".to_owned()),
            _ => {}
        }
    }
    // A deleted world keeps its last epoch, and whoever deleted it.
    held.retain(|place, _| live.contains(place) && !run_out.contains(place));
    found.extend(held.iter().map(|((_, world), holder)| format!("the lease of {world} is held by {holder}")));
    let undrained = live.iter().filter_map(|place| Some((*place, waiting(*place, &last, &cursors)?)));
    found.extend(undrained.map(|(place, waiting)| format!("{waiting} ({})", whose_turn(place, &contents))));
    Ok(found)
}

/// The worker that should run a world, and whether it has a hint: for the reader who looks for the reason that nobody does.
fn whose_turn((universe, world): WorldAddress, contents: &BTreeMap<Bytes, Bytes>) -> String {
    let assigned = contents.get(assignment::key(universe, world).as_bytes());
    let assigned = match assigned.and_then(|value| cbor::decode::<Assignment>(value).ok()) {
        Some(Assignment { desired: Some(worker), .. }) => format!("assigned to {worker}"),
        Some(_) => "for any worker".to_owned(),
        None => "not assigned".to_owned(),
    };
    let is_ready =
        (0..=u8::MAX).any(|priority| contents.contains_key(ready::key(universe, priority, world).as_bytes()));
    format!("{assigned}, {} a ready hint", if is_ready { "with" } else { "without" })
}

fn has_run_out(value: &[u8], now_ns: u64) -> bool {
    cbor::decode::<LeaseTerm>(value).is_ok_and(|term| term.expires_at_ns <= now_ns)
}

/// Items of a world on hold wait for an operator.
fn is_running(value: &[u8]) -> bool {
    cbor::decode::<WorldMeta>(value).is_ok_and(|meta| meta.state == WorldState::Live && meta.hold.is_none())
}

fn waiting(
    place: WorldAddress,
    last: &BTreeMap<WorldAddress, Vec<u8>>,
    cursors: &BTreeMap<WorldAddress, Option<InboxSeq>>,
) -> Option<String> {
    let last: InboxSeq = InboxSeq::from_bytes(<[u8; 12]>::try_from(&last.get(&place)?[..]).ok()?);
    let cursor = cursors.get(&place).copied().flatten();
    (cursor < Some(last)).then(|| format!("the inbox of {} is not drained: {cursor:?} of {last:?}", place.1))
}
