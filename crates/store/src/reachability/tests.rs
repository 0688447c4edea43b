//! Objects that the sweep may and may not take, and its races with puts.

use super::{GRACE_MIN, SweepConfig, SweepReport, Swept, sweep, usage, walk::walk};
use crate::{
    Clock,
    blob::Blobs,
    blobs::{Cas, CasConfig, NO_REFS, Verify, body_path},
    keyspace::{
        cas_doomed, cas_meta,
        cas_meta::Generation,
        kept_object::Kind,
        registered::{self, Registered, RegisteredKind},
        segment, sweep_mark,
    },
    objects::Objects,
    protocol::{
        BeginSweep, Begun, CloseWorld, ExportPolicy, KeepObject, NameProgram, ReadSweep, Register, ReleaseObject,
        RequestSweep, UnnameProgram,
        cas_sweep::{Condemn, DoomOrphan, Remove, Removed},
        delete_world,
        sweep_run::NoteSweep,
    },
    run,
    segments::export_segment,
    testing::{
        CountingEntropy, CrashSwitch, CrashingEngine, Fault, FaultyObjects, HandmadeWorld, ManualClock, PinBlob, Rng,
        Side, UnpinBlob, engine_contents, object_contents,
    },
};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use mundi_engine::{Engine, Memory, Transaction};
use mundi_model::{Code, Coded, Hash, UniverseId, WorkerId, WorldId, record::Payload};
use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use pollster::block_on;
use std::{collections::BTreeSet, sync::Arc, time::Duration};

const UNIVERSE: UniverseId = UniverseId::from_bytes([1; 16]);
const WORLD: WorldId = WorldId::from_bytes([2; 16]);
const GRACE: Duration = GRACE_MIN;
const SECOND: Duration = Duration::from_secs(1);
const WORKER: WorkerId = WorkerId::new(9).unwrap();
const CONFIG: SweepConfig =
    SweepConfig { grace: GRACE, keys_per_second_max: 0, removals_per_second_max: 0, ttl: Duration::from_secs(600) };
/// Far beyond what an object store's own clock says, so that what it holds is old.
const START_NS: u64 = 5_000_000_000_000_000_000;

struct Bench {
    memory: Memory,
    faulty: FaultyObjects,
    clock: ManualClock,
    switch: CrashSwitch,
    cas: Cas<CrashingEngine<Memory>>,
    world: HandmadeWorld,
}

async fn bench() -> Bench {
    let (memory, clock, switch) = (Memory::new(), ManualClock::at_ns(START_NS), CrashSwitch::default());
    let faulty = FaultyObjects::in_memory().with_crashes(switch.clone());
    let engine = CrashingEngine::new(memory.clone(), switch.clone());
    let objects = Objects::new(Arc::new(faulty.clone()));
    let entropy = Arc::new(CountingEntropy::default());
    let cas = Cas::new(engine, objects, Arc::new(clock.clone()), entropy, CasConfig::default());
    let world = HandmadeWorld::create(&memory, UNIVERSE, WORLD).await.unwrap();
    Bench { memory, faulty, clock, switch, cas, world }
}

impl Bench {
    /// A small object, or one with a body of its own.
    async fn put(&self, name: u8, refs: &[Hash]) -> Hash {
        let bytes = body(name);
        self.cas.put(UNIVERSE, bytes, &refs.iter().copied().collect()).await.unwrap()
    }

    async fn sweep(&self) -> SweepReport {
        let swept = self.try_sweep(&self.cas, WORKER).await.unwrap();
        let Swept::Done(report) = swept else { panic!("{swept:?}") };
        *report
    }

    async fn try_sweep(&self, cas: &Cas<CrashingEngine<Memory>>, worker: WorkerId) -> Result<Swept, crate::StoreError> {
        sweep(cas, UNIVERSE, worker, &CONFIG).await
    }

    fn pass_grace(&self) {
        self.clock.advance(GRACE);
    }

    async fn has(&self, hash: Hash) -> bool {
        let has = self.cas.has(UNIVERSE, hash).await.unwrap();
        if has {
            self.cas.get(UNIVERSE, hash, Verify::Always).await.expect("what is there is whole");
        }
        has
    }

    /// Two visits, a grace period apart, after one in which everything grows old.
    async fn sweep_for_good(&self) -> SweepReport {
        self.pass_grace();
        self.sweep().await;
        self.pass_grace();
        self.sweep().await
    }

    async fn tx<P: crate::Protocol>(&self, protocol: &P) -> P::Output {
        run(&self.memory, &self.clock, protocol).await.unwrap().output
    }
}

/// Odd names are large.
fn body(name: u8) -> Bytes {
    Rng::new(u64::from(name)).bytes(if name.is_multiple_of(2) { 100 } else { 20_000 }).into()
}

#[test]
fn what_nothing_refers_to_is_removed_after_two_visits_and_not_before() {
    block_on(async {
        let bench = bench().await;
        let (small, large) = (bench.put(2, &[]).await, bench.put(3, &[]).await);
        let young = bench.sweep().await;
        assert_eq!((young.condemned, young.removed.len()), (0, 0), "younger than the grace period");
        bench.pass_grace();
        assert_eq!(bench.sweep().await.condemned, 2);
        let report = bench.sweep().await;
        assert_eq!((report.condemned, report.removed.len(), report.unreachable), (0, 0, 2), "condemned a moment ago");
        bench.clock.advance(GRACE - Duration::from_nanos(1));
        assert_eq!(bench.sweep().await.removed, [], "condemned less than a grace period ago");
        bench.clock.advance(Duration::from_nanos(1));
        let report = bench.sweep().await;
        assert_eq!((report.removed.len(), report.removed_bytes), (2, 20_100));
        assert!(!bench.has(small).await && !bench.has(large).await);
        assert!(object_contents(&*bench.faulty.inner()).await.unwrap().is_empty());
    });
}

#[test]
fn the_walk_reports_and_changes_nothing() {
    block_on(async {
        let bench = bench().await;
        let hash = bench.put(3, &[]).await;
        bench.pass_grace();
        let (keys, objects) =
            (engine_contents(&bench.memory).await.unwrap(), object_contents(&*bench.faulty.inner()).await.unwrap());
        let report = walk(&bench.cas, UNIVERSE, GRACE).await.unwrap();
        assert_eq!((report.worlds, report.objects, report.reachable), (1, 1, 0));
        assert_eq!((report.unreachable[0].hash, report.unreachable_bytes), (hash, 20_000));
        assert_eq!(engine_contents(&bench.memory).await.unwrap(), keys);
        assert_eq!(object_contents(&*bench.faulty.inner()).await.unwrap(), objects);
    });
}

#[test]
fn nothing_is_removed_that_a_record_a_segment_a_pin_or_another_object_refers_to() {
    block_on(async {
        let mut bench = bench().await;
        let exported = bench.put(1, &[]).await;
        let leaf = bench.put(3, &[]).await;
        let inner = bench.put(5, &[leaf]).await;
        let hot = bench.put(7, &[inner]).await;
        let nested = bench.put(9, &[]).await;
        let pinned = bench.put(11, &[]).await;
        let loose = bench.put(13, &[]).await;
        let engine = bench.memory.clone();
        bench.world.append(&engine, [Payload::Blob(exported, 20_000)]).await.unwrap();
        bench.world.promote(&engine, bench.world.head).await.unwrap();
        let policy = ExportPolicy { margin: 0, records_min: 1, ..ExportPolicy::DEFAULT };
        let objects = bench.cas.objects().clone();
        export_segment(&engine, &objects, &bench.clock, bench.world.fence, policy, Duration::ZERO).await.unwrap();
        assert_eq!(bench.world.hot(&engine).await.unwrap(), 0);
        let text = Payload::Inline(format!("{{\"see\":\"{nested}\"}}").into_bytes());
        bench.world.append(&engine, [Payload::Blob(hot, 20_000), text]).await.unwrap();
        let pin = PinBlob { fence: bench.world.fence, hash: pinned, reason: "kept".into(), now_ns: START_NS };
        bench.tx(&pin).await;
        assert_eq!(bench.sweep_for_good().await.removed, [loose]);
        for hash in [exported, leaf, inner, hot, nested, pinned] {
            assert!(bench.has(hash).await);
        }
        bench.tx(&UnpinBlob { fence: bench.world.fence, hash: pinned }).await;
        assert_eq!(bench.sweep_for_good().await.removed, [pinned]);
        bench.world.delete(&engine).await.unwrap();
        assert_eq!(bench.sweep().await.segments, 1, "with the world go its segments");
        bench.pass_grace();
        assert_eq!(bench.sweep().await.removed.len(), 5, "and what only it referred to");
        assert!(object_contents(&*bench.faulty.inner()).await.unwrap().is_empty());
        let mut tx = engine.begin().await.unwrap();
        assert_eq!(segment::newest(&mut tx, UNIVERSE, WORLD).await.unwrap(), None);
    });
}

#[test]
fn a_young_object_protects_what_it_refers_to() {
    block_on(async {
        let bench = bench().await;
        let child = bench.put(3, &[]).await;
        bench.pass_grace();
        assert_eq!(bench.sweep().await.condemned, 1);
        bench.pass_grace();
        let parent = bench.put(5, &[child]).await;
        assert_eq!(bench.sweep().await.removed, [], "the put took the condemnation back");
        assert!(bench.has(parent).await && bench.has(child).await);
    });
}

#[test]
fn a_put_of_a_condemned_object_starts_its_grace_period_anew() {
    block_on(async {
        let bench = bench().await;
        let hash = bench.put(3, &[]).await;
        bench.pass_grace();
        bench.sweep().await;
        bench.pass_grace();
        bench.put(3, &[]).await;
        assert_eq!(bench.sweep().await.removed, []);
        assert!(bench.has(hash).await);
        assert_eq!(bench.sweep_for_good().await.removed, [hash]);
    });
}

#[test]
fn a_reference_that_appears_after_the_condemnation_takes_it_back() {
    block_on(async {
        let mut bench = bench().await;
        let hash = bench.put(3, &[]).await;
        bench.pass_grace();
        bench.sweep().await;
        let engine = bench.memory.clone();
        bench.world.append(&engine, [Payload::Blob(hash, 1)]).await.unwrap();
        bench.pass_grace();
        assert_eq!(bench.sweep().await.reprieved, 1);
        bench.world.delete(&engine).await.unwrap();
        bench.pass_grace();
        let report = bench.sweep().await;
        assert_eq!((report.condemned, report.removed.len()), (1, 0), "it is judged anew, with a whole grace period");
    });
}

/// The transaction that removes and the put read the same key: whichever commits second runs again.
#[test]
fn a_put_between_the_walk_and_the_removal_saves_the_object() {
    block_on(async {
        let bench = bench().await;
        let hash = bench.put(3, &[]).await;
        let condemned_at_ns = START_NS;
        bench.tx(&Condemn { universe: UNIVERSE, hashes: &[hash], now_ns: condemned_at_ns }).await;
        bench.put(3, &[]).await;
        let remove = Remove { universe: UNIVERSE, hash, condemned_at_ns, now_ns: START_NS };
        assert_eq!(bench.tx(&remove).await, (Removed::Spared, None));
        // As does a protocol that asks, inside its transaction, whether the object is there.
        bench.tx(&Condemn { universe: UNIVERSE, hashes: &[hash], now_ns: condemned_at_ns }).await;
        let mut asking = bench.memory.begin().await.unwrap();
        assert!(bench.cas.missing(&mut asking, UNIVERSE, &[hash]).await.unwrap().is_empty());
        let mut removing = bench.memory.begin().await.unwrap();
        assert_eq!(crate::Protocol::run(&remove, &mut removing).await.unwrap().0, Removed::Gone);
        asking.commit().await.unwrap();
        removing.commit().await.expect_err("it read what the other one wrote");
        assert!(bench.has(hash).await);
    });
}

#[test]
fn a_body_deletion_that_arrives_late_does_not_hit_a_new_upload() {
    block_on(async {
        let bench = bench().await;
        let hash = bench.put(3, &[]).await;
        bench.pass_grace();
        bench.sweep().await;
        bench.pass_grace();
        // The sweep removes the metadata, and its deletion of the body is delayed.
        let condemned_at_ns = {
            let mut tx = bench.memory.begin().await.unwrap();
            cas_meta::read(&mut tx, UNIVERSE, hash).await.unwrap().unwrap().condemned_at_ns.unwrap()
        };
        let remove = Remove { universe: UNIVERSE, hash, condemned_at_ns, now_ns: START_NS };
        assert_eq!(bench.tx(&remove).await, (Removed::Gone, Some(Generation::FIRST)));
        assert!(!bench.has(hash).await);
        // Someone puts the same bytes; then the deletion arrives.
        bench.put(3, &[]).await;
        bench.faulty.inner().delete(&body_path(UNIVERSE, hash, Generation::FIRST)).await.unwrap();
        assert!(bench.has(hash).await, "the new body has a key of its own");
        assert!(bench.sweep_for_good().await.removed.contains(&hash));
        bench.pass_grace();
        bench.sweep().await;
        let mut tx = bench.memory.begin().await.unwrap();
        assert_eq!(cas_doomed::read(&mut tx, UNIVERSE, hash).await.unwrap(), None, "long over, and forgotten");
        assert!(object_contents(&*bench.faulty.inner()).await.unwrap().is_empty());
    });
}

#[test]
fn an_upload_that_a_sweep_took_for_an_orphan_is_made_again() {
    block_on(async {
        let bench = bench().await;
        let hash = Hash::of(&body(3));
        // The body is uploaded; before its metadata is written, a sweep dooms it and deletes it.
        let path = body_path(UNIVERSE, hash, Generation::FIRST);
        bench.faulty.inner().put(&path, body(3).into()).await.unwrap();
        let doom = DoomOrphan { universe: UNIVERSE, hash, generation: Generation::FIRST, now_ns: START_NS };
        assert!(bench.tx(&doom).await);
        bench.faulty.inner().delete(&path).await.unwrap();
        bench.put(3, &[]).await;
        assert!(bench.has(hash).await);
        assert!(!bench.tx(&DoomOrphan { generation: Generation::new(1), ..doom }).await, "it is no orphan");
    });
}

#[test]
fn bodies_that_crashed_puts_left_behind_are_removed() {
    block_on(async {
        let bench = bench().await;
        let kept = bench.put(5, &[]).await;
        bench.switch.revive();
        bench.switch.arm(1, Side::Before); // the body is there, its metadata is not
        bench.cas.put(UNIVERSE, body(3), NO_REFS).await.unwrap_err();
        bench.switch.revive();
        let incoming = format!("cas/{UNIVERSE}/incoming/00ff");
        bench.faulty.inner().put(&incoming.into(), body(7).into()).await.unwrap();
        assert_eq!(object_contents(&*bench.faulty.inner()).await.unwrap().len(), 3);
        let report = bench.sweep().await;
        assert_eq!((report.leftovers, report.removed.len()), (2, 0));
        assert!(bench.has(kept).await);
        assert_eq!(object_contents(&*bench.faulty.inner()).await.unwrap().len(), 1);
        bench.put(3, &[]).await;
        assert!(bench.has(Hash::of(&body(3))).await);
    });
}

#[test]
fn a_sweep_that_crashes_at_any_step_is_finished_by_later_ones() {
    block_on(async {
        for (step, side) in (0..14).flat_map(|step| [(step, Side::Before), (step, Side::After)]) {
            let bench = bench().await;
            let child = bench.put(3, &[]).await;
            let (parent, kept) = (bench.put(5, &[child]).await, bench.put(7, &[]).await);
            let pin = PinBlob { fence: bench.world.fence, hash: kept, reason: "kept".into(), now_ns: START_NS };
            bench.tx(&pin).await;
            bench.pass_grace();
            bench.sweep().await;
            bench.pass_grace();
            bench.switch.revive();
            bench.switch.arm(step, side);
            let _died = bench.try_sweep(&bench.cas, WORKER).await;
            bench.switch.revive();
            for _ in 0..3 {
                bench.pass_grace();
                bench.sweep().await;
            }
            assert!(!bench.has(parent).await && !bench.has(child).await && bench.has(kept).await);
            let objects = object_contents(&*bench.faulty.inner()).await.unwrap();
            assert_eq!(objects.len(), 1, "step {step} {side:?}: {:?}", objects.keys());
            let mut tx = bench.memory.begin().await.unwrap();
            assert_eq!(cas_doomed::read(&mut tx, UNIVERSE, parent).await.unwrap(), None);
        }
    });
}

#[test]
fn referrers_are_removed_first_and_a_spared_one_spares_what_it_needs() {
    block_on(async {
        let bench = bench().await;
        let leaf = bench.put(3, &[]).await;
        let inner = bench.put(5, &[leaf]).await;
        let top = bench.put(7, &[inner]).await;
        bench.pass_grace();
        let report = walk(&bench.cas, UNIVERSE, GRACE).await.unwrap();
        let order: Vec<_> = report.unreachable.iter().map(|object| object.hash).collect();
        assert_eq!(order, [top, inner, leaf]);
        bench.sweep().await;
        bench.pass_grace();
        // The first of the removals is the one of `top`; its body's deletion takes a moment.
        let (cas, putting) = (bench.cas.clone(), bench.cas.clone());
        let hook = HookClock::new(async move {
            putting.put(UNIVERSE, body(5), NO_REFS).await.unwrap();
        });
        let slow = FaultyObjects::over(bench.faulty.inner()).with_clock(hook).with_fault(0, Fault::Slow(SECOND));
        let cas = Cas { objects: Objects::new(Arc::new(slow)), ..cas };
        let Swept::Done(report) = bench.try_sweep(&cas, WORKER).await.unwrap() else { panic!("nobody else sweeps") };
        assert_eq!((report.removed, report.spared), (vec![top], vec![inner]));
        assert!(bench.has(inner).await && bench.has(leaf).await);
    });
}

#[test]
fn universes_do_not_see_each_other() {
    block_on(async {
        let bench = bench().await;
        let other = UniverseId::from_bytes([7; 16]);
        let hash = bench.cas.put(other, body(3), NO_REFS).await.unwrap();
        bench.sweep_for_good().await;
        assert!(bench.cas.has(other, hash).await.unwrap());
    });
}

/// A clock whose pauses are long enough for something to happen: at its first one, this.
struct HookClock(Mutex<Option<BoxFuture<'static, ()>>>);

impl HookClock {
    fn new(hook: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Some(Box::pin(hook)))))
    }
}

impl Clock for HookClock {
    fn now_ns(&self) -> u64 {
        START_NS
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        self.0.lock().take().unwrap_or_else(|| Box::pin(std::future::ready(())))
    }
}

#[test]
fn a_put_whose_body_is_swept_before_its_metadata_is_written_uploads_again() {
    block_on(async {
        let bench = bench().await;
        let hash = Hash::of(&body(3));
        let engine = bench.memory.clone();
        let doom = DoomOrphan { universe: UNIVERSE, hash, generation: Generation::FIRST, now_ns: START_NS };
        let hook = HookClock::new(async move {
            run(&engine, &ManualClock::default(), &doom).await.unwrap();
        });
        let pause = Fault::Slow(Duration::from_secs(1)); // while the body is on its way
        let slow = FaultyObjects::over(bench.faulty.inner()).with_clock(hook).with_fault(0, pause);
        let cas = Cas { objects: Objects::new(Arc::new(slow)), ..bench.cas.clone() };
        cas.put(UNIVERSE, body(3), NO_REFS).await.unwrap();
        bench.faulty.inner().delete(&body_path(UNIVERSE, hash, Generation::FIRST)).await.unwrap();
        assert!(bench.has(hash).await, "the deletion that was decided meanwhile hits only the first upload");
    });
}

/// A world with a segment in the object store, whose footer the walk reads: there something can happen meanwhile.
async fn export_world(bench: &mut Bench, engine: &Memory) {
    bench.world.append(engine, [Payload::Inline(vec![])]).await.unwrap();
    bench.world.promote(engine, bench.world.head).await.unwrap();
    let policy = ExportPolicy { margin: 0, records_min: 1, ..ExportPolicy::DEFAULT };
    let objects = bench.cas.objects().clone();
    export_segment(engine, &objects, &bench.clock, bench.world.fence, policy, Duration::ZERO).await.unwrap();
}

#[test]
fn a_world_that_is_deleted_while_the_sweep_walks_keeps_its_keys_until_the_walk_is_over() {
    block_on(async {
        let mut bench = bench().await;
        let engine = bench.memory.clone();
        let moved = bench.put(3, &[]).await;
        export_world(&mut bench, &engine).await;
        // Behind the world with the segment in the order of the walk, and the only one that refers to the object.
        let mut last = HandmadeWorld::create(&engine, UNIVERSE, WorldId::from_bytes([3; 16])).await.unwrap();
        last.append(&engine, [Payload::Blob(moved, 1)]).await.unwrap();
        bench.pass_grace();
        let (deleting, clock, fence) = (engine.clone(), bench.clock.clone(), last.fence);
        let hook = HookClock::new(async move { delete_world(&deleting, &clock, fence).await.unwrap() });
        let slow = FaultyObjects::over(bench.faulty.inner()).with_clock(hook).with_fault(0, Fault::Slow(SECOND));
        let cas = Cas { objects: Objects::new(Arc::new(slow)), ..bench.cas.clone() };
        let Swept::Done(report) = bench.try_sweep(&cas, WORKER).await.unwrap() else { panic!("nobody else sweeps") };
        assert_eq!((report.condemned, report.worlds, report.worlds_finished), (0, 2, 1), "it was seen, then it went");
        let counted = usage(&bench.cas, UNIVERSE).await.unwrap();
        assert_eq!((counted.worlds, counted.worlds_deleting, counted.worlds_deleted), (1, 0, 1));
        assert_eq!(last.hot(&engine).await.unwrap(), 0);
        assert_eq!(bench.sweep_for_good().await.removed, [moved]);
    });
}

#[test]
fn a_run_that_another_process_has_made_meanwhile_is_not_made_again() {
    block_on(async {
        let bench = bench().await;
        bench.tx(&RequestSweep { universe: UNIVERSE, dry_run: false, now_ns: START_NS }).await;
        let Swept::Done(_) = bench.try_sweep(&bench.cas, WORKER).await.unwrap() else { panic!("nobody else sweeps") };
        // It saw the request before the other one began.
        let late = BeginSweep { universe: UNIVERSE, worker: WORKER, now_ns: START_NS, ttl_ns: 1_000, ended: 0 };
        assert_eq!(bench.tx(&late).await, Begun::Made);
        bench.tx(&RequestSweep { universe: UNIVERSE, dry_run: false, now_ns: START_NS }).await;
        assert!(matches!(bench.tx(&late).await, Begun::Run(_)), "it is asked for again");
    });
}

#[test]
fn a_walk_whose_holder_went_silent_is_cancelled_by_a_deletion() {
    block_on(async {
        let bench = bench().await;
        let begin = BeginSweep { universe: UNIVERSE, worker: WORKER, now_ns: START_NS, ttl_ns: 1_000, ended: 0 };
        let Begun::Run(running) = bench.tx(&begin).await else { panic!("nobody else sweeps") };
        bench.clock.advance(Duration::from_nanos(1_000));
        delete_world(&bench.memory, &bench.clock, bench.world.fence).await.unwrap();
        assert_eq!(usage(&bench.cas, UNIVERSE).await.unwrap().worlds_deleted, 1);
        let late = NoteSweep { universe: UNIVERSE, running: &running, found: None };
        let refused = run(&bench.memory, &bench.clock, &late).await.unwrap_err();
        assert_eq!(refused.code(), Code::SweepRaced);
    });
}

#[test]
fn a_walk_that_was_interrupted_is_resumed_and_no_world_is_walked_twice() {
    block_on(async {
        let bench = bench().await;
        let engine = bench.memory.clone();
        let (kept, loose) = (bench.put(3, &[]).await, bench.put(5, &[]).await);
        // More worlds than are walked between two notes; the first one refers to the object.
        let mut first = HandmadeWorld::create(&engine, UNIVERSE, WorldId::from_bytes([1; 16])).await.unwrap();
        first.append(&engine, [Payload::Blob(kept, 1)]).await.unwrap();
        for number in 0..200 {
            let id = WorldId::from_bytes([9, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            HandmadeWorld::create(&engine, UNIVERSE, id).await.unwrap();
        }
        bench.pass_grace();
        bench.switch.revive();
        bench.switch.arm(1, Side::After); // the run has begun, and has made its first note
        bench.try_sweep(&bench.cas, WORKER).await.unwrap_err();
        bench.switch.revive();
        let state = bench.tx(&ReadSweep { universe: UNIVERSE }).await;
        let running = state.running.unwrap();
        assert_eq!((running.worlds, running.is_walking()), (64, true));
        // What the first world says now is not read again, so the walk must have noted what it said before.
        first.delete(&engine).await.unwrap();
        let other = WorkerId::new(8).unwrap();
        let busy = bench.try_sweep(&bench.cas, other).await.unwrap();
        assert_eq!(busy, Swept::Busy { holder: WORKER, until_ns: running.until_ns });
        bench.clock.advance(CONFIG.ttl);
        let Swept::Done(report) = bench.try_sweep(&bench.cas, other).await.unwrap() else { panic!("it went silent") };
        assert_eq!((report.worlds, report.condemned, report.unreachable), (202, 1, 1));
        let state = bench.tx(&ReadSweep { universe: UNIVERSE }).await;
        assert_eq!((state.running, state.runs, state.last.unwrap().run), (None, 1, 1));
        let mut tx = engine.begin().await.unwrap();
        assert!(cas_meta::read(&mut tx, UNIVERSE, kept).await.unwrap().unwrap().condemned_at_ns.is_none());
        assert!(cas_meta::read(&mut tx, UNIVERSE, loose).await.unwrap().unwrap().condemned_at_ns.is_some());
        let marks = tx.range(sweep_mark::span(UNIVERSE).read(1)).await.unwrap();
        assert!(marks.items.is_empty(), "they are of no use any more");
    });
}

#[test]
fn a_dry_run_tells_what_would_go_and_removes_nothing() {
    block_on(async {
        let bench = bench().await;
        let (old, _kept) = (bench.put(3, &[]).await, bench.put(5, &[]).await);
        bench.pass_grace();
        bench.sweep().await;
        bench.pass_grace();
        bench.put(5, &[]).await;
        let number = bench.tx(&RequestSweep { universe: UNIVERSE, dry_run: true, now_ns: START_NS }).await;
        let report = bench.sweep().await;
        assert!(report.dry_run);
        assert_eq!((report.removed, report.removed_bytes), (vec![old], 20_000));
        assert!(bench.has(old).await);
        let last = bench.tx(&ReadSweep { universe: UNIVERSE }).await.last.unwrap();
        assert_eq!((last.run, last.dry_run, last.totals.removed), (number, true, 1));
        assert_eq!(bench.sweep().await.removed, [old], "it was asked for once");
    });
}

#[test]
fn a_dry_run_counts_worlds_that_are_half_deleted_and_leaves_their_keys() {
    block_on(async {
        let mut bench = bench().await;
        let engine = bench.memory.clone();
        bench.world.append(&engine, [Payload::Inline(vec![])]).await.unwrap();
        bench.tx(&CloseWorld { universe: UNIVERSE, world: WORLD }).await;
        let hot = bench.world.hot(&engine).await.unwrap();
        assert!(hot > 0);
        bench.tx(&RequestSweep { universe: UNIVERSE, dry_run: true, now_ns: START_NS }).await;
        let report = bench.sweep().await;
        assert_eq!((report.dry_run, report.worlds_finished), (true, 1));
        assert_eq!(bench.world.hot(&engine).await.unwrap(), hot);
        let counted = usage(&bench.cas, UNIVERSE).await.unwrap();
        assert_eq!((counted.worlds_deleting, counted.worlds_deleted), (1, 0));
        let report = bench.sweep().await;
        assert_eq!((report.dry_run, report.worlds_finished), (false, 1));
        assert_eq!(usage(&bench.cas, UNIVERSE).await.unwrap().worlds_deleted, 1);
    });
}

/// It would leave the keys to a run that removes, perhaps a day later.
#[test]
fn a_world_that_is_deleted_while_a_dry_run_walks_goes_at_once() {
    block_on(async {
        let mut bench = bench().await;
        let engine = bench.memory.clone();
        export_world(&mut bench, &engine).await;
        let last = HandmadeWorld::create(&engine, UNIVERSE, WorldId::from_bytes([3; 16])).await.unwrap();
        let (deleting, clock, fence) = (engine.clone(), bench.clock.clone(), last.fence);
        let hook = HookClock::new(async move { delete_world(&deleting, &clock, fence).await.unwrap() });
        let slow = FaultyObjects::over(bench.faulty.inner()).with_clock(hook).with_fault(0, Fault::Slow(SECOND));
        let cas = Cas { objects: Objects::new(Arc::new(slow)), ..bench.cas.clone() };
        bench.tx(&RequestSweep { universe: UNIVERSE, dry_run: true, now_ns: START_NS }).await;
        let Swept::Done(report) = bench.try_sweep(&cas, WORKER).await.unwrap() else { panic!("nobody else sweeps") };
        assert_eq!((report.dry_run, report.worlds_finished), (true, 0));
        assert_eq!(usage(&bench.cas, UNIVERSE).await.unwrap().worlds_deleted, 1);
    });
}

/// An installation keeps a record of each world that it ever had.
#[test]
fn a_run_reads_and_removes_the_keys_of_deleted_worlds_no_faster_than_it_may() {
    block_on(async {
        let bench = bench().await;
        for number in 0..200 {
            let id = WorldId::from_bytes([9, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let world = HandmadeWorld::create(&bench.memory, UNIVERSE, id).await.unwrap();
            delete_world(&bench.memory, &bench.clock, world.fence).await.unwrap();
        }
        let config = SweepConfig { keys_per_second_max: 1_000, ..CONFIG };
        let took = async || {
            let began = bench.clock.now_ns();
            let Swept::Done(report) = sweep(&bench.cas, UNIVERSE, WORKER, &config).await.unwrap() else { panic!() };
            (*report, Duration::from_nanos(bench.clock.now_ns() - began))
        };
        let three_looks = 3 * 200 * SECOND / 1_000;
        let (report, passed) = took().await;
        assert_eq!((report.worlds, report.worlds_finished), (1, 0));
        assert!(report.keys >= 3 * 200 && passed >= three_looks, "{} keys in {passed:?}", report.keys);
        bench.tx(&CloseWorld { universe: UNIVERSE, world: WORLD }).await;
        let (report, longer) = took().await;
        assert_eq!(report.worlds_finished, 1);
        assert!(longer >= three_looks + 2 * SECOND, "{longer:?}, with a chunk of 2,000 keys");
    });
}

#[test]
fn what_a_universe_keeps_stays_and_so_do_the_programs_of_its_manifests() {
    block_on(async {
        let bench = bench().await;
        let program = bench.put(3, &[]).await;
        let text = Bytes::from(format!("{{\"program\":\"{program}\"}}"));
        let manifest = bench.cas.put(UNIVERSE, text, NO_REFS).await.unwrap();
        let alone = bench.put(5, &[]).await;
        let now_ns = START_NS;
        for (hash, kind) in [(manifest, Kind::Manifest), (alone, Kind::Program)] {
            bench.tx(&KeepObject { universe: UNIVERSE, hash, kind, now_ns }).await;
        }
        assert_eq!(usage(&bench.cas, UNIVERSE).await.unwrap().kept_objects, 2);
        assert!(bench.sweep_for_good().await.removed.is_empty());
        let release = |hash, kind| ReleaseObject { universe: UNIVERSE, hash, kind };
        assert!(!bench.tx(&release(manifest, Kind::Program)).await, "it is none");
        assert!(bench.tx(&release(manifest, Kind::Manifest)).await);
        assert!(!bench.tx(&release(manifest, Kind::Manifest)).await, "it is gone already");
        let removed = bench.sweep_for_good().await.removed;
        assert_eq!(removed.iter().copied().collect::<BTreeSet<_>>(), [program, manifest].into());
        assert!(bench.has(alone).await);
        let lost = KeepObject { universe: UNIVERSE, hash: program, kind: Kind::Program, now_ns };
        let refused = run(&bench.memory, &bench.clock, &lost).await.unwrap_err();
        assert_eq!(refused.code(), Code::BlobNotFound);
    });
}

/// Of a manifest that has a name, nothing but the name speaks here: it was put by hand, and is kept by nobody.
#[test]
fn the_manifest_of_a_named_version_stays_with_its_program_until_the_version_is_deleted() {
    block_on(async {
        let bench = bench().await;
        let program = bench.put(3, &[]).await;
        let text = Bytes::from(format!("{{\"program\":\"{program}\"}}"));
        let manifest = bench.cas.put(UNIVERSE, text, NO_REFS).await.unwrap();
        let entry = Registered { hash: manifest, needs: Vec::new(), at_ns: START_NS };
        bench.tx(&Register { universe: UNIVERSE, entries: vec![(RegisteredKind::Manifest, entry)] }).await;
        let (name, code) = ("todo".to_owned(), Hash::of(b"some other code"));
        let naming = NameProgram {
            universe: UNIVERSE,
            name: name.clone(),
            version: None,
            manifest,
            program: code,
            now_ns: START_NS,
        };
        assert_eq!(bench.tx(&naming).await.version, 1);
        let release = ReleaseObject { universe: UNIVERSE, hash: manifest, kind: Kind::Manifest };
        let refused = run(&bench.memory, &bench.clock, &release).await.unwrap_err();
        assert_eq!(refused.code(), Code::ProgramNamed);
        // As a version before names left it: the registration went, the name is all that there is.
        let mut tx = bench.memory.begin().await.unwrap();
        tx.delete(registered::key(UNIVERSE, RegisteredKind::Manifest, manifest).as_bytes()).unwrap();
        tx.commit().await.unwrap();
        assert!(bench.sweep_for_good().await.removed.is_empty());
        assert!(bench.tx(&UnnameProgram { universe: UNIVERSE, name, version: 1 }).await);
        let removed = bench.sweep_for_good().await.removed;
        assert_eq!(removed.iter().copied().collect::<BTreeSet<_>>(), [program, manifest].into());
    });
}
