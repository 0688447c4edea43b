//! Stamps rise in commit order and become visible in that order.
//!
//! This is the trap of every queue. An engine that draws the stamp first and commits later lets stamp 11 become
//! visible while 10 is still on its way. A reader that moves its cursor past 11 has lost 10 for ever, and no
//! test with one writer notices.

use super::{
    Finding, Proof, Subject,
    tools::{beside, contents, ensure, finished, pause, shown_items, stamp_of, start},
};
use crate::{Engine, RangeRead, Transaction};
use bytes::Bytes;
use mundi_model::{Stamp, limits};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

const WRITERS: u8 = 16;
const COMMITS: u8 = 25;
const QUEUE: &[u8] = b"q/";

/// All stamped keys of a transaction carry the stamp that its commit returned, and later commits have larger
/// ones, whether they are stamped or not.
pub async fn stamps_rise_and_equal_the_returned_one<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let mut last: Option<Stamp> = None;
    for round in 0..20u8 {
        let mut tx = engine.begin().await?;
        tx.put(b"plain", vec![round])?;
        if round % 3 != 0 {
            tx.put_stamped(QUEUE, b"/one", vec![round])?;
            tx.put_stamped(QUEUE, b"/two", vec![round])?;
        }
        let own = tx.range(RangeRead::prefix(QUEUE, 1).reverse()).await?.items;
        let sees_itself = own.iter().any(|(_, value)| value[..] == [round]);
        ensure!(!sees_itself, "a stamped key was visible before its commit");
        let stamp = stamp_of(tx.commit().await?)?;
        ensure!(last < Some(stamp), "{stamp:?} came after {last:?}");
        last = Some(stamp);
        if round % 3 != 0 {
            newest_are(&engine, stamp, round).await?;
        }
    }
    Ok(())
}

async fn newest_are(engine: &impl Engine, stamp: Stamp, round: u8) -> Proof {
    let newest = engine.begin().await?.range(RangeRead::prefix(QUEUE, 2).reverse()).await?.items;
    let expected = [&b"/two"[..], b"/one"]
        .map(|suffix| (Bytes::from([QUEUE, stamp.as_bytes(), suffix].concat()), Bytes::copy_from_slice(&[round])));
    ensure!(newest == expected, "the commit returned {stamp:?}, and its keys are {}", shown_items(&newest));
    Ok(())
}

/// Sixteen writers append to a queue; a reader beside them never finds an item behind one that it has seen.
pub async fn no_stamp_appears_behind_one_already_seen<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let done = Arc::new(AtomicBool::new(false));
    let tail = start(subject, follow_by_cursor(engine.clone(), done.clone()));
    let whole = start(subject, watch_whole_queue(engine.clone(), done.clone()));
    let writers = (0..WRITERS).map(|writer| append(engine.clone(), writer)).collect();
    let written = beside(subject, writers).await;
    done.store(true, Ordering::SeqCst);
    let (tail, _) = (finished(tail).await?, finished(whole).await?);
    let mut acknowledged: Vec<Bytes> = written?.into_iter().flatten().collect();
    acknowledged.sort();
    let stored: Vec<Bytes> = contents(&engine).await?.into_iter().map(|(key, _)| key).collect();
    ensure!(stored == acknowledged, "{} appends were acknowledged, {} are stored", acknowledged.len(), stored.len());
    ensure!(tail == stored, "a cursor over the queue saw {} of {} items", tail.len(), stored.len());
    Ok(())
}

/// A snapshot holds what was committed up to its version, and nothing that is committed above it, under 16 writers.
pub async fn a_snapshot_has_seen_what_its_version_says<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let done = Arc::new(AtomicBool::new(false));
    let looks = start(subject, look_by_version(engine.clone(), done.clone()));
    let writers = (0..WRITERS).map(|writer| append(engine.clone(), writer)).collect();
    let written = beside(subject, writers).await;
    done.store(true, Ordering::SeqCst);
    let (looks, _) = (finished(looks).await?, written?);
    let all: Vec<Bytes> = contents(&engine).await?.into_iter().map(|(key, _)| key).collect();
    for (version, seen) in looks {
        let behind = [QUEUE, &version.to_be_bytes(), &[u8::MAX; 2]].concat();
        let expected = all.iter().take_while(|key| key[..] < behind[..]).count();
        ensure!(seen == expected, "a snapshot of version {version} saw {seen} of {expected} items");
    }
    Ok(())
}

/// Snapshots, and how many items each of them held.
async fn look_by_version<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Result<Vec<(u64, usize)>, Finding> {
    let mut looks = Vec::new();
    while !done.load(Ordering::SeqCst) {
        let mut tx = engine.begin().await?;
        let seen = tx.range(RangeRead::prefix(QUEUE, limits::RANGE_ITEMS_MAX).snapshot()).await?.items.len();
        looks.push((tx.version().await?, seen));
        pause().await;
    }
    Ok(looks)
}

/// Appends items one after the other; the keys that the acknowledgements imply.
async fn append<E: Engine>(engine: E, writer: u8) -> Result<Vec<Bytes>, Finding> {
    let mut keys: Vec<Bytes> = Vec::new();
    for number in 0..COMMITS {
        let mut tx = engine.begin().await?;
        let suffix = [writer, number];
        tx.put_stamped(QUEUE, &suffix, "")?;
        let stamp = stamp_of(tx.commit().await?)?;
        let key = Bytes::from([QUEUE, stamp.as_bytes(), &suffix].concat());
        ensure!(keys.last() < Some(&key), "writer {writer} got {stamp:?} after a larger stamp");
        keys.push(key);
    }
    Ok(keys)
}

/// Reads the queue as its users do: from a cursor, which moves to the last item seen.
async fn follow_by_cursor<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Result<Vec<Bytes>, Finding> {
    let mut seen: Vec<Bytes> = Vec::new();
    let mut read = RangeRead::prefix(QUEUE, 100).snapshot();
    loop {
        let last_look = done.load(Ordering::SeqCst);
        let page = engine.begin().await?.range(read.clone()).await?;
        seen.extend(page.items.into_iter().map(|(key, _)| key));
        if let Some(last) = seen.last() {
            read.start = [&last[..], &[0]].concat().into();
        }
        if last_look && !page.more {
            return Ok(seen);
        }
        pause().await;
    }
}

/// Reads the whole queue again and again: what was seen stays the beginning of what is seen later.
async fn watch_whole_queue<E: Engine>(engine: E, done: Arc<AtomicBool>) -> Proof {
    let mut seen: Vec<Bytes> = Vec::new();
    while !done.load(Ordering::SeqCst) {
        let read = RangeRead::prefix(QUEUE, limits::RANGE_ITEMS_MAX);
        let page = engine.begin().await?.range(read).await?;
        let now: Vec<Bytes> = page.items.into_iter().map(|(key, _)| key).collect();
        if let Some(behind) = now.iter().take(seen.len()).zip(&seen).find(|(now, before)| now != before) {
            let (appeared, before) = (behind.0.escape_ascii(), behind.1.escape_ascii());
            return Err(Finding::Violation(format!("{appeared} appeared behind {before}, which was seen before")));
        }
        ensure!(now.len() >= seen.len(), "items vanished from the queue");
        seen = now;
        pause().await;
    }
    Ok(())
}
