//! All writes of a commit become visible together, or none ever does.
//!
//! Engines get it wrong by applying a commit in pieces that a reader can fall between, by writing the keys of
//! one transaction in several batches, or by keeping what a refused transaction had already done.

use super::{
    Finding, Proof, Subject,
    tools::{beside, contents, ensure, finished, pause, put_all, refused, shown_items, start, stored},
};
use crate::{Engine, RangeRead, Transaction};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const ROUNDS: u64 = 200;
const KEYS: [&[u8]; 6] = [b"a", b"b", b"m/1", b"m/2", b"z", b"zz"];

/// A reader beside two writers finds either all of a commit or nothing of it, whichever way it reads.
pub async fn a_commit_is_seen_whole_or_not_at_all<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    write_round(&engine, 0).await?;
    let done = Arc::new(AtomicBool::new(false));
    let by_key = start(subject, read_keys(engine.clone(), done.clone()));
    let by_range = start(subject, read_range(engine.clone(), done.clone()));
    let writers = (0..2).map(|writer| write_rounds(engine.clone(), writer)).collect();
    let written = beside(subject, writers).await;
    done.store(true, Ordering::SeqCst);
    finished(by_key).await?;
    finished(by_range).await?;
    written.map(drop)
}

async fn write_rounds<E: Engine>(engine: E, writer: u64) -> Proof {
    for round in 0..ROUNDS {
        write_round(&engine, round * 2 + writer).await?;
    }
    Ok(())
}

/// Even rounds write every key; odd ones remove half of them, so that removals are seen whole as well.
async fn write_round(engine: &impl Engine, round: u64) -> Proof {
    let mut tx = engine.begin().await?;
    for (index, key) in KEYS.iter().enumerate() {
        if round % 2 == 1 && index % 2 == 1 {
            tx.delete(key)?;
        } else {
            tx.put(key, round.to_be_bytes().to_vec())?;
        }
    }
    tx.commit().await?;
    Ok(())
}

async fn read_keys<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Proof {
    loop {
        let last_look = done.load(Ordering::SeqCst);
        let mut tx = engine.begin().await?;
        let mut items = Vec::new();
        for key in KEYS {
            if let Some(value) = tx.get(key).await? {
                items.push((key.into(), value));
            }
        }
        is_whole(&items)?;
        if last_look {
            return Ok(());
        }
        pause().await;
    }
}

async fn read_range<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Proof {
    loop {
        let last_look = done.load(Ordering::SeqCst);
        let mut tx = engine.begin().await?;
        is_whole(&tx.range(RangeRead::prefix(b"", 100)).await?.items)?;
        if last_look {
            return Ok(());
        }
        pause().await;
    }
}

fn is_whole(items: &[(bytes::Bytes, bytes::Bytes)]) -> Proof {
    let Some((_, first)) = items.first() else {
        return Err(Finding::Violation("a reader saw nothing at all".to_owned()));
    };
    let round = first.iter().fold(0u64, |round, byte| round << 8 | u64::from(*byte));
    let expected = if round % 2 == 1 { KEYS.len() / 2 } else { KEYS.len() };
    let is_whole = items.len() == expected && items.iter().all(|(_, value)| value == first);
    ensure!(is_whole, "a reader saw part of a commit: {}", shown_items(items));
    Ok(())
}

/// Dropping a transaction undoes every kind of write.
pub async fn an_abandoned_transaction_leaves_nothing<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"d", b"1"), (b"r", b"1")]).await?;
    let before = contents(&engine).await?;
    let mut tx = engine.begin().await?;
    write_every_kind(&mut tx)?;
    drop(tx);
    let after = contents(&engine).await?;
    ensure!(after == before, "a dropped transaction left {}", shown_items(&after));
    Ok(())
}

/// A conflict undoes every kind of write.
pub async fn a_refused_commit_leaves_nothing<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"d", b"1"), (b"r", b"1")]).await?;
    let mut tx = engine.begin().await?;
    tx.get(b"guard").await?;
    write_every_kind(&mut tx)?;
    put_all(&engine, &[(b"guard", b"1")]).await?;
    let before = contents(&engine).await?;
    refused(tx.commit().await, "what it had read was changed")?;
    let after = contents(&engine).await?;
    ensure!(after == before, "a refused commit left {}", shown_items(&after));
    ensure!(stored(&engine, b"d").await?.is_some(), "a refused commit deleted a key");
    Ok(())
}

fn write_every_kind(tx: &mut impl Transaction) -> Proof {
    tx.put(b"p", "1")?;
    tx.add(b"n", 1)?;
    tx.put_stamped(b"s/", b"", "1")?;
    tx.delete(b"d")?;
    tx.delete_range(b"r", b"s")?;
    Ok(())
}
