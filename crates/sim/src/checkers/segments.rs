//! Segments: a record leaves the engine only after a segment that holds it was indexed, and only below the baseline.

use super::Evidence;
use crate::history::Fact;
use mundi_model::Height;
use mundi_store::keyspace::{segment::SegmentRecord, world_meta::WorldState};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), history) in &evidence.history.worlds {
        let (mut indexed, mut baseline): (Vec<(usize, &SegmentRecord)>, _) = (Vec::new(), Height::GENESIS);
        for (number, fact) in &history.facts {
            match fact {
                // What becomes of a deleted world's records is nobody's business any more.
                Fact::Meta(meta) if matches!(meta.state, WorldState::Deleting | WorldState::Deleted) => break,
                Fact::Baseline(note) => baseline = note.height,
                Fact::Segment(record) => indexed.push((*number, record)),
                Fact::RecordsGone(from, until) => {
                    let holds = |(before, it): &(usize, &SegmentRecord)| {
                        before < number && it.start <= *from && *until <= it.end
                    };
                    if !indexed.iter().any(holds) {
                        return Err(format!(
                            "{from}..{until} of {world} left and no segment held it (commit {number})"
                        ));
                    }
                    if *until > baseline {
                        return Err(format!("{from}..{until} of {world} left, above the baseline at {baseline}"));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}
