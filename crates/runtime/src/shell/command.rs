//! The commands that a mailbox carries, and what a world worker does with them.

use super::{Failed, Frame, FrameKind, Handler};
use crate::{Plane, RuntimeError, worker::WorldWorker};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_model::{Code, UniverseId, WorkerId, WorldId, cbor};
use mundi_store::protocol::SendMail;

/// What a worker is asked to do. Each may come twice, and late: the truth is in assignment and lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// The world was assigned to this worker: look whether it has something to do.
    #[n(0)]
    Assign(#[n(0)] WorldId),
    /// The world was assigned to another worker: give it back.
    #[n(1)]
    Revoke(#[n(0)] WorldId),
    /// Snapshot and release everything, then end.
    #[n(2)]
    Drain,
    /// End at once; leases run out.
    #[n(3)]
    Stop,
}

/// Sends commands to a worker, together.
pub async fn send_commands<P: Plane>(
    plane: &P,
    universe: UniverseId,
    worker: WorkerId,
    commands: &[Command],
) -> Result<(), RuntimeError> {
    let mut frames = Vec::with_capacity(commands.len());
    for command in commands {
        let frame = Frame::command(worker, plane.random::<16>().to_vec(), cbor::encode(command));
        // A command is a few bytes: its frame is within every bound.
        frames.extend(frame.encode().ok().map(|bytes| (0, Bytes::from(bytes))));
    }
    plane.run(&SendMail { universe, worker, frames }).await?;
    Ok(())
}

/// A world worker's side of the mailbox.
pub struct WorkerCommands<P> {
    pub plane: P,
    pub worker: WorldWorker<P>,
}

impl<P: Plane> Handler for WorkerCommands<P> {
    async fn handle(&self, frame: &Frame) -> Result<(), Failed> {
        let invalid = |reason: String| Failed { code: Code::CommandInvalid, reason };
        if frame.kind != FrameKind::Command {
            return Err(invalid(format!("a world worker takes commands, not {:?}", frame.kind)));
        }
        match cbor::decode(&frame.payload).map_err(|error| invalid(error.to_string()))? {
            Command::Assign(world) => self.worker.wake(world),
            Command::Revoke(world) => self.worker.revoke(world),
            // Draining takes longer than a claim lives, and goes on by itself.
            Command::Drain => {
                let worker = self.worker.clone();
                self.plane.spawner().spawn(Box::pin(async move { worker.drain().await }));
            }
            Command::Stop => self.worker.stop(),
        }
        Ok(())
    }
}
