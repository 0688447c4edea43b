//! `world.spawn`: a new world, asked for from inside another one.
//!
//! Parameters, as [`Host::spawn`](mundi_kernel::program::Host::spawn) makes them: `dest_world`, the id that the program was
//! told at once; `manifest`, its hash or the name of a program (`todo` for its newest version, or `todo@2`); and optionally a
//! first message, as `fabric.send` takes it. The answer says `status` (`ok`, or `already_created` when an attempt before had
//! done it) and `world`. The id covers the parent, the height and the place of the intent, and the world begins at the time
//! at which it was asked for: every attempt makes the same world. A name is looked up by the attempt that makes the world;
//! a later one finds the world, also if the name has a newer version by then.

use crate::{
    Params, fabric,
    params::{map, text},
    program_names::ProgramNames,
    reach::Reach,
    room::{Boundless, Room},
};
use futures_util::future::BoxFuture;
use mundi_kernel::intents::WORLD_SPAWN;
use mundi_model::{Hash, ProgramAddress, UniverseId, Value, WorldAddress, WorldId, limits};
use mundi_runtime::{
    Plane,
    effects::{Adapter, Call, invalid, refused},
    lifecycle::{NewWorld, create},
};
use mundi_store::{
    StoreError,
    protocol::{DescribeWorld, Failure, WorldCreated, WorldError},
};
use std::{collections::BTreeMap, sync::Arc};

pub struct SpawnAdapter<P> {
    plane: P,
    dedupe_window_ns: u64,
    room: Arc<dyn Room>,
    names: ProgramNames<P>,
}

impl<P: Plane> SpawnAdapter<P> {
    pub fn new(plane: P) -> Self {
        let names = ProgramNames { plane: plane.clone(), built_in: BTreeMap::new() };
        Self { plane, dedupe_window_ns: limits::DEDUPE_WINDOW_NS, room: Arc::new(Boundless), names }
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

    /// Programs that have a name here and are not in the store: `name` and `name@version`, with their manifests.
    #[must_use]
    pub fn with_built_in(self, built_in: BTreeMap<String, Hash>) -> Self {
        Self { names: ProgramNames { built_in, ..self.names }, ..self }
    }

    async fn spawn(&self, call: &Call) -> Result<Value, Failure> {
        let params = Params::of(&call.params)?;
        let world: WorldId = params.text("dest_world")?.parse().map_err(|_| invalid("`dest_world` is not a world"))?;
        let program: ProgramAddress =
            params.text("manifest")?.parse().map_err(|_| invalid("`manifest` is no program"))?;
        let created = self.create(call, world, &program).await?;
        if params.get("mode").is_some() {
            let to = WorldAddress::Id(world);
            let reach = Reach::new(self.plane.clone()).with_dedupe_window_ns(self.dedupe_window_ns);
            fabric::send(&reach, call, &to).await?;
        }
        Ok(map([("status", status(created)), ("world", text(world.to_string()))]))
    }
}

impl<P: Plane> SpawnAdapter<P> {
    /// Makes the world, unless an attempt before has made it: the id is of this intent, and of no other.
    async fn create(&self, call: &Call, world: WorldId, program: &ProgramAddress) -> Result<WorldCreated, Failure> {
        let before = || async { exists(&self.plane, call.universe, world).await.map_err(|error| refused(&error)) };
        // The name may stand for another manifest since.
        if matches!(program, ProgramAddress::Named(_)) && before().await? {
            return Ok(WorldCreated::Before);
        }
        let manifest = self.names.manifest(call.universe, program).await?;
        // An attempt before may have filled the universe with it.
        if let Err(full) = self.room.world(call.universe).await
            && !before().await?
        {
            return Err(full);
        }
        let new = NewWorld { universe: call.universe, world, manifest, inbox: None, now_ns: call.asked_at_ns };
        create(&self.plane, new).await.map_err(|error| refused(&error))
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

/// The result of an attempt.
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
