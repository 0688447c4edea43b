//! Baselines and cursors only move forward.

use super::Evidence;
use crate::history::Fact;
use mundi_model::{Height, InboxSeq};

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    for ((_, world), history) in &evidence.history.worlds {
        let (mut baseline, mut cursor): (Option<Height>, Option<InboxSeq>) = (None, None);
        for (number, fact) in &history.facts {
            match fact {
                Fact::Baseline(note) if baseline > Some(note.height) => {
                    return Err(format!("the baseline of {world} went back to {} (commit {number})", note.height));
                }
                Fact::Baseline(note) => baseline = Some(note.height),
                Fact::Head(position) if cursor > position.cursor => {
                    let to = position.cursor;
                    return Err(format!("the cursor of {world} went from {cursor:?} to {to:?} (commit {number})"));
                }
                Fact::Head(position) => cursor = position.cursor,
                _ => {}
            }
        }
    }
    Ok(())
}
