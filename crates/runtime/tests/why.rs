//! Why a world is not moving: the causes that depend on other processes, on rates and on programs that are not ready.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use mundi_kernel::{
    Registry,
    loader::{Loader, Readiness},
    manifest::{Manifest, ManifestError},
    objects::Objects,
    program::Program,
};
use mundi_model::{Code, Hash, WorkerId, WorldId};
use mundi_runtime::{
    Plane, Services,
    calls::Calls,
    control::{Cause, Ops},
    testing::{Rig, TestPlane, script_event},
};
use mundi_store::{
    keyspace::Shard,
    protocol::{ClaimEffects, ClaimedEffect, FailEffect, Failure, KindCap, Purpose, Repeat, TakeOverLease, TakenOver},
    testing::world_id,
    values::RateTerms,
};
use std::sync::Arc;

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
