//! A world for tests of durable functions, with a clock that is moved by hand.

use super::{Step, TestWorld, state::State};
use crate::{
    Cause, Failure, Program, Status, Value, cbor,
    functions::{
        Failed,
        cells::{self, Entry, EntryState, Head, head_key},
        rows::read_log,
    },
};
use serde::Serialize;
use std::marker::PhantomData;

/// An instance of a durable function, as it is at the moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    pub function: String,
    pub key: String,
    pub state: String,
    /// The awaits that it waits for: number, kind and name of each.
    pub waits: Vec<(u32, String, String)>,
    pub status: Option<Value>,
    pub result: Option<Value>,
    pub error: Option<Failed>,
    /// All that it asked for, in order: `effect payment.charge`, `timer sleep`.
    pub asks: Vec<String>,
}

/// A world of a program with durable functions.
pub struct DurableWorld<P> {
    world: TestWorld<P>,
    /// The world as it was before each of its steps.
    past: Vec<State>,
    /// The process dies in this step, after the code has run and before anything is kept: it runs again.
    crash_at: Option<usize>,
}

impl<P: Program> Default for DurableWorld<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Program> DurableWorld<P> {
    pub fn new() -> Self {
        Self { world: TestWorld::new(), past: Vec::new(), crash_at: None }
    }

    /// The world, for all that is not about functions.
    pub fn world(&self) -> &TestWorld<P> {
        &self.world
    }

    /// Starts an instance, and gives what has become of it so far.
    pub fn run(&mut self, name: &str, input: impl Serialize, key: &str) -> Result<Instance, Failure> {
        self.event(name, input, Some(key))?;
        self.instance(name, key)
    }

    /// An instance, by its function and its key.
    pub fn instance(&self, name: &str, key: &str) -> Result<Instance, Failure> {
        let head: Head = self.read(&head_key(&format!("{name}/{key}")))?;
        let entries = log_of(&self.world.state, &head)?;
        Ok(Instance {
            asks: entries.iter().skip(1).map(|entry| format!("{} {}", entry.kind, entry.name)).collect(),
            function: head.function,
            key: head.key,
            state: head.state,
            waits: head.waits.into_iter().map(|(number, kind, name, _)| (number, kind, name)).collect(),
            status: head.status,
            result: head.result,
            error: head.error,
        })
    }

    fn read<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T, Failure> {
        let cell = self.world.state.cells.get(key);
        Ok(cbor::from_slice(cell.ok_or_else(|| Failure::new(format!("there is no cell `{key}`")))?)?)
    }

    /// An event; with a key, for the instance that has it.
    pub fn event(&mut self, schema: &str, value: impl Serialize, key: Option<&str>) -> Result<Step, Failure> {
        let value = cbor::to_vec(&value)?;
        let cause = Cause::Event { schema: schema.to_owned(), value, key: key.map(str::to_owned) };
        self.step(|world| world.step(cause.clone()))
    }

    /// Answers the oldest open effect of a kind.
    pub fn answer(&mut self, kind: &str, value: impl Serialize) -> Result<Step, Failure> {
        let (label, value) = (self.open(kind)?, serde_json::to_value(value)?);
        self.step(|world| world.receipt(&label, Status::Ok, &value))
    }

    /// The oldest open effect of a kind is not carried out.
    pub fn fail_effect(&mut self, kind: &str, code: &str, reason: &str) -> Result<Step, Failure> {
        let label = self.open(kind)?;
        self.step(|world| world.fail(&label, code, reason))
    }

    fn open(&self, kind: &str) -> Result<String, Failure> {
        let State { intents, ages, .. } = &self.world.state;
        let open = intents.values().filter(|intent| intent.kind == kind);
        let found = open.min_by_key(|intent| ages.get(&intent.label)).map(|intent| intent.label.clone());
        let unknown = || Failure::coded("RECEIPT_UNKNOWN", format!("no effect of the kind `{kind}` is open"));
        found.ok_or_else(unknown)
    }

    /// An open await ends with this result, in place of what it waits for: what `mundi world fork --at-await … --with` does.
    pub fn resolve(&mut self, number: u32, value: impl Serialize, name: &str, key: &str) -> Result<Step, Failure> {
        let (instance, value) = (format!("{name}/{key}"), serde_json::to_value(value)?);
        self.command(&serde_json::json!({ "resolve": instance, "await": number, "ok": value }))
    }

    /// An open await fails with this error.
    pub fn reject(
        &mut self,
        number: u32,
        (code, reason): (&str, &str),
        name: &str,
        key: &str,
    ) -> Result<Step, Failure> {
        let (instance, error) = (format!("{name}/{key}"), serde_json::json!({ "code": code, "reason": reason }));
        self.command(&serde_json::json!({ "resolve": instance, "await": number, "error": error }))
    }

    /// Moves the clock, and lets every timer fire that is due until then: `skip("1h")`.
    pub fn skip(&mut self, duration: &str) -> Result<(), Failure> {
        let ms = cells::milliseconds(duration).map_err(|error| Failure::new(error.to_string()))?;
        let until_ns = self.world.state.now_ns + ms * 1_000_000;
        loop {
            let due = self.world.state.timers.values().filter(|timer| timer.due_ns <= until_ns);
            let Some(timer) = due.min_by_key(|timer| (timer.due_ns, timer.label.clone())) else { break };
            let label = timer.label.clone();
            self.step(|world| world.fire(&label))?;
        }
        self.world.state.now_ns = until_ns;
        Ok(())
    }

    pub fn cancel(&mut self, name: &str, key: &str, reason: &str) -> Result<Step, Failure> {
        self.command(&serde_json::json!({ "cancel": format!("{name}/{key}"), "reason": reason }))
    }

    pub fn pause(&mut self, name: &str, key: &str) -> Result<Step, Failure> {
        self.command(&serde_json::json!({ "pause": format!("{name}/{key}") }))
    }

    pub fn resume(&mut self, name: &str, key: &str) -> Result<Step, Failure> {
        self.command(&serde_json::json!({ "resume": format!("{name}/{key}") }))
    }

    fn command(&mut self, command: &Value) -> Result<Step, Failure> {
        let (inbox, payload) = (cells::INBOX.to_owned(), cbor::encode(command));
        let cause = Cause::Message { inbox, payload, headers: Vec::new() };
        self.step(|world| world.step(cause.clone()))
    }

    /// The world after another program took over. Fails with `FUNCTION_DIVERGED` if an instance would go another way than is on record.
    pub fn upgrade<Q: Program>(&self) -> Result<DurableWorld<Q>, Failure> {
        let world = of_state(self.world.state.clone());
        let mut upgraded = DurableWorld::<Q> { world, past: self.past.clone(), crash_at: None };
        let from = format!("h_{}", "0".repeat(64));
        upgraded.step(|world| world.step(Cause::Upgraded { from: from.clone() }))?;
        Ok(upgraded)
    }

    fn step(&mut self, run: impl Fn(&mut TestWorld<P>) -> Result<Step, Failure>) -> Result<Step, Failure> {
        let before = self.world.state.clone();
        if self.crash_at == Some(self.past.len()) {
            // What the dead process did is lost, whatever it was.
            drop(run(&mut self.world));
            self.world.state = before.clone();
        }
        let step = run(&mut self.world)?;
        self.past.push(before);
        Ok(step)
    }

    /// Another world that goes on from here.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { world: of_state(self.world.state.clone()), past: self.past.clone(), crash_at: None }
    }

    /// A world in which the await has not ended yet: to try what would have happened with another result.
    pub fn fork_at_await(&self, number: u32, name: &str, key: &str) -> Result<Self, Failure> {
        let cell = head_key(&format!("{name}/{key}"));
        let has_ended = |state: &State| {
            let head = state.cells.get(&cell).and_then(|bytes| cbor::from_slice::<Head>(bytes).ok());
            let entries = head.and_then(|head| log_of(state, &head).ok()).unwrap_or_default();
            entries.get(number as usize).is_some_and(|entry| entry.state != EntryState::Open)
        };
        let at = self.past.iter().chain([&self.world.state]).position(has_ended);
        let unknown = || Failure::new(format!("await {number} of {name}/{key} has not ended"));
        let at = at.and_then(|at| at.checked_sub(1)).ok_or_else(unknown)?;
        Ok(Self { world: of_state(self.past[at].clone()), past: self.past[..at].to_vec(), crash_at: None })
    }
}

fn log_of(state: &State, head: &Head) -> Result<Vec<Entry>, Failure> {
    let under = |prefix: &str| {
        let found = state.cells.iter().filter(|(key, _)| key.starts_with(prefix));
        found.map(|(key, cell)| (key.clone(), cell.clone())).collect()
    };
    Ok(read_log(head, under)?.entries)
}

fn of_state<P>(state: State) -> TestWorld<P> {
    TestWorld { state, program: PhantomData }
}

/// Runs a scenario once as it is, and then once for each of its steps with a process that dies in that step. Every time the same must
/// come of it, byte for byte. Gives the number of steps.
pub fn for_each_crash<P: Program>(
    scenario: impl Fn(&mut DurableWorld<P>) -> Result<(), Failure>,
) -> Result<usize, Failure> {
    let mut plain = DurableWorld::<P>::new();
    scenario(&mut plain)?;
    for step in 0..plain.past.len() {
        let mut world = DurableWorld::<P> { crash_at: Some(step), ..DurableWorld::new() };
        scenario(&mut world)?;
        if world.world.state.cells != plain.world.state.cells {
            return Err(Failure::new(format!("something else came of it after a crash in step {step}")));
        }
    }
    Ok(plain.past.len())
}
