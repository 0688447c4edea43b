//! Nothing goes wrong any more: everything must come to rest, and nothing that is needed may be swept.

use super::FaultDriver;
use crate::{
    client::Setting,
    cluster::{Role, SimPlane, Slot},
    faults::Fault,
    liveness,
};
use mundi_model::{limits, record::EffectPolicy};
use mundi_runtime::{Plane, calls::Calls, control::Ops, lifecycle::ForkAt};
use mundi_store::{
    protocol::{ReadSweep, RequestSweep, WorldFilter, WorldSummary, expire_dedupe},
    testing::world_id,
};
use std::sync::atomic::Ordering;

/// Between two rounds of tidying: longer than the sweep's grace, and than names are remembered.
const TIDY_PAUSE_MS: u64 = 3 * 60 * 60 * 1_000;
/// Rounds of tidying: what one condemns, a later one removes.
const TIDY_ROUNDS: u64 = 3;
/// The number of the first world that is made and deleted while sweepers walk.
const SWEPT_FORKS: u64 = 1_000_000;
/// How long everything may take to come to rest once nothing goes wrong any more, in simulated seconds.
const REST_SECONDS_MAX: u64 = 120;

impl FaultDriver {
    /// Nothing goes wrong any more: everything must come to rest. Says what did not.
    pub(crate) async fn heal(&self) -> Result<(), String> {
        self.run_state.note(format_args!("healed"));
        self.run_state.set_striking(false);
        self.run_state.set_ambush(None); // it holds the stage that holds it
        let places = self.slots.lock().len();
        for place in 0..places {
            // A paused node's wall clock is right again, too, when it continues.
            if let Some(life) = &self.slots.lock()[place].life {
                life.link.set_cut(false);
                life.link.clock().set_offset_ns(0);
                life.objects.behave();
                life.node.resume();
            }
            self.start(place);
        }
        self.restart_drained();
        self.wait_for_clients().await?;
        self.wake_worlds().await;
        self.call_adapters_back().await;
        let mut left = Vec::new();
        for _ in 0..REST_SECONDS_MAX {
            self.run_state.sleep_ms(1_000).await;
            left = liveness::unrest(&self.ground.memory, self.run_state.now_ns())
                .await
                .map_err(|error| error.to_string())?;
            if self.mend().await {
                left.push("a world is on hold at an input whose step failed".to_owned());
            }
            if left.is_empty() {
                return Ok(());
            }
        }
        left.truncate(8);
        Err(format!("after {REST_SECONDS_MAX} healthy seconds: {}", left.join("; ")))
    }

    /// Takes away what nothing refers to and what has expired, often enough that both really go: what is needed must be
    /// there still when the checkers look. Sweepers crash on the way, two of them want the same run, and worlds are made and
    /// deleted while they walk.
    pub(crate) async fn tidy(&self) -> Result<(), String> {
        let plane = self.operator();
        let sweepers = self.add_sweepers();
        for round in 0..TIDY_ROUNDS {
            for Setting { universe, .. } in &self.settings {
                let expired = expire_dedupe(&plane.engine, &*plane.clock, *universe).await;
                let expired = expired.map_err(|error| format!("dedupe records do not expire: {error}"))?;
                let request = RequestSweep { universe: *universe, dry_run: false, now_ns: plane.now_ns() };
                let asked = plane.run(&request).await;
                asked.map_err(|error| format!("a sweep cannot be asked for: {error}"))?;
                self.run_state.note(format_args!("{universe}: {expired} names expired"));
            }
            self.disturb(&plane, &sweepers, round).await;
            self.run_state.sleep_ms(TIDY_PAUSE_MS).await;
        }
        self.stop_those(|slot| slot.role == Role::Sweeper);
        for Setting { universe, .. } in &self.settings {
            let state = plane.run(&ReadSweep { universe: *universe }).await;
            let state = state.map_err(|error| error.to_string())?.output;
            match state.last {
                Some(last) if last.run == TIDY_ROUNDS && state.running.is_none() => {
                    self.run_state
                        .note(format_args!("{universe}: the last sweep removed {} objects", last.totals.removed));
                }
                last => return Err(format!("{universe}: the sweep does not come to its end: {last:?}")),
            }
        }
        Ok(())
    }

    /// Two processes that sweep the same universe, for each one.
    pub(super) fn add_sweepers(&self) -> Vec<usize> {
        let mut slots = self.slots.lock();
        let first = slots.len();
        for setting in self.settings.iter().flat_map(|setting| [setting, setting]) {
            let number = u32::try_from(slots.len()).unwrap_or(u32::MAX);
            slots.push(Slot::new(number, setting.universe, Role::Sweeper));
        }
        let places: Vec<usize> = (first..slots.len()).collect();
        drop(slots);
        places.iter().for_each(|place| self.start(*place));
        places
    }

    /// While the sweepers walk: some crash and come back, and a world is forked and its fork deleted.
    pub(super) async fn disturb(&self, plane: &SimPlane, sweepers: &[usize], round: u64) {
        for _ in 0..3 {
            self.run_state.sleep_ms(self.run_state.below(3_000)).await;
            let place = sweepers[self.pick(sweepers.len())];
            if self.run_state.faults().has(Fault::Crashes) {
                self.slots.lock()[place].crash(&self.run_state);
                if self.run_state.below(2) == 0 {
                    self.start(place); // otherwise the other one takes its run up
                }
            }
        }
        for Setting { universe, .. } in &self.settings {
            let ops = Ops::new(plane.clone(), *universe, Calls::default());
            let worlds = self.notes.write(|pages| pages.worlds.get(universe).cloned().unwrap_or_default());
            let Some(parent) = worlds.get(self.pick(worlds.len().max(1))).copied() else { continue };
            let (child, policy) = (world_id(SWEPT_FORKS + round), EffectPolicy::Suppress);
            // A world that is deleted or in the archive has no forks.
            if ops.world_fork(parent, child, ForkAt::Newest, policy, plane.now_ns()).await.is_ok() {
                self.run_state.sleep_ms(self.run_state.below(2_000)).await;
                let deleted = ops.world_delete(child).await.is_ok();
                self.run_state.note(format_args!("{universe}: a fork is deleted while a sweep walks: {deleted}"));
            }
        }
        sweepers.iter().for_each(|place| self.start(*place));
    }

    /// A worker that was told to drain runs nothing any more.
    pub(super) fn restart_drained(&self) {
        if !self.run_state.faults().has(Fault::Churn) {
            return;
        }
        let places = self.slots.lock().len();
        for place in 0..places {
            if self.slots.lock()[place].role == Role::Worlds {
                self.replace(place);
            }
        }
    }

    pub(super) async fn wait_for_clients(&self) -> Result<(), String> {
        for _ in 0..REST_SECONDS_MAX {
            self.run_state.sleep_ms(1_000).await;
            let is_client = |slot: &Slot| slot.role == Role::Client;
            let left = |slot: &Slot| self.work[slot.number as usize].load(Ordering::SeqCst);
            let busy = |slot: &Slot| slot.life.as_ref().is_some_and(|life| life.node.is_running());
            if !self.slots.lock().iter().any(|slot| is_client(slot) && (left(slot) > 0 || busy(slot))) {
                // The exporter would take leases forever.
                self.stop_those(|slot| slot.role == Role::Exporter);
                return Ok(());
            }
        }
        Err("a client waits forever".to_owned())
    }

    /// Wakes the worlds that were paused on purpose, and unpins pinned ones.
    pub(super) async fn wake_worlds(&self) {
        for setting in &self.settings {
            let ops = Ops::new(self.operator(), setting.universe, Calls::default());
            // Not those that clients know of: some are there whose maker never heard of it, a paused world's fork among them.
            let all = ops.list_worlds(WorldFilter::default(), None, limits::LIST_ITEMS_MAX).await;
            for WorldSummary { world, .. } in all.map(|page| page.items).unwrap_or_default() {
                // What was deleted stays deleted.
                let _unarchived = ops.world_unarchive(world).await;
                let _resumed = ops.world_resume(world).await;
                // Only pins: where a world goes whose worker is lost is for the orchestrator to say.
                let found = ops.describe_world(world).await;
                if found.is_ok_and(|found| found.assignment.is_some_and(|to| to.pinned)) {
                    let _let_go = ops.unassign_world(world).await;
                }
            }
        }
    }
}
