//! A transaction lives for a bounded time, which lets an engine forget old versions.
//!
//! Engines get it wrong by letting an old transaction commit after the history that would refuse it is gone.

use super::{
    Finding, Proof, Subject,
    tools::{ensure, everything, put_all, refused, stored},
};
use crate::{Engine, EngineError, Transaction};
use mundi_model::{Code, Coded, limits::TRANSACTION_AGE_MS_MAX};

/// Half the bound is nothing; beyond the bound reads fail and the commit is a conflict; others are not touched.
pub async fn an_old_transaction_neither_reads_nor_commits<S: Subject>(subject: &S) -> Proof {
    let engine = subject.open().await;
    put_all(&engine, &[(b"k", b"0")]).await?;
    let (mut young, mut old, mut reader) = (engine.begin().await?, engine.begin().await?, engine.begin().await?);
    reader.get(b"k").await?;
    old.put(b"k", "old")?;
    if !subject.advance_ms(&engine, TRANSACTION_AGE_MS_MAX / 2) {
        return Err(Finding::NotApplicable("the subject has no power over the engine's clock"));
    }
    young.get(b"k").await?;
    young.put(b"k", "young")?;
    young.commit().await?;
    subject.advance_ms(&engine, TRANSACTION_AGE_MS_MAX / 2 + 1);
    is_too_old(old.get(b"other").await, "get")?;
    is_too_old(old.get_snapshot(b"other").await, "get_snapshot")?;
    is_too_old(old.range(everything(1)).await, "range")?;
    refused(old.commit().await, "it is older than a transaction may be")?;
    reader.commit().await?;
    let now = stored(&engine, b"k").await?;
    ensure!(now.as_deref() == Some(b"young"), "an old transaction was applied");
    Ok(())
}

fn is_too_old<T>(result: Result<T, EngineError>, call: &str) -> Proof {
    match result {
        Err(error) if error.code() == Code::TransactionTooOld => Ok(()),
        Err(error) => Err(Finding::Violation(format!("{call} of an old transaction failed otherwise: {error}"))),
        Ok(_) => Err(Finding::Violation(format!("{call} of an old transaction succeeded"))),
    }
}
