//! Calls: which callers wait for the reply to which inbox item.
//!
//! A reply is durable before anyone is notified. A caller in the process that ran the turn gets it from there; every
//! other one, and one that comes back later, finds it under the reply's key, or in the journal at the height that its
//! call names.
//!
//! A caller whose call was just taken by a world of this process need not look for the reply: the turn hands the reply over, also if it
//! comes before the caller waits for it. Only if that takes long does the caller look, because the world may have moved.

use crate::{Plane, RuntimeError, effects::recording::decode};
use futures_channel::oneshot;
use futures_util::future::{Either, select};
use mundi_model::{
    CallId, Height, InboxSeq, UniverseId, WorldId,
    record::{Body, Payload, Rejected, Reply, ReplyOutcome},
};
use mundi_store::{journal::History, keyspace::reply};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::Arc,
    time::Duration,
};

type Key = (WorldId, InboxSeq, u64);

/// Replies that nobody waited for yet: more than the turns of a moment give.
const EARLY_MAX: usize = 256;
/// Larger ones are looked for.
const EARLY_BYTES_MAX: usize = 4_096;
/// How long a reply of a world that was here may be waited for without a poll: a fraction of what a move takes.
const LOOK_AFTER: Duration = Duration::from_millis(200);

/// The callers that wait in this process. Clones share them.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    next: u64,
    by_call: BTreeMap<Key, oneshot::Sender<ReplyOutcome>>,
    /// The last ones for which nobody waited.
    early: VecDeque<(WorldId, InboxSeq, ReplyOutcome)>,
}

/// A caller that waits. Dropped, the caller is removed.
struct CallerEntry {
    calls: Calls,
    key: Key,
}

impl Drop for CallerEntry {
    fn drop(&mut self) {
        self.calls.0.lock().by_call.remove(&self.key);
    }
}

fn is_small(outcome: &ReplyOutcome) -> bool {
    match outcome {
        ReplyOutcome::Ok(Payload::Inline(bytes)) => bytes.len() <= EARLY_BYTES_MAX,
        ReplyOutcome::Ok(Payload::Blob(..)) => true,
        ReplyOutcome::Failed(_, reason, _) => reason.len() <= EARLY_BYTES_MAX,
    }
}

impl Waiting {
    fn take_early(&mut self, world: WorldId, call: InboxSeq) -> Option<ReplyOutcome> {
        let place = self.early.iter().position(|(of, to, _)| (*of, *to) == (world, call))?;
        self.early.remove(place).map(|(_, _, outcome)| outcome)
    }
}

impl Calls {
    /// Hands the replies of a committed turn to the callers that wait; says to how many.
    pub fn deliver(&self, world: WorldId, replies: Vec<Reply>) -> u64 {
        let mut delivered = 0;
        for Reply { to, outcome } in replies {
            let mut waiting = self.0.lock();
            let keys: Vec<Key> =
                waiting.by_call.range((world, to, 0)..=(world, to, u64::MAX)).map(|(key, _)| *key).collect();
            // Others look for theirs under its key.
            if keys.is_empty() && to.is_direct() && is_small(&outcome) {
                waiting.early.truncate(EARLY_MAX - 1);
                waiting.early.push_front((world, to, outcome));
                continue;
            }
            for sender in keys.iter().filter_map(|key| waiting.by_call.remove(key)) {
                delivered += u64::from(sender.send(outcome.clone()).is_ok());
            }
        }
        delivered
    }

    fn register(&self, world: WorldId, call: InboxSeq) -> (CallerEntry, oneshot::Receiver<ReplyOutcome>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock();
        waiting.next += 1;
        let key = (world, call, waiting.next);
        waiting.by_call.insert(key, sender);
        (CallerEntry { calls: self.clone(), key }, receiver)
    }

    /// The reply to a call, once there is one. A caller that was interrupted may ask again. `is_taken_here` if the world has just taken the
    /// call, in this process.
    pub async fn reply<P: Plane>(
        &self,
        plane: &P,
        universe: UniverseId,
        (world, CallId { seq: call, replied_at }): (WorldId, CallId),
        is_taken_here: bool,
        timeout: Duration,
    ) -> Result<ReplyOutcome, RuntimeError> {
        if let Some(height) = replied_at
            && let Some(outcome) = on_record(plane, universe, world, (call, height)).await?
        {
            return Ok(outcome);
        }
        let answer = pin!(async {
            let handed = if is_taken_here { self.handed(plane, world, call).await } else { None };
            match handed {
                Some(outcome) => Ok(outcome),
                None => self.wait(plane, universe, world, call).await,
            }
        });
        match select(answer, plane.clock().sleep(timeout)).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => {
                let waited_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                Err(RuntimeError::CallTimeout { world, call, waited_ms })
            }
        }
    }

    /// The reply that a turn of this process delivers, or delivered a moment ago.
    async fn handed<P: Plane>(&self, plane: &P, world: WorldId, call: InboxSeq) -> Option<ReplyOutcome> {
        let (_entry, receiver) = self.register(world, call); // first: what comes after the look finds it
        let early = self.0.lock().take_early(world, call);
        if early.is_some() {
            return early;
        }
        match select(receiver, plane.clock().sleep(LOOK_AFTER)).await {
            Either::Left((outcome, _)) => outcome.ok(),
            Either::Right(_) => None,
        }
    }

    async fn wait<P: Plane>(
        &self,
        plane: &P,
        universe: UniverseId,
        world: WorldId,
        call: InboxSeq,
    ) -> Result<ReplyOutcome, RuntimeError> {
        loop {
            let (_entry, receiver) = self.register(world, call);
            // Looks after the caller is registered, so a turn that ends in between finds it; and is over at once if there is a reply.
            let arrived = pin!(reply::arrived(plane.engine(), universe, world, call));
            match select(receiver, arrived).await {
                Either::Left((Ok(outcome), _)) => return Ok(outcome),
                Either::Left((Err(_), _)) => {}
                Either::Right((arrived, _)) => arrived?,
            }
            if let Some(stored) = reply::read_newest(plane.engine(), universe, world, call).await? {
                return Ok(stored.outcome);
            }
        }
    }
}

/// The reply that stands at this height, if it is the one to this call.
async fn on_record<P: Plane>(
    plane: &P,
    universe: UniverseId,
    world: WorldId,
    (call, height): (InboxSeq, Height),
) -> Result<Option<ReplyOutcome>, RuntimeError> {
    let history = History::open(plane.engine(), plane.segments().clone(), universe, world, height).await?;
    let page = history.until(height.next()).pages_of(1).next_page().await?.unwrap_or_default();
    match page.first().map(|record| decode(world, record)).transpose()? {
        Some(Body::Reply(Reply { to, outcome })) if to == call => Ok(Some(outcome)),
        Some(Body::Rejected(Rejected { seq, code, reason, .. })) if seq == call => {
            Ok(Some(ReplyOutcome::Failed(code, reason, Some(height))))
        }
        _ => Ok(None),
    }
}
