//! A plan is a hint and nothing else.
//!
//! Engines that fetch ahead get it wrong by answering from what they fetched instead of from the transaction: without its own
//! writes, from another snapshot, without noting the dependence; or by noting one for what was fetched and never read.

use super::{
    Proof, Subject,
    tools::{accepted, begin_with, ensure, everything, put_all, refused, shown_items, shown_value},
};
use crate::{Engine, RangeRead, Read, ReadPlan, Source, Transaction};
use bytes::Bytes;

fn both_ways(limit: usize) -> [RangeRead; 2] {
    [everything(limit), everything(limit).reverse()]
}

/// Own writes before and after the prefetch are seen, and what others commit after the first read is not.
pub async fn prefetched_reads_find_what_reads_find<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"n", &7i64.to_le_bytes())]).await?;
    let mut tx = engine.begin().await?;
    tx.get(b"any").await?; // from here on it is on one state
    put_all(&engine, &[(b"a", b"other"), (b"d", b"other"), (b"x", b"other")]).await?;
    tx.put(b"b", "before")?;
    tx.prefetch(|| {
        let keys = [&b"a"[..], b"b", b"c", b"d", b"n", b"y", b"", &[0xff]].map(Read::get);
        let ranges = both_ways(10).into_iter().chain(both_ways(2)).chain([RangeRead::new("z", "a", 0)]);
        keys.into_iter().chain(ranges.map(Read::Range)).collect::<Vec<_>>()
    });
    tx.put(b"c", "after")?;
    tx.add(b"n", 1)?;
    tx.put(b"y", "after")?;
    let eight = 8i64.to_le_bytes();
    let expected: [(&[u8], &[u8]); 5] =
        [(b"a", b"1"), (b"b", b"before"), (b"c", b"after"), (b"n", &eight), (b"y", b"after")];
    for _ in 0..2 {
        for (key, value) in expected {
            let found = tx.get(key).await?;
            ensure!(found.as_deref() == Some(value), "a prefetched get found {}", shown_value(found.as_ref()));
        }
        let absent = tx.get(b"d").await?;
        ensure!(absent.is_none(), "a prefetched get found {} of a later commit", shown_value(absent.as_ref()));
        for (limit, [ascending, descending]) in [10, 2].map(|limit| (limit, both_ways(limit))) {
            let mut items: Vec<_> =
                expected.map(|(key, value)| (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value))).into();
            for read in [ascending, descending] {
                let page = tx.range(read).await?;
                let count = limit.min(items.len());
                let is_same = page.items == items[..count];
                ensure!(is_same, "a prefetched range found {}", shown_items(&page.items));
                items.reverse();
            }
        }
    }
    Ok(())
}

const SOURCES: [Source; 3] = [Source::OwnSnapshot, Source::SharedSnapshot, Source::Cache];

/// A commit depends on reads that were planned or prefetched, as if they had not been.
pub async fn planned_reads_conflict_as_reads_do<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let range = RangeRead::prefix(b"m/", 10);
    let reads = [Read::get(b"a"), Read::get(b"absent"), Read::Range(range.clone().snapshot())];
    for changed in [&b"a"[..], b"absent", b"m/5", b"m/7"] {
        for source in SOURCES.map(Some).into_iter().chain([None]) {
            put_all(&engine, &[(b"a", b"1"), (b"m/5", b"1")]).await?;
            let mut tx = match source {
                Some(source) => begin_with(&engine, source, ReadPlan::reads(reads.clone())).await?,
                None => engine.begin().await?,
            };
            tx.prefetch(|| reads.clone().into_iter().filter(|_| source.is_none()));
            tx.get(b"a").await?;
            tx.get(b"absent").await?;
            tx.range(range.clone()).await?;
            tx.put(b"x", "1")?;
            put_all(&engine, &[(changed, b"2")]).await?;
            refused(tx.commit().await, "what it had planned and read was changed")?;
        }
    }
    Ok(())
}

/// A commit does not depend on keys that were planned and not read, or read without a promise.
pub async fn plans_add_no_conflict<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let range = RangeRead::prefix(b"m/", 10);
    let reads = [Read::get(b"a"), Read::get(b"b"), Read::get(b"c"), Read::Range(range.clone())];
    for source in SOURCES {
        put_all(&engine, &[(b"a", b"1"), (b"b", b"1"), (b"m/5", b"1")]).await?;
        let mut tx = begin_with(&engine, source, ReadPlan::reads(reads[..2].to_vec())).await?;
        tx.prefetch(|| reads[2..].to_vec());
        tx.get(b"b").await?;
        tx.get_snapshot(b"a").await?;
        tx.range(range.clone().snapshot()).await?;
        tx.put(b"x", "1")?;
        put_all(&engine, &[(b"a", b"2"), (b"c", b"2"), (b"m/5", b"2"), (b"m/7", b"2")]).await?;
        accepted(tx.commit().await, "what it had planned was changed, and it had not depended on it")?;
    }
    Ok(())
}
