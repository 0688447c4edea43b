//! `world.spawn`: a new world, asked for from inside another one.
//!
//! Parameters, as [`Host::spawn`](mundi_kernel::program::Host::spawn) makes them: `dest_world`, the id that the program was
//! told at once; `manifest`; and optionally a first message, as `fabric.send` takes it. The answer says `status` (`ok`, or
//! `already_created` when an attempt before had done it) and `world`. The id covers the parent, the height and the place
//! of the intent, and the world begins at the time at which it was asked for: every attempt makes the same world.

use crate::{
    Adapter, Call, Params,
    blob::refused,
    fabric::{self, ClosedUniverses},
    params::{invalid, map, text},
    room::{Boundless, Room},
};
use futures_util::future::BoxFuture;
use mundi_kernel::intents::WORLD_SPAWN;
use mundi_model::{Hash, UniverseId, Value, WorldAddress, WorldId, limits};
use mundi_runtime::{
    Plane,
    lifecycle::{NewWorld, create},
};
use mundi_store::{
    StoreError,
    protocol::{DescribeWorld, Failure, WorldCreated, WorldError},
};
use std::sync::Arc;

pub struct SpawnAdapter<P> {
    plane: P,
    dedupe_window_ns: u64,
    room: Arc<dyn Room>,
}

impl<P: Plane> SpawnAdapter<P> {
    pub fn new(plane: P) -> Self {
        Self { plane, dedupe_window_ns: limits::DEDUPE_WINDOW_NS, room: Arc::new(Boundless) }
    }

    /// How long the name of a first message stays once its effect is over.
    #[must_use]
    pub fn with_dedupe_window_ns(self, dedupe_window_ns: u64) -> Self {
        Self { dedupe_window_ns, ..self }
    }

    /// Makes worlds only where there is room for them.
    #[must_use]
    pub fn with_room(self, room: Arc<dyn Room>) -> Self {
        Self { room, ..self }
    }

    async fn spawn(&self, call: &Call) -> Result<Value, Failure> {
        let params = Params::of(&call.params)?;
        let world: WorldId = params.text("dest_world")?.parse().map_err(|_| invalid("`dest_world` is not a world"))?;
        let manifest: Hash = params.text("manifest")?.parse().map_err(|_| invalid("`manifest` is not a hash"))?;
        let new = NewWorld { universe: call.universe, world, manifest, inbox: None, now_ns: call.asked_at_ns };
        // An attempt before may have made it, and have filled the universe with it.
        if let Err(full) = self.room.world(call.universe).await
            && !exists(&self.plane, call.universe, world).await.map_err(|error| refused(&error))?
        {
            return Err(full);
        }
        let created = create(&self.plane, new).await.map_err(|error| refused(&error))?;
        if params.get("mode").is_some() {
            let to = WorldAddress::Id(world);
            fabric::send(&self.plane, None, &ClosedUniverses, self.dedupe_window_ns, call, &to).await?;
        }
        Ok(map([("status", status(created)), ("world", text(world.to_string()))]))
    }
}

/// Whether there is such a world.
async fn exists<P: Plane>(plane: &P, universe: UniverseId, world: WorldId) -> Result<bool, StoreError> {
    match plane.run(&DescribeWorld { universe, world }).await {
        Ok(_) => Ok(true),
        Err(StoreError::World(WorldError::NotFound { .. })) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What an attempt found.
pub(crate) fn status(created: WorldCreated) -> Value {
    match created {
        WorldCreated::Now => text("ok"),
        WorldCreated::Before => text("already_created"),
    }
}

impl<P: Plane> Adapter for SpawnAdapter<P> {
    fn name(&self) -> &str {
        "spawn"
    }

    fn kinds(&self) -> &[&str] {
        &[WORLD_SPAWN]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.spawn(call))
    }
}
