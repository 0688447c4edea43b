//! Children of kind `world`: a new world that runs until it says that it is done.
//!
//! Parameters: `program` (a manifest's hash, or a name: `todo` or `todo@2`), and optionally `event` and `value`. The world begins with that event, or
//! without `event` with a message in the inbox `child.run`, whose payload is the value. Headers say `child_id`, `lease_id` and `parent`; the
//! sender is the parent. The world ends the child by the effect [`child.done`](crate::child_done).

use crate::{
    Params,
    program_names::ProgramNames,
    room::{Boundless, Room},
};
use futures_util::future::BoxFuture;
use mundi_model::{
    Code, Hash, ProgramAddress, Value, cbor,
    child::{CHILD_RUN_INBOX, DispatchToken, KIND_WORLD, Spend},
    record::{InboxItem, Input, Origin, Payload, Sender},
};
use mundi_runtime::{
    Plane,
    children::{ChildKind, ChildReport, ChildRun, WorldOfChild},
    effects::{invalid, refused},
    lifecycle::{Naming, NewWorld, begin_world},
    manifests::{in_time, load_manifest},
};
use mundi_store::protocol::{ChildFinish, CreateWorld, Failure};
use std::{collections::BTreeMap, sync::Arc};

pub struct WorldChildren<P> {
    names: ProgramNames<P>,
    room: Arc<dyn Room>,
}

impl<P: Plane> WorldChildren<P> {
    pub fn new(plane: P) -> Self {
        Self { names: ProgramNames { plane, built_in: BTreeMap::new() }, room: Arc::new(Boundless) }
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

    async fn begin(&self, child: &WorldOfChild<'_>) -> Result<CreateWorld, Failure> {
        let (plane, universe, token) = (&self.names.plane, child.universe, child.token);
        let params = Params::of(child.params)?;
        let manifest = self.names.manifest(universe, &program(params)?).await?;
        self.room.world(universe).await?;
        let (world, first) = (token.child.world(), first_item(token, params, plane.now_ns())?);
        if let Input::Event { schema, value: Payload::Inline(value), .. } = &first.input {
            let loaded = load_manifest(plane, (universe, world), manifest).await.map_err(|error| refused(&error))?;
            let checked = in_time(plane, || loaded.check_event(schema, value)).await;
            checked
                .map_err(|error| Failure { code: error.code_or(Code::EventInvalid), ..invalid(error.to_string()) })?;
        }
        let new = NewWorld { universe, world, manifest, inbox: None, now_ns: token.spawned_at_ns };
        let begin = begin_world(plane, new, Naming::default()).await.map_err(|error| refused(&error))?;
        Ok(CreateWorld { commands: vec![first], ..begin })
    }
}

fn program(params: Params<'_>) -> Result<ProgramAddress, Failure> {
    params.text("program")?.parse().map_err(|_| invalid("`program` is neither a manifest nor the name of a program"))
}

/// The first input of the world.
fn first_item(token: &DispatchToken, params: Params<'_>, now_ns: u64) -> Result<InboxItem, Failure> {
    let mut headers = BTreeMap::from([
        ("child_id".to_owned(), token.child.to_string()),
        ("parent".to_owned(), token.parent.to_string()),
    ]);
    headers.extend(token.run.map(|run| ("lease_id".to_owned(), run.to_string())));
    let value = Payload::Inline(cbor::encode(params.get("value").unwrap_or(&Value::Null)));
    let (input, headers) = match params.text_or_none("event")? {
        Some(schema) => (Input::Event { schema: schema.to_owned(), value, key: None }, headers),
        None => {
            let inbox = CHILD_RUN_INBOX.to_owned();
            (Input::Message { inbox, payload: value, headers }, BTreeMap::new())
        }
    };
    let sender = Some(Sender { world: token.parent, height: token.parent_seq });
    let (correlation_id, trace) = (token.correlation_id.clone(), token.trace.clone());
    Ok(InboxItem { input, origin: Origin { correlation_id, trace, sender, headers, ..Origin::new(now_ns) } })
}

impl<P: Plane> ChildKind for WorldChildren<P> {
    fn kind(&self) -> &str {
        KIND_WORLD
    }

    fn check(&self, params: &Value) -> Result<(), String> {
        let read = || {
            let params = Params::of(params)?;
            params.text_or_none("event")?;
            program(params)
        };
        read().map(drop).map_err(|failure| failure.reason)
    }

    fn world<'a>(&'a self, child: &'a WorldOfChild<'a>) -> BoxFuture<'a, Result<Option<Box<CreateWorld>>, Failure>> {
        Box::pin(async move { self.begin(child).await.map(|world| Some(Box::new(world))) })
    }

    /// Never called: the world does the work.
    fn run<'a>(&'a self, _: &'a ChildRun) -> BoxFuture<'a, ChildReport> {
        let reason = "a child of kind `world` is run by its world".to_owned();
        let finish = ChildFinish::Failed { code: Code::UrmChildKindInvalid, reason };
        Box::pin(std::future::ready(ChildReport { finish, spent: Spend::default() }))
    }
}
