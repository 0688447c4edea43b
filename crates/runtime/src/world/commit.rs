//! A turn's commit: one fenced transaction, and what must be stored before it.

use super::{failures::FailedStep, logs, pending::Pending, turn::Input};
use crate::{
    Plane, RuntimeError,
    effects::{
        dispatch::{self, Decided, Dispatched},
        recording::Recording,
        slots::RegisteredSlots,
    },
    world_name::world_name,
};
use mundi_kernel::turn::{Turn, TurnOutput};
use mundi_model::mutants::{Mutant, planted};
use mundi_store::{
    Fence, Refused, StoreError,
    blob::Blobs,
    journal::Batch,
    keyspace::world_log::LogPage,
    protocol::{CommitCursor, CommitTurn, Consumed, EffectError, InProcess, InboxError, TurnCommitted},
    run_or_tell,
};

/// A turn that is ready to be committed.
pub(super) struct Prepared {
    pub(super) commit: CommitTurn,
    /// Slots of this process for its effects.
    starts: dispatch::Starts,
    pub(super) failed: Vec<FailedStep>,
    pub(super) records: usize,
    pub(super) bytes: u64,
}

/// Decides about the turn's intents, stores what its records refer to, and puts together what is committed.
pub(super) async fn prepare<P: Plane>(
    (plane, fence): (&P, Fence),
    recording: &mut Option<Recording<P>>,
    log_page: Option<&LogPage>,
    slots: &RegisteredSlots,
    (input, was_paused, more): (&Input, bool, bool),
    turn: &mut Turn<'_>,
) -> Result<Prepared, RuntimeError> {
    if !turn.output().objects.is_empty() {
        Box::pin(store_objects(plane, fence, turn.output())).await?;
    }
    let decided = match Decided::unbound(turn.recording()) {
        Ok(decided) => decided,
        Err(bound) => {
            let policy = (bound, turn.confined());
            Box::pin(dispatch::decide(plane, fence, recording, policy, turn.output())).await?
        }
    };
    if let Some(intent) = decided.ended_by {
        let name = Box::pin(world_name(plane, fence.universe, fence.world)).await;
        tracing::info!(world = %fence.world, name, %intent, "a recorded fork diverged and continues live");
        turn.end_recording(intent);
    }
    let logs = match turn.output().logs.as_slice() {
        [] => Vec::new(),
        lines => Box::pin(logs::pages(plane, fence, log_page.cloned(), lines)).await?,
    };
    let records = turn.take_records();
    let failed = FailedStep::all(&records);
    let (count, bytes) = (records.len(), records.iter().map(|record| record.len() as u64).sum());
    let (now_ns, output) = (plane.now_ns(), turn.output());
    let dispatched = match output.publish.is_empty() && output.timers.is_empty() {
        true => Dispatched::default(),
        false => dispatch::dispatch((plane, fence), slots, decided, &records, output, now_ns),
    };
    let Dispatched { effects, timers, receipts, starts } = dispatched;
    let records = Batch::from_sealed(records)?;
    debug_assert_eq!((records.end().height, records.end().chain), (turn.head(), turn.chain()));
    let taken = &input.pending[..output.consumed];
    let passed = if planted(Mutant::CursorEarly) { &input.pending } else { taken };
    let commit = CommitTurn {
        fence,
        cursor: input.cursor,
        expects_end: input.end.as_ref().filter(|_| !input.is_read).cloned(),
        consumed: Consumed::of(passed.iter().map(|pending| &pending.item), input.end.as_ref()),
        records,
        timers,
        in_process: InProcess {
            claims: starts.claims(),
            answered: taken.iter().filter_map(Pending::answers).collect(),
            calls: taken.iter().filter(|pending| pending.is_call()).map(Pending::seq).collect(),
        },
        effects,
        receipts,
        logs,
        authorities: output.authorities.clone(),
        paused: Some(turn.is_paused()).filter(|paused| *paused != was_paused),
        ready: more,
        now_ns,
    };
    Ok(Prepared { commit, starts, failed, records: count, bytes })
}

/// Why a turn was not committed.
pub(super) enum NotCommitted {
    /// It can be made again at once: with what was enqueued meanwhile, or without what was not held any more.
    Again(Refusal),
    Failed(RuntimeError),
}

impl Prepared {
    /// Commits the turn, and lets the effects start that were published as claimed. Senders whose items were taken learn from their tickets
    /// if the fate of the commit is unknown.
    pub(super) async fn commit<P: Plane>(
        &mut self,
        plane: &P,
        taken: &mut [Pending],
    ) -> Result<TurnCommitted, NotCommitted> {
        let apart = if planted(Mutant::TurnSplit) { self.commit.consumed.take() } else { None };
        taken.iter_mut().for_each(|pending| pending.set_tried(true));
        let committed = match run_or_tell(plane.engine(), &**plane.clock(), &self.commit).await {
            Ok(committed) => committed,
            Err(Refused { error, perhaps_applied }) => {
                taken.iter_mut().for_each(|pending| pending.set_tried(perhaps_applied));
                if perhaps_applied {
                    self.starts.leave_in_doubt(&self.commit.effects);
                    return Err(NotCommitted::Failed(error.into()));
                }
                return Err(match Refusal::of(&error) {
                    Some(refusal) => NotCommitted::Again(refusal),
                    None => NotCommitted::Failed(error.into()),
                });
            }
        };
        let effects = std::mem::take(&mut self.commit.effects);
        match committed.stamp {
            Some(stamp) => self.starts.start(self.commit.fence.universe, stamp, effects, &committed.output.claimed),
            None => self.starts.leave_in_doubt(&effects), // an earlier try was applied, and its place is not known
        }
        if let Some(apart) = apart {
            let (fence, old, new) = (self.commit.fence, self.commit.cursor, apart.through());
            let moved = Box::pin(plane.run(&CommitCursor { fence, old, new })).await;
            moved.map_err(|error| NotCommitted::Failed(error.into()))?;
        }
        Ok(committed.output)
    }
}

/// Stores the objects that the records refer to before the records themselves.
async fn store_objects<P: Plane>(plane: &P, fence: Fence, output: &TurnOutput) -> Result<(), RuntimeError> {
    for (_, bytes) in &output.objects {
        plane.blobs().put(fence.universe, bytes::Bytes::from_owner(bytes.clone()), &[]).await?;
    }
    Ok(())
}

/// Why a turn was refused that can be made again at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Something was enqueued meanwhile.
    Grown,
    /// A receipt came for an effect whose claim is not held any more.
    NotHeld,
}

impl Refusal {
    fn of(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Inbox(InboxError::Grown { .. }) => Some(Self::Grown),
            StoreError::Effect(EffectError::ClaimLost { .. }) => Some(Self::NotHeld),
            _ => None,
        }
    }

    /// Whether the turn is made again without this item. Its sender is notified that no turn takes it, and goes another way. All
    /// receipts do, not only the one: there may be more like it.
    pub(super) fn leaves_out(self, pending: &Pending) -> bool {
        self == Self::NotHeld && pending.answers().is_some()
    }
}
