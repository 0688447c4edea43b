//! The depths of the queues.

use super::Ops;
use crate::{Plane, RuntimeError};
use mundi_model::{
    Height, WorldId, limits,
    record::{Body, Input, Record},
};
use mundi_store::{
    keyspace::world_meta::WorldMeta,
    protocol::{Depths, OldestUnread, QueueDepths, WaitingWorlds},
};
use std::collections::BTreeSet;

/// How far back the newest sign is looked for of whether a world is paused: more commands in a row are unheard of.
const COMMANDS_LOOKED_AT: u64 = 64;

impl<P: Plane> Ops<P> {
    /// How much waits in the shared queues of the universe, counted up to a bound.
    pub async fn queue_depths(&self) -> Result<Depths, RuntimeError> {
        let (universe, now_ns) = (self.universe, self.plane.now_ns());
        Ok(self.plane.run(&QueueDepths { universe, now_ns }).await?.output)
    }

    /// How many worlds wait for an effect, a timer or a child; and whether more items are queued than are looked at.
    pub async fn count_waiting_worlds(&self) -> Result<(u64, bool), RuntimeError> {
        let (mut worlds, mut looks, mut after) = (BTreeSet::new(), 0, None);
        loop {
            let part = self.plane.run(&WaitingWorlds { universe: self.universe, after }).await?.output;
            worlds.extend(part.worlds);
            looks += part.looks as u64;
            after = part.next;
            if after.is_none() || looks >= limits::SUMMARY_WORLDS_MAX {
                return Ok((worlds.len() as u64, after.is_some()));
            }
        }
    }

    /// How long the oldest item has waited that a world could take; nothing for a paused one, whose inbox is meant to wait.
    pub async fn inbox_age_ns(&self, world: WorldId) -> Result<u64, RuntimeError> {
        let oldest = self.plane.run(&OldestUnread { universe: self.universe, world }).await?.output;
        match oldest {
            Some(enqueued_at_ns) if !self.is_paused(world, &self.describe_world(world).await?.meta).await? => {
                Ok(self.plane.now_ns().saturating_sub(enqueued_at_ns))
            }
            _ => Ok(0),
        }
    }

    /// Whether a world takes nothing but commands. A world that was made by a version that did not note it is asked for by its journal.
    pub async fn is_paused(&self, world: WorldId, meta: &WorldMeta) -> Result<bool, RuntimeError> {
        match meta.paused {
            Some(paused) => Ok(paused),
            None => self.is_paused_on_record(world).await,
        }
    }

    /// Whether the end of the journal says that the world is paused. A paused world takes nothing but commands, so only those lie above its pause.
    pub async fn is_paused_on_record(&self, world: WorldId) -> Result<bool, RuntimeError> {
        let Some(head) = self.describe_world(world).await?.head else { return Ok(false) };
        // Nearly always the last few records decide it.
        for looked_at in [COMMANDS_LOOKED_AT / 8, COMMANDS_LOOKED_AT] {
            let from = Height::new(head.height.get().saturating_sub(looked_at));
            let records = self.records_between(world, from, head.height).await?;
            let mut is_of_fork = false;
            let said = |record: Record| {
                is_of_fork |= matches!(record.body, Body::ForkGenesis(_));
                says(&record.body, is_of_fork)
            };
            if let Some(paused) = records.iter().rev().filter_map(|record| record.decode().ok()).find_map(said) {
                return Ok(paused);
            }
        }
        Ok(false)
    }
}

/// Whether the world was paused after a record, if the record says so. What its parent is held at does not wait for a fork.
fn says(body: &Body, is_of_fork: bool) -> Option<bool> {
    let ingress = match body {
        Body::Held(held) => return Some(held.failed.is_none() || !is_of_fork),
        Body::Ingress(ingress) => ingress,
        _ => return None,
    };
    match &ingress.item.input {
        Input::Control { command, .. } => match &**command {
            "pause" => Some(true),
            "resume" | "retry" | "skip" => Some(false),
            _ => None,
        },
        _ => Some(false),
    }
}
