//! One run of one instance: its code from the beginning, on what is on record, up to what is still open.
//!
//! Recorded results are given to the code one at a time, in the order in which they came, and each only when the code has done all
//! that follows from the one before. So it takes the same way as before, also where it waits for several things at once. Until it
//! has seen all that it saw in earlier steps it must ask for exactly what is on record: anything else is `FUNCTION_DIVERGED`, and
//! nothing is written.

use super::{
    FunctionError,
    cells::{self, AWAITS_MAX, Entry, EntryState, Failed, Head, Print, describe, error_value, print_of},
    mutants::{Mutant, planted},
    rows::{self, Log, Tail},
};
use crate::{Value, World, kinds::EffectError};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// The amount by which the seed grows when a function starts over, so that it draws other numbers.
const RUN_STEP: u64 = 0xd1b5_4a32_d192_ed03;

/// Where something is waited for: cancelling it ends all waits in it and in those within.
pub(crate) struct Scope {
    parent: Option<Rc<Scope>>,
    is_shielded: bool,
    cancelled: RefCell<Option<String>>,
}

impl Scope {
    pub(crate) fn new(parent: Option<Rc<Scope>>, is_shielded: bool) -> Rc<Self> {
        Rc::new(Self { parent, is_shielded, cancelled: RefCell::new(None) })
    }

    /// Why nothing is waited for here any more.
    fn over(&self) -> Option<String> {
        let own = self.cancelled.borrow().clone();
        own.or_else(|| if self.is_shielded { None } else { self.parent.as_ref()?.over() })
    }

    fn is_within(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || !self.is_shielded && self.parent.as_ref().is_some_and(|parent| parent.is_within(other))
    }
}

/// The state of an await.
pub(crate) struct Slot {
    pub(crate) number: u32,
    scope: Rc<Scope>,
    pub(crate) settled: RefCell<Option<Result<Value, FunctionError>>>,
    pub(crate) is_awaited: Cell<bool>,
    pub(crate) is_detached: Cell<bool>,
}

impl Slot {
    fn settle(&self, settled: Result<Value, FunctionError>) {
        let mut slot = self.settled.borrow_mut();
        if slot.is_none() {
            *slot = Some(settled);
        }
    }
}

#[derive(Clone, Copy)]
enum Ended {
    Await(u32),
    Cancel,
}

pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) head: Head,
    pub(crate) entries: Vec<Entry>,
    pub(crate) tail: Tail,
    /// The kinds that `mundi.json` declares.
    declared: Rc<Vec<String>>,
    is_check: bool,
    pub(crate) now_ns: u64,
    newest: u32,
    pub(crate) status: Option<Value>,
    pub(crate) diverged: Option<Diverged>,
    pub(crate) is_over: bool,
    pub(crate) root: Rc<Scope>,
    asks: BTreeMap<u32, Rc<Slot>>,
    asked: u32,
    delivered: u32,
    drawn: u64,
    recorded: u32,
    ran_before: u32,
    order: BTreeMap<u32, Ended>,
    /// How often the code did something that may let other parts of it go on.
    pub(crate) changes: u64,
}

/// The code asks for something else than is on record.
#[derive(Debug, Clone)]
pub(crate) struct Diverged {
    pub(crate) number: u32,
    pub(crate) message: String,
}

pub(crate) type Shared = Rc<RefCell<Run>>;
pub(crate) type Code = Pin<Box<dyn Future<Output = Result<Returned, FunctionError>>>>;

/// The outcome of a function.
pub enum Returned {
    Value(Value),
    /// It starts over with this input.
    Continue(Value),
}

/// A value that a durable function may give back: anything that has a JSON form, or a [`Done`](super::Done), which can also start over.
pub trait Returns {
    #[doc(hidden)]
    fn returned(self) -> Result<Returned, FunctionError>;
}

impl<T: serde::Serialize> Returns for T {
    fn returned(self) -> Result<Returned, FunctionError> {
        Ok(Returned::Value(serde_json::to_value(self)?))
    }
}

impl Returns for super::Done {
    fn returned(self) -> Result<Returned, FunctionError> {
        Ok(self.0)
    }
}

impl Run {
    pub(crate) fn new(head: Head, Log { entries, tail }: Log, declared: Rc<Vec<String>>, is_check: bool) -> Self {
        let ended = |(number, entry): (u32, &Entry)| Some((entry.order?, Ended::Await(number)));
        let mut order: BTreeMap<_, _> = (0..).zip(&entries).filter_map(ended).collect();
        if planted(Mutant::ResultsUnordered) {
            let mut numbers: Vec<_> =
                (0..).zip(&entries).filter(|(_, it)| it.order.is_some()).map(|(n, _)| n).collect();
            numbers.sort_unstable();
            order = (0..).zip(numbers.into_iter().map(Ended::Await)).collect();
        }
        if let Some(cancel) = &head.cancel {
            order.insert(cancel.order, Ended::Cancel);
        }
        Self {
            world: World::new(),
            now_ns: entries.first().map_or(0, |start| start.asked_ns),
            recorded: head.asked,
            ran_before: head.ran,
            head,
            entries,
            tail,
            declared,
            is_check,
            newest: 0,
            status: None,
            diverged: None,
            is_over: false,
            root: Scope::new(None, false),
            asks: BTreeMap::new(),
            asked: 0,
            delivered: 0,
            drawn: 0,
            order,
            changes: 0,
        }
    }

    /// The code does for the first time what it does now.
    pub(crate) fn is_live(&self) -> bool {
        !self.is_check && self.delivered >= self.ran_before
    }

    pub(crate) fn ran(&self) -> u32 {
        self.delivered + 1
    }

    pub(crate) fn open(&self) -> BTreeMap<u32, Entry> {
        (0..).zip(&self.entries).filter(|(_, it)| it.state == EntryState::Open).map(|(n, it)| (n, it.clone())).collect()
    }

    /// For an ask that never began.
    pub(crate) fn no_slot(&self) -> Rc<Slot> {
        Rc::new(Slot {
            number: 0,
            scope: self.root.clone(),
            settled: RefCell::new(None),
            is_awaited: Cell::new(true),
            is_detached: Cell::new(false),
        })
    }

    fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }

    pub(crate) fn diverge(&mut self, number: u32, recorded: &str, asked: &str) -> FunctionError {
        let message = format!("await {number}: on record is {recorded}, and the code asks for {asked}");
        let diverged = self.diverged.get_or_insert(Diverged { number, message });
        FunctionError::new("FUNCTION_DIVERGED", diverged.message.clone())
    }

    fn check_now(&self) -> Result<(), FunctionError> {
        if let Some(diverged) = &self.diverged {
            return Err(FunctionError::new("FUNCTION_DIVERGED", diverged.message.clone()));
        }
        if !self.is_over {
            return Ok(());
        }
        let message = format!(
            "this `ctx` is that of an instance of `{}` whose step is over: use it only inside its function",
            self.head.function
        );
        Err(FunctionError::new("FUNCTION_CONTEXT_OVER", message))
    }

    /// The number of the next await, and whether it is on record.
    fn next(&mut self, kind: &str, name: &str, print: Print) -> Result<(u32, bool), FunctionError> {
        self.check_now()?;
        let number = self.asked + 1;
        if number > AWAITS_MAX {
            let message = format!(
                "the log has {AWAITS_MAX} awaits: start over with `return ctx.continue_as(input)` before it is so long"
            );
            return Err(FunctionError::new("FUNCTION_LOG_FULL", message));
        }
        let is_recorded = number <= self.recorded;
        if !is_recorded && !self.is_live() {
            return Err(self.diverge(number, "nothing", &describe(kind, name, print)));
        }
        if is_recorded {
            let entry = self.entry(number);
            if (&*entry.kind, &*entry.name, entry.print) != (kind, name, print) {
                let recorded = entry.describe();
                return Err(self.diverge(number, &recorded, &describe(kind, name, print)));
            }
        } else {
            self.entries.push(Entry::new(&self.world, kind, name, print));
            self.head.asked = number;
        }
        self.asked = number;
        self.changes += 1;
        Ok((number, is_recorded))
    }

    /// Asks for something that ends later. `begin` asks the host for it; it may end it at once with a value.
    pub(crate) fn ask(
        &mut self,
        scope: &Rc<Scope>,
        (kind, name): (&str, &str),
        params: &Value,
        begin: impl FnOnce(&mut Self, &str, u32) -> Result<Option<Value>, FunctionError>,
    ) -> Rc<Slot> {
        let asked = match scope.over() {
            Some(reason) => Err(FunctionError::cancelled(reason)),
            None => self.next(kind, name, print_of(params)),
        };
        let (number, is_recorded) = *asked.as_ref().unwrap_or(&(0, true));
        let slot = Rc::new(Slot {
            number,
            scope: scope.clone(),
            settled: RefCell::new(asked.err().map(Err)),
            is_awaited: Cell::new(false),
            is_detached: Cell::new(false),
        });
        if number > 0 {
            self.asks.insert(number, slot.clone());
        }
        if !is_recorded {
            let label = self.head.label(number);
            match begin(self, &label, number) {
                Ok(None) => self.put_entry(number),
                Ok(Some(value)) => self.end(number, EntryState::Ok, value),
                Err(error) => {
                    let value = error_value(error.code(), &error.to_string(), 0);
                    self.end(number, EntryState::Error, value);
                }
            }
        }
        slot
    }

    /// Asks for something that is known at once.
    pub(crate) fn instant(
        &mut self,
        (kind, name): (&str, &str),
        params: &Value,
        answer: impl FnOnce(&mut World) -> Result<Value, FunctionError>,
    ) -> Result<Value, FunctionError> {
        let (number, is_recorded) = self.next(kind, name, print_of(params))?;
        if !is_recorded {
            let value = answer(&mut self.world)?;
            let entry = &mut self.entries[number as usize];
            (entry.state, entry.value) = (EntryState::Ok, value);
            self.put_entry(number);
        }
        Ok(self.entry(number).value.clone())
    }

    /// Which of two ways in the code this instance goes.
    pub(crate) fn version(&mut self, name: &str, from: u32, to: u32) -> Result<u32, FunctionError> {
        self.check_now()?;
        let is_recorded = self.asked < self.recorded;
        let on_record = is_recorded.then(|| self.entry(self.asked + 1));
        if on_record.is_some_and(|entry| entry.kind != "version" || entry.name != name) {
            return Ok(from);
        }
        // It waits at this place since before the code had two ways.
        if !is_recorded && !self.is_live() {
            return Ok(from);
        }
        let version = self.instant(("version", name), &Value::Null, |_| Ok(to.into()))?;
        let version = version.as_u64().and_then(|version| u32::try_from(version).ok()).unwrap_or(to);
        if (from..=to).contains(&version) {
            return Ok(version);
        }
        let recorded = format!("version {version} of `{name}`");
        Err(self.diverge(self.asked, &recorded, &format!("a version from {from} to {to}")))
    }

    fn put_entry(&mut self, number: u32) {
        let entry = self.entries[number as usize].clone();
        // What is written was read from canonical CBOR or made here: it has a form.
        drop(rows::put_entry(&mut self.world, &self.head, (number, &entry), Some(&mut self.tail)));
    }

    /// Ends an await, for the record; the code sees it when its turn comes.
    fn end(&mut self, number: u32, state: EntryState, value: Value) {
        let entry = &mut self.entries[number as usize];
        entry.end(&self.world, &mut self.head, state, value);
        if let Some(order) = entry.order {
            self.order.insert(order, Ended::Await(number));
        }
        self.put_entry(number);
    }

    /// Gives the next recorded result to the code. Says whether there was one.
    fn deliver(&mut self) -> bool {
        if self.is_check && self.delivered + 1 >= self.ran_before {
            return false;
        }
        let Some(ended) = self.order.get(&self.delivered).copied() else { return false };
        self.delivered += 1;
        match (ended, self.head.cancel.clone()) {
            (Ended::Await(number), _) => {
                let entry = self.entry(number).clone();
                let Some(slot) = self.asks.get(&number).cloned() else {
                    self.diverge(number, &entry.describe(), "nothing so far");
                    return false;
                };
                (self.now_ns, self.newest) = (entry.ended_ns.unwrap_or(self.now_ns), number);
                slot.settle(if entry.state == EntryState::Error { Err(failure(&entry)) } else { Ok(entry.value) });
            }
            (Ended::Cancel, Some(cancel)) => {
                self.now_ns = cancel.at_ns;
                let root = self.root.clone();
                self.cancel(&root, &cancel.reason);
            }
            (Ended::Cancel, None) => {}
        }
        true
    }

    /// Ends all waits of a scope, and nothing more is waited for in it.
    pub(crate) fn cancel(&mut self, scope: &Scope, reason: &str) {
        if scope.cancelled.replace(Some(reason.to_owned())).is_some() {
            return;
        }
        let within: Vec<_> = self.asks.values().filter(|slot| slot.scope.is_within(scope)).cloned().collect();
        for slot in within {
            if slot.settled.borrow().is_none() {
                self.withdraw(&slot);
                slot.settle(Err(FunctionError::cancelled(reason.to_owned())));
            }
        }
        self.changes += 1;
    }

    /// Gives up what an await waits for.
    pub(crate) fn withdraw(&mut self, slot: &Slot) {
        if slot.number == 0 || self.is_over || self.entry(slot.number).state != EntryState::Open {
            return;
        }
        if !self.is_live() {
            let recorded = format!("{}, which is waited for", self.entry(slot.number).describe());
            self.diverge(slot.number, &recorded, "its withdrawal");
            return;
        }
        self.withdraw_number(slot.number);
    }

    fn withdraw_number(&mut self, number: u32) {
        let entry = &mut self.entries[number as usize];
        cells::withdraw(&mut self.world, &self.head, number, entry);
        entry.state = EntryState::Cancelled;
        entry.retry = None;
        self.put_entry(number);
    }

    /// Gives up all that is open when the function has ended, but effects that it let go.
    pub(crate) fn withdraw_all(&mut self) {
        for (number, entry) in self.open() {
            let is_detached = self.asks.get(&number).is_some_and(|slot| slot.is_detached.get());
            if entry.kind != "effect" || !is_detached {
                self.withdraw_number(number);
            } else if entry.retry.is_some() {
                let instance = (&*self.head.instance(), self.head.run);
                // What is written was made here: it has a form.
                drop(rows::put_detached(&mut self.world, instance, (number, &entry)));
            }
        }
    }

    /// A kind that `mundi.json` does not declare must not end the step: the code hears of it.
    pub(crate) fn check_effect(&self, kind: &str) -> Result<(), FunctionError> {
        if self.declared.iter().any(|declared| declared == kind) {
            return Ok(());
        }
        let message = format!("mundi.json does not declare the effect `{kind}`: add it to `effects`");
        Err(FunctionError::new("FUNCTION_EFFECT_UNDECLARED", message))
    }

    /// An event that arrived for this instance before it was asked for.
    pub(crate) fn take_signal(&mut self, name: &str, wanted: &Value) -> Option<Value> {
        let fits = |(signal, value): &(String, Value)| signal == name && cells::matches(value, wanted);
        let at = self.head.signals.iter().position(fits)?;
        Some(self.head.signals.remove(at).1)
    }

    /// The next number of 64 bits. The instance's seed and the number of its run determine the sequence.
    pub(crate) fn random(&mut self) -> u64 {
        self.drawn += 1;
        let seed = self.head.seed.wrapping_add(u64::from(self.head.run).wrapping_mul(RUN_STEP));
        let mut mixed = seed.wrapping_add(self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A text that no other await has: the same in every run and for every attempt, another one in a fork.
    pub(crate) fn idempotency_key(&self, number: u32) -> String {
        format!("{}/{}/{}.{number}/{:x}", self.world.id(), self.head.instance(), self.head.run, self.head.seed)
    }

    /// The failure of the code, for the record.
    pub(crate) fn failed(&self, error: &FunctionError) -> Failed {
        let message = match error.effect() {
            Some((effect, failed)) => format!("{effect}: {failed}"),
            None => error.to_string(),
        };
        Failed { code: error.code().to_owned(), message, r#await: self.newest }
    }

    /// The code ended, and not before all was asked for that is on record; and nothing was forgotten.
    fn check_end(&mut self, has_ended: bool, is_ok: bool) -> Result<(), FunctionError> {
        if has_ended && (self.delivered < self.ran_before || self.asked < self.recorded) {
            let number = (self.asked + 1).min(self.recorded);
            let recorded = self.entry(number).describe();
            return Err(self.diverge(number, &recorded, "nothing more: it ends"));
        }
        if self.is_check && self.asked < self.recorded {
            let recorded = self.entry(self.asked + 1).describe();
            return Err(self.diverge(self.asked + 1, &recorded, "nothing"));
        }
        let forgotten = self.asks.values().find(|slot| !slot.is_awaited.get() && !slot.is_detached.get());
        let Some(slot) = forgotten.filter(|_| has_ended && is_ok) else { return Ok(()) };
        let what = format!("await {} ({})", slot.number, self.entry(slot.number).describe());
        let message = format!(
            "{what} was asked for and nobody waits for it: write `.await` after it, or `ctx.detach(…)` around it"
        );
        Err(FunctionError::new("FUNCTION_AWAIT_MISSING", message))
    }
}

/// Runs the code as far as it comes, and says what it gave back if it ended.
pub(crate) fn execute(run: &Shared, mut code: Code) -> Option<Result<Returned, FunctionError>> {
    let mut context = Context::from_waker(Waker::noop());
    let outcome = loop {
        let before = run.borrow().changes;
        if let Poll::Ready(outcome) = code.as_mut().poll(&mut context) {
            break Some(outcome);
        }
        let is_diverged = run.borrow().diverged.is_some();
        if !is_diverged && run.borrow().changes != before {
            continue;
        }
        if is_diverged || !run.borrow_mut().deliver() {
            break None;
        }
    };
    let mut run = run.borrow_mut();
    let is_ok = outcome.as_ref().is_some_and(Result::is_ok);
    let checked = if run.diverged.is_none() { run.check_end(outcome.is_some(), is_ok) } else { Ok(()) };
    run.is_over = true;
    match checked {
        Err(error) if outcome.is_some() => Some(Err(error)),
        _ => outcome,
    }
}

fn failure(entry: &Entry) -> FunctionError {
    let error: EffectError =
        serde_json::from_value(entry.value.clone()).unwrap_or_else(|error| EffectError::new("", error.to_string()));
    if entry.kind == "effect" && !error.code.starts_with("FUNCTION_") {
        return FunctionError::of_effect(&entry.name, error);
    }
    FunctionError::new(error.code, error.reason)
}
