//! The workers on a real clock: from the turn that asks to the receipt in the inbox.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod second_look;
mod timers;

use futures_util::future::BoxFuture;
use mundi_engine::{Engine, Memory};
use mundi_model::{
    Value, WorkerId, cbor,
    record::{Input, Payload, Receipt, ReceiptStatus},
};
use mundi_runtime::{
    effects::{Adapter, AdapterWorker, AdapterWorkerConfig, Call, failed},
    timers::{TimerWorker, TimerWorkerConfig},
};
use mundi_store::{
    Clock, Fence,
    keyspace::effect_pending::EffectTerms,
    protocol::Failure,
    testing::{CountingEntropy, Fixture, HeapBlobs, ask, receipts, set_timers},
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;

type Store = Fixture<Memory>;

/// The clock of the machine, on tokio's timers.
struct RealClock;

impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "the edge: this is where the clock comes from")]
    fn now_ns(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(since.as_nanos()).unwrap()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(duration))
    }
}

const TERMS: EffectTerms = EffectTerms {
    timeout_ms: 10_000,
    attempts_max: 3,
    backoff_ms: 20,
    backoff_ms_max: 100,
    rate: None,
    children_active_max: None,
};

/// Fails so many times, then says how often it was called; or hangs.
struct Flaky {
    failures: u32,
    hangs: bool,
    calls: AtomicU32,
    running: AtomicU32,
    running_max: AtomicU32,
}

impl Flaky {
    fn new(failures: u32, hangs: bool) -> Arc<Self> {
        let zero = || AtomicU32::new(0);
        Arc::new(Self { failures, hangs, calls: zero(), running: zero(), running_max: zero() })
    }
}

impl Adapter for Flaky {
    fn name(&self) -> &str {
        "flaky"
    }

    fn kinds(&self) -> &[&str] {
        &["flaky"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move {
            let calls = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
            let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
            self.running_max.fetch_max(running, Ordering::SeqCst);
            if self.hangs {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.running.fetch_sub(1, Ordering::SeqCst);
            if call.attempt <= self.failures { Err(failed("not yet")) } else { Ok(Value::Integer(calls.into())) }
        })
    }
}

struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        tokio::time::timeout(Duration::from_secs(5), self.task).await.expect("it drains and stops").unwrap();
    }
}

fn worker(store: &Store, number: u64, config: AdapterWorkerConfig) -> AdapterWorker<Memory, HeapBlobs> {
    let entropy = CountingEntropy::default();
    for _ in 0..number {
        mundi_store::Entropy::fill(&entropy, &mut [0; 16]);
    }
    let worker = WorkerId::new(number).unwrap();
    let (engine, blobs) = (store.engine.clone(), store.blobs.clone());
    AdapterWorker::new(engine, blobs, Arc::new(RealClock), Arc::new(entropy), store.universe, worker, config)
}

fn start<E: Engine>(worker: AdapterWorker<E, HeapBlobs>) -> Running {
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        worker.run(stopped).await.unwrap();
    });
    Running { stop, task }
}

async fn eventually(store: &Store, fence: Fence, count: usize) -> Vec<Receipt> {
    loop {
        let found = receipts(store, fence).await.unwrap();
        if found.len() >= count {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn world() -> (Store, Fence) {
    let store = Fixture::new(Memory::new(), 1).await.unwrap();
    let fence = store.live(1).await.unwrap();
    (store, fence)
}

#[tokio::test]
async fn an_effect_is_tried_until_it_succeeds_and_answered_once() {
    let (store, fence) = world().await;
    let adapter = Flaky::new(2, false);
    let running = start(worker(&store, 1, AdapterWorkerConfig::default()).serve(adapter.clone()));
    tokio::time::sleep(Duration::from_millis(50)).await;
    ask(&store, fence, &["flaky"], TERMS).await.unwrap(); // it sleeps by now, and is woken
    let found = eventually(&store, fence, 1).await;
    assert_eq!((found[0].status, adapter.calls.load(Ordering::SeqCst)), (ReceiptStatus::Ok, 3));
    assert_eq!(found[0].payload, Payload::Inline(cbor::encode(&Value::Integer(3u32.into()))));
    running.stop().await;
}

#[tokio::test]
async fn a_call_that_hangs_ends_as_a_timeout() {
    let (store, fence) = world().await;
    let adapter = Flaky::new(0, true);
    let running = start(worker(&store, 1, AdapterWorkerConfig::default()).serve(adapter.clone()));
    ask(&store, fence, &["flaky"], EffectTerms { timeout_ms: 30, attempts_max: 2, ..TERMS }).await.unwrap();
    let found = eventually(&store, fence, 1).await;
    assert_eq!((found[0].status, adapter.calls.load(Ordering::SeqCst)), (ReceiptStatus::Timeout, 2));
    running.stop().await;
}

#[tokio::test]
async fn two_workers_answer_every_effect_once_within_their_bounds() {
    let (store, fence) = world().await;
    let adapters = [Flaky::new(0, false), Flaky::new(0, false)];
    let config = AdapterWorkerConfig { calls_max: 4, ..AdapterWorkerConfig::default() };
    let running: Vec<_> = (1u64..)
        .zip(&adapters)
        .map(|(number, adapter)| start(worker(&store, number, config.clone()).serve(adapter.clone())))
        .collect();
    let asked = ask(&store, fence, &["flaky"; 60], TERMS).await.unwrap();
    let found = eventually(&store, fence, asked.len()).await;
    let mut intents: Vec<_> = found.iter().map(|receipt| receipt.intent).collect();
    intents.sort();
    intents.dedup();
    assert_eq!((found.len(), intents.len()), (60, 60));
    for running in running {
        running.stop().await;
    }
    let calls: u32 = adapters.iter().map(|adapter| adapter.calls.load(Ordering::SeqCst)).sum();
    assert_eq!(calls, 60);
    assert!(adapters.iter().all(|adapter| adapter.running_max.load(Ordering::SeqCst) <= 4));
}

#[tokio::test]
async fn a_worker_that_is_killed_loses_nothing() {
    let (store, fence) = world().await;
    let config = AdapterWorkerConfig { claim_ttl: Duration::from_millis(200), ..AdapterWorkerConfig::default() };
    let killed = start(worker(&store, 1, config.clone()).serve(Flaky::new(0, true)));
    ask(&store, fence, &["flaky"], EffectTerms { timeout_ms: 60_000, ..TERMS }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    killed.task.abort();
    let second = Flaky::new(0, false);
    let running = start(worker(&store, 2, config).serve(second.clone()));
    let found = eventually(&store, fence, 1).await;
    assert_eq!((found[0].status, second.calls.load(Ordering::SeqCst)), (ReceiptStatus::Ok, 1));
    running.stop().await;
}

#[tokio::test]
async fn a_long_call_keeps_its_claim_by_heartbeats() {
    let (store, fence) = world().await;
    // So long that a machine which is suspended for a moment does not cost the claim.
    let config = AdapterWorkerConfig { claim_ttl: Duration::from_secs(3), ..AdapterWorkerConfig::default() };
    let adapter = Flaky::new(0, true);
    let other = Flaky::new(0, false);
    let running = start(worker(&store, 1, config.clone()).serve(adapter.clone()));
    ask(&store, fence, &["flaky"], EffectTerms { timeout_ms: 7_500, attempts_max: 1, ..TERMS }).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let reaper = start(worker(&store, 2, config).serve(other.clone()));
    let found = eventually(&store, fence, 1).await;
    assert_eq!(found[0].status, ReceiptStatus::Timeout);
    assert_eq!(found[0].adapter, "flaky", "it ended by its own timeout, not by the reaper");
    assert_eq!(other.calls.load(Ordering::SeqCst), 0);
    running.stop().await;
    reaper.stop().await;
}

#[tokio::test]
async fn timers_fire_when_they_are_due_and_a_new_one_wakes_the_worker() {
    let (store, fence) = world().await;
    let timers =
        TimerWorker::new(store.engine.clone(), Arc::new(RealClock), store.universe, TimerWorkerConfig::default());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move { timers.run(async move { drop(stopped.await) }).await.unwrap() });
    let now_ns = RealClock.now_ns();
    set_timers(&store, fence, &[now_ns + 3_600_000_000_000, now_ns + 200_000_000]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    set_timers(&store, fence, &[1]).await.unwrap(); // it sleeps by now, and is woken
    while store.read_turn(fence).await.unwrap().items.len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let items = store.read_turn(fence).await.unwrap().items;
    assert!(items.len() == 2 && items.iter().all(|item| matches!(item.item.input, Input::TimerFired { .. })));
    let fired_ns = items.iter().map(|item| item.item.origin.enqueued_at_ns).max().unwrap();
    assert!(fired_ns >= now_ns + 200_000_000, "not early");
    assert!(fired_ns < now_ns + 5_000_000_000, "nor by the long sleep of a worker that nobody wakes");
    stop.send(()).unwrap();
    task.await.unwrap();
}
