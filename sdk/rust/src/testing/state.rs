//! The state of a test world between two steps, and the access of a step to it.

use super::{Intent, Step, Timer, meter::Meter, offer::Offer};
use crate::Failure;
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
};

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) offer: Rc<Offer>,
    pub(crate) cells: BTreeMap<String, Vec<u8>>,
    pub(crate) intents: BTreeMap<String, Intent>,
    /// How many intents were opened before the one with this label, and in all.
    pub(crate) ages: BTreeMap<String, u64>,
    pub(crate) opened: u64,
    pub(crate) timers: BTreeMap<String, Timer>,
    /// Labels of effects that were answered or withdrawn.
    pub(crate) closed: BTreeSet<String>,
    pub(crate) now_ns: u64,
    pub(crate) height: u64,
    pub(crate) drawn: u64,
    pub(crate) emitted: u32,
    /// Of the event that is being handled.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) meter: Meter,
    /// The failure that ended the step: later calls of the program have no effect.
    fault: Option<Failure>,
    /// The outputs of the step under way.
    pub(crate) step: Step,
}

impl State {
    pub(crate) fn new(offer: Offer) -> Self {
        Self {
            meter: Meter::new(&offer.limits),
            offer: Rc::new(offer),
            cells: BTreeMap::new(),
            intents: BTreeMap::new(),
            ages: BTreeMap::new(),
            opened: 0,
            timers: BTreeMap::new(),
            closed: BTreeSet::new(),
            now_ns: 1_000_000_000,
            height: 0,
            drawn: 0,
            emitted: 0,
            headers: Vec::new(),
            fault: None,
            step: Step::default(),
        }
    }

    /// The next step begins; says its place in the inbox.
    pub(crate) fn begin(&mut self) -> String {
        self.height += 1;
        self.emitted = 0;
        self.drawn = 0;
        self.meter = Meter::new(&self.offer.limits);
        format!("s_{:024x}", self.height)
    }
}

thread_local! {
    static LENT: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Runs a step on a state, and gives the state back. What ended the step in the middle is its failure, as on a server.
pub(crate) fn lend<R>(state: State, run: impl FnOnce() -> Result<R, Failure>) -> (State, Result<R, Failure>) {
    LENT.set(Some(state));
    let result = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        Err(match panic.downcast::<Failure>() {
            Ok(refused) => *refused,
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                Failure::coded("PROGRAM_TRAPPED", text.unwrap_or_else(|| "a panic without a text".to_owned()))
            }
        })
    });
    let mut state = LENT.take().expect("it was lent above, and nobody else takes it");
    let result = state.fault.take().map_or(result, Err);
    (state, result)
}

/// The state that is on loan. A call that is refused does not return: the step is over.
pub(crate) fn with<R>(use_it: impl FnOnce(&mut State) -> Result<R, Failure>) -> R {
    let used = LENT.with_borrow_mut(|state| {
        let state = state.as_mut().expect("a world is only there while a step runs");
        let used = state.fault.clone().map_or_else(|| use_it(state), Err);
        state.fault = used.as_ref().err().cloned();
        used
    });
    used.unwrap_or_else(|refused| resume_unwind(Box::new(refused)))
}
