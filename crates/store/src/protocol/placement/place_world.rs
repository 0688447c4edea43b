//! Place a world: assign it, and notify the workers concerned, in one transaction.
//!
//! Guarantees: nothing is overwritten that the placer did not see, so a pin that an operator sets meanwhile stays, and
//! of two orchestrators that decide at the same time one finds itself late. A revocation that was decided is never
//! lost: its message is there if the assignment is.
//! Unknown commit: run again; an assignment that is there already was placed, and its messages with it.

use crate::protocol::{AssignWorld, assign_world};
use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{assignment::Assignment, mailbox},
};
use bytes::Bytes;
use mundi_engine::{ReadPlan, Transaction};
use mundi_model::{UniverseId, WorkerId, WorldId};

#[derive(Debug, Clone)]
pub struct PlaceWorld {
    pub universe: UniverseId,
    pub world: WorldId,
    pub over: Over,
    pub to: Assignment,
    /// Frames for the workers concerned.
    pub mail: Vec<(WorkerId, Bytes)>,
}

/// The assignments that may be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    Anything,
    /// Only what was seen; `None` for no assignment.
    Seen(Option<Assignment>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    Now,
    /// It is there already.
    Before,
    /// Someone else decided otherwise meanwhile.
    Late,
}

impl Protocol for PlaceWorld {
    type Output = Placed;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    fn read_plan(&self) -> ReadPlan {
        assign_world::read_plan(self.universe, self.world)
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<Placed, StoreError> {
        let Self { universe, world, over, to, mail } = self;
        let (meta, actual) = assign_world::read(tx, *universe, *world).await?;
        if actual.as_ref() == Some(to) {
            return Ok(Placed::Before);
        }
        if matches!(over, Over::Seen(seen) if *seen != actual) {
            return Ok(Placed::Late);
        }
        let assign = AssignWorld { universe: *universe, world: *world, assignment: to.clone() };
        assign.write(tx, meta, actual).await?;
        for (index, (worker, frame)) in (0u16..).zip(mail) {
            mailbox::write(tx, *universe, *worker, (mailbox::AT_ONCE_NS, index), frame.clone())?;
            mailbox::bump(tx, *universe, *worker)?;
        }
        Ok(Placed::Now)
    }
}
