//! A turn's execution: the kernel runs over the items, and is given what it misses until it misses nothing.

use super::CycleBudget;
use crate::{
    Plane, RuntimeError,
    error::NamesMissing,
    objects::{AtHand, PreparationWait, fetch},
};
use futures_util::future::join_all;
use mundi_kernel::{
    World,
    turn::{Arrival, Arrived, TurnBudget, TurnError},
};
use mundi_model::{
    Code, Coded, Hash, UniverseId, cbor, limits,
    record::{InboxItem, Input, Payload},
};
use mundi_store::{Fence, blob::Blobs, protocol::TurnItem};
use std::collections::BTreeSet;

/// Payloads that are read at the same moment.
const PAYLOADS_AT_ONCE: usize = 16;

/// The input of the kernel.
pub(super) struct Execution {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) budget: TurnBudget,
    preparing: PreparationWait,
}

impl Execution {
    pub(super) fn new<'a, P: Plane>(
        plane: &P,
        world: &World,
        items: impl Iterator<Item = &'a TurnItem>,
        budget: &CycleBudget,
    ) -> Self {
        let now_ns = plane.now_ns();
        let arrival = |item: &TurnItem| Arrival {
            seq: item.seq,
            item: Arrived::Item(item.item.clone()),
            now_ns,
            entropy: plane.random(),
        };
        let mut budget = budget.of_turn();
        if world.recording().is_some() {
            budget.effects_max = budget.effects_max.min(limits::RECORDING_TURN_INTENTS_MAX);
        }
        Self { arrivals: items.map(arrival).collect(), budget, preparing: PreparationWait::default() }
    }

    /// Payloads of the items that are to be read from the content store first, so that no run of the steps stops for each of them. Those beyond
    /// [`limits::TURN_PAYLOADS_BYTES_MAX`] wait, with their items, for the next turn. A world that is paused, or `is_held`, passes over its first
    /// item and takes nothing but commands, wherever they stand: then only their payloads are read, and no item is left out.
    pub(super) fn payloads_to_fetch(&mut self, world: &World, at_hand: &AtHand, is_held: bool) -> Vec<Hash> {
        let takes_ahead = |arrival: &Arrival| match &arrival.item {
            Arrived::Item(item) => world.takes_ahead(arrival.seq, item),
            Arrived::Unusable { .. } => false,
        };
        let is_passed_over = |first: &Arrival| world.expects(first.seq) && !takes_ahead(first);
        let only_commands = (is_held || world.is_paused()) && self.arrivals.first().is_some_and(is_passed_over);
        let is_taken =
            |arrival: &Arrival| if only_commands { takes_ahead(arrival) } else { world.expects(arrival.seq) };
        let (mut bytes, mut missing) = (0u64, BTreeSet::new());
        for (index, arrival) in self.arrivals.iter().enumerate() {
            let Arrived::Item(item) = &arrival.item else { continue };
            let Some((hash, len)) = blob_of(item).filter(|_| is_taken(arrival)) else { continue };
            bytes = bytes.saturating_add(len);
            if index > 0 && bytes > limits::TURN_PAYLOADS_BYTES_MAX {
                if !only_commands {
                    self.arrivals.truncate(index);
                }
                break;
            }
            if !at_hand.has(&hash) {
                missing.insert(hash);
            }
        }
        missing.into_iter().collect()
    }

    /// Sees to it that what stopped a run does not stop the next one: loads the missing object, or waits for the program. An item
    /// that refers to what does not exist is marked as unusable.
    pub(super) async fn supply<P: Plane>(
        &mut self,
        plane: &P,
        fence: Fence,
        (world, at_hand): (&mut World, &mut AtHand),
        stopped: TurnError,
    ) -> Result<(), RuntimeError> {
        let Some(hash) = stopped.missing() else { return self.preparing.wait(plane, stopped.into()).await };
        if fetch(plane, fence.universe, at_hand, hash).await? {
            return Ok(());
        }
        let Some(culprit) = self.culprit(world, at_hand, hash) else {
            return Err(RuntimeError::ObjectLost { world: fence.world, hash });
        };
        self.arrivals[culprit].item = unusable(&self.arrivals[culprit].item, hash);
        Ok(())
    }

    /// The item that cannot be taken because it, and not the world, refers to a missing object.
    fn culprit(&self, world: &mut World, at_hand: &AtHand, hash: Hash) -> Option<usize> {
        let mut stops = |items: &[Arrival]| {
            world.turn(at_hand, items, self.budget).err().and_then(|error| error.missing()) == Some(hash)
        };
        let index = (0..self.arrivals.len()).find(|index| stops(&self.arrivals[..=*index]))?;
        match &self.arrivals[index].item {
            Arrived::Item(item) if refers_to(item, hash) => Some(index),
            _ => None,
        }
    }
}

/// Reads payloads, some at the same moment. The kernel says which item names one that does not exist.
pub(super) async fn fetch_payloads<P: Plane>(
    plane: &P,
    universe: UniverseId,
    at_hand: &mut AtHand,
    payloads: Vec<Hash>,
) -> Result<(), RuntimeError> {
    for some in payloads.chunks(PAYLOADS_AT_ONCE) {
        let read = some.iter().map(|hash| plane.blobs().get(universe, *hash));
        for (hash, read) in some.iter().zip(join_all(read).await) {
            match read {
                Ok(bytes) => at_hand.insert(*hash, &bytes),
                Err(error) if error.code() == Code::BlobNotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// Whether it is the item that names the object. A command may name it through a manifest, which only the
/// kernel reads, so commands are always suspected.
fn refers_to(item: &InboxItem, hash: Hash) -> bool {
    matches!(item.input, Input::Control { .. }) || blob_of(item).is_some_and(|(named, _)| named == hash)
}

/// The payload of an item that is in the content store, with its length.
fn blob_of(item: &InboxItem) -> Option<(Hash, u64)> {
    let payload = match &item.input {
        Input::Event { value: payload, .. }
        | Input::Message { payload, .. }
        | Input::TimerFired { payload, .. }
        | Input::Control { payload, .. } => payload,
        Input::Receipt(receipt) => &receipt.payload,
    };
    match payload {
        Payload::Blob(hash, len) => Some((*hash, *len)),
        Payload::Inline(_) => None,
    }
}

fn unusable(arrived: &Arrived, missing: Hash) -> Arrived {
    let item = match arrived {
        Arrived::Item(item) => Hash::of(&cbor::encode(&**item)),
        Arrived::Unusable { item, .. } => *item,
    };
    let reason = format!("it refers to {missing}, which is not in the content store");
    Arrived::Unusable { item, code: Code::ObjectMissing, reason }
}
