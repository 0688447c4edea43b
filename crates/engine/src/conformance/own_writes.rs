//! A transaction reads its own writes on top of its snapshot, by key and by range.
//!
//! Engines get it wrong by sending reads straight to the store, by hiding deletions in `get` but not in ranges,
//! by counting hidden items towards a limit, or by merging in one direction only.

use super::{
    Proof, Subject,
    tools::{Items, begin_with, contents, counter, ensure, everything, put_all, shown, shown_items, shown_value},
};
use crate::{Engine, RangeRead, ReadPlan, Source, Transaction};
use bytes::Bytes;

async fn reads(tx: &mut impl Transaction, key: &[u8], expected: Option<&[u8]>) -> Proof {
    let by_get = tx.get(key).await?;
    let by_snapshot = tx.get_snapshot(key).await?;
    let found = shown_value(by_get.as_ref());
    ensure!(by_get.as_deref() == expected, "get of {} gave {found}, not the transaction's own state", shown(key));
    let found = shown_value(by_snapshot.as_ref());
    ensure!(by_snapshot.as_deref() == expected, "get_snapshot of {} gave {found}, not its own state", shown(key));
    Ok(())
}

/// The last own put or delete of a key is what `get` returns.
pub async fn own_puts_and_deletes_are_read<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"kept", b"stored"), (b"gone", b"stored")]).await?;
    let mut tx = engine.begin().await?;
    tx.put(b"new", "1")?;
    reads(&mut tx, b"new", Some(b"1")).await?;
    tx.put(b"new", "2")?;
    tx.put(b"empty", "")?;
    tx.delete(b"gone")?;
    reads(&mut tx, b"new", Some(b"2")).await?;
    reads(&mut tx, b"empty", Some(b"")).await?;
    reads(&mut tx, b"gone", None).await?;
    reads(&mut tx, b"kept", Some(b"stored")).await?;
    tx.delete(b"new")?;
    tx.put(b"gone", "again")?;
    reads(&mut tx, b"new", None).await?;
    reads(&mut tx, b"gone", Some(b"again")).await?;
    tx.commit().await?;
    let expected: [(&[u8], &[u8]); 3] = [(b"empty", b""), (b"gone", b"again"), (b"kept", b"stored")];
    holds_exactly(&engine, &expected).await
}

/// A range delete hides what is stored and what the transaction wrote before it, and not what it writes after.
pub async fn own_range_deletes_are_read<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"a", b"1"), (b"c", b"1"), (b"e", b"1"), (b"g", b"1")]).await?;
    let mut tx = engine.begin().await?;
    tx.put(b"d", "before")?;
    tx.add(b"c", 5)?;
    tx.delete_range(b"c", b"g")?;
    for key in [b"c", b"d", b"e"] {
        reads(&mut tx, key, None).await?;
    }
    reads(&mut tx, b"a", Some(b"1")).await?;
    reads(&mut tx, b"g", Some(b"1")).await?;
    tx.put(b"d", "after")?;
    tx.add(b"e", 3)?;
    reads(&mut tx, b"d", Some(b"after")).await?;
    reads(&mut tx, b"e", Some(&3i64.to_le_bytes())).await?;
    let page = tx.range(everything(10)).await?;
    let keys: Vec<&[u8]> = page.items.iter().map(|(key, _)| &key[..]).collect();
    ensure!(keys == [b"a", b"d", b"e", b"g"], "a range after a range delete gave {}", shown_items(&page.items));
    tx.commit().await?;
    let expected: [(&[u8], &[u8]); 4] = [(b"a", b"1"), (b"d", b"after"), (b"e", &3i64.to_le_bytes()), (b"g", b"1")];
    holds_exactly(&engine, &expected).await
}

/// An own add is read on top of the snapshot, of an own put and of an own delete.
pub async fn own_adds_are_read<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"stored", &40i64.to_le_bytes()), (b"zero", &0i64.to_le_bytes())]).await?;
    let mut tx = engine.begin().await?;
    for (key, expected) in [(&b"stored"[..], 42i64), (b"absent", 2), (b"zero", 2)] {
        tx.add(key, 3)?;
        tx.add(key, -1)?;
        reads(&mut tx, key, Some(&expected.to_le_bytes())).await?;
    }
    tx.put(b"put", 10i64.to_le_bytes().to_vec())?;
    tx.add(b"put", 1)?;
    reads(&mut tx, b"put", Some(&11i64.to_le_bytes())).await?;
    tx.delete(b"stored")?;
    tx.add(b"stored", 1)?;
    reads(&mut tx, b"stored", Some(&1i64.to_le_bytes())).await?;
    let page = tx.range(everything(10)).await?;
    let counters: Vec<i64> = page.items.iter().map(|(_, value)| counter(Some(value))).collect();
    ensure!(counters == [2, 11, 1, 2], "a range showed own adds as {}", shown_items(&page.items));
    tx.commit().await?;
    let committed = contents(&engine).await?;
    ensure!(
        committed == page.items,
        "own adds were read as {} and committed as {}",
        shown_items(&page.items),
        shown_items(&committed)
    );
    Ok(())
}

/// Own writes between, before, after and on top of stored items, in every window and in both directions.
pub async fn ranges_merge_own_writes_in_both_directions<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"b", b"s"), (b"d", b"s"), (b"f", b"s"), (b"h", b"s"), (b"j", b"s")]).await?;
    let mut tx = engine.begin().await?;
    tx.delete_range(b"h", b"i")?;
    for key in [b"a", b"e", b"f", b"k"] {
        tx.put(key, "own")?;
    }
    tx.delete(b"d")?;
    tx.delete(b"x")?;
    let merged: Items =
        [("a", "own"), ("b", "s"), ("e", "own"), ("f", "own"), ("j", "s"), ("k", "own")].map(own_item).to_vec();
    for start in b'a'..=b'l' {
        for end in start..=b'l' {
            let window: Items = merged.iter().filter(|(key, _)| start <= key[0] && key[0] < end).cloned().collect();
            same_in_both_directions(&mut tx, start, end, &window).await?;
        }
    }
    Ok(())
}

fn own_item((key, value): (&'static str, &'static str)) -> (Bytes, Bytes) {
    (Bytes::from_static(key.as_bytes()), Bytes::from_static(value.as_bytes()))
}

async fn same_in_both_directions(tx: &mut impl Transaction, start: u8, end: u8, window: &Items) -> Proof {
    for limit in 1..=window.len() + 1 {
        let read = RangeRead::new(vec![start], vec![end], limit);
        let forward: Items = window.iter().take(limit).cloned().collect();
        let backward: Items = window.iter().rev().take(limit).cloned().collect();
        for (read, expected) in [(read.clone(), forward), (read.reverse(), backward)] {
            let found = tx.range(read.clone()).await?.items;
            let (found, expected, is_same) = (shown_items(&found), shown_items(&expected), found == expected);
            ensure!(is_same, "{read:?} over own writes gave {found} instead of {expected}");
        }
    }
    Ok(())
}

/// That a key is new is only planned: what it holds is replaced, and what the transaction does to it otherwise counts as ever.
pub async fn what_is_planned_as_new_need_not_be<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"back", b"stored"), (b"gone", b"stored"), (b"there", b"stored")]).await?;
    // Again and again: an engine may go other ways about a commit if it knows what its last one has left.
    for turn in ["1", "2", "3", "4"] {
        let keys = ["there", "twice", "gone", "back"].map(Bytes::from);
        let plan = ReadPlan { new_keys: keys.to_vec(), ..ReadPlan::default() };
        let mut tx = begin_with(&engine, Source::OwnSnapshot, plan).await?;
        tx.put(b"there", turn)?;
        tx.put(b"twice", "before")?;
        tx.put(b"twice", turn)?;
        tx.put(b"gone", turn)?;
        tx.delete(b"gone")?;
        tx.delete(b"back")?;
        tx.put(b"back", turn)?;
        reads(&mut tx, b"there", Some(turn.as_bytes())).await?;
        reads(&mut tx, b"gone", None).await?;
        tx.commit().await?;
        let keys: [&[u8]; 3] = [b"back", b"there", b"twice"];
        holds_exactly(&engine, &keys.map(|key| (key, turn.as_bytes()))).await?;
    }
    Ok(())
}

async fn holds_exactly(engine: &impl Engine, expected: &[(&[u8], &[u8])]) -> Proof {
    let found = contents(engine).await?;
    let is_same = found.iter().map(|(key, value)| (&key[..], &value[..])).eq(expected.iter().copied());
    ensure!(is_same, "after the commit the store holds {}", shown_items(&found));
    Ok(())
}
