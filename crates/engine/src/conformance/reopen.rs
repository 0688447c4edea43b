//! Durable: an acknowledged commit survives the death of the process, whole; anything else leaves nothing.
//!
//! Engines get it wrong by acknowledging before the sync, by dropping a good tail together with a torn one, by
//! replaying half a commit, or by starting their stamps again: then the first item after a crash is behind all
//! cursors.

use super::{
    Finding, Proof, Subject,
    tools::{beside, contents, counter, ensure, put_all, refused, shown_items, stamp_of, stored},
};
use crate::{Engine, Transaction};

const MEMORYLESS: Finding = Finding::NotApplicable("nothing is meant to survive");
const WRITERS: u8 = 8;
const COMMITS: u8 = 10;
const CRASHES: usize = 3;

/// All that many writers were told is there after each of several crashes, in every key and nothing else.
pub async fn acknowledged_commits_survive_a_crash<S: Subject>(subject: &S) -> Proof {
    let mut engine = subject.open().await;
    for crash in 1..=CRASHES {
        let writers = (0..WRITERS).map(|writer| write_every_kind(engine.clone(), writer)).collect();
        beside(subject, writers).await?;
        let before = contents(&engine).await?;
        engine = subject.crash_and_reopen(engine).await.ok_or(MEMORYLESS)?;
        let after = contents(&engine).await?;
        let (lost, total) = (before.iter().filter(|item| !after.contains(item)).count(), before.len());
        ensure!(lost == 0, "crash {crash} lost {lost} of {total} items");
        ensure!(after.len() == total, "after crash {crash} {} items exist, before it {total}", after.len());
        let sum = counter(stored(&engine, b"sum").await?.as_ref());
        let expected = i64::try_from(crash).unwrap_or(0) * i64::from(WRITERS) * i64::from(COMMITS);
        ensure!(sum == expected, "after crash {crash} the counter is {sum} instead of {expected}");
    }
    Ok(())
}

async fn write_every_kind<E: Engine>(engine: E, writer: u8) -> Proof {
    for number in 0..COMMITS {
        let mut tx = engine.begin().await?;
        tx.add(b"sum", 1)?;
        tx.put(&[b'p', writer, number], vec![number; 300])?;
        tx.put_stamped(b"s", &[writer], "")?;
        tx.delete(&[b'p', writer, number.wrapping_sub(2)])?;
        tx.delete_range(&[b'r', writer], &[b'r', writer + 1])?;
        tx.put(&[b'r', writer, number], "")?;
        tx.commit().await?;
    }
    Ok(())
}

/// Open, dropped and refused transactions are gone, and a commit of many keys is there whole.
pub async fn what_was_not_committed_does_not_survive<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let keys: Vec<[u8; 2]> = (0..200).map(|number| [b'k', number]).collect();
    let items: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &b"1"[..])).collect();
    put_all(&engine, &items).await?;
    let mut conflicting = engine.begin().await?;
    conflicting.get(b"guard").await?;
    conflicting.put(b"refused", "1")?;
    put_all(&engine, &[(b"guard", b"1")]).await?;
    refused(conflicting.commit().await, "what it had read was changed")?;
    let mut open = engine.begin().await?;
    open.put(b"open", "1")?;
    open.delete_range(b"k", b"l")?;
    drop(open);
    let engine = subject.crash_and_reopen(engine).await.ok_or(MEMORYLESS)?;
    let after = contents(&engine).await?;
    let is_right = after.len() == keys.len() + 1 && stored(&engine, b"guard").await?.is_some();
    ensure!(is_right, "after the crash the store holds {}", shown_items(&after));
    Ok(())
}

/// A stamp after a crash is larger than every stamp before it, even if nothing stamped is left in the store.
pub async fn stamps_go_on_rising_after_a_crash<S: Subject>(subject: &S) -> Proof {
    let mut engine = subject.open().await;
    let mut last = None;
    for crash in 0..CRASHES {
        for _ in 0..5 {
            let mut tx = engine.begin().await?;
            tx.delete_range(b"q/", b"q0")?;
            tx.put(b"k", "1")?;
            if crash == 1 {
                tx.put_stamped(b"q/", b"", "")?;
            }
            let stamp = stamp_of(tx.commit().await?)?;
            ensure!(last < Some(stamp), "after {crash} crashes {stamp:?} came after {last:?}");
            last = Some(stamp);
        }
        engine = subject.crash_and_reopen(engine).await.ok_or(MEMORYLESS)?;
    }
    Ok(())
}
