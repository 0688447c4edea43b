//! Where the sequencer runs: as a task of the process' runtime, or on a thread of its own.
//!
//! Between two groups the database waits for this process. As one task among thousands, the sequencer waits for the others several times per
//! group, and the database is idle meanwhile; on a thread of its own it is woken at once. Calls and effects of 64 clients are 33 % faster there,
//! sends of 256 clients 50 %. But a lone commit then wakes two sleeping threads instead of none: 0.42 instead of 0.32 ms. So the sequencer
//! moves with the load, each time on a new connection. The order of commits is that of groups, wherever they are made.
//! (`docs/internals/adr/0006-postgres-engine.md`, "Where groups are made"; a test moves it there and back.)
//!
//! A prompt sequencer makes small groups, which cost more: a busy process gains by waiting. So on its thread it begins no group before a task
//! that it put into the runtime when it began the last one was run. If the process has little to do, that is over long before the group is; if
//! it has much, everything that was runnable got its chance to commit. A pause of a fixed share of the group, or of a round after the
//! group, lost a quarter with 64 clients.

use super::sequencer::{Proposal, Sequencer, within};
use crate::EngineError;
use futures_channel::oneshot;
use std::{collections::VecDeque, thread, time::Duration};
use tokio::runtime::Builder;

/// How long a group may wait for the runtime to get to that task.
const ROUND_WAIT: Duration = Duration::from_millis(5);

/// At which a place is left: after 32 large groups, or a thousand small ones.
const MISPLACED_MAX: u32 = 1_024;

/// Where groups are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupTask {
    /// On the runtime of the process: a lone commit wakes no other thread.
    Shared,
    /// On a thread of its own: the database waits for each group, which must not stand behind all that a busy process does.
    Own,
}

impl GroupTask {
    /// How much speaks for the other place, after a group of so many. Some small groups come between large ones under any load; and a load
    /// that is over for a moment is not over.
    fn misplaced(self, before: u32, proposals: usize) -> u32 {
        match self {
            Self::Shared if proposals >= 8 => before + MISPLACED_MAX / 32,
            Self::Shared => before.saturating_sub(MISPLACED_MAX / 64),
            Self::Own if proposals <= 2 => before + 1,
            Self::Own => 0,
        }
    }
}

impl Sequencer {
    /// Runs until the engine is dropped and everything is answered.
    pub(super) async fn start(self) -> Result<(), EngineError> {
        let failed = |error| EngineError::failed("starting the sequencer", error);
        let (tell, told) = oneshot::channel();
        let life = move || match Builder::new_current_thread().enable_all().build() {
            Ok(own) => {
                let _gone = tell.send(Ok(()));
                own.block_on(self.live());
            }
            Err(error) => drop(tell.send(Err(error))),
        };
        thread::Builder::new().name("mundi-commits".to_owned()).spawn(life).map_err(failed)?;
        told.await.map_err(|_| EngineError::Closed)?.map_err(failed)
    }

    /// Moves from place to place.
    async fn live(self) {
        let shared = self.shared.connector.handle().clone();
        let mut next = Some((self, VecDeque::new()));
        while let Some((sequencer, waiting)) = next {
            let run = shared.spawn(sequencer.run(GroupTask::Shared, waiting));
            let Ok(Some((sequencer, waiting))) = run.await else { return };
            next = sequencer.run(GroupTask::Own, waiting).await;
        }
    }

    /// Commits in one place until the other one suits the load better, or nobody is left who could commit.
    async fn run(mut self, place: GroupTask, mut waiting: VecDeque<Proposal>) -> Option<(Self, VecDeque<Proposal>)> {
        let mut misplaced = 0;
        while misplaced < MISPLACED_MAX {
            if waiting.is_empty() {
                waiting.push_back(self.proposals.recv().await?);
            }
            // What has come meanwhile joins: each group is as large as it can be.
            while let Ok(next) = self.proposals.try_recv() {
                waiting.push_back(next);
            }
            misplaced = place.misplaced(misplaced, waiting.len());
            // Where the process has much to do, more is about to be committed: the next group begins once the runtime got to this task.
            let round = (place == GroupTask::Own).then(|| self.shared.connector.handle().spawn(async {}));
            self.commit_group(&mut waiting).await;
            if let Some(round) = round {
                within(ROUND_WAIT, round).await;
            }
        }
        self.writer = None; // its connection belongs to the place
        Some((self, waiting))
    }
}
