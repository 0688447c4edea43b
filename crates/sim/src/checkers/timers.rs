//! Timers: none fires before its time, by the clock of the node that fires it and by the world's own; each fires once, and none
//! is lost.

use super::Evidence;
use crate::history::{Fact, WorldHistory, cancelled};
use mundi_model::{
    IntentHash,
    record::{Body, Input},
};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), history) in &evidence.history.worlds {
        one(evidence, history).map_err(|why| format!("{world}: {why}"))?;
    }
    Ok(())
}

fn one(evidence: &Evidence, history: &WorldHistory) -> Result<(), String> {
    let set = |(_, fact): &(usize, Fact)| match fact {
        Fact::Timer(item) => Some((item.intent, item.deliver_at_ns)),
        _ => None,
    };
    let due: BTreeMap<IntentHash, u64> = history.facts.iter().filter_map(set).collect();
    let mut delivered = BTreeSet::new();
    for (number, _, item) in history.items() {
        let Input::TimerFired { timer, .. } = &item.input else { continue };
        let due_ns = due.get(timer).ok_or_else(|| format!("a timer fired that was never set (commit {number})"))?;
        let clock_ns_max = evidence.commits[number].clock_ns_max;
        if clock_ns_max < *due_ns {
            return Err(format!("a timer fired {} ns before its time (commit {number})", due_ns - clock_ns_max));
        }
        if !delivered.insert(*timer) {
            return Err(format!("a timer was delivered twice (commit {number})"));
        }
    }
    let mut fired = BTreeSet::new();
    for (height, body) in history.journal() {
        let Body::Ingress(ingress) = body else { continue };
        let Input::TimerFired { timer, .. } = ingress.item.input else { continue };
        if due.get(&timer).is_some_and(|due_ns| ingress.stamps.logical_now_ns < *due_ns) {
            return Err(format!("at {height} the world sees a timer before its time"));
        }
        if !fired.insert(timer) {
            return Err(format!("at {height} the world sees a timer for the second time"));
        }
    }
    if !evidence.settled || !history.lives() {
        return Ok(());
    }
    let withdrawn: BTreeSet<IntentHash> = cancelled(history).into_iter().collect();
    match due.keys().find(|timer| !withdrawn.contains(timer) && !delivered.contains(timer)) {
        Some(timer) => Err(format!("the timer {timer} was lost")),
        None => Ok(()),
    }
}
