//! Put a world on hold, and release it.
//!
//! Guarantees: a world on hold is acquired by nobody, whatever process starts, until it is released; it has no lease and no
//! ready hint. All that it is stays, and its inbox takes in what fits. Only the holder of its lease puts it on hold. The first
//! hold stays until it is released. Who waits for the reply to the item that the world stands at gets why it is on hold; the reply
//! that a retry gives takes that one's place.
//! Unknown commit: run again. A hold whose lease is gone with it was applied, or someone else has the world: either way
//! there is nothing left to do.

use crate::protocol::{WorldError, release_lease::clear_holder, require_live, require_world};
use crate::{
    Fence, OnUnknown, Protocol, StoreError,
    keyspace::{
        child_work, inbox_entry, journal_head,
        lease::{self, Lease, Probation},
        notify::{self, Seen},
        ready::{self, ReadyHint},
        ready_notify,
        reply::{self, StoredReply},
        world_meta::{self, Hold, WorldMeta, WorldState},
    },
};
use mundi_engine::Transaction;
use mundi_model::{
    Code, Height, InboxSeq, UniverseId, WorldId, limits,
    record::{FailedInput, ReplyOutcome},
};

/// The input whose step failed, and the height of the record that says so.
#[derive(Debug, Clone)]
pub struct HeldInput {
    pub input: FailedInput,
    pub height: Height,
}

#[derive(Debug, Clone)]
pub struct HoldWorld {
    pub fence: Fence,
    /// Of the error, or of the step that failed.
    pub code: String,
    pub reason: String,
    /// How many attempts failed in a row.
    pub failures: u32,
    /// The input whose step failed, if that is why. Else it is held at the first item that waits.
    pub failed: Option<HeldInput>,
    /// The inbox as it was when the world was found to have nothing that it could take: if something came since, a command may be
    /// among it, and the world is not put on hold.
    pub seen: Option<Seen>,
    pub now_ns: u64,
}

impl Protocol for HoldWorld {
    /// `None` if something came into the inbox meanwhile.
    type Output = Option<Hold>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Hold>, StoreError> {
        let Fence { universe, world, epoch } = self.fence;
        self.fence.check(tx).await?;
        let meta = require_live(tx, universe, world).await?;
        if let Some(seen) = &self.seen
            && notify::depend(tx, universe, world).await? != *seen
        {
            return Ok(None);
        }
        // What cannot be read may be why the world is put on hold.
        let position = journal_head::read(tx, universe, world).await.ok().flatten();
        let cursor = position.and_then(|position| position.cursor);
        let waiting = tx.range(inbox_entry::after(universe, world, cursor).read(1).snapshot()).await?;
        let first = waiting.items.first().and_then(|(key, _)| inbox_entry::parse(universe, world, key).ok());
        let seq = self.failed.as_ref().map(|failed| failed.input.seq).or(first);
        let head = position.map_or(Height::GENESIS, |position| position.head.height);
        let reason = self.reason[..self.reason.floor_char_boundary(limits::REASON_BYTES_MAX)].to_owned();
        let hold = Hold {
            since_ns: self.now_ns,
            code: self.code.clone(),
            reason,
            failures: self.failures,
            height: self.failed.as_ref().map_or(head, |failed| failed.height),
            seq,
            failed_input: self.failed.as_ref().map(|failed| failed.input.what.clone()),
        };
        if let Some(seq) = seq {
            self.tell_caller(tx, seq, &hold).await?;
        }
        clear_holder(tx, universe, world, epoch)?;
        if self.code == Code::WorldEndsProcess.as_str() {
            // Whoever opens it after its release does so with care: alone, and with the commands that came meanwhile before anything else.
            let probation = Some(Probation { deaths: 1, life_ns: 0 });
            lease::write(tx, universe, world, &Lease { epoch, holder: None, probation })?;
        }
        ready::remove(tx, universe, world, meta.ready_priority())?;
        let after = WorldMeta { hold: Some(hold.clone()), ..meta.clone() };
        world_meta::write(tx, universe, world, Some(&meta), &after)?;
        Ok(Some(hold))
    }
}

impl HoldWorld {
    /// Answers the call that the item is part of, if it is one and has no answer yet. What cannot be read is no call.
    async fn tell_caller<T: Transaction>(&self, tx: &mut T, seq: InboxSeq, hold: &Hold) -> Result<(), StoreError> {
        let Fence { universe, world, .. } = self.fence;
        let item = inbox_entry::read(tx, universe, world, seq).await.ok().flatten();
        let Some(call) = item.and_then(|item| item.origin.call_at(seq)) else { return Ok(()) };
        if reply::read(tx, universe, world, call).await?.is_some() {
            return Ok(());
        }
        let reason = format!("{} (the world is on hold at this input)", hold.reason);
        let outcome = ReplyOutcome::Failed(hold.code.clone(), reason, Some(hold.height));
        reply::write(tx, universe, world, call, &StoredReply { outcome, height: hold.height })
    }
}

/// The call that the world stands at waits for its reply again.
async fn forget_answer<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    seq: InboxSeq,
) -> Result<(), StoreError> {
    let item = inbox_entry::read(tx, universe, world, seq).await.ok().flatten();
    let Some(call) = item.and_then(|item| item.origin.call_at(seq)) else { return Ok(()) };
    let told = reply::read(tx, universe, world, call).await?;
    if told.is_some_and(|told| matches!(told.outcome, ReplyOutcome::Failed(..))) {
        tx.delete(reply::key(universe, world, call).as_bytes())?;
    }
    Ok(())
}

/// A worker may run the world again. Says why it was on hold, if it was.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseHold {
    pub universe: UniverseId,
    pub world: WorldId,
    pub now_ns: u64,
}

impl Protocol for ReleaseHold {
    type Output = Option<Hold>;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Option<Hold>, StoreError> {
        let Self { universe, world, now_ns } = *self;
        let meta = require_world(tx, universe, world).await?;
        if matches!(meta.state, WorldState::Deleting | WorldState::Deleted) {
            return Err(WorldError::Deleted(world).into());
        }
        let Some(hold) = meta.hold.clone() else { return Ok(None) };
        if let Some(seq) = hold.seq {
            forget_answer(tx, universe, world, seq).await?;
        }
        if meta.state == WorldState::Live {
            ready::write(tx, universe, world, meta.ready_priority(), &ReadyHint { at_ns: now_ns })?;
            ready_notify::bump(tx, universe, ready::shard(world))?;
        }
        child_work::look_again(tx, universe, world).await?;
        let after = WorldMeta { hold: None, ..meta.clone() };
        world_meta::write(tx, universe, world, Some(&meta), &after)?;
        Ok(Some(hold))
    }
}
