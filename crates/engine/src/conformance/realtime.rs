//! Strict: the order of commits respects real time. A transaction that begins after an acknowledgement sees that commit.
//!
//! Engines get it wrong by acknowledging before applying, by reading from a replica that lags, or by handing out
//! snapshots that were taken earlier. Each is serializable, and each breaks two callers that coordinate by
//! messages outside of the engine.

use super::{
    Finding, Proof, Subject,
    tools::{begin_with, beside, counter, ensure, finished, pause, stamp_of, start, stored},
};
use crate::{Engine, RangeRead, Read, ReadPlan, Source, Transaction};
use bytes::Bytes;
use mundi_model::Stamp;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

const ROUNDS: i64 = 200;

async fn put_number(engine: &impl Engine, key: &[u8], number: i64) -> Result<Stamp, Finding> {
    let mut tx = engine.begin().await?;
    tx.put(key, number.to_le_bytes().to_vec())?;
    stamp_of(tx.commit().await?)
}

/// After an acknowledgement, every handle and every way of reading sees the write; also from other tasks.
pub async fn who_begins_after_an_acknowledgement_sees_it<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let other_handle = engine.clone();
    for number in 1..=20 {
        put_number(&engine, b"own", number).await?;
        let found = counter(stored(&other_handle, b"own").await?.as_ref());
        ensure!(found == number, "{number} was acknowledged, and a later transaction saw {found}");
        let page = engine.begin().await?.range(RangeRead::prefix(b"own", 1)).await?;
        let found = counter(page.items.first().map(|(_, value)| value));
        ensure!(found == number, "{number} was acknowledged, and a later range read saw {found}");
    }
    let (acknowledged, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let reader = start(subject, follow(engine.clone(), acknowledged.clone(), done.clone()));
    let written = beside(subject, vec![count_up(engine, acknowledged)]).await;
    done.store(true, Ordering::SeqCst);
    finished(reader).await?;
    written.map(drop)
}

async fn count_up<E: Engine>(engine: E, acknowledged: Arc<AtomicI64>) -> Proof {
    for number in 1..=ROUNDS {
        put_number(&engine, b"n", number).await?;
        acknowledged.store(number, Ordering::SeqCst);
    }
    Ok(())
}

async fn follow<E: Engine>(engine: E, acknowledged: Arc<AtomicI64>, done: Arc<AtomicBool>) -> Proof {
    while !done.load(Ordering::SeqCst) {
        let at_least = acknowledged.load(Ordering::SeqCst);
        let found = counter(stored(&engine, b"n").await?.as_ref());
        ensure!(found >= at_least, "{at_least} was acknowledged, and a transaction begun afterwards saw {found}");
        pause().await;
    }
    Ok(())
}

/// One key of the newest state, and the version of that state.
async fn look<E: Engine>(engine: &E, key: &[u8]) -> Result<(Option<Bytes>, u64), Finding> {
    let mut tx = begin_with(engine, Source::SharedSnapshot, ReadPlan::reads([Read::get(key)])).await?;
    Ok((tx.get_snapshot(key).await?, tx.version().await?))
}

/// A planned read sees what was acknowledged before it, and every commit up to the version that it names.
pub async fn a_planned_read_has_seen_what_its_version_says<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let (nothing, _) = look(&engine, b"own").await?;
    ensure!(nothing.is_none(), "a key that nobody wrote holds {nothing:?}");
    for number in 1..=20 {
        put_number(&engine, b"own", number).await?;
        let found = counter(look(&engine, b"own").await?.0.as_ref());
        ensure!(found == number, "{number} was acknowledged, and a later look saw {found}");
    }
    let (acknowledged, done) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = start(subject, count_until(engine.clone(), acknowledged.clone(), done.clone()));
    let looks = beside(subject, vec![look_on(engine, acknowledged)]).await;
    done.store(true, Ordering::SeqCst);
    let (stamps, looks) = (finished(writer).await?, looks?.concat());
    for (found, version) in looks {
        let seen = Stamp::new(version, u16::MAX);
        let committed = (1..).zip(&stamps).take_while(|(_, stamp)| **stamp <= seen).last();
        let committed = committed.map_or(0, |(number, _)| number);
        ensure!(found >= committed, "version {version} holds {committed}, and a look that names it saw {found}");
    }
    Ok(())
}

/// The stamps of the commits, in order.
async fn count_until<E: Engine>(
    engine: E,
    acknowledged: Arc<AtomicI64>,
    done: Arc<AtomicBool>,
) -> Result<Vec<Stamp>, Finding> {
    let mut stamps = Vec::new();
    for number in 1.. {
        if done.load(Ordering::SeqCst) {
            break;
        }
        stamps.push(put_number(&engine, b"n", number).await?);
        acknowledged.store(number, Ordering::SeqCst);
    }
    Ok(stamps)
}

/// The findings of some looks, with the version that each of them named.
async fn look_on<E: Engine>(engine: E, acknowledged: Arc<AtomicI64>) -> Result<Vec<(i64, u64)>, Finding> {
    let mut looks = Vec::new();
    for _ in 0..ROUNDS {
        let at_least = acknowledged.load(Ordering::SeqCst);
        let (value, version) = look(&engine, b"n").await?;
        let found = counter(value.as_ref());
        ensure!(found >= at_least, "{at_least} was acknowledged, and a look afterwards saw {found}");
        looks.push((found, version));
        pause().await;
    }
    Ok(looks)
}

/// `first` is always written and acknowledged before `second`: no snapshot shows the second without the first.
pub async fn an_acknowledged_chain_is_seen_in_order<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = start(subject, compare(engine.clone(), done.clone()));
    let written = beside(subject, vec![chain(engine)]).await;
    done.store(true, Ordering::SeqCst);
    finished(reader).await?;
    written.map(drop)
}

async fn chain<E: Engine>(engine: E) -> Proof {
    for number in 1..=ROUNDS {
        put_number(&engine, b"first", number).await?;
        put_number(&engine, b"second", number).await?;
    }
    Ok(())
}

async fn compare<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Proof {
    while !done.load(Ordering::SeqCst) {
        let mut tx = engine.begin().await?;
        let first = counter(tx.get(b"first").await?.as_ref());
        let second = counter(tx.get(b"second").await?.as_ref());
        let in_order = second == first || second == first - 1;
        ensure!(in_order, "one snapshot shows first={first} and second={second}");
        pause().await;
    }
    Ok(())
}
