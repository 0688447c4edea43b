//! Concurrent clients in a closed loop: each does its next operation when the last was acknowledged.

use crate::machine::Used;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// What clients got done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
    pub(crate) written_bytes: f64,
}

/// Runs `clients` loops for some time. `operation` gets the number of its client and of its turn, and
/// returns how many records it got done.
pub(crate) fn measure<F, Fut>(runtime: &Runtime, clients: usize, time: Duration, operation: F) -> Done
where
    F: Fn(usize, u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = u64> + Send,
{
    let operation = Arc::new(operation);
    let stop = Arc::new(AtomicBool::new(false));
    let records = Arc::new(AtomicU64::new(0));
    let warm = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (operation, stop, records, warm) = (operation.clone(), stop.clone(), records.clone(), warm.clone());
            runtime.spawn(async move {
                for turn in 0.. {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let done = operation(client, turn).await;
                    if warm.load(Relaxed) {
                        records.fetch_add(done, Relaxed);
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(time / 5);
    let (start, before) = (Instant::now(), Used::now());
    warm.store(true, Relaxed);
    std::thread::sleep(time);
    let (seconds, after, done) = (start.elapsed().as_secs_f64(), Used::now(), records.load(Relaxed));
    stop.store(true, Relaxed);
    runtime.block_on(async {
        for task in tasks {
            let _panicked = task.await;
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (done, written) = (done.max(1) as f64, after.written_bytes_since(before) as f64);
    Done { per_second: done / seconds, cpu_us: after.cpu_us_since(before) / done, written_bytes: written / done }
}
