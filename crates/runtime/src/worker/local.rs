//! The worlds of a world worker, for senders in its process.

use super::{
    Phase, WorldWorker,
    scheduler::{Activation, Offered},
};
use crate::{
    Plane,
    delivery::{
        LocalWorlds, Wake,
        local::{Acknowledgement, Awaits},
    },
    effects::slots::EffectSlots,
};
use mundi_model::{UniverseId, WorldId, record::InboxItem};
use std::sync::Arc;

impl<P: Plane> LocalWorlds for WorldWorker<P> {
    /// A world that it does not hold is leased and restored first: one commit for the lease and one for the turn, where the inbox takes three
    /// and a look at the ready queue.
    fn offer(
        &self,
        (universe, world): (UniverseId, WorldId),
        item: &Arc<InboxItem>,
        awaits: Awaits,
        may_activate: bool,
    ) -> Option<Acknowledgement> {
        if self.universe() != universe {
            return None;
        }
        let activation = match may_activate && self.0.config.takes_unassigned {
            true => Activation::AtOnce { now_ns: self.0.plane.now_ns() },
            false => Activation::ResidentOnly,
        };
        let mut scheduler = self.0.scheduler.lock(); // before the phase is read: the end of the worker clears the scheduler afterwards
        if self.0.phase() != Phase::Running {
            return None;
        }
        let Offered { acknowledgement, woken, is_first } = scheduler.offer(world, item, awaits, activation)?;
        drop(scheduler);
        if woken {
            self.0.work.notify_one();
        }
        if is_first {
            self.0.item_waits.notify();
        }
        Some(acknowledgement)
    }

    fn resident(&self, (universe, world): (UniverseId, WorldId)) -> Option<Wake> {
        let worker = (self.universe() == universe && self.holds(world)).then(|| self.clone())?;
        Some(Box::new(move || worker.wake(world)))
    }

    fn activate(&self, (universe, world): (UniverseId, WorldId)) {
        let (now_ns, may_open) = (self.0.plane.now_ns(), self.0.config.takes_unassigned);
        let is_ours = self.universe() == universe && may_open && self.0.phase() == Phase::Running;
        if is_ours && self.0.scheduler.lock().wake(world, now_ns) {
            self.0.work.notify_one();
        }
    }

    fn register_slots(&self, universe: UniverseId, slots: Arc<EffectSlots>) {
        if self.universe() == universe {
            *self.0.slots.lock() = Some(slots);
        }
    }
}
