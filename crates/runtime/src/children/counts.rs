//! Counters of a process: dispatches and ends by kind, and how many children of a universe wait and run.

use crate::Plane;
use mundi_model::{Code, UniverseId, WorldId, child::ChildId};
use mundi_store::protocol::{ChildFinished, DescribeChild};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The kinds that are told apart; a program may name any other.
const KINDS: [&str; 4] = ["agent", "external", "process", "world"];
const OTHERS: &str = "other";
/// In place of the code of a child that passed.
const PASSED: &str = "ok";

/// The children of a universe that wait and that run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChildDepth {
    pub queued: u64,
    pub active: u64,
}

/// The counts of a process: of its executors, and of whatever else dispatches and ends children in it.
#[derive(Debug, Default)]
pub struct ChildCounts {
    dispatched: Mutex<BTreeMap<&'static str, u64>>,
    ended: Mutex<BTreeMap<(&'static str, &'static str), u64>>,
    depths: Mutex<BTreeMap<UniverseId, ChildDepth>>,
}

impl ChildCounts {
    pub(crate) fn dispatched(&self, kind: &str) {
        *self.dispatched.lock().entry(known(kind)).or_default() += 1;
    }

    pub(super) fn ended(&self, kind: &str, code: Option<&str>) {
        let code = code.map_or(PASSED, |code| Code::from_name(code).map_or(OTHERS, Code::as_str));
        *self.ended.lock().entry((known(kind), code)).or_default() += 1;
    }

    /// Counts a child that this very change ended: one that is asked again ended earlier.
    pub fn finished(&self, finished: &ChildFinished, now_ns: u64) {
        if finished.at_ns == now_ns {
            self.ended(&finished.kind, finished.code.as_deref());
        }
    }

    /// The same, for changes that may have ended a child and do not say of which kind it is. What cannot be read is not counted.
    pub async fn perhaps_ended<P: Plane>(
        &self,
        plane: &P,
        (universe, parent, child): (UniverseId, WorldId, ChildId),
        now_ns: u64,
    ) {
        let Ok(read) = plane.run(&DescribeChild { universe, parent, child }).await else { return };
        if let Some(end) = read.output.end.filter(|end| end.at_ns == now_ns) {
            self.ended(&read.output.kind, end.code.as_deref());
        }
    }

    pub(super) fn note_depth(&self, universe: UniverseId, depth: ChildDepth) {
        self.depths.lock().insert(universe, depth);
    }

    /// Children that were leased, by kind.
    pub fn all_dispatched(&self) -> BTreeMap<&'static str, u64> {
        self.dispatched.lock().clone()
    }

    /// Children that were ended, by kind and code.
    pub fn all_ended(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        self.ended.lock().clone()
    }

    pub fn depths(&self) -> BTreeMap<UniverseId, ChildDepth> {
        self.depths.lock().clone()
    }
}

fn known(kind: &str) -> &'static str {
    let kind = kind.split('.').next().unwrap_or_default();
    KINDS.into_iter().find(|known| *known == kind).unwrap_or(OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_makes_no_labels() {
        let counts = ChildCounts::default();
        for kind in ["process", "external.mine", "external.yours", "x"] {
            counts.dispatched(kind);
            counts.ended(kind, None);
        }
        counts.ended("process", Some("URM_CHILD_FAILED"));
        counts.ended("process", Some("NO_CODE_OF_OURS"));
        assert_eq!(counts.all_dispatched(), [("external", 2), ("other", 1), ("process", 1)].into());
        let ended = counts.all_ended();
        assert_eq!((ended[&("process", "ok")], ended[&("process", "URM_CHILD_FAILED")]), (1, 1));
        assert_eq!((ended[&("process", "other")], ended[&("external", "ok")]), (1, 2));
    }
}
