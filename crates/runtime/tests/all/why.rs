//! Why a world is not moving: the causes that depend on other processes, on rates and on programs that are not ready.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_kernel::{
    Registry,
    loader::{Loader, Readiness},
    manifest::{Manifest, ManifestError},
    objects::Objects,
    program::Program,
};
use mundi_model::{
    Code, Hash, WorkerId, WorldId,
    record::{InboxItem, Operator, Origin},
};
use mundi_runtime::{
    Plane, Services,
    calls::Calls,
    control::{Budgets, Cause, Ops, SpentAttempts, SpentBudget},
    lifecycle::{NewWorld, create},
    testing::{Rig, TestPlane, script_event},
    world::CycleBudget,
};
use mundi_store::{
    keyspace::{Shard, assignment::Assignment, worker::WorkerRecord, world_meta::InboxBounds},
    protocol::{
        ClaimEffects, ClaimedEffect, FailEffect, Failure, Heartbeat, HoldWorld, KindCap, NewItem, Over, PlaceWorld,
        Purpose, Repeat, TakeOverLease, TakenOver,
    },
    testing::world_id,
    values::RateTerms,
};
use std::{sync::Arc, time::Duration};

fn id(n: u64) -> WorkerId {
    WorkerId::new(n).unwrap()
}

fn ops(plane: &TestPlane, rig: &Rig) -> Ops<TestPlane> {
    Ops::new(plane.clone(), rig.universe, Calls::default())
}

/// The causes of a kind, for people.
async fn causes(ops: &Ops<TestPlane>, world: WorldId, kind: &str) -> Vec<Cause> {
    ops.why(world).await.unwrap().causes.into_iter().filter(|cause| cause.as_str() == kind).collect()
}

#[test]
fn an_operation_that_gets_the_lease_next_is_named() {
    Rig::run(|rig| async move {
        let world = world_id(1);
        rig.create(world).await.unwrap();
        rig.acquire(world, id(1)).await.unwrap();
        rig.send(world, vec![script_event("put a 1")]).await.unwrap();
        let now_ns = rig.plane.now_ns();
        let take = TakeOverLease {
            universe: rig.universe,
            world,
            by: id(9),
            now_ns,
            ttl_ns: 1_000_000_000,
            request_ttl_ns: 60_000_000_000,
            purpose: Purpose::Upkeep,
        };
        assert!(!matches!(rig.plane.run(&take).await.unwrap().output, TakenOver::Now(_)), "another one has it");
        let found = causes(&ops(&rig.plane, &rig), world, "lease").await;
        let said: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(said[0].contains("which does not live"), "{said:?}");
        assert!(
            matches!(&found[1], Cause::Requested { by, until_ns } if *by == id(9) && *until_ns > now_ns),
            "{said:?}"
        );
        assert!(said[1].starts_with(&format!("an operation of {} gets its lease next", id(9))), "{said:?}");
    });
}

async fn claim(rig: &Rig, token: u8, cap: KindCap) -> Vec<ClaimedEffect> {
    let claim = ClaimEffects {
        universe: rig.universe,
        kind: "http".into(),
        worker: id(5),
        token: [token; 16],
        items_max: 1,
        ttl_ns: 30_000_000_000,
        now_ns: rig.plane.now_ns(),
        first: Shard::FIRST,
        cap,
    };
    rig.plane.run(&claim).await.unwrap().output.effects
}

#[test]
fn an_effect_says_who_claimed_it_when_it_is_tried_again_and_that_its_rate_limit_keeps_it() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig.plane, &rig), world_id(1));
        rig.create(world).await.unwrap();
        let mut host = rig.host(world, id(1)).await.unwrap();
        rig.tell(&mut host, &["emit a"]).await.unwrap();
        let failing = claim(&rig, 1, KindCap::default()).await.remove(0);
        let said = async || causes(&ops, world, "effect").await.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(said().await[0].ends_with(&format!("is carried out by {} in attempt 1", id(5))), "{:?}", said().await);
        let fail = FailEffect {
            claim: failing.proof,
            failure: Failure { code: Code::EffectFailed, reason: "not yet".into(), repeat: Repeat::AfterMs(60_000) },
            adapter: "a".into(),
            signature: None,
            params: None,
            now_ns: rig.plane.now_ns(),
            dedupe_window_ns: 1,
        };
        rig.plane.run(&fail).await.unwrap();
        let again = causes(&ops, world, "effect").await;
        let Cause::Effect(effect) = &again[0] else { panic!("{again:?}") };
        assert!(effect.attempts.not_before_ns >= rig.plane.now_ns() + 59_000_000_000, "{effect:?}");
        assert!(again[0].to_string().contains("failed 1 times (EFFECT_FAILED) and is tried again at"), "{}", again[0]);
        assert_eq!(again[0].advice(), Some("mundi effect retry or cancel"));

        // The first effect of a second uses the rate up; the next one gets its turn later.
        let slow = KindCap { calls_max: None, rate: Some(RateTerms { per_second: 1, burst: 1 }) };
        rig.tell(&mut host, &["emit b", "emit c"]).await.unwrap();
        assert_eq!(claim(&rig, 2, slow).await.len(), 1);
        assert_eq!(claim(&rig, 3, slow).await.len(), 0);
        let said = said().await;
        assert_eq!(said.iter().filter(|it| it.contains("waits for its rate limit until")).count(), 1, "{said:?}");
    });
}

/// Budgets of which some are used up.
#[derive(Default)]
struct Used {
    turns: bool,
    effects: bool,
    slots: bool,
    attempts: bool,
}

fn spent(quota: &'static str) -> SpentBudget {
    SpentBudget { quota, limit: 7, wait: Some(Duration::from_millis(1_500)) }
}

impl Budgets for Used {
    fn turns(&self) -> Option<SpentBudget> {
        self.turns.then(|| spent("fuel_per_second_max"))
    }

    fn effects(&self) -> Option<SpentBudget> {
        self.effects.then(|| spent("effects_per_second_max"))
    }

    fn kind_calls_max(&self, kind: &str) -> Option<usize> {
        (kind == "http").then_some(1)
    }

    fn kind_slots(&self, kind: &str) -> Option<usize> {
        (self.slots && kind == "http").then_some(3)
    }

    fn attempts(&self, _: u64) -> Option<SpentAttempts> {
        self.attempts.then_some(SpentAttempts { bound: "attempts_at_a_time_max", limit: 9 })
    }
}

#[test]
fn a_budget_that_is_used_up_is_named_for_turns_for_effects_and_for_a_kind() {
    Rig::run(|rig| async move {
        let world = world_id(1);
        rig.create(world).await.unwrap();
        let said = async |turns, effects| {
            let ops = ops(&rig.plane, &rig).with_budgets(Arc::new(Used { turns, effects, ..Used::default() }));
            causes(&ops, world, "budget").await.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(said(true, true).await.is_empty(), "it has nothing to do");
        rig.send(world, vec![script_event("put a 1")]).await.unwrap();
        let fuel = "its universe has used up `fuel_per_second_max` (7) in this process: there is room in 1500 ms";
        assert_eq!(said(true, true).await, [fuel], "no effect waits");
        assert!(said(false, false).await.is_empty());

        let mut host = rig.host(world, id(1)).await.unwrap();
        rig.tell(&mut host, &["emit a", "emit b"]).await.unwrap();
        let effects = said(false, true).await;
        assert_eq!(effects.len(), 1, "{effects:?}");
        assert!(effects[0].contains("`effects_per_second_max` (7)"), "{effects:?}");
        assert!(said(false, false).await.is_empty(), "no effect of the kind is in progress");
        let used = Used { slots: true, attempts: true, ..Used::default() };
        let of_process = causes(&ops(&rig.plane, &rig).with_budgets(Arc::new(used)), world, "budget").await;
        let said_of_process: Vec<_> = of_process.iter().map(ToString::to_string).collect();
        assert_eq!(
            said_of_process,
            [
                "this process makes as many attempts at effects of all universes as it may (`attempts_at_a_time_max`: 9)",
                "all 3 slots of this process for the kind `http` are taken (calls_max)",
            ]
        );
        assert!(of_process.iter().all(|cause| cause.advice().is_some()));
        assert_eq!(claim(&rig, 1, KindCap::default()).await.len(), 1);
        let full = said(false, false).await;
        assert_eq!(full, ["1 effects of the kind `http` are in progress, and no more may be (universe_calls_max)"]);
        assert_eq!(claim(&rig, 2, KindCap::default()).await.len(), 1);
        assert!(said(false, true).await.is_empty(), "all are in progress");
    });
}

#[test]
fn an_operator_that_paused_a_world_is_named_however_many_records_follow() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig.plane, &rig), world_id(1));
        rig.create(world).await.unwrap();
        let mut host = rig.host(world, id(1)).await.unwrap();
        rig.tell(&mut host, &["put a 1"]).await.unwrap();
        let operator = |name: &str| Operator { token: None, name: name.to_owned() };
        let mut pause = async |name: Option<&str>| {
            match name {
                Some(name) => ops.world_pause_by(world, &operator(name)).await.unwrap(),
                None => ops.world_resume(world).await.unwrap(),
            };
            host.turn(&CycleBudget::default()).await.unwrap();
        };
        for name in [Some("carol"), None, Some("alice")].into_iter().chain([Some("bob"); 100]) {
            pause(name).await;
        }
        let paused = causes(&ops, world, "paused").await.remove(0);
        assert!(paused.to_string().starts_with("it is paused by alice since "), "{paused}");
    });
}

/// A loader whose compiler is at one point of its work.
struct Halfway(Readiness);

impl Loader for Halfway {
    fn inspect(&self, _: &[u8]) -> Result<(), ManifestError> {
        Ok(())
    }

    fn prepare(&self, _: Hash, _: Option<Arc<[u8]>>) -> Readiness {
        self.0.clone()
    }

    fn check(&self, _: &Manifest) -> Result<(), ManifestError> {
        Ok(())
    }

    fn load(&self, _: &dyn Objects, manifest: &Manifest) -> Result<Arc<dyn Program>, ManifestError> {
        Err(ManifestError::ProgramUnknown(manifest.program))
    }
}

#[test]
fn a_program_that_is_compiled_first_or_refused_is_named() {
    Rig::run(|rig| async move {
        let world = world_id(1);
        rig.create(world).await.unwrap();
        rig.send(world, vec![script_event("put a 1")]).await.unwrap();
        assert!(causes(&ops(&rig.plane, &rig), world, "program").await.is_empty(), "the script is at hand");
        let expected = [
            (Readiness::Queued { ahead: 3 }, Some("is compiled after 3 others")),
            (Readiness::Compiling { bytes: 7 }, Some("is being compiled")),
            (Readiness::Refused("too large".into()), Some("cannot run here: too large")),
            (Readiness::Unknown, None),
        ];
        for (state, said) in expected {
            let is_refused = matches!(state, Readiness::Refused(_));
            let mut registry = Registry::new();
            registry.set_loader(Arc::new(Halfway(state)));
            let plane = Services { registry: Arc::new(registry), ..rig.plane.clone() };
            let found = causes(&ops(&plane, &rig), world, "program").await;
            assert_eq!(found.first().map(ToString::to_string).is_some(), said.is_some(), "{found:?}");
            if let (Some(cause), Some(said)) = (found.first(), said) {
                assert!(cause.to_string().ends_with(said), "{cause}");
                assert_eq!(cause.advice().is_some(), is_refused, "only a refusal needs somebody");
            }
        }
    });
}

async fn beat(rig: &Rig, worker: WorkerId, worlds_max: u32, ttl_ns: u64) {
    let now_ns = rig.plane.now_ns();
    let record = WorkerRecord {
        started_at_ns: now_ns,
        expires_at_ns: now_ns + ttl_ns,
        worlds_max,
        draining: false,
        schema_version: 1,
        address: None,
        worlds: Some(1),
        roles: None,
    };
    rig.plane.run(&Heartbeat { universe: rig.universe, worker, record: Some(record) }).await.unwrap();
}

#[test]
fn a_world_without_a_turn_names_the_worker_that_it_waits_for() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig.plane, &rig), world_id(1));
        rig.create(world).await.unwrap();
        rig.send(world, vec![script_event("put a 1")]).await.unwrap();
        let room = async || {
            let found = causes(&ops, world, "room").await;
            found.first().map(|cause| (cause.to_string(), cause.advice().unwrap().to_owned()))
        };
        let (said, advice) = room().await.unwrap();
        assert!(said.ends_with("a worker: none lives that takes worlds"), "{said}");
        assert_eq!(advice, "start a worker, or raise node.worlds_max");
        beat(&rig, id(1), 1, HOUR_NS).await;
        let (said, _) = room().await.unwrap();
        assert!(said.ends_with("room: all 1 workers that live are full"), "{said}");
        beat(&rig, id(1), 2, HOUR_NS).await;
        assert_eq!(room().await, None, "it is about to be taken");

        ops.assign_world(world, id(7), 128).await.unwrap();
        let (said, advice) = room().await.unwrap();
        assert!(said.contains(&format!("{}, which it is pinned to", id(7))), "{said}");
        assert_eq!(advice, "start that worker, or mundi worker unpin");
        let to = Assignment { desired: Some(id(7)), pinned: false, priority: 128, reason: None };
        let place = PlaceWorld { universe: rig.universe, world, over: Over::Anything, to, mail: Vec::new() };
        rig.plane.run(&place).await.unwrap();
        let (said, _) = room().await.unwrap();
        assert!(said.contains(&format!("another place: {}, which it is assigned to", id(7))), "{said}");

        // A worker that lives and has its lease is about to take the turn.
        ops.unassign_world(world).await.unwrap();
        rig.acquire(world, id(1)).await.unwrap();
        let lease = causes(&ops, world, "lease").await;
        assert!(matches!(lease[..], [Cause::Lease { holder, lives: true, .. }] if holder == id(1)), "{lease:?}");
        assert!(lease[0].to_string().contains("runs it and has its lease until"), "{}", lease[0]);
    });
}

#[test]
fn a_full_inbox_behind_a_hold_and_more_work_than_is_named_are_said() {
    Rig::run(|rig| async move {
        let (ops, world) = (ops(&rig.plane, &rig), world_id(1));
        let inbox = Some(InboxBounds { items_max: 8, bytes_max: 1 << 20 });
        let new = NewWorld { universe: rig.universe, world, manifest: rig.manifest, inbox, now_ns: 1 };
        create(&rig.plane, new).await.unwrap();
        let mut host = rig.host(world, id(1)).await.unwrap();
        let emits: Vec<String> = (0..12).map(|number| format!("emit e{number}")).collect();
        let timers: Vec<String> = (0..12).map(|number| format!("timer t{number} 9000000000000000000")).collect();
        rig.tell(&mut host, &[&*emits.join("\n"), &*timers.join("\n")]).await.unwrap();
        for (kind, more) in
            [("effect", "more effects: mundi effect list --world"), ("timer", "more timers: mundi timer list --world")]
        {
            let found = causes(&ops, world, kind).await;
            assert_eq!((found.len(), &*found[10].to_string()), (11, more));
        }

        let fence = host.fence();
        let failed = || HoldWorld {
            fence,
            code: Code::StepAbandoned.to_string(),
            reason: "it always fails".into(),
            failures: 5,
            failed: None,
            seen: None,
            now_ns: 7,
        };
        rig.send(world, vec![script_event("put a 1")]).await.unwrap();
        rig.plane.run(&failed()).await.unwrap();
        let why = ops.why(world).await.unwrap();
        assert!(
            why.causes[0].to_string().contains("after 5 failed attempts: STEP_ABANDONED: it always fails"),
            "{why:?}"
        );
        assert_eq!(why.causes[0].advice(), Some("mundi world retry, skip or upgrade"));
        assert!(why.causes[1].to_string().starts_with("its inbox grows behind an input that fails"), "{why:?}");
        // As full as its bound: the rest is refused.
        let note = || {
            let item = InboxItem { input: script_event("put a 1"), origin: Origin::new(0) };
            vec![NewItem { item, dedupe: None }]
        };
        while rig.enqueue(world, note()).await.is_ok() {}
        let why = ops.why(world).await.unwrap();
        assert!(
            why.causes[1].to_string().starts_with("its inbox is full behind an input that fails"),
            "{}",
            why.causes[1]
        );
    });
}
