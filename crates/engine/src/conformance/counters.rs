//! Adds are blind: however many run at once, all count and none conflicts.
//!
//! Engines get it wrong by reading the counter at the snapshot and writing the sum: either adds are lost, or
//! every hot counter becomes a conflict.

use super::{
    Proof, Subject,
    tools::{accepted, beside, counter, ensure, put_all, stored},
};
use crate::{Engine, Transaction};

const ADDERS: i64 = 8;
const ADDS: i64 = 50;

/// Eight tasks add to one counter at once; the sum is the sum.
pub async fn concurrent_adds_all_count<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let adders = (1..=ADDERS).map(|delta| add_often(engine.clone(), delta)).collect();
    beside(subject, adders).await?;
    let (sum, expected) = (counter(stored(&engine, b"n").await?.as_ref()), ADDS * ADDERS * (ADDERS + 1) / 2);
    ensure!(sum == expected, "concurrent adds gave {sum} instead of {expected}");
    Ok(())
}

async fn add_often<E: Engine>(engine: E, delta: i64) -> Proof {
    for _ in 0..ADDS {
        let mut tx = engine.begin().await?;
        tx.add(b"n", delta)?;
        tx.commit().await?;
    }
    Ok(())
}

/// Open adds to one counter commit one after the other, each on top of the last.
pub async fn adds_do_not_conflict<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"n", &100i64.to_le_bytes())]).await?;
    let mut open = Vec::new();
    for delta in [1, 20, -5] {
        let mut tx = engine.begin().await?;
        tx.add(b"n", delta)?;
        open.push(tx);
    }
    for tx in open {
        accepted(tx.commit().await, "another add to the same counter came first")?;
    }
    let sum = counter(stored(&engine, b"n").await?.as_ref());
    ensure!(sum == 116, "100 + 1 + 20 - 5 gave {sum}");
    Ok(())
}

/// A key, its value before, what is added, and the sum.
type Case<'a> = (&'a [u8], Option<&'a [u8]>, i64, i64);

/// A missing value counts as zero, and the sum wraps. What becomes of a value that is not eight bytes long is unspecified: engines differ.
pub async fn adds_wrap_and_start_from_zero<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    let cases: [Case<'_>; 5] = [
        (b"absent", None, 5, 5),
        (b"below", None, -5, -5),
        (b"zero", Some(&0i64.to_le_bytes()), 5, 5),
        (b"high", Some(&i64::MAX.to_le_bytes()), 2, i64::MIN + 1),
        (b"low", Some(&i64::MIN.to_le_bytes()), -1, i64::MAX),
    ];
    for (key, before, delta, expected) in cases {
        if let Some(before) = before {
            put_all(&engine, &[(key, before)]).await?;
        }
        let mut tx = engine.begin().await?;
        tx.add(key, delta)?;
        tx.commit().await?;
        let after = stored(&engine, key).await?;
        let is_right = after.as_deref() == Some(&expected.to_le_bytes()[..]);
        ensure!(is_right, "{}: adding {delta} gave {after:?} instead of {expected}", key.escape_ascii());
    }
    Ok(())
}
