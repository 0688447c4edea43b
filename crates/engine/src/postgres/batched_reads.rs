//! Reads of the newest state, in batches: while one batch is in progress the next one gathers, as commits do.
//!
//! A batch is one round trip over one connection, bounded by the size of the results; the results of one request are of one snapshot.

use super::{pool::Pool, schema::KEY_BYTES_INDEXED};
use crate::{EngineError, Read, planned_reads::Found};
use mundi_model::limits;
use std::sync::Arc;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

/// More than any process has transactions that ask at a time; beyond it, callers back off.
const WAITING_MAX: usize = 65_536;
/// Questions of one trip ...
const BATCH_MAX: usize = 1_024;
/// ... and what they may bring, unless a single one may bring more.
const TRIP_BYTES_MAX: usize = 128_000_000;

/// The results, and the version of the snapshot that they were read in.
type Answer = Result<(Vec<Found>, u64), EngineError>;

struct Question {
    reads: Vec<Read>,
    answer: oneshot::Sender<Answer>,
}

pub(super) struct BatchedReads(mpsc::Sender<Question>);

impl BatchedReads {
    /// The task ends with the engine.
    pub(super) fn start(pool: Arc<Pool>, handle: &Handle) -> Self {
        let (ask, mut asked) = mpsc::channel(WAITING_MAX);
        handle.spawn(async move {
            let mut batch = Vec::new();
            while asked.recv_many(&mut batch, BATCH_MAX).await > 0 {
                while !batch.is_empty() {
                    let trip = one_trip(&mut batch);
                    answer(&pool, trip).await;
                }
            }
        });
        Self(ask)
    }

    pub(super) async fn ask(&self, reads: Vec<Read>) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.0.try_send(Question { reads, answer }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                EngineError::Busy { what: "the questions for keys", max: WAITING_MAX }
            }
            mpsc::error::TrySendError::Closed(_) => EngineError::Closed,
        })?;
        answered.await.unwrap_or(Err(EngineError::Closed))
    }
}

/// The first questions that one trip may answer; at least one.
fn one_trip(batch: &mut Vec<Question>) -> Vec<Question> {
    let mut bytes = 0;
    let fits = |question: &&Question| {
        bytes += question.reads.iter().map(bytes_max).sum::<usize>();
        bytes <= TRIP_BYTES_MAX
    };
    let fitting = batch.iter().take_while(fits).count().max(1);
    batch.drain(..fitting).collect()
}

/// The bytes that a read may bring.
fn bytes_max(read: &Read) -> usize {
    match read {
        Read::Get(_) => limits::VALUE_BYTES_MAX,
        Read::Range(range) => {
            limits::RANGE_BYTES_MAX.min(range.limit.saturating_mul(limits::KEY_BYTES_MAX + limits::VALUE_BYTES_MAX))
        }
    }
}

async fn answer(pool: &Arc<Pool>, batch: Vec<Question>) {
    let reads: Vec<Read> = batch.iter().flat_map(|question| question.reads.iter().cloned()).collect();
    let (mut found, version) = match look(pool, &reads).await {
        Ok((version, found)) => (found.into_iter(), version),
        Err(error) => {
            batch.into_iter().for_each(|question| drop(question.answer.send(Err(error.clone()))));
            return;
        }
    };
    for Question { reads, answer } in batch {
        let _gone = answer.send(Ok((found.by_ref().take(reads.len()).collect(), version)));
    }
}

/// Single keys that an index holds are one statement, which is a snapshot by itself.
async fn look(pool: &Arc<Pool>, reads: &[Read]) -> Result<(u64, Vec<Found>), EngineError> {
    let short_key = |read: &Read| match read {
        Read::Get(key) if key.len() <= KEY_BYTES_INDEXED => Some(key.clone()),
        _ => None,
    };
    let Some(keys) = reads.iter().map(short_key).collect::<Option<Vec<_>>>() else {
        return pool.newest_of_all(reads).await;
    };
    let (version, values) = pool.newest(&keys).await?;
    Ok((version, keys.iter().map(|key| Found::Value(values.get(key).cloned())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RangeRead;
    use bytes::Bytes;

    #[test]
    fn a_trip_brings_no_more_than_has_room() {
        let range = |limit| Read::Range(RangeRead::new(Bytes::from_static(b"a"), Bytes::from_static(b"b"), limit));
        let question = |reads| Question { reads, answer: oneshot::channel().0 };
        let pages = TRIP_BYTES_MAX / limits::RANGE_BYTES_MAX;
        let counts = [1, 0, pages - 1, 1, 2 * pages, 1];
        let mut batch: Vec<_> = counts.map(|count| question(vec![range(usize::MAX); count])).into_iter().collect();
        let mut trips = Vec::new();
        while let left @ 1.. = batch.len() {
            trips.push(one_trip(&mut batch).len());
            assert!(batch.len() < left);
        }
        assert_eq!(trips, [3, 1, 1, 1]);
        let mut small: Vec<_> = (0..BATCH_MAX).map(|_| question(vec![range(1)])).collect();
        assert_eq!(one_trip(&mut small).len(), BATCH_MAX, "what brings little is one trip");
    }
}
