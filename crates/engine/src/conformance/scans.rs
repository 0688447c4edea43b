//! Ranges are ordered by bytes, in both directions, cut by limits, and say whether they were cut.
//!
//! Engines get it wrong by comparing text (a collation!), by returning the first items backwards instead of the
//! last ones, by saying `more` when nothing was cut (endless loops) or not saying it when something was (items
//! are lost), or by including the end.

use super::{
    Finding, Proof, Subject,
    tools::{Items, ensure, everything, put_all, shown, shown_items},
};
use crate::{Engine, RangeRead, Transaction};
use bytes::Bytes;
use mundi_model::limits;

/// Keys on which orders disagree: case, length, zero bytes, bytes above 0x7f, no valid text.
const KEYS: [&[u8]; 12] =
    [b"\0", b"\0\0", b"\x01", b"A", b"B", b"a", b"a\0", b"a\xff", b"aa", b"b", b"\x80", b"\xfe\xff\xff"];

async fn with_keys<S: Subject>(subject: &S) -> Result<S::Engine, Finding> {
    let engine = subject.open().await;
    let mut tx = engine.begin().await?;
    for key in KEYS.iter().rev() {
        tx.put(key, key.to_vec())?;
    }
    tx.commit().await?;
    Ok(engine)
}

fn sorted() -> Items {
    let mut items: Items = KEYS.iter().map(|key| (Bytes::from_static(key), Bytes::from_static(key))).collect();
    items.sort();
    items
}

/// Ascending and descending by unsigned bytes, a prefix before what it begins.
pub async fn ranges_are_ordered_by_bytes_in_both_directions<S: Subject>(subject: &S) -> Proof {
    let engine = with_keys(subject).await?;
    let mut tx = engine.begin().await?;
    let mut expected = sorted();
    let forward = tx.range(everything(100)).await?.items;
    ensure!(forward == expected, "ascending: {}", shown_items(&forward));
    expected.reverse();
    let backward = tx.range(everything(100).reverse()).await?.items;
    ensure!(backward == expected, "descending: {}", shown_items(&backward));
    Ok(())
}

/// A limit gives the first items, or the last when reversed; `more` is true exactly if something was cut off.
///
/// Where a limit ends right at the end of the range, either answer is right: the engine need not look further.
pub async fn limits_cut_and_more_says_so<S: Subject>(subject: &S) -> Proof {
    let engine = with_keys(subject).await?;
    let mut tx = engine.begin().await?;
    let ascending = sorted();
    let descending: Items = ascending.iter().rev().cloned().collect();
    for limit in 1..=KEYS.len() + 2 {
        for (read, all) in [(everything(limit), &ascending), (everything(limit).reverse(), &descending)] {
            let page = tx.range(read.clone()).await?;
            let expected = &all[..limit.min(all.len())];
            ensure!(page.items == expected, "limit {limit} gave {}", shown_items(&page.items));
            ensure!(page.more || limit >= all.len(), "limit {limit} cut {read:?}, and `more` is false");
            ensure!(!page.more || limit <= all.len(), "limit {limit} was not reached, and `more` is true");
        }
    }
    Ok(())
}

/// Reading page after page from where the last one ended gives every item once, in either direction.
pub async fn pages_put_together_give_the_whole<S: Subject>(subject: &S) -> Proof {
    let engine = with_keys(subject).await?;
    let mut tx = engine.begin().await?;
    for page_items in 1..=5 {
        let (mut read, mut found) = (everything(page_items), Items::new());
        while let Some(last) = next_page(&mut tx, &read, &mut found).await? {
            read.start = [&last[..], &[0]].concat().into();
        }
        ensure!(found == sorted(), "pages of {page_items} gave {}", shown_items(&found));
        let (mut read, mut found) = (everything(page_items).reverse(), Items::new());
        while let Some(last) = next_page(&mut tx, &read, &mut found).await? {
            read.end = last;
        }
        found.reverse();
        ensure!(found == sorted(), "reverse pages of {page_items} gave {}", shown_items(&found));
    }
    Ok(())
}

/// Reads a page; the key to continue from, if there is more.
async fn next_page(tx: &mut impl Transaction, read: &RangeRead, found: &mut Items) -> Result<Option<Bytes>, Finding> {
    let page = tx.range(read.clone()).await?;
    let last = page.items.last().map(|(key, _)| key.clone());
    found.extend(page.items);
    ensure!(!page.more || last.is_some(), "an empty page says that there is more: {read:?}");
    ensure!(found.len() <= KEYS.len(), "pages repeat items: {}", shown_items(found));
    Ok(last.filter(|_| page.more))
}

/// `start..end` for every pair of keys and places between them; an inverted range is empty.
pub async fn bounds_are_start_inclusive_and_end_exclusive<S: Subject>(subject: &S) -> Proof {
    let engine = with_keys(subject).await?;
    let mut tx = engine.begin().await?;
    let mut bounds: Vec<Bytes> = sorted().into_iter().map(|(key, _)| key).collect();
    bounds.extend([Bytes::new(), Bytes::from_static(b"\x01\0"), Bytes::from_static(b"\xff")]);
    for start in &bounds {
        for end in &bounds {
            let expected: Items = sorted().into_iter().filter(|(key, _)| start <= key && key < end).collect();
            let found = tx.range(RangeRead::new(start.clone(), end.clone(), 100)).await?.items;
            let (start, end) = (shown(start), shown(end));
            ensure!(found == expected, "{start}..{end} gave {}", shown_items(&found));
        }
    }
    Ok(())
}

/// A page of large values ends at the bound on bytes, says `more`, and the rest can be read from there.
pub async fn a_page_is_bounded_in_bytes<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let value = vec![7; limits::VALUE_BYTES_MAX];
    let count = limits::RANGE_BYTES_MAX / value.len() * 2;
    let keys: Vec<[u8; 2]> = (0..count).map(|n| [b'v', u8::try_from(n).unwrap_or(u8::MAX)]).collect();
    let items: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &value[..])).collect();
    put_all(&engine, &items).await?;
    let mut tx = engine.begin().await?;
    let (mut read, mut found) = (everything(1_000), 0);
    loop {
        let page = tx.range(read.clone()).await?;
        let bytes: usize = page.items.iter().map(|(key, value)| key.len() + value.len()).sum();
        let bytes_max = limits::RANGE_BYTES_MAX + value.len() + 2;
        ensure!(bytes <= bytes_max, "one page has {bytes} bytes; {bytes_max} are allowed with its last item");
        found += page.items.len();
        ensure!(page.more || found == count, "`more` is false after {found} of {count} items");
        let Some((last, _)) = page.items.last().filter(|_| page.more) else { return Ok(()) };
        read.start = [&last[..], &[0]].concat().into();
    }
}
