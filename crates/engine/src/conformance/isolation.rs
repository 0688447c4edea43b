//! Serializable: what a transaction depended on must still be true when it commits.
//!
//! Engines get it wrong by comparing writes only (snapshot isolation: write skew passes), by remembering the
//! keys that a range read returned and not the gaps between them (phantoms pass), by forgetting that a deletion
//! is a change, or by reading the newest value and not the snapshot's.

use super::{
    Proof, Subject,
    tools::{ensure, put_all, refused, shown_items, shown_value, wipe},
};
use crate::{Engine, EngineError, RangeRead, Transaction};

/// Every read of a transaction sees the state that its first one saw, whatever others commit meanwhile.
pub async fn reads_come_from_one_snapshot<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"a", b"old"), (b"b", b"old"), (b"c", b"old")]).await?;
    let mut tx = engine.begin().await?;
    tx.get_snapshot(b"c").await?;
    for round in 0..3u8 {
        let mut other = engine.begin().await?;
        other.put(b"a", vec![round])?;
        other.delete(b"b")?;
        other.put(&[b'n', round], "new")?;
        other.commit().await?;
        for (key, value) in [(b"a", Some("old")), (b"b", Some("old")), (b"n", None)] {
            let read = tx.get(key).await?;
            let snapshot = tx.get_snapshot(key).await?;
            let expected = value.map(|value| value.as_bytes());
            ensure!(read.as_deref() == expected, "get saw {} instead of its snapshot", shown_value(read.as_ref()));
            ensure!(snapshot.as_deref() == expected, "get_snapshot saw {}", shown_value(snapshot.as_ref()));
        }
        for read in [RangeRead::prefix(b"", 10), RangeRead::prefix(b"", 10).reverse().snapshot()] {
            let page = tx.range(read).await?;
            let is_old = page.items.len() == 3 && page.items.iter().all(|(_, value)| value == "old");
            ensure!(is_old, "a range saw {} instead of its snapshot", shown_items(&page.items));
        }
    }
    Ok(())
}

/// Two that read the same value and write it back changed: the second would undo the first.
pub async fn lost_updates_are_refused<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"balance", b"100")]).await?;
    let (mut first, mut second) = (engine.begin().await?, engine.begin().await?);
    first.get(b"balance").await?;
    second.get(b"balance").await?;
    first.put(b"balance", "110")?;
    second.put(b"balance", "120")?;
    first.commit().await?;
    refused(second.commit().await, "its update would undo one that it has not seen")
}

/// Each reads what the other writes. No order explains both, though they write different keys.
pub async fn write_skew_is_refused<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"alice", b"on call"), (b"bob", b"on call")]).await?;
    let (mut first, mut second) = (engine.begin().await?, engine.begin().await?);
    first.get(b"bob").await?;
    second.get(b"alice").await?;
    first.put(b"alice", "off")?;
    second.put(b"bob", "off")?;
    first.commit().await?;
    refused(second.commit().await, "write skew: nobody is on call any more")
}

/// Write skew where both counted a range and both added to it.
pub async fn write_skew_over_ranges_is_refused<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let (mut first, mut second) = (engine.begin().await?, engine.begin().await?);
    first.range(RangeRead::prefix(b"room/", 10)).await?;
    second.range(RangeRead::prefix(b"room/", 10)).await?;
    first.put(b"room/alice", "9 to 10")?;
    second.put(b"room/bob", "9 to 10")?;
    first.commit().await?;
    refused(second.commit().await, "both found the room empty and booked it")
}

/// The ways in which another transaction changes `m`, or a key beside it that a range over `m` sees.
#[derive(Debug, Clone, Copy)]
enum Change {
    Put,
    Add,
    Delete,
    DeleteRange,
    Stamped,
}

impl Change {
    fn write(self, tx: &mut impl Transaction) -> Result<(), EngineError> {
        match self {
            Self::Put => tx.put(b"m", "new"),
            Self::Add => tx.add(b"m", 1),
            Self::Delete => tx.delete(b"m"),
            Self::DeleteRange => tx.delete_range(b"a", b"z"),
            Self::Stamped => tx.put_stamped(b"m", b"", "new"),
        }
    }
}

/// A key read conflicts with a put, an add, a delete and a range delete of that key.
pub async fn every_kind_of_write_is_noticed_by_a_key_read<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for change in [Change::Put, Change::Add, Change::Delete, Change::DeleteRange] {
        wipe(&engine).await?;
        put_all(&engine, &[(b"m", b"old")]).await?;
        let mut tx = engine.begin().await?;
        tx.get(b"m").await?;
        tx.put(b"mine", "1")?;
        commit_change(&engine, change).await?;
        refused(tx.commit().await, &format!("a key that it read was changed by {change:?}"))?;
    }
    Ok(())
}

/// A range read conflicts with every kind of write into the range.
pub async fn every_kind_of_write_is_noticed_by_a_range_read<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for change in [Change::Put, Change::Add, Change::Delete, Change::DeleteRange, Change::Stamped] {
        for read in [RangeRead::new("l", "n", 10), RangeRead::new("l", "n", 10).reverse()] {
            wipe(&engine).await?;
            put_all(&engine, &[(b"m", b"old")]).await?;
            let mut tx = engine.begin().await?;
            tx.range(read.clone()).await?;
            tx.put(b"mine", "1")?;
            commit_change(&engine, change).await?;
            refused(tx.commit().await, &format!("the range of {read:?} was changed by {change:?}"))?;
        }
    }
    Ok(())
}

async fn commit_change(engine: &impl Engine, change: Change) -> Proof {
    let mut other = engine.begin().await?;
    change.write(&mut other)?;
    other.commit().await?;
    Ok(())
}

/// A key that appears in a range, or at a place that was found empty, where nothing was returned before.
pub async fn phantoms_are_refused<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    for reverse in [false, true] {
        for phantom in [&b"k/"[..], b"k/0", b"k/15", b"k/9\xff"] {
            wipe(&engine).await?;
            put_all(&engine, &[(b"k/1", b""), (b"k/2", b"")]).await?;
            let mut tx = engine.begin().await?;
            let read = RangeRead::prefix(b"k/", 10);
            tx.range(if reverse { read.reverse() } else { read }).await?;
            tx.put(b"count", "2")?;
            put_all(&engine, &[(phantom, b"")]).await?;
            refused(tx.commit().await, &format!("phantom {} in a range that was read", phantom.escape_ascii()))?;
        }
    }
    let mut tx = engine.begin().await?;
    tx.get(b"absent").await?;
    tx.put(b"mine", "1")?;
    put_all(&engine, &[(b"absent", b"no more")]).await?;
    refused(tx.commit().await, "a key that it found absent was created")
}
