//! A slot: the right of one step to run, one slice after another.

use super::{Crowded, SLICE, Scheduler, State, Tenant, now, thread_time};
use mundi_model::{
    WorldId,
    limits::{STEPS_LONG_MAX, STEPS_LONG_OF_UNIVERSE_MAX},
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// The right to run, until it is dropped.
pub(crate) struct Slot {
    pub(super) scheduler: Arc<Scheduler>,
    pub(super) tenant: Tenant,
    pub(super) world: WorldId,
    /// It counts as long.
    pub(super) is_long: bool,
    /// It has used up its first slice, whatever it was taken for.
    pub(super) has_outlasted: bool,
    pub(super) since: Instant,
    /// The processor time of its thread when it began.
    pub(super) cpu_since: Duration,
}

impl Slot {
    /// A slice is over: says whether the step may continue at once. If not, [`pause`](Self::pause) comes next.
    pub(crate) fn slice_is_over(&mut self) -> Result<bool, Crowded> {
        if !self.is_long && thread_time().saturating_sub(self.cpu_since) < SLICE {
            return Ok(true); // it hardly ran: the machine is busy
        }
        self.has_outlasted = true;
        let scheduler = self.scheduler.clone();
        let mut state = scheduler.state.lock();
        self.charge(&mut state);
        if !self.is_long {
            self.become_long(&mut state)?;
        }
        let mine = state.universes.get(&self.tenant.universe).map_or(0, |share| share.used);
        // This one's slot may be what the next step waits for.
        state.running -= 1;
        state.running_long -= 1;
        let next = state.next(&scheduler);
        let is_due =
            next.and_then(|(universe, _)| state.universes.get(&universe)).is_some_and(|share| share.used <= mine);
        let goes_on = !is_due && state.running_long < scheduler.long_slots;
        if goes_on {
            state.now = state.now.max(mine);
        }
        state.running += 1;
        state.running_long += 1;
        Ok(goes_on)
    }

    /// Lets others run, and waits for the next turn.
    pub(crate) fn pause(&mut self) {
        let scheduler = self.scheduler.clone();
        let mut state = scheduler.state.lock();
        state.running -= 1;
        state.running_long -= 1;
        let Some(share) = state.universes.get_mut(&self.tenant.universe) else { return };
        share.running -= 1;
        let grant = share.wait(self.world, true, true);
        state.dispatch(&scheduler);
        drop(state);
        grant.wait();
        self.since = now();
    }

    pub(crate) fn has_outlasted(&self) -> bool {
        self.has_outlasted
    }

    fn become_long(&mut self, state: &mut State) -> Result<(), Crowded> {
        let long = state.long;
        let Some(share) = state.universes.get_mut(&self.tenant.universe) else { return Ok(()) };
        if long >= STEPS_LONG_MAX || share.long >= STEPS_LONG_OF_UNIVERSE_MAX {
            return Err(Crowded::Long);
        }
        share.long += 1;
        state.long += 1;
        state.running_long += 1;
        self.is_long = true;
        Ok(())
    }

    fn charge(&mut self, state: &mut State) {
        let until = now();
        let spent = until.saturating_duration_since(self.since).as_nanos() / u128::from(self.tenant.weight.max(1));
        self.since = until;
        if let Some(share) = state.universes.get_mut(&self.tenant.universe) {
            share.used = share.used.saturating_add(u64::try_from(spent).unwrap_or(u64::MAX));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let scheduler = self.scheduler.clone();
        let mut state = scheduler.state.lock();
        self.charge(&mut state);
        state.running -= 1;
        state.running_long -= usize::from(self.is_long);
        state.long -= usize::from(self.is_long);
        let now = state.now;
        if let Some(share) = state.universes.get_mut(&self.tenant.universe) {
            share.running -= 1;
            share.long -= usize::from(self.is_long);
            // One that is not ahead of the others has nothing to be remembered for.
            if share.running == 0 && share.waiting == 0 && share.used <= now {
                state.universes.remove(&self.tenant.universe);
            }
        }
        state.dispatch(&scheduler);
    }
}
