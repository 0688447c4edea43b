//! Leases: epochs strictly rise with each acquisition and never restart; at most one worker holds the lease of a world, and no
//! worker takes one that has not expired by that worker's own clock.

use super::Evidence;
use crate::history::Fact;
use mundi_model::WorldId;
use mundi_store::keyspace::lease::Lease;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), history) in &evidence.history.worlds {
        let (mut before, mut expires_at_ns): (Option<Lease>, u64) = (None, 0);
        for (number, fact) in &history.facts {
            match fact {
                Fact::Term(term) => expires_at_ns = term.expires_at_ns,
                Fact::Lease(after) => {
                    let clock_ns_max = evidence.commits[*number].clock_ns_max;
                    step(*world, before, *after, expires_at_ns <= clock_ns_max)
                        .map_err(|why| format!("{why} (commit {number})"))?;
                    before = Some(*after);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn step(world: WorldId, before: Option<Lease>, after: Lease, run_out: bool) -> Result<(), String> {
    match (before, after.holder) {
        (None, Some(_)) => Ok(()),
        (None, None) => Err(format!("{world} was released before anyone held it")),
        (Some(before), Some(_)) if after == (Lease { probation: None, ..before }) => Ok(()),
        (Some(before), Some(_)) if after.epoch <= before.epoch => {
            Err(format!("the epoch of {world} went from {:?} to {:?}", before.epoch, after.epoch))
        }
        (Some(Lease { holder: Some(holder), .. }), Some(taker)) if holder != taker && !run_out => {
            Err(format!("{taker} took {world} from {holder} before its lease ran out"))
        }
        (Some(_), Some(_)) => Ok(()),
        (Some(before), None) if after.epoch != before.epoch => {
            Err(format!("a release changed the epoch of {world} from {:?} to {:?}", before.epoch, after.epoch))
        }
        (Some(_), None) => Ok(()),
    }
}
