//! End a child that is a world, by its own word.
//!
//! Guarantees: only the world that was made for the child ends it, once, while it is started. What is left to debit is debited with it, as
//! [`FinishChild`](super::FinishChild) does; the time that it took is counted from its start.
//! Unknown commit: run again; a token that says that this very effect ended it was ended by an earlier run.

use super::{
    ChildError, ChildFinish, ChildFinished,
    debit_child::{debit, exceeded},
    finish_child::{finished, plan},
    transition::{End, Parent, leave},
};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::child_of::{self, ChildOf},
};
use mundi_engine::Transaction;
use mundi_model::{
    IntentHash, UniverseId, WorldId,
    child::{Phase, Spend},
};

#[derive(Debug, Clone)]
pub struct EndWorldChild {
    pub universe: UniverseId,
    /// The world that is the child.
    pub world: WorldId,
    /// The effect by which it says so.
    pub intent: IntentHash,
    pub finish: ChildFinish,
    /// All that it used since it started, beside its time.
    pub spent: Spend,
    pub now_ns: u64,
}

impl EndWorldChild {
    /// Names the effect in the token, as a lease does for other kinds.
    fn ended_by(&self) -> [u8; 16] {
        let mut half = [0; 16];
        half.copy_from_slice(&self.intent.as_bytes()[..16]);
        half
    }
}

impl Protocol for EndWorldChild {
    type Output = ChildFinished;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<ChildFinished, StoreError> {
        let of = child_of::read(tx, self.universe, self.world).await?;
        let ChildOf { parent, child } = of.ok_or(ChildError::NoChild(self.world))?;
        let parent = Parent { universe: self.universe, world: parent, now_ns: self.now_ns };
        let mut token = parent.token(tx, child).await?;
        let ended_by = Some(self.ended_by());
        match (token.phase, &token.end) {
            (Phase::Started, _) => {}
            (_, Some(end)) if end.finished_by == ended_by => return Ok(finished(&token)),
            _ => return Err(ChildError::ClaimLost(child).into()),
        }
        let mut state = parent.state(tx).await?;
        let spent = self.spent.lasting(token.started_at_ns.unwrap_or(self.now_ns), self.now_ns);
        let end = match debit(tx, &parent, &mut token, spent).await? {
            None => plan(&self.finish, &token),
            Some(lane) => exceeded(lane, &token),
        };
        leave(&mut state, child);
        let token = parent.end(tx, &mut state, token, &End { finished_by: ended_by, ..end }).await?;
        Ok(finished(&token))
    }
}
