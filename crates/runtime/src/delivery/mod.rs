//! Who in this process holds worlds.
//!
//! A world learns what arrived for it from hints that workers watch. Where sender and holder are in one process that is a long
//! way: the sender leaves the hint alone while there is one, and tells the holder itself. What a world asks for and what it
//! is answered need no queue there at all.

pub(crate) mod local;

use crate::{Plane, effects::slots::Hands, worker::WorldWorker};
use futures_util::future::BoxFuture;
use local::Sender;
use mundi_model::{UniverseId, WorldId, record::InboxItem};
use mundi_store::protocol::AnsweredEffect;
use std::sync::Arc;

/// Tells a holder that the world may have something to do.
pub type Wake = Box<dyn FnOnce() + Send>;

pub trait Holder: Send + Sync {
    /// How to wake the world, if it is held here as far as anyone knows.
    fn holding(&self, universe: UniverseId, world: WorldId) -> Option<Wake>;

    /// Something was sent to a world that is not held here: if it may be, it is looked at now.
    fn nudge(&self, _universe: UniverseId, _world: WorldId) {}

    /// Hands a receipt to its world, if it is held here. Says whether it is on record; if not, nobody knows what came of it.
    fn answer(&self, answered: AnsweredEffect, receipt: InboxItem) -> BoxFuture<'_, bool>;

    /// Lets worlds put their effects into these hands.
    fn employ(&self, universe: UniverseId, hands: Arc<Hands>);
}

impl<P: Plane> Holder for WorldWorker<P> {
    fn holding(&self, universe: UniverseId, world: WorldId) -> Option<Wake> {
        let worker = (self.universe() == universe && self.holds(world)).then(|| self.clone())?;
        Some(Box::new(move || worker.wake(world)))
    }

    fn nudge(&self, universe: UniverseId, world: WorldId) {
        if self.universe() == universe {
            WorldWorker::nudge(self, world);
        }
    }

    fn answer(&self, answered: AnsweredEffect, receipt: InboxItem) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            self.universe() == answered.claim.universe
                && matches!(
                    self.hand(answered.claim.world, &Arc::new(receipt), Sender::Receipt(answered)).await,
                    Ok(Some(_))
                )
        })
    }

    fn employ(&self, universe: UniverseId, hands: Arc<Hands>) {
        if self.universe() == universe {
            self.set_hands(hands);
        }
    }
}

/// Sends something to a world. `send` hears whether the holder will be told; it is, whatever comes of it.
pub async fn tell<O>(
    holder: Option<&dyn Holder>,
    (universe, world): (UniverseId, WorldId),
    send: impl AsyncFnOnce(bool) -> O,
) -> O {
    let wake = holder.and_then(|holder| holder.holding(universe, world));
    let outcome = send(wake.is_some()).await;
    // Also if nobody knows whether it was sent.
    match (wake, holder) {
        (Some(wake), _) => wake(),
        (None, Some(holder)) => holder.nudge(universe, world),
        (None, None) => {}
    }
    outcome
}
