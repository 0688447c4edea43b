//! The fault driver: injects faults while clients work, then ends all faults and waits until the system is idle.

mod healing;
mod worlds;

pub(crate) use worlds::{broken_world, stopping_world};

use crate::{
    client::{Client, Setting},
    cluster::{Ground, LEASE_TTL_MS, Life, Role, SimPlane, Slot, offset_ns},
    exporter,
    fake_service::FakeService,
    faults::Fault,
    link::Link,
    log::Author,
    notes::Notes,
    protocol::Protocol,
    run_state::RunState,
};
use mundi_kernel::Registry;
use mundi_model::{Hash, UniverseId};
use mundi_runtime::{Spawn, effects::Adapter};
use mundi_store::protocol::expire_dedupe;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use worlds::manifests;

/// How long adapters are away at least, in simulated milliseconds: longer than any name is remembered that is not kept for a reason.
const AWAY_MS: u64 = 2 * 60 * 60 * 1_000;
/// How long everybody else works without adapters before and after that, once nothing goes wrong any more.
const AWAKE_MS: u64 = 5_000;
/// How long clients and faults continue, in simulated milliseconds.
const TRAFFIC_MS: u64 = 12_000;

/// The driver of a seed.
#[derive(Clone)]
pub(crate) struct FaultDriver {
    run_state: RunState,
    ground: Ground,
    notes: Notes,
    settings: Vec<Setting>,
    adapters: Arc<Vec<Arc<dyn Adapter>>>,
    slots: Arc<Mutex<Vec<Slot>>>,
    /// The work that each client has left, by the number of its node.
    work: Arc<Vec<AtomicU64>>,
}

impl FaultDriver {
    /// Sets up universes, worlds and nodes, while nothing goes wrong.
    pub(crate) async fn set_up(run_state: RunState) -> Result<Self, String> {
        let (registry, stored) = manifests();
        let (notes, casts) = (Notes::default(), casts(&run_state));
        let outside = Arc::new(FakeService { run_state: run_state.clone(), notes: notes.clone() });
        let manifests: Vec<Hash> = stored.iter().take(2).map(|(manifest, _)| Hash::of(manifest)).collect();
        let driver = Self::new(run_state, registry, casts, &manifests, vec![outside], notes);
        driver.create_all(&stored).await.map_err(|error| format!("setting up failed: {error}"))?;
        Ok(driver)
    }

    /// The nodes of some universes, none of which has started.
    pub(crate) fn new(
        run_state: RunState,
        registry: Registry,
        casts: Vec<Vec<Role>>,
        manifests: &[Hash],
        adapters: Vec<Arc<dyn Adapter>>,
        notes: Notes,
    ) -> Self {
        let ground = Ground::new(run_state.clone(), registry);
        let mut slots = Vec::new();
        let mut settings = Vec::new();
        for (number, roles) in (1..).zip(casts) {
            let universe = UniverseId::from_bytes([number; 16]);
            let first = slots.len();
            for role in roles {
                slots.push(Slot::new(u32::try_from(slots.len()).unwrap_or(0), universe, role));
            }
            let workers = slots[first..].iter().filter(|slot| slot.role == Role::Worlds).map(Slot::worker_id).collect();
            settings.push(Setting { universe, manifests: manifests.to_vec(), workers });
        }
        let work = slots.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            run_state,
            ground,
            notes,
            settings,
            adapters: Arc::new(adapters),
            slots: Arc::new(Mutex::new(slots)),
            work: Arc::new(work),
        }
    }

    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    pub(crate) fn ground(&self) -> &Ground {
        &self.ground
    }

    /// A node that nothing happens to.
    pub(crate) fn operator(&self) -> SimPlane {
        let link = Link::new(&self.run_state, Author { node: u32::MAX, life: 0 });
        self.ground.plane(&link, &self.run_state.executor().node(), &self.ground.objects)
    }

    fn start(&self, place: usize) {
        let mut slots = self.slots.lock();
        let slot = &mut slots[place];
        if slot.life.is_some() || slot.is_lost || slot.is_away {
            return;
        }
        slot.start(&self.ground, &self.adapters);
        let Some(life) = &slot.life else { return };
        let (run_state, plane, notes) = (self.run_state.clone(), life.plane.clone(), self.notes.clone());
        match slot.role {
            Role::Client => {
                let Some(setting) = self.settings.iter().find(|it| it.universe == slot.universe) else { return };
                let (setting, doors) = (setting.clone(), self.ground.doors.clone());
                let client = Client { number: slot.number, run_state, plane, doors, setting, notes };
                life.node.spawn(Box::pin(client.run(self.work.clone(), place)));
            }
            Role::Exporter => {
                life.node.spawn(Box::pin(exporter::run(run_state, plane, slot.universe, slot.worker_id(), notes)));
            }
            _ => {}
        }
    }

    /// Clients work, faults strike.
    pub(crate) async fn traffic(&self) {
        for left in &*self.work {
            left.store(self.run_state.between(5, 20), Ordering::SeqCst);
        }
        self.start_all();
        self.lose_a_worker();
        self.send_adapters_away();
        let end_ns = self.run_state.now_ns() + TRAFFIC_MS * 1_000_000;
        while self.run_state.now_ns() < end_ns {
            self.trouble().await;
            self.mend().await;
        }
    }

    /// Some time, one of the first universe's workers goes and never comes back. What is pinned to it is let go at the end.
    fn lose_a_worker(&self) {
        if !self.run_state.has(Fault::LittleRoom) {
            return;
        }
        self.after(self.run_state.below(TRAFFIC_MS), |driver| {
            let mut slots = driver.slots.lock();
            let Some(lost) = slots.iter_mut().find(|slot| slot.role == Role::Worlds) else { return };
            driver.run_state.note(format_args!("worker {} is lost", lost.number));
            lost.is_lost = true;
            lost.crash(&driver.run_state);
        });
    }

    /// Some time, all adapters go. They come back when everything else has come to its end.
    fn send_adapters_away(&self) {
        if !self.run_state.has(Fault::AdaptersAway) {
            return;
        }
        self.after(self.run_state.below(TRAFFIC_MS), |driver| {
            for slot in driver.slots.lock().iter_mut().filter(|slot| slot.role == Role::Adapters) {
                slot.is_away = true;
                slot.crash(&driver.run_state);
            }
        });
    }

    /// Hours pass, in which names expire, and the adapters come back to what is open still. The others work before and after, and stand
    /// still in between: hours of looks into empty queues would show nothing, and cost more than all the rest of a run.
    async fn call_adapters_back(&self) {
        let is_away = |slot: &Slot| slot.is_away;
        let places: Vec<usize> =
            (0..).zip(self.slots.lock().iter()).filter(|(_, slot)| is_away(slot)).map(|(place, _)| place).collect();
        if places.is_empty() {
            return;
        }
        self.run_state.sleep_ms(AWAKE_MS).await;
        self.each_life(|life| life.node.pause());
        self.run_state.sleep_ms(self.run_state.between(AWAY_MS, 3 * AWAY_MS)).await;
        let plane = self.operator();
        for Setting { universe, .. } in &self.settings {
            let expired = expire_dedupe(&plane.engine, &*plane.clock, *universe).await;
            self.run_state.note(format_args!("{universe}: names expired while adapters were away: {expired:?}"));
        }
        self.each_life(|life| life.node.resume());
        self.run_state.sleep_ms(AWAKE_MS).await;
        self.run_state.note(format_args!("the adapters come back"));
        self.run_state.met(Fault::AdaptersAway, Protocol::EffectCall);
        for place in places {
            self.slots.lock()[place].is_away = false;
            self.start(place);
        }
    }

    fn each_life(&self, act: impl Fn(&Life)) {
        self.slots.lock().iter().filter_map(|slot| slot.life.as_ref()).for_each(act);
    }

    /// Everybody starts, and from now on faults strike.
    pub(crate) fn start_all(&self) {
        let striker = self.clone();
        self.run_state.set_ambush(Some(Arc::new(move |node, fault| striker.hit(fault, node as usize))));
        self.run_state.set_striking(true);
        let places = self.slots.lock().len();
        (0..places).for_each(|place| self.start(place));
    }

    /// A moment of peace, and then a blow.
    pub(crate) async fn trouble(&self) {
        self.run_state.sleep_ms(self.run_state.between(20, 500)).await;
        self.strike();
    }

    /// One blow to one node, if the seed has any such fault; rarely to all at once.
    fn strike(&self) {
        let blows = [Fault::Crashes, Fault::Pauses, Fault::Partitions, Fault::ClockJumps, Fault::Churn];
        let blows: Vec<Fault> = blows.into_iter().filter(|fault| self.run_state.has(*fault)).collect();
        if blows.is_empty() {
            return;
        }
        let blow = blows[self.pick(blows.len())];
        let places = self.slots.lock().len();
        if self.run_state.below(25) == 0 {
            self.run_state.note(format_args!("{blow} everywhere"));
            (0..places).for_each(|place| self.hit(blow, place));
        } else {
            self.hit(blow, self.pick(places));
        }
    }

    fn pick(&self, count: usize) -> usize {
        usize::try_from(self.run_state.below(count as u64)).unwrap_or(0)
    }

    fn hit(&self, blow: Fault, place: usize) {
        let run_state = &self.run_state;
        let mut slots = self.slots.lock();
        let Some(slot) = slots.get_mut(place) else { return };
        let Some(life) = &slot.life else { return };
        let author = life.link.author();
        // Some last longer than leases and claims do.
        let ms = if run_state.below(3) == 0 {
            run_state.between(LEASE_TTL_MS, 3 * LEASE_TTL_MS)
        } else {
            run_state.below(800)
        };
        match blow {
            Fault::Crashes => {
                slot.crash(run_state);
                self.after(ms, move |driver| driver.start(place));
            }
            Fault::Pauses => {
                run_state.note(format_args!("{author} stands still for {ms} ms"));
                run_state.count(|tally| tally.pauses += 1);
                life.link.note_pause();
                life.node.pause();
                let node = life.node.clone();
                self.after(ms, move |_| node.resume());
            }
            Fault::Partitions => {
                run_state.note(format_args!("{author} is cut off for {ms} ms"));
                run_state.count(|tally| tally.partitions += 1);
                life.link.set_cut(true);
                let link = life.link.clone();
                self.after(ms, move |_| link.set_cut(false));
            }
            Fault::ClockJumps => {
                life.link.jump(offset_ns(run_state));
                run_state.note(format_args!("{author} clock off by {} ms", life.link.clock().offset_ns() / 1_000_000));
            }
            Fault::Churn => {
                let Some(worker) = life.worker.clone() else { return };
                run_state.note(format_args!("{author} drains"));
                life.node.spawn(Box::pin(async move { worker.drain().await }));
                self.after(ms + 200, move |driver| driver.replace(place));
            }
            _ => {}
        }
    }

    /// Ends a life, drained or not, and begins another.
    fn replace(&self, place: usize) {
        self.slots.lock()[place].crash(&self.run_state);
        self.start(place);
    }

    /// Unless everything was healed until then, which does it for all at once.
    fn after(&self, ms: u64, then: impl FnOnce(&Self) + Send + 'static) {
        let driver = self.clone();
        self.run_state.executor().node().spawn(Box::pin(async move {
            driver.run_state.sleep_ms(ms).await;
            if driver.run_state.is_striking() {
                then(&driver);
            }
        }));
    }

    /// Nobody writes any more.
    pub(crate) fn stop(&self) {
        self.stop_those(|_| true);
    }

    fn stop_those(&self, which: impl Fn(&Slot) -> bool) {
        let mut slots = self.slots.lock();
        let lives = slots.iter_mut().filter(|slot| which(slot)).filter_map(|slot| slot.life.take());
        lives.for_each(|life| life.node.crash());
    }
}

/// The nodes of each universe. The second universe is small; half of the runs have none.
fn casts(run_state: &RunState) -> Vec<Vec<Role>> {
    use Role::{Adapters, Client, Exporter, Orchestrator, Timers, Worlds};
    let mut first = vec![Worlds, Worlds, Adapters, Adapters, Timers, Exporter, Client, Client];
    first.extend([Worlds, Timers, Client].get(usize::try_from(run_state.below(4)).unwrap_or(0)));
    if run_state.faults().has(Fault::Moves) {
        first.push(Orchestrator);
    }
    let mut casts = vec![first];
    if run_state.below(2) == 0 {
        let mut second = vec![Worlds, Adapters, Timers, Client];
        second.extend(run_state.faults().has(Fault::Moves).then_some(Orchestrator));
        casts.push(second);
    }
    casts
}
