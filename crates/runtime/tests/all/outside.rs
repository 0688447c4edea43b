//! Calls to the outside that runs of children make: they are bounded as attempts at effects are.

use futures_util::future::{BoxFuture, join_all};
use mundi_model::{
    Code, Height, IntentHash, Value,
    child::{ChildId, RunId, Spend},
};
use mundi_runtime::{
    Plane,
    children::{ChildRun, Meter, OutsideCalls, RefusedDebit},
    effects::{
        Adapter, AdapterWorkerConfig, Call, EffectPace,
        attempts::{AttemptBounds, Attempts},
        failed,
    },
    testing::{Rig, TestPlane},
};
use mundi_store::{
    Clock,
    keyspace::effect_pending::RateTerms,
    protocol::{Failure, KindCap},
    testing::world_id,
};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};

/// Takes 20 ms for an answer, and counts what runs at a time and when each attempt began.
struct Slow {
    rig: Rig,
    fails: bool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    running: usize,
    running_max: usize,
    began_ns: Vec<u64>,
}

impl Adapter for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn kinds(&self) -> &[&str] {
        &["http"]
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async {
            {
                let mut seen = self.seen.lock();
                seen.running += 1;
                seen.running_max = seen.running_max.max(seen.running);
                seen.began_ns.push(self.rig.plane.now_ns());
            }
            self.rig.executor.sleep(Duration::from_millis(20)).await;
            self.seen.lock().running -= 1;
            if self.fails { Err(failed("not today")) } else { Ok(Value::Null) }
        })
    }
}

struct Unmetered;

impl Meter for Unmetered {
    fn debit(&self, _: Spend) -> BoxFuture<'_, Result<bool, RefusedDebit>> {
        Box::pin(async { Ok(true) })
    }
}

fn run_of(rig: &Rig, n: u8) -> ChildRun {
    ChildRun {
        universe: rig.universe,
        parent: world_id(1),
        child: ChildId::from_bytes([n; 16]),
        run: RunId::from_bytes([n; 16]),
        intent: IntentHash::from_bytes([n; 32]),
        height: Height::new(1),
        params: Value::Null,
        budget: Spend::default(),
        started_at_ns: 1,
        trace: None,
        manifest: Some(rig.manifest),
        calls: mundi_runtime::children::CallLog::default(),
        meter: Arc::new(Unmetered),
    }
}

/// Lets six runs make a call each; says what the other side saw.
#[expect(clippy::unwrap_used, reason = "a test")]
fn six_calls(bound: impl FnOnce(OutsideCalls<TestPlane>) -> OutsideCalls<TestPlane>) -> Seen {
    let rig = Rig::new(1);
    let seen = Arc::<Mutex<Seen>>::default();
    let adapter = Arc::new(Slow { rig: rig.clone(), fails: false, seen: seen.clone() });
    let outside = bound(OutsideCalls::new(rig.plane.clone()).serve(adapter));
    let executor = rig.executor.clone();
    executor.block_on(async move {
        let runs: Vec<_> = (1..=6).map(|n| run_of(&rig, n)).collect();
        let calls = runs.iter().map(|run| async {
            outside.of_run(run).await.unwrap().call("http", Value::Null).await.unwrap();
        });
        join_all(calls).await;
    });
    std::mem::take(&mut *seen.lock())
}

/// A quota of two effects at a time.
#[derive(Default)]
struct Two(Mutex<usize>);

impl EffectPace for Two {
    fn is_limited(&self) -> bool {
        true
    }

    fn room(&self, _: usize) -> usize {
        0
    }

    fn began(&self, _: usize) {}

    fn running(&self, _: usize) {}

    fn begin_call(&self) -> bool {
        let mut running = self.0.lock();
        let may = *running < 2;
        *running += usize::from(may);
        may
    }

    fn end_call(&self) {
        *self.0.lock() -= 1;
    }
}

#[test]
fn calls_of_children_keep_the_bounds_of_the_process_the_universe_and_their_kind() {
    assert_eq!(six_calls(|outside| outside).running_max, 6);
    let bounds = AttemptBounds { at_a_time_max: 2, per_second_max: 1_000 };
    assert_eq!(six_calls(|outside| outside.with_attempts(Arc::new(Attempts::new(bounds)))).running_max, 2);
    assert_eq!(six_calls(|outside| outside.with_pace(Arc::new(Two::default()))).running_max, 2);
    let limited = |config: AdapterWorkerConfig| six_calls(|outside| outside.with_limits(config)).running_max;
    assert_eq!(limited(AdapterWorkerConfig { calls_max: 3, ..AdapterWorkerConfig::default() }), 3);
    let of_kind = [("http".to_owned(), 2)].into();
    assert_eq!(limited(AdapterWorkerConfig { kind_calls_max: of_kind, ..AdapterWorkerConfig::default() }), 2);
    let cap = KindCap { calls_max: Some(1), rate: None };
    let universe_caps = [("http".to_owned(), cap)].into();
    assert_eq!(limited(AdapterWorkerConfig { universe_caps, ..AdapterWorkerConfig::default() }), 1);

    // At most four in a second.
    let cap = KindCap { calls_max: None, rate: Some(RateTerms { per_second: 4, burst: 1 }) };
    let config =
        AdapterWorkerConfig { universe_caps: [("http".to_owned(), cap)].into(), ..AdapterWorkerConfig::default() };
    let began = six_calls(|outside| outside.with_limits(config)).began_ns;
    assert!(began.windows(2).all(|two| two[1] - two[0] >= 250_000_000), "{began:?}");
    let bounds = AttemptBounds { at_a_time_max: 9, per_second_max: 4 };
    let began = six_calls(|outside| outside.with_attempts(Arc::new(Attempts::new(bounds)))).began_ns;
    assert!(began[5] - began[0] >= 500_000_000, "as many as in a second at once, and then a quarter each: {began:?}");
}

#[test]
fn a_call_that_fails_waits_before_it_is_made_again_whatever_the_manifest_says() {
    use mundi_kernel::manifest::{EffectRule, Retry};
    let rig = Rig::new(1);
    let seen = Arc::<Mutex<Seen>>::default();
    let adapter = Arc::new(Slow { rig: rig.clone(), fails: true, seen: seen.clone() });
    let outside = OutsideCalls::new(rig.plane.clone()).serve(adapter);
    let executor = rig.executor.clone();
    executor.block_on(async move {
        let mut manifest = mundi_runtime::testing::manifest();
        let retry = Retry { attempts_max: 5, backoff_ms: 0, backoff_ms_max: 0 };
        manifest.effects.insert("http".into(), EffectRule { retry: Some(retry), ..EffectRule::default() });
        let bytes = manifest.to_bytes().into();
        let manifest = mundi_store::blob::Blobs::put(&rig.plane.blobs, rig.universe, bytes, &[]).await.unwrap();
        let run = ChildRun { manifest: Some(manifest), ..run_of(&rig, 1) };
        let refused = outside.of_run(&run).await.unwrap().call("http", Value::Null).await.unwrap_err();
        assert_eq!(refused.code, Code::EffectFailed);
    });
    let began = &seen.lock().began_ns;
    assert_eq!(began.len(), 5);
    let waited = |two: &[u64]| two[1] - two[0] - 20_000_000 >= mundi_model::limits::EFFECT_BACKOFF_MS_MIN * 1_000_000;
    assert!(began.windows(2).all(waited), "{began:?}");
}
