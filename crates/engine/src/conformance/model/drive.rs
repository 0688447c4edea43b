//! Runs a script on an engine and on the oracle, and compares.

use super::{
    oracle::{Open, Oracle, Verdict, Write},
    script::{Act, SLOTS, Step},
};
use crate::{
    CommitError, Committed, Engine, Page, RangeRead, Transaction,
    conformance::{
        Finding, Proof,
        tools::{Items, contents, ensure, shown_items, shown_value, stamp_of},
    },
};
use bytes::Bytes;

/// A transaction of the engine and what the oracle knows of it.
struct Both<T> {
    tx: T,
    open: Open,
}

pub(super) async fn drive<E: Engine>(engine: &E, steps: &[Step]) -> Proof {
    let mut oracle = Oracle::default();
    let mut slots: [Option<Both<E::Transaction>>; SLOTS] = Default::default();
    for step in steps {
        let both = match slots[step.slot].take() {
            Some(both) => both,
            None => begin(engine, &oracle).await?,
        };
        slots[step.slot] = take_step(&mut oracle, both, &step.act).await.map_err(|finding| at(step, &finding))?;
    }
    let (found, expected) = (contents(engine).await?, items_of(&oracle));
    let is_same = found == expected;
    ensure!(is_same, "in the end the store holds {} instead of {}", shown_items(&found), shown_items(&expected));
    Ok(())
}

/// With a read that decides which state it is on, and depends on nothing.
async fn begin<E: Engine>(engine: &E, oracle: &Oracle) -> Result<Both<E::Transaction>, Finding> {
    let mut tx = engine.begin().await?;
    tx.get_snapshot(b"any").await?;
    Ok(Both { tx, open: oracle.begin() })
}

fn at(step: &Step, finding: &Finding) -> Finding {
    Finding::Violation(format!("at `{step}` {finding}"))
}

fn items_of(oracle: &Oracle) -> Items {
    oracle.now.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Does a step; the transaction, if it continues.
async fn take_step<T: Transaction>(
    oracle: &mut Oracle,
    mut both: Both<T>,
    act: &Act,
) -> Result<Option<Both<T>>, Finding> {
    match act {
        Act::Begin => {}
        Act::Prefetch(read) => both.tx.prefetch(|| [read.clone()]),
        Act::Drop => return Ok(None),
        Act::Commit => {
            commit(oracle, both).await?;
            return Ok(None);
        }
        Act::Get { key, snapshot } => get(&mut both, key, *snapshot).await?,
        Act::Range { start, end, limit, reverse, snapshot } => {
            let mut read = RangeRead::new(start.clone(), end.clone(), *limit);
            (read.reverse, read.snapshot) = (*reverse, *snapshot);
            range(&mut both, read).await?;
        }
        Act::Write(write) => write_both(&mut both, write)?,
    }
    Ok(Some(both))
}

async fn get<T: Transaction>(both: &mut Both<T>, key: &Bytes, snapshot: bool) -> Proof {
    let found = if snapshot { both.tx.get_snapshot(key).await? } else { both.tx.get(key).await? };
    let expected = both.open.get(key, snapshot);
    let is_same = found == expected;
    ensure!(is_same, "it found {} instead of {}", shown_value(found.as_ref()), shown_value(expected.as_ref()));
    Ok(())
}

async fn range<T: Transaction>(both: &mut Both<T>, read: RangeRead) -> Proof {
    let page = both.tx.range(read.clone()).await?;
    let all = both.open.items(&read.start, &read.end, read.reverse);
    is_right(&page, &all, read.limit)?;
    if !read.snapshot {
        both.open.depend_on_page(&read.start, &read.end, read.reverse, &page);
    }
    Ok(())
}

fn is_right(page: &Page, all: &Items, limit: usize) -> Proof {
    let expected = &all[..limit.min(all.len())];
    let is_same = page.items == expected;
    ensure!(is_same, "it found {} instead of {}", shown_items(&page.items), shown_items(expected));
    ensure!(page.more || limit >= all.len(), "it was cut, and `more` is false");
    ensure!(!page.more || limit <= all.len(), "it was not cut, and `more` is true");
    Ok(())
}

fn write_both<T: Transaction>(both: &mut Both<T>, write: &Write) -> Proof {
    if write.takes_stamped() && both.open.has_stamped() {
        return Ok(());
    }
    write.to(&mut both.tx)?;
    both.open.write(write.clone());
    Ok(())
}

async fn commit<T: Transaction>(oracle: &mut Oracle, both: Both<T>) -> Proof {
    let verdict = oracle.verdict(&both.open);
    match (verdict, both.tx.commit().await) {
        (Verdict::ReadOnly, Ok(Committed::ReadOnly)) => Ok(()),
        (Verdict::MustSucceed | Verdict::MayConflict, Ok(committed @ Committed::At(_))) => {
            let stamp = stamp_of(committed)?;
            ensure!(oracle.commit(&both.open, stamp), "{stamp:?} is not above the one before");
            Ok(())
        }
        (Verdict::MustConflict | Verdict::MayConflict, Err(CommitError::Conflict)) => Ok(()),
        (verdict, answer) => Err(Finding::Violation(format!("the answer is {answer:?}, the verdict {verdict:?}"))),
    }
}
