//! A recorded history: operations with their real-time order.

use crate::{
    CommitError, Committed, Engine, RangeRead, Transaction,
    conformance::{
        Finding, Proof, Seeded,
        tools::{pause, shown_value},
    },
};
use bytes::Bytes;
use mundi_model::Stamp;
use parking_lot::Mutex;
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

pub(super) const KEYS: [&[u8]; 3] = [b"x", b"y", b"z"];

const TRANSACTIONS: u64 = 12;

/// An index into [`KEYS`].
pub(super) type Key = usize;

/// A transaction as its caller saw it.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) task: u64,
    pub(super) called: u64,
    pub(super) answered: u64,
    pub(super) reads: Vec<(Key, Option<Bytes>)>,
    /// Every written value is unique in the history.
    pub(super) writes: Vec<(Key, Bytes)>,
    pub(super) fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It wrote nothing, or it was refused: only its reads are left, and they came from one snapshot.
    ReadOnly,
    Applied(Stamp),
    Unknown,
}

/// The history, and the counter that orders calls and answers.
#[derive(Default)]
pub(super) struct Recorder {
    events: Mutex<Vec<Event>>,
    next: AtomicU64,
}

impl Recorder {
    fn tick(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    fn add(&self, event: Event) {
        self.events.lock().push(event);
    }

    /// The events in the order of their calls.
    pub(super) fn take(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock());
        events.sort_by_key(|event| event.called);
        events
    }
}

/// Runs a few transactions one after the other.
pub(super) async fn run_some<E: Engine>(engine: E, seed: u64, task: u64, recorder: std::sync::Arc<Recorder>) -> Proof {
    let mut seeded = Seeded::new(seed);
    for number in 0..TRANSACTIONS {
        let value = Bytes::from(format!("{task}.{number}"));
        run_one(&engine, &mut seeded, task, value, &recorder).await?;
    }
    Ok(())
}

/// Reads some keys, one by one or as a range, and writes some, which may be the same.
async fn run_one<E: Engine>(engine: &E, seeded: &mut Seeded, task: u64, value: Bytes, recorder: &Recorder) -> Proof {
    let called = recorder.tick();
    let mut tx = engine.begin().await?;
    let mut reads = Vec::new();
    if seeded.one_in(4) {
        reads = read_range(&mut tx).await?;
    } else {
        for _ in 0..seeded.below(3) {
            maybe_pause(seeded).await;
            let key = seeded.index(KEYS.len());
            reads.push((key, tx.get(KEYS[key]).await?));
        }
    }
    let mut writes = Vec::new();
    for _ in 0..seeded.below(3) {
        let key = seeded.index(KEYS.len());
        tx.put(KEYS[key], value.clone())?;
        if !writes.contains(&(key, value.clone())) {
            writes.push((key, value.clone()));
        }
    }
    maybe_pause(seeded).await;
    let fate = fate_of(tx.commit().await)?;
    if fate == Fate::ReadOnly {
        writes.clear();
    }
    recorder.add(Event { task, called, answered: recorder.tick(), reads, writes, fate });
    Ok(())
}

/// Lets others in between, so that short histories have something to disagree about.
async fn maybe_pause(seeded: &mut Seeded) {
    if seeded.one_in(2) {
        pause().await;
    }
}

fn fate_of(answer: Result<Committed, CommitError>) -> Result<Fate, Finding> {
    match answer {
        Ok(Committed::At(stamp)) => Ok(Fate::Applied(stamp)),
        Ok(Committed::ReadOnly) | Err(CommitError::Conflict) => Ok(Fate::ReadOnly),
        Err(CommitError::Unknown(_)) => Ok(Fate::Unknown),
        Err(error @ CommitError::Engine(_)) => Err(error.into()),
    }
}

async fn read_range(tx: &mut impl Transaction) -> Result<Vec<(Key, Option<Bytes>)>, Finding> {
    let page = tx.range(RangeRead::prefix(b"", KEYS.len())).await?;
    let value = |key: &[u8]| page.items.iter().find(|(found, _)| found == key).map(|(_, value)| value.clone());
    Ok(KEYS.iter().enumerate().map(|(index, key)| (index, value(key))).collect())
}

/// Adds the state at the end to the history.
pub(super) async fn final_look(engine: &impl Engine, recorder: &Recorder) -> Proof {
    let called = recorder.tick();
    let mut tx = engine.begin().await?;
    let reads = read_range(&mut tx).await?;
    let answered = recorder.tick();
    recorder.add(Event { task: u64::MAX, called, answered, reads, writes: Vec::new(), fate: Fate::ReadOnly });
    Ok(())
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            u64::MAX => write!(f, "in the end")?,
            task => write!(f, "task {task}")?,
        }
        write!(f, " [{}..{}]", self.called, self.answered)?;
        for (key, value) in &self.reads {
            write!(f, " reads {}={}", KEYS[*key].escape_ascii(), shown_value(value.as_ref()))?;
        }
        for (key, value) in &self.writes {
            write!(f, " writes {}={}", KEYS[*key].escape_ascii(), shown_value(Some(value)))?;
        }
        match self.fate {
            Fate::ReadOnly => Ok(()),
            Fate::Applied(stamp) => write!(f, ", {stamp:?}"),
            Fate::Unknown => write!(f, ", fate unknown"),
        }
    }
}
