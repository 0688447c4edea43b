//! The records of clients and of the fake service, for the checkers.

use mundi_model::{
    Code, Height, InboxSeq, IntentHash, UniverseId, WorldId,
    record::{EffectPolicy, ReceiptStatus},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// The notes of one run. Clones are the same ones.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Pages>>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Pages {
    pub(crate) sent: Vec<Sent>,
    pub(crate) forked: Vec<Forked>,
    /// The answers to callers, by the id of the event that asked.
    pub(crate) answers: BTreeMap<String, Vec<u8>>,
    /// The effects that the outside carried out, by intent.
    pub(crate) outside: BTreeMap<IntentHash, Deed>,
    pub(crate) worlds: BTreeMap<UniverseId, Vec<WorldId>>,
    /// Answers of operators, by the operator's name.
    pub(crate) by_hand: BTreeMap<String, ByHand>,
}

/// An answer that an operator tried to give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByHand {
    pub(crate) universe: UniverseId,
    pub(crate) world: WorldId,
    pub(crate) intent: IntentHash,
    pub(crate) status: ReceiptStatus,
    /// `Some(true)` if it was delivered, `Some(false)` if it was refused, `None` if the operator heard nothing.
    pub(crate) given: Option<bool>,
}

/// An event that a client tried to send. The same id may be sent more than once, under one key.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) universe: UniverseId,
    pub(crate) world: WorldId,
    /// Ticks of the stage, before the client tried and after it heard.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) fate: Fate,
}

/// The knowledge of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Acknowledged(InboxSeq),
    /// It crashed, or heard nothing.
    Unknown,
    /// Surely not taken.
    Refused(Code),
}

/// A fork that a client heard of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forked {
    pub(crate) universe: UniverseId,
    pub(crate) parent: WorldId,
    pub(crate) child: WorldId,
    pub(crate) at: Height,
    pub(crate) policy: EffectPolicy,
}

/// The one result of the outside for an intent, however often it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deed {
    pub(crate) calls: u32,
    /// Set by the first call that took effect; later ones get the same answer.
    pub(crate) answer: Option<u64>,
}

impl Notes {
    pub(crate) fn write<V>(&self, write: impl FnOnce(&mut Pages) -> V) -> V {
        write(&mut self.0.lock())
    }

    pub(crate) fn pages(&self) -> Pages {
        self.0.lock().clone()
    }
}
