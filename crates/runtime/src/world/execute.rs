//! A turn's execution: the kernel runs over the items, and is given what it misses until it misses nothing.

use super::CycleBudget;
use crate::{
    Plane, RuntimeError,
    error::NamesMissing,
    objects::{AtHand, PreparationWait, fetch},
};
use mundi_kernel::{
    World,
    turn::{Arrival, Arrived, TurnBudget, TurnError},
};
use mundi_model::{
    Code, Hash, cbor, limits,
    record::{InboxItem, Input, Payload},
};
use mundi_store::{Fence, protocol::TurnItem};

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

/// Whether it is the item that names the object. A command may name it through a manifest, which only the
/// kernel reads, so commands are always suspected.
fn refers_to(item: &InboxItem, hash: Hash) -> bool {
    let payload = match &item.input {
        Input::Control { .. } => return true,
        Input::Event { value: payload, .. } | Input::Message { payload, .. } | Input::TimerFired { payload, .. } => {
            payload
        }
        Input::Receipt(receipt) => &receipt.payload,
    };
    matches!(payload, Payload::Blob(named, _) if *named == hash)
}

fn unusable(arrived: &Arrived, missing: Hash) -> Arrived {
    let item = match arrived {
        Arrived::Item(item) => Hash::of(&cbor::encode(&**item)),
        Arrived::Unusable { item, .. } => *item,
    };
    let reason = format!("it refers to {missing}, which is not in the content store");
    Arrived::Unusable { item, code: Code::ObjectMissing, reason }
}
