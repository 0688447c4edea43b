//! Questions for single keys, gathered: while one batch is under way the next one grows, as commits do.

use super::{pool::Pool, reader::Found, schema::KEY_BYTES_INDEXED};
use crate::{EngineError, Read};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

/// More than any process has worlds that are asked about at a time; beyond it, callers back off.
const WAITING_MAX: usize = 65_536;
/// Keys of one statement.
const BATCH_MAX: usize = 1_024;

type Answer = Result<(Option<Bytes>, u64), EngineError>;

struct Question {
    key: Bytes,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct Peeks(mpsc::Sender<Question>);

impl Peeks {
    /// The task ends with the engine.
    pub(super) fn start(pool: Arc<Pool>, handle: &Handle) -> Self {
        let (ask, mut asked) = mpsc::channel(WAITING_MAX);
        handle.spawn(async move {
            let mut batch = Vec::new();
            while asked.recv_many(&mut batch, BATCH_MAX).await > 0 {
                answer(&pool, std::mem::take(&mut batch)).await;
            }
        });
        Self(ask)
    }

    pub(super) async fn ask(&self, key: Bytes) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Question { key, answer }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                EngineError::Busy { what: "the questions for keys", max: WAITING_MAX }
            }
            mpsc::error::TrySendError::Closed(_) => EngineError::Closed,
        })?;
        answered.await.unwrap_or(Err(EngineError::Closed))
    }
}

async fn answer(pool: &Arc<Pool>, batch: Vec<Question>) {
    let (short, long): (Vec<_>, Vec<_>) =
        batch.into_iter().partition(|question| question.key.len() <= KEY_BYTES_INDEXED);
    let keys: Vec<Bytes> = short.iter().map(|question| question.key.clone()).collect();
    match pool.newest(&keys).await {
        Ok((version, values)) => {
            for Question { key, answer } in short {
                let _gone = answer.send(Ok((values.get(&key).cloned(), version)));
            }
        }
        Err(error) => {
            for Question { answer, .. } in short {
                let _gone = answer.send(Err(error.clone()));
            }
        }
    }
    for Question { key, answer } in long {
        let _gone = answer.send(one(pool, key).await);
    }
}

/// Keys that no index holds are rare, and asked for one by one.
async fn one(pool: &Arc<Pool>, key: Bytes) -> Answer {
    let mut lease = pool.lease().await?;
    match lease.read(None, &[Read::Get(key)]).await {
        Some(Ok((version, found))) => Ok((found.into_iter().next().and_then(Found::value), version)),
        Some(Err(_)) | None => {
            lease.discard();
            Err(EngineError::TooOld)
        }
    }
}

/// Values by key: a key that is missing has none.
pub(super) type Values = BTreeMap<Bytes, Bytes>;
