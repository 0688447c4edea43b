//! The commands that a mailbox carries, and what a world worker does with them.

use super::{Failed, Frame, FrameKind, Handler};
use crate::{
    Plane, RuntimeError,
    worker::{Wish, WorldWorker},
};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_model::{Code, UniverseId, WorkerId, WorldId, cbor, limits};
use mundi_store::protocol::{ExportPolicy, FinishMail, SendMail};

/// A request to a worker. Each may come twice, and late: the truth is in assignment and lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Command {
    /// The world was assigned to this worker: look whether it has work.
    #[n(0)]
    Assign(#[n(0)] WorldId),
    /// The world was assigned to another worker: release it.
    #[n(1)]
    Revoke(#[n(0)] WorldId),
    /// Snapshot and release everything, then end.
    #[n(2)]
    Drain,
    /// End at once; leases expire.
    #[n(3)]
    Stop,
    /// Take a snapshot of the world, whatever the policy says.
    #[n(4)]
    Snapshot(#[n(0)] WorldId),
    /// Move what may leave the engine into segments, by these bounds, whatever the policy says.
    #[n(5)]
    Export {
        #[n(0)]
        world: WorldId,
        #[n(1)]
        margin: u64,
        #[n(2)]
        records_min: u64,
        #[n(3)]
        records_max: u64,
    },
}

fn frame_of<P: Plane>(plane: &P, worker: WorkerId, command: Command) -> Frame {
    let mut frame = Frame::command(worker, plane.random::<16>().to_vec(), cbor::encode(&command));
    // What takes something away does not wait behind what gives something.
    frame.flags.high_priority = matches!(command, Command::Revoke(_) | Command::Drain | Command::Stop);
    frame
}

/// A command as it travels with an assignment.
pub(crate) fn command_frame<P: Plane>(plane: &P, worker: WorkerId, command: Command) -> Option<Bytes> {
    // A command is a few bytes: its frame is within every bound.
    frame_of(plane, worker, command).encode().ok().map(Bytes::from)
}

/// Sends commands to a worker, together.
pub async fn send_commands<P: Plane>(
    plane: &P,
    universe: UniverseId,
    worker: WorkerId,
    commands: &[Command],
) -> Result<(), RuntimeError> {
    let mail = commands.iter().filter_map(|command| frame_of(plane, worker, *command).to_mail(0).ok()).collect();
    let (now_ns, dedupe_window_ns) = (plane.now_ns(), limits::DEDUPE_WINDOW_NS); // commands have no names
    plane.run(&SendMail { universe, worker, mail, now_ns, dedupe_window_ns }).await?;
    Ok(())
}

/// A world worker's side of the mailbox.
pub struct WorkerCommands<P: Plane> {
    pub plane: P,
    pub worker: WorldWorker<P>,
}

impl<P: Plane> Handler for WorkerCommands<P> {
    /// Each is a word to a worker in this process; those about all worlds of one that crashed come together.
    const MESSAGES_AT_ONCE: usize = 64;

    async fn handle(&self, frame: &Frame, _acknowledge: &FinishMail) -> Result<(), Failed> {
        let invalid = |reason: String| Failed { code: Code::CommandInvalid, reason };
        if frame.kind != FrameKind::Command {
            return Err(invalid(format!("a world worker takes commands, not {:?}", frame.kind)));
        }
        match cbor::decode(&frame.payload).map_err(|error| invalid(error.to_string()))? {
            Command::Assign(world) => self.worker.wake(world),
            Command::Revoke(world) => self.worker.revoke(world),
            // Draining takes longer than a claim is valid, and continues by itself.
            Command::Drain => {
                let worker = self.worker.clone();
                self.plane.spawner().spawn(Box::pin(async move { worker.drain().await }));
            }
            Command::Stop => self.worker.stop(),
            Command::Snapshot(world) => self.worker.keep_up(world, Wish { snapshot: true, export: None }),
            Command::Export { world, margin, records_min, records_max } => {
                let export = Some(ExportPolicy { margin, records_min, records_max });
                self.worker.keep_up(world, Wish { snapshot: false, export });
            }
        }
        Ok(())
    }
}
