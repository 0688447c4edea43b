//! Holds: one world's failing turns never stop another world. A world whose turns always fail is put on hold and not tried for
//! ever; a world whose turns can be taken never is. That the others come to rest meanwhile, liveness shows.
//!
//! A world whose manifest holds it at a failed input consumes no such input until an operator says so: a retry takes that input, a skip
//! passes that one and no other, and both are journaled.
//!
//! A world is put on hold as one that ends processes only after so many holders in a row that ended before they had taken a turn of it. In
//! a run with many crashes that may happen to any world: an operator releases it.

use super::Evidence;
use crate::{
    fault_driver::{broken_world, stopping_world},
    history::{Fact, WorldHistory},
};
use mundi_kernel::Repair;
use mundi_model::{
    Code, InboxSeq, cbor, limits,
    record::{Body, EffectPolicy, ForkGenesis, Input, Payload},
};
use mundi_store::keyspace::{lease::Lease, world_meta::Hold};
use std::collections::BTreeSet;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), history) in &evidence.history.worlds {
        check_deaths(history).map_err(|why| format!("{world}: {why}"))?;
        let held = history.metas().filter_map(|meta| meta.hold.as_ref()).find(|hold| !ends_process(hold));
        match (*world, held) {
            (world, _) if world == broken_world() => check_broken(history).map_err(|why| format!("{world}: {why}"))?,
            (world, _) if world == stopping_world() => {
                check_stopping(evidence, history).map_err(|why| format!("{world}: {why}"))?;
            }
            (_, Some(hold)) if stops_by_policy(history, hold) => {}
            (_, Some(hold)) => return Err(format!("{world} was put on hold: {}: {}", hold.code, hold.reason)),
            (_, None) => {}
        }
    }
    Ok(())
}

fn ends_process(hold: &Hold) -> bool {
    hold.code == Code::WorldEndsProcess.as_str()
}

/// Counts, from the leases and records alone, the holders in a row that neither released the world nor wrote a record of it. A worker that
/// acquires its own lease again is counted, too, although it did not end: so this is never below what the store counts.
fn check_deaths(history: &WorldHistory) -> Result<(), String> {
    let (mut before, mut is_over, mut deaths): (Option<Lease>, bool, u32) = (None, true, 0);
    let mut after_hold = None;
    for (number, fact) in &history.facts {
        match fact {
            Fact::Record(..) => is_over = true,
            Fact::Lease(lease) => {
                let is_acquired = before.is_none_or(|before| lease.epoch > before.epoch);
                match before.and_then(|before| before.holder) {
                    _ if !is_acquired => is_over = true,
                    None => deaths = u32::from(after_hold.is_some()),
                    Some(_) if is_over => deaths = 0,
                    Some(_) => deaths += 1,
                }
                is_over &= !is_acquired;
                before = Some(*lease);
            }
            Fact::Meta(meta) if meta.hold.as_ref().is_some_and(ends_process) => {
                if after_hold != meta.hold && deaths < limits::WORLD_DEATHS_MAX {
                    return Err(format!(
                        "it is on hold as if it ended processes, after {deaths} holders that took no turn (commit {number})"
                    ));
                }
                after_hold.clone_from(&meta.hold);
            }
            _ => {}
        }
    }
    Ok(())
}

/// A recorded fork stops at the first difference from its parent.
fn stops_by_policy(history: &WorldHistory, hold: &Hold) -> bool {
    let is_recorded = |genesis: ForkGenesis| genesis.policy == EffectPolicy::Recorded;
    hold.code == Code::ForkDiverged.as_str() && history.fork().is_some_and(is_recorded)
}

fn check_broken(history: &WorldHistory) -> Result<(), String> {
    let Some(meta) = history.metas().last() else { return Ok(()) };
    match &meta.hold {
        None => Err("its turns always fail, and it is not on hold after everything else came to rest".to_owned()),
        Some(hold) if hold.code != Code::StepAbandoned.as_str() => {
            Err(format!("it is on hold for {}: {}", hold.code, hold.reason))
        }
        Some(hold) if hold.seq.is_none() => Err("it is on hold, and nothing waits for it".to_owned()),
        Some(_) => Ok(()),
    }
}

fn check_stopping(evidence: &Evidence, history: &WorldHistory) -> Result<(), String> {
    let (mut held, mut taking, mut taken) = (None, None, BTreeSet::new());
    let mut skips: BTreeSet<InboxSeq> = BTreeSet::new();
    for (height, body) in history.journal() {
        match body {
            Body::Held(record) => held = record.failed.map(|failed| failed.seq),
            Body::Ingress(ingress) => match &ingress.item.input {
                Input::Control { command, payload } if ["resume", "retry", "skip"].contains(&command.as_str()) => {
                    if command == "skip" {
                        skips.extend(skipped(payload));
                    }
                    (held, taking) = (None, None);
                }
                Input::Control { .. } => taking = None,
                _ if held.is_some() => {
                    return Err(format!("it is held, and took {} at {height}", ingress.seq));
                }
                _ => {
                    taking = Some(ingress.seq);
                    taken.insert(ingress.seq);
                }
            },
            Body::StepFailed(failed) => match taking.take() {
                Some(seq) if failed.code != Code::StepSkipped.as_str() => {
                    return Err(format!("the input {seq} failed and was consumed at {height}"));
                }
                Some(seq) if !skips.remove(&seq) => {
                    return Err(format!("the input {seq} was passed at {height}, and nobody skipped it"));
                }
                _ => {}
            },
            _ => {}
        }
    }
    let waits = |(_, seq, item): &(usize, InboxSeq, &mundi_model::record::InboxItem)| {
        !matches!(item.input, Input::Control { .. }) && !taken.contains(seq)
    };
    let left = history.items().filter(waits).map(|(_, seq, _)| seq).next();
    match (left, skips.first()) {
        (Some(seq), _) if evidence.settled => Err(format!("the input {seq} was never taken")),
        (_, Some(seq)) if evidence.settled => Err(format!("the input {seq} was skipped and is not on record as such")),
        _ => Ok(()),
    }
}

fn skipped(payload: &Payload) -> Option<InboxSeq> {
    match payload {
        Payload::Inline(bytes) => cbor::decode::<Repair>(bytes).ok().map(|repair| repair.seq),
        Payload::Blob(..) => None,
    }
}
