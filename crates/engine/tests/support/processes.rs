//! Several processes that append to one queue on one database: what each of them runs, and what must hold afterwards.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests fail this way")]

use bytes::Bytes;
use mundi_engine::{Engine, RangeRead, Transaction};
use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// The part of the database that the processes share: a schema, or a prefix.
const PLACE: &str = "MUNDI_PROCESSES_PLACE";
const NUMBER: &str = "MUNDI_PROCESSES_NUMBER";
const PROCESSES: u8 = 4;
const WRITERS: u8 = 4;
const COMMITS: u8 = 60;
const QUEUE: &[u8] = b"q/";

/// The work of one of the processes. In a process that was not started by [`stamps_of_processes_rise`] it does nothing.
pub(crate) async fn write_if_started<E: Engine>(open: impl AsyncFn(String) -> E) {
    let (Ok(place), Ok(number)) = (std::env::var(PLACE), std::env::var(NUMBER)) else { return };
    let (engine, number): (_, u8) = (open(place).await, number.parse().unwrap());
    let writers = (0..WRITERS).map(|writer| tokio::spawn(append(engine.clone(), [number, writer])));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Appends items whose stamps rise; each also raises a counter that all share, and one by reading it.
async fn append<E: Engine>(engine: E, writer: [u8; 2]) {
    let mut last = None;
    for item in 0..COMMITS {
        loop {
            let mut tx = engine.begin().await.unwrap();
            tx.put_stamped(QUEUE, &[writer[0], writer[1], item], "").unwrap();
            tx.add(b"count", 1).unwrap();
            if item % 8 == 0 {
                let raised = tx
                    .get(b"raised")
                    .await
                    .unwrap()
                    .map_or(0, |value| u64::from_le_bytes(value[..].try_into().unwrap()));
                tx.put(b"raised", (raised + 1).to_le_bytes().to_vec()).unwrap();
            }
            match tx.commit().await {
                Ok(committed) => {
                    assert!(last < committed.stamp(), "a later commit has a larger stamp");
                    last = committed.stamp();
                    break;
                }
                Err(mundi_engine::CommitError::Conflict) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Sixteen writers in four processes, each of which runs the test `one_of_the_processes` of this binary; readers here never find an item behind
/// one that they have seen.
pub(crate) async fn stamps_of_processes_rise<E: Engine>(place: &str, engine: E) {
    let done = Arc::new(AtomicBool::new(false));
    let tail = tokio::spawn(follow(engine.clone(), done.clone()));
    let processes: Vec<Process> = (0..PROCESSES)
        .map(|number| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "one_of_the_processes", "--nocapture"]).stdout(Stdio::null());
            Process(command.env(PLACE, place).env(NUMBER, number.to_string()).spawn().unwrap())
        })
        .collect();
    for mut process in processes {
        let ended = tokio::task::spawn_blocking(move || process.0.wait().unwrap().success()).await.unwrap();
        assert!(ended, "a process failed");
    }
    done.store(true, Ordering::SeqCst);
    let seen = tail.await.unwrap();
    let written = usize::from(PROCESSES) * usize::from(WRITERS) * usize::from(COMMITS);
    let stored = engine.begin().await.unwrap().range(RangeRead::prefix(QUEUE, 10_000)).await.unwrap().items;
    assert_eq!(stored.len(), written);
    assert!(seen.iter().eq(stored.iter().map(|(key, _)| key)), "a cursor saw {} of {written} items", seen.len());
    let mut tx = engine.begin().await.unwrap();
    let number = |value: Option<Bytes>| u64::from_le_bytes(value.unwrap()[..].try_into().unwrap());
    assert_eq!(number(tx.get(b"count").await.unwrap()), written as u64, "adds all count");
    let raises = u64::from(PROCESSES) * u64::from(WRITERS) * u64::from(COMMITS.div_ceil(8));
    assert_eq!(number(tx.get(b"raised").await.unwrap()), raises, "no update was lost between processes");
}

/// Reads the queue as its users do: from a cursor, which moves to the last item seen, woken by a watch.
async fn follow<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Vec<Bytes> {
    let (mut seen, mut read) = (Vec::<Bytes>::new(), RangeRead::prefix(QUEUE, 50).snapshot());
    loop {
        let last_look = done.load(Ordering::SeqCst);
        let page = engine.begin().await.unwrap().range(read.clone()).await.unwrap();
        seen.extend(page.items.into_iter().map(|(key, _)| key));
        if let Some(last) = seen.last() {
            read.start = [&last[..], &[0]].concat().into();
        }
        if last_look && !page.more {
            return seen;
        }
    }
}
