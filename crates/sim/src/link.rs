//! One run of a node, from start to crash: its id, its clock, and whether it is reachable.

use crate::{faults::Fault, log::Author, run_state::RunState};
use mundi_runtime::testing::NodeClock;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    author: Author,
    clock: NodeClock,
    cut: AtomicBool,
    crashed: AtomicBool,
    pauses: AtomicU32,
    jumps: AtomicU32,
}

impl Link {
    pub(crate) fn new(run_state: &RunState, author: Author) -> Self {
        Self(Arc::new(Shared {
            author,
            clock: NodeClock::new(run_state.executor()),
            cut: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
            pauses: AtomicU32::new(0),
            jumps: AtomicU32::new(0),
        }))
    }

    pub(crate) fn author(&self) -> Author {
        self.0.author
    }

    pub(crate) fn clock(&self) -> &NodeClock {
        &self.0.clock
    }

    /// Cuts it off from the engine, or connects it again.
    pub(crate) fn set_cut(&self, cut: bool) {
        self.0.cut.store(cut, Ordering::SeqCst);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::SeqCst)
    }

    pub(crate) fn set_crashed(&self) {
        self.0.crashed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_crashed(&self) -> bool {
        self.0.crashed.load(Ordering::SeqCst)
    }

    pub(crate) fn note_pause(&self) {
        self.0.pauses.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn pauses(&self) -> u32 {
        self.0.pauses.load(Ordering::SeqCst)
    }

    /// Sets the clock while the node runs.
    pub(crate) fn jump(&self, offset_ns: i64) {
        self.0.clock.set_offset_ns(offset_ns);
        self.0.jumps.fetch_add(1, Ordering::SeqCst);
    }

    /// The present fault of its clock.
    pub(crate) fn clock_fault(&self) -> Option<Fault> {
        match (self.0.clock.offset_ns(), self.0.jumps.load(Ordering::SeqCst)) {
            (0, 0) => None,
            (_, 0) => Some(Fault::ClockSkew),
            _ => Some(Fault::ClockJumps),
        }
    }
}
