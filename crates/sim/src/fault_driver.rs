//! The driver: makes trouble while clients work, then heals everything and waits for quiet.

use crate::{
    client::{Client, Setting, create_world},
    cluster::{Ground, LEASE_TTL_MS, Life, Role, SimPlane, Slot, offset_ns},
    exporter,
    fake_service::{CALL, FakeService},
    faults::Fault,
    link::Link,
    liveness,
    log::Author,
    notes::Notes,
    protocol::Protocol,
    run_state::RunState,
};
use bytes::Bytes;
use mundi_adapters::Adapter;
use mundi_kernel::{
    Registry,
    manifest::{EffectRule, Manifest, Retry},
    registry::native_descriptor,
};
use mundi_model::{
    Code, Hash, UniverseId, WorldId, limits,
    record::{EffectPolicy, InboxItem, Operator, Origin},
};
use mundi_runtime::{
    Plane, Spawn,
    calls::Calls,
    lifecycle::{ForkAt, NewWorld, create, register_trusted},
    ops::Ops,
    testing::{MENDED_VERSION, MendedScript, Script, holding_manifests, manifest, mended_manifest, script_event},
};
use mundi_store::{
    blobs::NO_REFS,
    protocol::{CreateUniverse, NewItem, ReadSweep, RequestSweep, WorldFilter, WorldSummary, enqueue, expire_dedupe},
    testing::world_id,
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Between two rounds of tidying: longer than the sweep's grace, and than names are remembered.
const TIDY_PAUSE_MS: u64 = 3 * 60 * 60 * 1_000;
/// Rounds of tidying: what one condemns, a later one removes.
const TIDY_ROUNDS: u64 = 3;
/// The number of the first world that is made and deleted while sweepers walk.
const SWEPT_FORKS: u64 = 1_000_000;
/// How long everything may take to come to rest once nothing goes wrong any more, in simulated seconds.
const REST_SECONDS_MAX: u64 = 120;
/// How long adapters are away at least, in simulated milliseconds: longer than any name is remembered that is not kept for a reason.
const AWAY_MS: u64 = 2 * 60 * 60 * 1_000;
/// How long everybody else works without adapters before and after that, once nothing goes wrong any more.
const AWAKE_MS: u64 = 5_000;
/// How long clients and faults go on, in simulated milliseconds.
const TRAFFIC_MS: u64 = 12_000;

/// In each universe there is one world whose turns always fail.
pub(crate) fn broken_world() -> WorldId {
    world_id(1_000)
}

/// And one whose program fails at some of its inputs and whose manifest holds it there, until an operator retries or skips.
pub(crate) fn stopping_world() -> WorldId {
    world_id(1_001)
}

/// What waits in its inbox from the start.
const STOPPING: [&str; 7] = ["add n", "fail", "add n", "fail", "fail\nadd n", "add n", "fail"];

/// Who runs a seed.
#[derive(Clone)]
pub(crate) struct FaultDriver {
    run_state: RunState,
    ground: Ground,
    notes: Notes,
    settings: Vec<Setting>,
    adapters: Arc<Vec<Arc<dyn Adapter>>>,
    slots: Arc<Mutex<Vec<Slot>>>,
    /// What each client still has to do, by the number of its node.
    work: Arc<Vec<AtomicU64>>,
}

/// The programs that worlds of a run may have.
fn manifests() -> (Registry, Vec<(Vec<u8>, String)>) {
    let mut registry = Registry::new();
    let mut stored = Vec::new();
    for version in 1..=2 {
        registry.register_native("script", version, Script);
        let descriptor = native_descriptor("script", version);
        let mut manifest = Manifest { program: Hash::of(descriptor.as_bytes()), ..manifest() };
        let retry = Some(Retry { attempts_max: 3, backoff_ms: 50, backoff_ms_max: 400 });
        for kind in [CALL, "fabric.send"] {
            manifest
                .effects
                .insert(kind.to_owned(), EffectRule { timeout_ms: Some(800), retry, ..EffectRule::default() });
        }
        stored.push((manifest.to_bytes(), descriptor));
    }
    registry.register_native("script", MENDED_VERSION, MendedScript);
    let [holding, mended] = holding_manifests();
    let (_, mended_descriptor) = mended_manifest();
    stored.push((holding.to_bytes(), native_descriptor("script", 1)));
    stored.push((mended.to_bytes(), mended_descriptor));
    (registry, stored)
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

    async fn create_all(&self, stored: &[(Vec<u8>, String)]) -> Result<(), mundi_runtime::RuntimeError> {
        let plane = self.operator();
        for setting in &self.settings {
            let universe = setting.universe;
            plane.run(&CreateUniverse { universe, now_ns: plane.now_ns() }).await?;
            for (manifest, descriptor) in stored {
                plane.blobs.put(universe, Bytes::from(descriptor.clone()), NO_REFS).await?;
                let manifest = plane.blobs.put(universe, Bytes::from(manifest.clone()), NO_REFS).await?;
                register_trusted(&plane, universe, &[manifest]).await?;
            }
            for number in 0..self.run_state.between(1, 3) {
                // The same ids in both universes: nothing may take one for the other.
                create_world(&plane, &self.run_state, setting, world_id(number)).await?;
                self.notes.write(|pages| pages.worlds.entry(universe).or_default().push(world_id(number)));
            }
            self.create_broken(&plane, setting).await?;
            self.create_stopping(&plane, universe).await?;
        }
        Ok(())
    }

    async fn create_stopping(&self, plane: &SimPlane, universe: UniverseId) -> Result<(), mundi_runtime::RuntimeError> {
        let (world, now_ns) = (stopping_world(), plane.now_ns());
        let manifest = Hash::of(&holding_manifests()[0].to_bytes());
        create(plane, NewWorld { universe, world, manifest, inbox: None, now_ns }).await?;
        let item = |script: &&str| {
            let origin = Origin { wants_reply: true, ..Origin::new(0) };
            NewItem { item: InboxItem { input: script_event(script), origin }, dedupe: None }
        };
        let items = STOPPING.iter().map(item).collect();
        let (engine, clock, blobs) = (&plane.engine, &*plane.clock, &plane.blobs);
        enqueue(engine, clock, blobs, universe, world, items, limits::DEDUPE_WINDOW_NS).await?;
        Ok(())
    }

    /// An operator does something about worlds that are on hold at an input whose step failed. Says whether any was.
    async fn mend(&self) -> bool {
        let mut found = false;
        for Setting { universe, .. } in &self.settings {
            let (world, ops) = (stopping_world(), Ops::new(self.operator(), *universe, Calls::default()));
            found |= self.release_innocents(&ops).await;
            let Ok(described) = ops.describe_world(world).await else { continue };
            let Some(hold) = described.meta.hold else { continue };
            found = true;
            let operator = Operator { token: None, name: "mender".to_owned() };
            let done = match self.run_state.below(8) {
                0 => {
                    let mended = Hash::of(&holding_manifests()[1].to_bytes());
                    match ops.world_upgrade(world, mended, true).await {
                        Ok(_) => ops.world_retry(world, operator).await,
                        Err(error) => Err(error),
                    }
                }
                1 | 2 => ops.world_retry(world, operator).await,
                _ => ops.world_skip(world, operator).await,
            };
            self.run_state.note(format_args!("{world} on hold at {:?}: {done:?}", hold.seq));
        }
        found
    }

    /// Crashes hit worlds in their first cycle so often that some are taken for their cause. Says whether any was.
    async fn release_innocents(&self, ops: &Ops<SimPlane>) -> bool {
        let filter = WorldFilter { on_hold: Some(true), ..WorldFilter::default() };
        let Ok(listed) = ops.list_worlds(filter, None, limits::LIST_ITEMS_MAX).await else { return false };
        let mut found = false;
        for world in listed.items.iter().map(|listed| listed.world) {
            let hold = ops.describe_world(world).await.ok().and_then(|described| described.meta.hold);
            if hold.is_some_and(|hold| hold.code == Code::WorldEndsProcess.as_str()) {
                found = true;
                let released = ops.world_resume(world).await;
                self.run_state.note(format_args!("{world} on hold as if it ended processes: {released:?}"));
            }
        }
        found
    }

    /// A world that no client knows, with an item that no turn can take.
    async fn create_broken(&self, plane: &SimPlane, setting: &Setting) -> Result<(), mundi_runtime::RuntimeError> {
        let (universe, world) = (setting.universe, broken_world());
        create_world(plane, &self.run_state, setting, world).await?;
        let origin = Origin::new(0);
        let item = NewItem { item: InboxItem { input: script_event("break"), origin }, dedupe: None };
        let (engine, clock, blobs) = (&plane.engine, &*plane.clock, &plane.blobs);
        enqueue(engine, clock, blobs, universe, world, vec![item], limits::DEDUPE_WINDOW_NS).await?;
        Ok(())
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

    /// Nothing goes wrong any more: everything must come to rest. Says what did not.
    pub(crate) async fn heal(&self) -> Result<(), String> {
        self.run_state.note(format_args!("healed"));
        self.run_state.set_striking(false);
        self.run_state.set_ambush(None); // it holds the stage that holds it
        let places = self.slots.lock().len();
        for place in 0..places {
            // A paused node's wall clock is right again, too, when it goes on.
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
    fn add_sweepers(&self) -> Vec<usize> {
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
    async fn disturb(&self, plane: &SimPlane, sweepers: &[usize], round: u64) {
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

    /// Nobody writes any more.
    pub(crate) fn stop(&self) {
        self.stop_those(|_| true);
    }

    fn stop_those(&self, which: impl Fn(&Slot) -> bool) {
        let mut slots = self.slots.lock();
        let lives = slots.iter_mut().filter(|slot| which(slot)).filter_map(|slot| slot.life.take());
        lives.for_each(|life| life.node.crash());
    }

    /// A worker that was told to drain runs nothing any more.
    fn restart_drained(&self) {
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

    async fn wait_for_clients(&self) -> Result<(), String> {
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

    /// Whoever was put to rest on purpose is woken, and whoever is pinned is let go.
    async fn wake_worlds(&self) {
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
