//! A call that ends while the worker still looks at another kind makes room for its own kind, at which the worker has looked
//! already: it looks once more before it sleeps.

use crate::{RealClock, TERMS, eventually, start, world};
use futures_util::future::BoxFuture;
use mundi_model::{Value, WorkerId, record::ReceiptStatus};
use mundi_runtime::effects::{Adapter, AdapterWorker, AdapterWorkerConfig, Call};
use mundi_store::{
    protocol::Failure,
    testing::{CountingEntropy, Probe, ask},
};
use std::sync::Arc;

/// Answers at once. Nobody asks for its second kind: the look at it only takes its time.
struct Prompt;

impl Adapter for Prompt {
    fn name(&self) -> &str {
        "prompt"
    }

    fn kinds(&self) -> &[&str] {
        &["first", "second"]
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async { Ok(Value::Null) })
    }
}

#[tokio::test]
async fn a_call_that_ends_during_the_look_at_another_kind_is_followed_by_the_next_of_its_own() {
    let (store, fence) = world().await;
    let asked = ask(&store, fence, &["first"; 3], TERMS).await.unwrap();
    // There is room for one of them; every operation of the engine lets the call continue, also those of the look at the second kind.
    let config = AdapterWorkerConfig { calls_max: 1, ..AdapterWorkerConfig::default() };
    let (engine, entropy) = (Probe::new(store.engine.clone()), Arc::new(CountingEntropy::default()));
    let (clock, id) = (Arc::new(RealClock), WorkerId::new(1).unwrap());
    let worker = AdapterWorker::new(engine, store.blobs.clone(), clock, entropy, store.universe, id, config);
    let running = start(worker.serve(Arc::new(Prompt)));
    // Without that look the second call would wait for the next upkeep, which is ten seconds away.
    let found = eventually(&store, fence, asked.len()).await;
    assert!(found.iter().all(|receipt| receipt.status == ReceiptStatus::Ok));
    running.stop().await;
}
