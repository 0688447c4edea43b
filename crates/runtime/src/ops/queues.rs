//! How much waits.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::{
    Height, WorldId,
    record::{Body, Input, Record},
};
use mundi_store::protocol::{Depths, OldestUnread, QueueDepths};

/// How far back the newest sign is looked for of whether a world is paused: more commands in a row are unheard of.
const COMMANDS_LOOKED_AT: u64 = 64;

impl<P: Plane> Ops<P> {
    /// How much waits in the shared queues of the universe, counted up to a bound.
    pub async fn queue_depths(&self) -> Result<Depths, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        Ok(self.plane.run(&QueueDepths { universe, now_ns }).await?.output)
    }

    /// How long the oldest item has waited that a world could take; nothing for a paused one, whose inbox is meant to wait.
    pub async fn inbox_age_ns(&self, world: WorldId) -> Result<u64, RuntimeError> {
        let oldest = self.plane.run(&OldestUnread { universe: self.universe, world }).await?.output;
        match oldest {
            Some(enqueued_at_ns) if !self.is_paused_on_record(world).await? => {
                Ok(self.plane.now_ns().saturating_sub(enqueued_at_ns))
            }
            _ => Ok(0),
        }
    }

    /// What the end of the journal says. A paused world takes nothing but commands, so only those lie above its pause.
    async fn is_paused_on_record(&self, world: WorldId) -> Result<bool, RuntimeError> {
        let Some(head) = self.describe_world(world).await?.head else { return Ok(false) };
        let from = Height::new(head.height.get().saturating_sub(COMMANDS_LOOKED_AT));
        let newest = usize::try_from(COMMANDS_LOOKED_AT).unwrap_or(usize::MAX);
        let records = self.world_journal(world, from, newest).await?.items;
        for record in records.iter().rev() {
            let Ok(Record { body: Body::Ingress(ingress), .. }) = record.decode() else { continue };
            match &ingress.item.input {
                Input::Control { command, .. } if command == "pause" => return Ok(true),
                Input::Control { command, .. } if command != "resume" => {}
                _ => return Ok(false),
            }
        }
        Ok(false)
    }
}
