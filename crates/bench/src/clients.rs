//! Concurrent clients in a closed loop: each does its next operation when the last was acknowledged.
//!
//! A client is a task of an async runtime, as in a server, or a thread of its own, as in a program that
//! blocks. A thread that sleeps and wakes costs several times what a small commit does, so the two tell
//! different things. It interrupts nobody when it is woken, as a client on another machine would not.

use crate::{
    latency::Latencies,
    machine::{Polite, Used},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// The work that clients got done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) per_second: f64,
    pub(crate) cpu_us: f64,
    pub(crate) written_bytes: f64,
    /// How long an operation took: the median, and what 95 and 99 of 100 stay below.
    pub(crate) latency_us: [f64; 3],
}

/// The kind of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tasks,
    Threads,
}

/// Shared by all clients of a measurement.
#[derive(Default)]
struct Progress {
    warm: AtomicBool,
    stop: AtomicBool,
    records: AtomicU64,
    latencies: Latencies,
}

/// Runs `clients` loops for some time. `operation` gets the number of its client and of its turn, and
/// returns how many records it got done.
pub(crate) fn measure<F, Fut>(runtime: &Runtime, kind: Kind, clients: usize, time: Duration, operation: F) -> Done
where
    F: Fn(usize, u64) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = u64> + Send,
{
    let operation = Arc::new(operation);
    let progress = Arc::new(Progress::default());
    let client = |client: usize| {
        let (operation, progress) = (operation.clone(), progress.clone());
        async move {
            for turn in 0.. {
                if progress.stop.load(Relaxed) {
                    return;
                }
                let begun = Instant::now();
                let done = operation(client, turn).await;
                if progress.warm.load(Relaxed) {
                    progress.records.fetch_add(done, Relaxed);
                    progress.latencies.note(begun.elapsed());
                }
            }
        }
    };
    match kind {
        Kind::Tasks => {
            let tasks: Vec<_> = (0..clients).map(|number| runtime.spawn(client(number))).collect();
            let done = watch(&progress, time);
            tasks.into_iter().for_each(|task| drop(runtime.block_on(task)));
            done
        }
        Kind::Threads => std::thread::scope(|scope| {
            for number in 0..clients {
                let client = client(number);
                scope.spawn(move || {
                    let _polite = Polite::begin();
                    pollster::block_on(client);
                });
            }
            watch(&progress, time)
        }),
    }
}

/// Lets them warm up, counts for the given time, and stops them.
fn watch(progress: &Progress, time: Duration) -> Done {
    std::thread::sleep(time / 5);
    let (start, before) = (Instant::now(), Used::now());
    progress.warm.store(true, Relaxed);
    std::thread::sleep(time);
    let (seconds, after, done) = (start.elapsed().as_secs_f64(), Used::now(), progress.records.load(Relaxed));
    progress.stop.store(true, Relaxed);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (done, written) = (done.max(1) as f64, after.written_bytes_since(before) as f64);
    Done {
        per_second: done / seconds,
        cpu_us: after.cpu_us_since(before) / done,
        written_bytes: written / done,
        latency_us: [0.5, 0.95, 0.99].map(|share| progress.latencies.below_us(share)),
    }
}
