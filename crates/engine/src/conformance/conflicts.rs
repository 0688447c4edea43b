//! No conflict without a reason: what a transaction did not depend on must not refuse it.
//!
//! Engines get it wrong by locking more than was read (a page, a whole range beyond the limit), by treating
//! writes as reads, or by counting a transaction's own writes against it. Nothing false is ever stored that
//! way, but hot queues stop: every claimer of a queue's head then fights with every producer at its tail.

use super::{
    Proof, Subject,
    tools::{accepted, ensure, everything, put_all, refused},
};
use crate::{Engine, RangeRead, Transaction};

/// Snapshot reads of keys and ranges may be outdated at commit.
pub async fn snapshot_reads_add_no_conflict<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"a", b"1"), (b"b", b"1")]).await?;
    let mut by_key = engine.begin().await?;
    by_key.get_snapshot(b"a").await?;
    by_key.get_snapshot(b"absent").await?;
    by_key.put(b"x", "1")?;
    let mut by_range = engine.begin().await?;
    by_range.range(everything(10).snapshot()).await?;
    by_range.range(everything(10).snapshot().reverse()).await?;
    by_range.put(b"y", "1")?;
    put_all(&engine, &[(b"a", b"2"), (b"absent", b"2"), (b"c", b"2")]).await?;
    accepted(by_key.commit().await, "what a snapshot get saw was changed")?;
    accepted(by_range.commit().await, "what a snapshot range saw was changed")
}

/// A read that its limit ended depends on what lies up to its last item, and on nothing beyond.
pub async fn a_limited_read_depends_only_on_what_it_read<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"q/2", b""), (b"q/4", b""), (b"q/6", b""), (b"q/8", b"")]).await?;
    let mut head = engine.begin().await?;
    head.range(RangeRead::prefix(b"q/", 2)).await?;
    head.put(b"x", "1")?;
    put_all(&engine, &[(b"q/5", b"new"), (b"q/6", b"new"), (b"q/9", b"new")]).await?;
    accepted(head.commit().await, "a key beyond the last item that it read was changed")?;
    let mut tail = engine.begin().await?;
    tail.range(RangeRead::prefix(b"q/", 2).reverse()).await?;
    tail.put(b"y", "1")?;
    put_all(&engine, &[(b"q/1", b"new"), (b"q/6", b"newer"), (b"q/7", b"new")]).await?;
    accepted(tail.commit().await, "a key before the last item that its reverse read reached was changed")?;
    the_part_read_still_counts(&engine).await
}

async fn the_part_read_still_counts(engine: &impl Engine) -> Proof {
    for (reverse, key) in [(false, b"q/0"), (true, b"q/z")] {
        let mut tx = engine.begin().await?;
        let read = RangeRead::prefix(b"q/", 2);
        tx.range(if reverse { read.reverse() } else { read }).await?;
        tx.put(b"x", "2")?;
        put_all(engine, &[(key, b"new")]).await?;
        refused(tx.commit().await, "a key appeared within the part that a limited read had read")?;
    }
    Ok(())
}

/// Puts, deletes, range deletes, adds and stamped puts to the same place all commit, in any number.
pub async fn blind_writes_do_not_conflict<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"k", b"0")]).await?;
    let mut open = Vec::new();
    for kind in 0..5 {
        let mut tx = engine.begin().await?;
        match kind {
            0 => tx.put(b"k", "1")?,
            1 => tx.delete(b"k")?,
            2 => tx.delete_range(b"a", b"z")?,
            3 => tx.add(b"k", 1)?,
            _ => tx.put_stamped(b"k", b"", "1")?,
        }
        open.push(tx);
    }
    put_all(&engine, &[(b"k", b"2")]).await?;
    for tx in open {
        accepted(tx.commit().await, "it only wrote, and read nothing")?;
    }
    Ok(())
}

/// A transaction that reads what it writes, before or after, is alone with itself.
pub async fn own_writes_do_not_conflict_with_own_reads<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"a", b"1"), (b"b", b"1"), (b"n", &7i64.to_le_bytes())]).await?;
    for _ in 0..3 {
        let mut tx = engine.begin().await?;
        tx.get(b"a").await?;
        tx.put(b"a", "2")?;
        tx.get(b"a").await?;
        tx.add(b"n", 1)?;
        tx.get(b"n").await?;
        tx.range(everything(10)).await?;
        tx.delete_range(b"b", b"c")?;
        tx.put_stamped(b"b/", b"", "1")?;
        tx.range(everything(1).reverse()).await?;
        tx.put(b"b", "2")?;
        accepted(tx.commit().await, "nobody else was there")?;
    }
    Ok(())
}

/// Changes right beside what was read, on either side, are none of its business.
pub async fn neighbours_do_not_conflict<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"k", b"1"), (b"m/5", b"1")]).await?;
    let mut tx = engine.begin().await?;
    tx.get(b"k").await?;
    tx.range(RangeRead::new("m/", "m0", 10)).await?;
    tx.range(RangeRead::new("p", "p", 10)).await?;
    tx.put(b"x", "1")?;
    put_all(&engine, &[(b"j", b""), (b"k\0", b""), (b"m", b""), (b"m.", b""), (b"m0", b""), (b"p", b"")]).await?;
    accepted(tx.commit().await, "only neighbours of what it read were changed")
}

/// A transaction without writes has nothing to refuse, however outdated its reads.
pub async fn readers_always_succeed<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"a", b"1")]).await?;
    let mut tx = engine.begin().await?;
    tx.get(b"a").await?;
    tx.range(everything(10)).await?;
    put_all(&engine, &[(b"a", b"2"), (b"b", b"2")]).await?;
    let committed = tx.commit().await?;
    ensure!(committed.stamp().is_none(), "a commit without writes claims the place {committed:?}");
    Ok(())
}
