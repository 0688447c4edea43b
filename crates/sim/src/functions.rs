//! Durable functions under faults: native ones, with effects, timers, events, cancels and results that an operator gives.

use crate::{
    checkers::functions::{Observed, Watched},
    faults::Faults,
    run::Failure,
    simulation::{Simulated, Simulation},
};
use futures_util::future::BoxFuture;
use mundi_kernel::manifest::{EffectRule, Schema};
use mundi_model::{
    Epoch, Value, WorldId, cbor,
    record::{InboxItem, Input, Origin, Payload},
};
use mundi_native::Native;
use mundi_runtime::{
    RuntimeError,
    calls::Calls,
    control::Ops,
    effects::{Adapter, Call, failed as effect_failed},
    world::WorldHost,
};
use mundi_sdk::{
    Event, Failure as StepFailure, Program, World,
    functions::{Ctx, Done, FunctionError, Functions},
};
use mundi_store::{Fence, protocol::Failure as EffectFailure, testing::Rng};
use serde_json::json;
use std::{
    cell::RefCell,
    collections::BTreeMap,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const STEPS: u64 = 80;
/// Few enough that keys are used again.
const KEYS: u64 = 8;
/// Effects of each of two branches: so many that their rows are moved to a page.
const DEEDS: u64 = 9;
const DEED: &str = "sim.deed";
const CHECKER: &str = "functions";

/// The counts of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FunctionTally {
    pub started: u64,
    pub ended: u64,
}

/// A function that gives back all that it saw, in the order in which it saw it.
struct Saga;

const OFFER: &str = r#"{"events": {"saga": true, "approve": true}, "effects": {"sim.deed": {}}}"#;

impl Program for Saga {
    const OFFER: &'static str = OFFER;

    fn handle(world: &mut World, event: &Event) -> Result<(), StepFailure> {
        Functions::new(OFFER).durable("saga", saga).handle(world, event).map(drop)
    }
}

type Json = mundi_sdk::Value;

async fn saga(ctx: Ctx, _: Json) -> Result<Done, FunctionError> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let branch = |branch: u64| {
        let (ctx, seen) = (ctx.clone(), seen.clone());
        async move {
            for deed in 0..DEEDS {
                let done: Result<Json, _> = ctx.effect(DEED, &json!([branch, deed])).await;
                seen.borrow_mut().push(done.unwrap_or_else(|error| json!(error.code())));
            }
            Ok(())
        }
    };
    ctx.all([branch(0), branch(1)]).await?;
    let first = ctx.race([ctx.event::<Json>("approve"), ctx.sleep("2s")?.any()]).await;
    let first = match first {
        Err(error) if error.is_cancelled() => return Err(error),
        first => first.unwrap_or_else(|error| json!(error.code())),
    };
    seen.borrow_mut().push(first);
    ctx.done(&*seen.borrow())
}

/// Another answer at each attempt: only the one on record counts.
#[derive(Default)]
struct Deeds(AtomicU64);

impl Adapter for Deeds {
    fn name(&self) -> &str {
        "deeds"
    }

    fn kinds(&self) -> &[&str] {
        &[DEED]
    }

    fn call<'a>(&'a self, _: &'a Call) -> BoxFuture<'a, Result<Value, EffectFailure>> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if number % 11 == 10 { Err(effect_failed("not today")) } else { Ok(Value::Integer(number.into())) }
        })
    }
}

struct Run {
    universe: Simulated,
    world: WorldId,
    rng: Rng,
    watched: Watched,
    sent: u64,
    tally: FunctionTally,
}

/// Runs functions under about half of these faults, those that the seed chooses, and checks every promise.
pub fn run_function_seed(seed: u64, allowed: &Faults) -> Result<FunctionTally, Failure> {
    let mut simulation = Simulation::new(seed).faults(allowed.swarm(seed)).adapter(Deeds::default());
    let mut manifest = simulation.program("saga", 1, Native::<Saga>::default());
    for event in ["saga", "approve"] {
        manifest.events.insert(event.into(), Schema::anything());
    }
    manifest.effects.insert(DEED.into(), EffectRule::default());
    let mut universe = simulation.start().map_err(failed)?;
    let world = universe.create(&manifest).map_err(failed)?;
    let (rng, watched, tally) = (Rng::new(seed), Watched::default(), FunctionTally::default());
    let mut run = Run { universe, world, rng, watched, sent: 0, tally };
    for step in 0..STEPS {
        run.step()?;
        if step % 4 == 0 {
            let key = run.rng.below(KEYS);
            run.observe(key)?;
        }
    }
    run.settle()?;
    run.tally.ended = run.watched.ended();
    run.universe.finish()?;
    Ok(run.tally)
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn failed(error: RuntimeError) -> Failure {
    broken(error.to_string())
}

fn broken(what: impl Into<String>) -> Failure {
    Failure { checker: CHECKER, what: what.into() }
}

impl Run {
    fn step(&mut self) -> Result<(), Failure> {
        let (key, number) = (format!("k{}", self.rng.below(KEYS)), 1 + self.rng.below(2 * DEEDS + 2));
        match self.rng.below(11) {
            0 | 1 => {
                self.tally.started += 1;
                self.event("saga", Some(key), &json!(1))
            }
            2 => {
                let key = (self.rng.below(2) == 0).then_some(key);
                self.event("approve", key, &json!("yes"))
            }
            3 if self.rng.below(3) == 0 => self.command(&json!({ "cancel": format!("saga/{key}") })),
            10 => {
                let verb = ["pause", "resume"][usize::from(self.rng.below(2) == 0)];
                self.command(&json!({ verb: format!("saga/{key}") }))
            }
            4 => self.command(&json!({ "resolve": format!("saga/{key}"), "await": number, "ok": "given" })),
            _ => {
                self.universe.run_for(Duration::from_millis(self.rng.below(900)));
                Ok(())
            }
        }
    }

    fn event(&mut self, schema: &str, key: Option<String>, value: &Json) -> Result<(), Failure> {
        let value = Payload::Inline(mundi_sdk::cbor::encode(value));
        self.enqueue(Input::Event { schema: schema.to_owned(), value, key })
    }

    fn command(&mut self, command: &Json) -> Result<(), Failure> {
        let payload = Payload::Inline(mundi_sdk::cbor::encode(command));
        self.enqueue(Input::Message { inbox: "$fn".to_owned(), payload, headers: BTreeMap::new() })
    }

    /// Again and again until it is acknowledged; it arrives once.
    fn enqueue(&mut self, input: Input) -> Result<(), Failure> {
        self.sent += 1;
        let (world, name) = (self.world, format!("input {}", self.sent));
        let item = InboxItem { input, origin: Origin::new(self.universe.now_ns()) };
        let enqueued = self.universe.retry(move |plane| {
            let (item, name) = (item.clone(), name.clone());
            async move {
                let ops = Ops::new(plane, Simulated::UNIVERSE, Calls::default());
                ops.enqueue_ingress(world, item, Some(&name)).await
            }
        });
        enqueued.map(drop).map_err(failed)
    }

    /// Reads an instance from its cells, and compares it with what was known before.
    fn observe(&mut self, key: u64) -> Result<(), Failure> {
        let (world, name) = (self.world, format!("saga/k{key}"));
        let instance = name.clone();
        let read = self.universe.retry(move |plane| {
            let instance = instance.clone();
            async move {
                // Nothing is written under this fence, so it need not be held.
                let fence = Fence { universe: Simulated::UNIVERSE, world, epoch: Epoch::INITIAL };
                let mut host = WorldHost::restore(plane, fence).await?;
                let Some(head) = host.cell(&format!("$fn/i/{instance}")).await? else { return Ok(None) };
                let mut cells = Vec::new();
                for number in 0..=2 * DEEDS + 2 {
                    cells.extend(host.cell(&format!("$fn/l/{instance}/{number:06}")).await?);
                }
                for page in 0..2 {
                    cells.extend(host.cell(&format!("$fn/p/{instance}/{page:06}")).await?);
                }
                Ok(Some((head, cells)))
            }
        });
        let Some((head, cells)) = read.map_err(failed)? else { return Ok(()) };
        let head = mundi_sdk::cbor::decode(&head).map_err(|error| broken(error.to_string()))?;
        let mut rows = BTreeMap::new();
        for cell in cells {
            let Ok(Value::Text(text)) = cbor::decode(&cell) else { return Err(broken("a row is no text")) };
            let found: Vec<Json> =
                serde_json::from_str(&format!("[{text}]")).map_err(|error| broken(error.to_string()))?;
            rows.extend(found.into_iter().map(|row| (row[0].as_u64().unwrap_or(0), row)));
        }
        rows.remove(&0);
        self.watched.instance(&name, Observed { head, rows }).map_err(broken)
    }

    /// In the end every instance has ended, and its effects were asked for once.
    fn settle(&mut self) -> Result<(), Failure> {
        // A paused one goes on, so that none may be left.
        for key in 0..KEYS {
            self.command(&json!({ "resume": format!("saga/k{key}") }))?;
        }
        self.universe.rest()?;
        self.universe.run_for(Duration::from_secs(3));
        self.universe.rest()?;
        (0..KEYS).try_for_each(|key| self.observe(key))?;
        let journal = self.universe.journal(self.world).map_err(failed)?;
        self.watched.all_ended(&journal).map_err(broken)
    }
}
