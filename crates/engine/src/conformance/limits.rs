//! Exceeding a bound is a typed error, and the transaction is as it was.
//!
//! Engines get it wrong by failing at commit (the caller no longer knows which write was too large), by keeping
//! half of a refused write, by poisoning the transaction, or by having no bound until memory ends.

use super::{
    Finding, Proof, Subject,
    tools::{contents, ensure, everything, put_all},
};
use crate::{CommitError, Engine, EngineError, RangeRead, Transaction};
use mundi_model::{
    Code, Coded,
    limits::{KEY_BYTES_MAX, RANGE_ITEMS_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX, VALUE_BYTES_MAX},
};

/// The call must have been refused with this code.
fn is_refused<T>(result: Result<T, EngineError>, code: Code, what: &str) -> Proof {
    match result {
        Err(error) if error.code() == code => Ok(()),
        Err(error) => Err(Finding::Violation(format!("{what} must be {code:?}, and was: {error}"))),
        Ok(_) => Err(Finding::Violation(format!("{what} must be {code:?}, and was accepted"))),
    }
}

/// The transaction still commits, and leaves `kept` and nothing of what was refused.
async fn still_commits<E: Engine>(engine: &E, mut tx: E::Transaction) -> Proof {
    tx.put(b"kept", "2")?;
    tx.commit().await?;
    let left = contents(engine).await?;
    let keys: Vec<String> = left.iter().map(|(key, _)| key[..key.len().min(20)].escape_ascii().to_string()).collect();
    ensure!(keys == ["kept"], "after refused calls and a commit the store holds {keys:?}");
    Ok(())
}

async fn begun<S: Subject>(subject: &S) -> Result<(S::Engine, <S::Engine as Engine>::Transaction), Finding> {
    let engine = subject.open().await;
    let mut tx = engine.begin().await?;
    tx.put(b"kept", "1")?;
    Ok((engine, tx))
}

/// Empty keys, keys above the bound and the engine's own keys are refused by every operation; the largest key
/// is not.
pub async fn keys_out_of_bounds_are_refused<S: Subject>(subject: &S) -> Proof {
    let (engine, mut tx) = begun(subject).await?;
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    for (key, what) in
        [(&b""[..], "an empty key"), (b"\xff", "0xff"), (b"\xff/own", "an own key"), (&long, "a long key")]
    {
        is_refused(tx.put(key, "1"), Code::KeyInvalid, &format!("put of {what}"))?;
        is_refused(tx.add(key, 1), Code::KeyInvalid, &format!("add to {what}"))?;
        is_refused(tx.delete(key), Code::KeyInvalid, &format!("delete of {what}"))?;
        is_refused(tx.get(key).await, Code::KeyInvalid, &format!("get of {what}"))?;
        is_refused(tx.get_snapshot(key).await, Code::KeyInvalid, &format!("get_snapshot of {what}"))?;
        is_refused(engine.watch(key, None).await, Code::KeyInvalid, &format!("watch of {what}"))?;
    }
    let stamped_max = KEY_BYTES_MAX - mundi_model::Stamp::LEN;
    is_refused(tx.put_stamped(&long[..stamped_max], b"s", "1"), Code::KeyInvalid, "a long stamped key")?;
    is_refused(tx.put_stamped(b"\xff", b"", "1"), Code::KeyInvalid, "a stamped key of the engine's own")?;
    is_refused(tx.put_stamped(b"", b"s", "1"), Code::KeyInvalid, "a stamped key without a prefix")?;
    is_refused(tx.delete_range(b"a", b"\xff\x01"), Code::KeyInvalid, "a range delete into the engine's own keys")?;
    let too_far = tx.range(RangeRead::new("a", &b"\xff\x01"[..], 1)).await;
    is_refused(too_far, Code::KeyInvalid, "a range read into the engine's own keys")?;
    still_commits(&engine, tx).await?;
    the_largest_fit(&engine, &long[1..], stamped_max).await
}

async fn the_largest_fit(engine: &impl Engine, key: &[u8], stamped_max: usize) -> Proof {
    let mut tx = engine.begin().await?;
    tx.put(key, "1")?;
    tx.put_stamped(&key[..stamped_max - 1], b"s", "1")?;
    tx.put(b"\xfe\xff", "1")?;
    tx.delete_range(b"\xfe\xff\x01", b"\xff")?;
    tx.commit().await?;
    ensure!(contents(engine).await?.len() == 4, "the largest keys were accepted and are not there");
    Ok(())
}

/// A value above the bound is refused, also under a stamped key; the largest and the empty value are not.
pub async fn values_out_of_bounds_are_refused<S: Subject>(subject: &S) -> Proof {
    let (engine, mut tx) = begun(subject).await?;
    let large = vec![1; VALUE_BYTES_MAX + 1];
    is_refused(tx.put(b"large", large.clone()), Code::ValueTooLarge, "a large value")?;
    is_refused(tx.put(b"kept", large.clone()), Code::ValueTooLarge, "a large value over a small one")?;
    is_refused(tx.put_stamped(b"s", b"", large.clone()), Code::ValueTooLarge, "a large stamped value")?;
    let own = tx.get(b"kept").await?;
    ensure!(own.as_deref() == Some(b"1"), "a refused put changed what the transaction had put before");
    still_commits(&engine, tx).await?;
    put_all(&engine, &[(b"largest", &large[1..]), (b"empty", b"")]).await?;
    let lengths: Vec<usize> = contents(&engine).await?.iter().map(|(_, value)| value.len()).collect();
    ensure!(lengths == [0, 1, VALUE_BYTES_MAX], "values of length 0, 1 and the largest came back as {lengths:?}");
    Ok(())
}

/// A range read for no items, or for more than one call may ask for, is refused; the largest limit is not.
pub async fn range_reads_out_of_bounds_are_refused<S: Subject>(subject: &S) -> Proof {
    let (engine, mut tx) = begun(subject).await?;
    for limit in [0, RANGE_ITEMS_MAX + 1, usize::MAX] {
        for read in [everything(limit), everything(limit).reverse(), everything(limit).snapshot()] {
            is_refused(tx.range(read).await, Code::RangeInvalid, &format!("a range read with limit {limit}"))?;
        }
    }
    tx.range(everything(RANGE_ITEMS_MAX)).await?;
    still_commits(&engine, tx).await
}

/// Nine tenths of the bound always fit, more than the bound never does, and what fitted can be committed.
pub async fn transactions_are_bounded_in_bytes<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let mut tx = engine.begin().await?;
    let value = vec![1u8; VALUE_BYTES_MAX / 2];
    let mut put = 0u16;
    let refusal = loop {
        match tx.put(&put.to_be_bytes(), value.clone()) {
            Ok(()) => put += 1,
            Err(error) => break error,
        }
        let bytes = usize::from(put) * value.len();
        ensure!(bytes <= TRANSACTION_BYTES_MAX, "a transaction took {bytes} bytes of values");
    };
    let bytes = usize::from(put) * value.len();
    is_refused::<()>(Err(refusal), Code::TransactionTooLarge, "a put into a full transaction")?;
    ensure!(bytes >= TRANSACTION_BYTES_MAX / 10 * 9, "a transaction of {bytes} bytes was refused");
    is_refused(tx.put_stamped(b"s", b"", value), Code::TransactionTooLarge, "a stamped put into a full one")?;
    tx.commit().await?;
    let stored = contents(&engine).await?.len();
    ensure!(stored == usize::from(put), "{put} puts were accepted, {stored} are stored");
    Ok(())
}

/// Small operations that any transaction takes: a work queue's largest batch with several writes for each item.
const SMALL_OPERATIONS_MIN: usize = 30_000;

/// Small operations are bounded in number, and what was accepted can be committed.
pub async fn transactions_are_bounded_in_operations<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"deleted", b"1"), (b"left", b"1")]).await?;
    let mut tx = engine.begin().await?;
    let mut deletes = 0;
    let refusal = loop {
        match tx.delete(b"deleted") {
            Ok(()) => deletes += 1,
            Err(error) => break error,
        }
        ensure!(deletes <= TRANSACTION_OPERATIONS_MAX, "a transaction took {deletes} operations");
    };
    is_refused::<()>(Err(refusal), Code::TransactionTooLarge, "one operation too many")?;
    ensure!(deletes >= SMALL_OPERATIONS_MIN, "a transaction of {deletes} small operations was refused");
    is_refused(tx.delete(b"left"), Code::TransactionTooLarge, "another operation too many")?;
    tx.commit().await?;
    let left = contents(&engine).await?;
    ensure!(left.len() == 1 && left[0].0 == "left", "the refused operation was done, or the accepted ones were not");
    Ok(())
}

/// Declared reads of a transaction count as well as its writes: a range of two long ends counts both, a key twice.
pub async fn what_is_read_counts_towards_the_bound<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let mut tx = engine.begin().await?;
    tx.put(b"kept", "1")?;
    let mut reads = 0;
    let refusal = loop {
        match tx.get(&long_key(reads)).await {
            Ok(_) => reads += 1,
            Err(error) => break error,
        }
        let bytes = 2 * reads * KEY_BYTES_MAX;
        ensure!(
            bytes <= TRANSACTION_BYTES_MAX,
            "a transaction depends on {reads} keys, which are {bytes} bytes of conflict ranges"
        );
    };
    is_refused::<()>(Err(refusal), Code::TransactionTooLarge, "a read into a full transaction")?;
    let bytes = 2 * reads * KEY_BYTES_MAX;
    ensure!(bytes >= TRANSACTION_BYTES_MAX / 10 * 9, "a transaction that depends on {bytes} bytes was refused");
    tx.get_snapshot(&long_key(reads)).await?;
    let refused = tx.range(RangeRead::new(long_key(0), long_key(1), 1)).await;
    is_refused(refused, Code::TransactionTooLarge, "a range read into a full transaction")?;
    tx.commit().await?;
    ensure!(contents(&engine).await?.len() == 1, "what was accepted was not committed");
    Ok(())
}

/// A range delete of more than a transaction may list is done whole or refused whole; in pieces it works.
pub async fn a_range_delete_of_more_than_fits_is_done_or_refused_as_a_whole<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let keys: Vec<Vec<u8>> = (0..=TRANSACTION_BYTES_MAX / KEY_BYTES_MAX).map(long_key).collect();
    put_long(&engine, &keys).await?;
    let mut tx = engine.begin().await?;
    tx.delete_range(b"", b"\xff")?;
    let commit = tx.commit().await;
    let left = contents(&engine).await?.len();
    match commit {
        Ok(_) => {
            ensure!(left == 0, "an acknowledged range delete left {left} keys");
            put_long(&engine, &keys).await?;
        }
        Err(CommitError::Engine(error)) => {
            is_refused::<()>(Err(error), Code::TransactionTooLarge, "the commit")?;
            ensure!(left == keys.len(), "a refused range delete removed {} keys", keys.len() - left);
        }
        Err(other) => return Err(Finding::Violation(format!("a large range delete was answered with: {other}"))),
    }
    let middle = &keys[keys.len() / 2];
    for (start, end) in [(&b""[..], &middle[..]), (middle, b"\xff")] {
        let mut tx = engine.begin().await?;
        tx.delete_range(start, end)?;
        tx.commit().await?;
    }
    ensure!(contents(&engine).await?.is_empty(), "a range delete in pieces left something");
    Ok(())
}

/// In transactions that take them: a key that is written counts three times.
async fn put_long(engine: &impl Engine, keys: &[Vec<u8>]) -> Proof {
    for some in keys.chunks(keys.len() / 4) {
        let items: Vec<(&[u8], &[u8])> = some.iter().map(|key| (&key[..], &b""[..])).collect();
        put_all(engine, &items).await?;
    }
    Ok(())
}

fn long_key(number: usize) -> Vec<u8> {
    let mut key = format!("{number:06}").into_bytes();
    key.resize(KEY_BYTES_MAX, b'k');
    key
}
