//! A watch never misses a change that lasts. It may end without one.
//!
//! Engines get it wrong by looking first and listening afterwards (a change falls in between), by comparing with
//! what they find and not with what the caller has seen, or by listening for puts and not for deletions.
//! A missed change shows as a wait without end, which the subject's time limit turns into a violation.

use super::{
    Proof, Subject,
    tools::{beside, counter, ensure, put_all, shown_value, stored, wipe},
};
use crate::{Engine, EngineError, Transaction};
use bytes::Bytes;
use futures_util::FutureExt;

/// The state of a watched key before, and the change to it.
type Change<T> = (Option<&'static [u8]>, fn(&mut T) -> Result<(), EngineError>);

fn changes<T: Transaction>() -> [Change<T>; 6] {
    [
        (None, |tx| tx.put(b"k", "1")),
        (Some(b"0"), |tx| tx.put(b"k", "1")),
        (Some(b"0"), |tx| tx.put(b"k", "")),
        (Some(&[0; 8]), |tx| tx.add(b"k", 1)),
        (Some(b"0"), |tx| tx.delete(b"k")),
        (Some(b"0"), |tx| tx.delete_range(b"a", b"z")),
    ]
}

/// A watch that lies in wait ends after every kind of change, one of many watches on the key as well.
pub async fn a_change_ends_a_watch<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for (before, change) in changes::<<S::Engine as Engine>::Transaction>() {
        wipe(&engine).await?;
        put_all(&engine, &[(b"other", b"1")]).await?;
        if let Some(before) = before {
            put_all(&engine, &[(b"k", before)]).await?;
        }
        let seen = stored(&engine, b"k").await?;
        let mut watches: Vec<_> = (0..3).map(|_| Box::pin(engine.watch(b"k", seen.clone()))).collect();
        watches.retain_mut(|watch| watch.now_or_never().is_none());
        let mut tx = engine.begin().await?;
        change(&mut tx)?;
        tx.commit().await?;
        for watch in watches {
            watch.await?;
        }
    }
    Ok(())
}

/// A watch for another value than the present one ends at once, without any further commit.
pub async fn a_watch_on_an_older_value_ends_at_once<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for (before, change) in changes::<<S::Engine as Engine>::Transaction>() {
        wipe(&engine).await?;
        if let Some(before) = before {
            put_all(&engine, &[(b"k", before)]).await?;
        }
        let seen = stored(&engine, b"k").await?;
        let made_early = engine.watch(b"k", seen.clone());
        let mut tx = engine.begin().await?;
        change(&mut tx)?;
        tx.commit().await?;
        made_early.await?;
        engine.watch(b"k", seen).await?;
    }
    Ok(())
}

const PAIRS: u8 = 4;
const ROUNDS: i64 = 60;

/// Pairs of tasks answer each other by changing keys that the other watches: each round is a race between a
/// watch being placed and the change that it must notice, and one that is missed is the last.
pub async fn watches_never_miss_a_change<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let tasks = (0..PAIRS).flat_map(|pair| [(pair, true), (pair, false)]);
    beside(subject, tasks.map(|(pair, serves)| play(engine.clone(), pair, serves)).collect()).await.map(drop)
}

async fn play<E: Engine>(engine: E, pair: u8, serves: bool) -> Proof {
    let (mine, theirs) = if serves { ([pair, 0], [pair, 1]) } else { ([pair, 1], [pair, 0]) };
    for round in 1..=ROUNDS {
        if !serves {
            reaches(&engine, &theirs, round).await?;
        }
        let mut tx = engine.begin().await?;
        tx.add(&mine, 1)?;
        tx.commit().await?;
        if serves {
            reaches(&engine, &theirs, round).await?;
        }
    }
    Ok(())
}

async fn reaches(engine: &impl Engine, key: &[u8], number: i64) -> Proof {
    loop {
        let seen: Option<Bytes> = stored(engine, key).await?;
        if counter(seen.as_ref()) >= number {
            return Ok(());
        }
        engine.watch(key, seen).await?;
    }
}

/// Watches that are dropped, placed or not, leave the other watches of the key and its writers alone.
pub async fn a_dropped_watch_harms_nobody<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"k", b"0")]).await?;
    let seen = stored(&engine, b"k").await?;
    let mut kept = Box::pin(engine.watch(b"k", seen.clone()));
    let has_ended = kept.as_mut().now_or_never().is_some();
    for _ in 0..100 {
        let mut dropped = Box::pin(engine.watch(b"k", seen.clone()));
        let _perhaps_ended = dropped.as_mut().now_or_never();
        drop(engine.watch(b"k", seen.clone()));
    }
    put_all(&engine, &[(b"k", b"1")]).await?;
    if !has_ended {
        kept.await?;
    }
    put_all(&engine, &[(b"k", b"2")]).await?;
    let now = stored(&engine, b"k").await?;
    ensure!(now.as_deref() == Some(b"2"), "the key holds {} after its watches", shown_value(now.as_ref()));
    Ok(())
}
