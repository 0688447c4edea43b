//! A range delete removes what is there when it commits, not what was there when it began.
//!
//! Engines get it wrong by reading the range at the snapshot and deleting the keys found: what others committed
//! in between survives a deletion that comes after it in the order of commits. A queue cleaned that way keeps
//! ghosts.

use super::{
    Proof, Subject,
    tools::{contents, ensure, put_all, shown_items, stored, wipe},
};
use crate::{Engine, Transaction};

/// Keys that others committed after our snapshot and before our commit go as well.
pub async fn a_range_delete_takes_what_others_committed_before_it<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"q/1", b"old"), (b"r", b"other")]).await?;
    let mut tx = engine.begin().await?;
    tx.delete_range(b"q/", b"q0")?;
    let mut other = engine.begin().await?;
    other.put(b"q/1", "changed")?;
    other.put(b"q/2", "late")?;
    other.add(b"q/3", 1)?;
    other.put_stamped(b"q/", b"", "late")?;
    other.commit().await?;
    tx.commit().await?;
    let left = contents(&engine).await?;
    ensure!(left.len() == 1 && left[0].0 == "r", "a range delete left what came before it: {}", shown_items(&left));
    Ok(())
}

/// Later writes of the same transaction survive its range delete, and so do later commits of others.
pub async fn a_range_delete_spares_what_comes_after_it<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"q/1", b"old"), (b"q/2", b"old")]).await?;
    let mut later = engine.begin().await?;
    later.put(b"q/3", "later")?;
    let mut tx = engine.begin().await?;
    tx.delete_range(b"q/", b"q0")?;
    tx.put(b"q/2", "own")?;
    tx.commit().await?;
    later.commit().await?;
    let left = contents(&engine).await?;
    let keys: Vec<&[u8]> = left.iter().map(|(key, _)| &key[..]).collect();
    ensure!(keys == [b"q/2", b"q/3"], "after a range delete, an own put and another's put: {}", shown_items(&left));
    let own = stored(&engine, b"q/2").await?;
    ensure!(own.as_deref() == Some(b"own"), "the put after the range delete was lost");
    Ok(())
}

/// A range, and which of the keys it leaves.
type Case<'a> = (&'a [u8], &'a [u8], &'a [&'a [u8]]);

/// Start inclusive, end exclusive; an empty or inverted range is nothing; `0xff` ends all.
pub async fn a_range_delete_takes_exactly_its_range<S: Subject>(subject: &S) -> Proof {
    let cases: [Case<'_>; 6] = [
        (b"b", b"d", &[b"a", b"d", b"d\0"]),
        (b"b\0", b"d\0", &[b"a", b"b", b"d\0"]),
        (b"c", b"c", &[b"a", b"b", b"c", b"d", b"d\0"]),
        (b"d", b"b", &[b"a", b"b", b"c", b"d", b"d\0"]),
        (b"", b"c", &[b"c", b"d", b"d\0"]),
        (b"c", b"\xff", &[b"a", b"b"]),
    ];
    let engine = subject.open().await;
    for (start, end, expected) in cases {
        wipe(&engine).await?;
        put_all(&engine, &[(b"a", b""), (b"b", b""), (b"c", b""), (b"d", b""), (b"d\0", b"")]).await?;
        let mut tx = engine.begin().await?;
        tx.delete_range(start, end)?;
        tx.commit().await?;
        let left = contents(&engine).await?;
        let keys: Vec<&[u8]> = left.iter().map(|(key, _)| &key[..]).collect();
        let (start, end) = (start.escape_ascii(), end.escape_ascii());
        ensure!(keys == expected, "deleting {start}..{end} left {}", shown_items(&left));
    }
    Ok(())
}
