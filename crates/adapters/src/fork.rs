//! `world.fork`: a branch of a world, asked for from inside it, or from another one of its universe.
//!
//! Parameters, all optional: `world` (its id or its name; the world itself, if absent), `at` (a height, as an integer; if absent, the
//! world as it was before the step that asked, so that a branch never contains the request for itself), `policy` (one of
//! `suppress`, `sandbox`, `recorded`, `recorded-then-live` and `live`; if absent, `suppress`, or that of a parent whose effects
//! must not leave it). The answer says `status` (`ok` or `already_created`), `world` and `forked_at`.
//!
//! The id of the branch follows from the intent hash, so every attempt makes the same branch and no other intent does. A
//! program that wants to know the id computes it as [`branch_of`] does, or waits for the receipt.

use crate::{
    Params,
    params::{map, text},
    room::{Boundless, Room},
    spawn::status,
};
use futures_util::future::BoxFuture;
use mundi_model::{
    Hash, Height, IntentHash, Value, WorldAddress, WorldId, cbor, limits,
    record::{Body, EffectPolicy},
};
use mundi_runtime::{
    Plane,
    effects::{Adapter, Call, invalid, refused},
    lifecycle::{ForkAt, ForkPolicy, ForkWorld, fork},
};
use mundi_store::{
    StoreError,
    journal::History,
    protocol::{DescribeWorld, Failure, WorldCreated, WorldError},
};
use std::sync::Arc;

/// The world that an intent to fork makes.
pub fn branch_of(intent: IntentHash) -> WorldId {
    let hash = Hash::of(&cbor::encode(&("mundi.fork.1", intent)));
    let mut id = [0; WorldId::LEN];
    id.copy_from_slice(&hash.as_bytes()[..WorldId::LEN]);
    WorldId::from_bytes(id)
}

pub struct ForkAdapter<P> {
    plane: P,
    room: Arc<dyn Room>,
}

impl<P: Plane> ForkAdapter<P> {
    pub fn new(plane: P) -> Self {
        Self { plane, room: Arc::new(Boundless) }
    }

    /// Makes branches only where there is room for them.
    #[must_use]
    pub fn with_room(self, room: Arc<dyn Room>) -> Self {
        Self { room, ..self }
    }

    async fn fork(&self, call: &Call) -> Result<Value, Failure> {
        let params = Params::of(&call.params)?;
        let parent = match params.text_or_none("world")? {
            Some(world) => {
                let address: WorldAddress = world.parse().map_err(|_| invalid("`world` is not a world"))?;
                address.world(call.universe)
            }
            None => call.world,
        };
        let effects = match params.text_or_none("policy")? {
            None => None,
            Some(name) => Some(EffectPolicy::offered(name).ok_or_else(|| {
                let names = EffectPolicy::OFFERED.map(EffectPolicy::as_str).join(", ");
                invalid(format!("`policy` is none of {names} but `{name}`"))
            })?),
        };
        let policy = ForkPolicy { effects, answers: None };
        let child = branch_of(call.intent);
        // Asked first: the parent has gone on since the first attempt, and another height would be another world.
        if let Some(forked_at) = self.made_before(call, child).await.map_err(|error| refused(&error))? {
            return Ok(answer(WorldCreated::Before, child, forked_at));
        }
        self.room.world(call.universe).await?;
        let at = match params.unsigned_or_none("at")? {
            Some(height) => ForkAt::Height(Height::new(height)),
            None if parent == call.world => ForkAt::Height(self.step_of(call).await.map_err(|error| refused(&error))?),
            None => ForkAt::Newest,
        };
        let request =
            ForkWorld { universe: call.universe, parent, child, at, policy, manifest: None, now_ns: call.asked_at_ns };
        let forked = fork(&self.plane, request).await.map_err(|error| refused(&error))?;
        Ok(answer(forked.created, child, forked.forked_at))
    }

    /// Where the branch begins that an attempt before has made.
    async fn made_before(&self, call: &Call, child: WorldId) -> Result<Option<Height>, StoreError> {
        let describe = DescribeWorld { universe: call.universe, world: child };
        match self.plane.run(&describe).await {
            Ok(done) => Ok(Some(done.output.meta.first_height)),
            Err(StoreError::World(WorldError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The height of the record whose step asked: all that the branch shares lies below.
    async fn step_of(&self, call: &Call) -> Result<Height, StoreError> {
        // The outputs of a step stand right behind its record, and are bounded in number.
        let from = Height::new(call.height.get().saturating_sub(limits::STEP_OUTPUTS_MAX + 2));
        let (engine, segments) = (self.plane.engine(), self.plane.segments().clone());
        let history = History::open(engine, segments, call.universe, call.world, from).await?.until(call.height.next());
        let records = history.collect().await?;
        let ingress = records
            .iter()
            .rev()
            .find(|record| matches!(record.decode().map(|record| record.body), Ok(Body::Ingress(_))));
        Ok(ingress.map_or(call.height, |record| record.height))
    }
}

fn answer(created: WorldCreated, child: WorldId, forked_at: Height) -> Value {
    let forked_at = Value::Integer(forked_at.get().into());
    map([("status", status(created)), ("world", text(child.to_string())), ("forked_at", forked_at)])
}

impl<P: Plane> Adapter for ForkAdapter<P> {
    fn name(&self) -> &str {
        "fork"
    }

    fn kinds(&self) -> &[&str] {
        &["world.fork"]
    }

    fn call<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Value, Failure>> {
        Box::pin(self.fork(call))
    }
}
