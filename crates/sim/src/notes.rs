//! What clients and the outside world remember by themselves: the other half of the evidence.

use mundi_model::{Code, Height, InboxSeq, IntentHash, UniverseId, WorldId, record::EffectPolicy};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// The notes of one run. Clones are the same ones.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Pages>>);

#[derive(Debug, Clone, Default)]
pub struct Pages {
    pub sent: Vec<Sent>,
    pub forked: Vec<Forked>,
    /// What came back to callers, by the id of the event that asked.
    pub answers: BTreeMap<String, Vec<u8>>,
    /// What the outside did, by intent.
    pub outside: BTreeMap<IntentHash, Deed>,
    pub worlds: BTreeMap<UniverseId, Vec<WorldId>>,
}

/// An event that a client tried to send. The same id may be sent more than once, under one key.
#[derive(Debug, Clone)]
pub struct Sent {
    pub id: String,
    pub universe: UniverseId,
    pub world: WorldId,
    /// Ticks of the stage, before the client tried and after it heard.
    pub began: u64,
    pub ended: u64,
    pub fate: Fate,
}

/// What a sender knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Acknowledged(InboxSeq),
    /// It crashed, or heard nothing.
    Unknown,
    /// Surely not taken.
    Refused(Code),
}

/// A fork that a client heard of.
#[derive(Debug, Clone, Copy)]
pub struct Forked {
    pub universe: UniverseId,
    pub parent: WorldId,
    pub child: WorldId,
    pub at: Height,
    pub policy: EffectPolicy,
}

/// What the outside has done for one intent: once, however often it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Deed {
    pub calls: u32,
    /// Set by the first call that took effect; later ones get the same answer.
    pub answer: Option<u64>,
}

impl Notes {
    pub fn write<V>(&self, write: impl FnOnce(&mut Pages) -> V) -> V {
        write(&mut self.0.lock())
    }

    pub fn pages(&self) -> Pages {
        self.0.lock().clone()
    }
}
