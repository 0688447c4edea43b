//! What a test world is between two steps, and how a step reaches it.

use super::{Intent, Step, Timer};
use std::{cell::RefCell, collections::BTreeMap};

#[derive(Clone)]
pub(crate) struct State {
    pub(crate) cells: BTreeMap<String, Vec<u8>>,
    pub(crate) intents: BTreeMap<String, Intent>,
    pub(crate) timers: BTreeMap<String, Timer>,
    pub(crate) now_ns: u64,
    pub(crate) height: u64,
    pub(crate) drawn: u64,
    pub(crate) emitted: u32,
    /// Of the event that is being handled.
    pub(crate) headers: Vec<(String, String)>,
    /// What the step under way did.
    pub(crate) step: Step,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            cells: BTreeMap::new(),
            intents: BTreeMap::new(),
            timers: BTreeMap::new(),
            now_ns: 1_000_000_000,
            height: 0,
            drawn: 0,
            emitted: 0,
            headers: Vec::new(),
            step: Step::default(),
        }
    }

    /// The next step begins; says its place in the inbox.
    pub(crate) fn begin(&mut self) -> String {
        self.height += 1;
        self.emitted = 0;
        self.drawn = 0;
        format!("s_{:024x}", self.height)
    }
}

thread_local! {
    static LENT: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// Runs a step on a state, and gives the state back.
pub(crate) fn lend<R>(state: State, run: impl FnOnce() -> R) -> (State, R) {
    LENT.set(Some(state));
    let result = run();
    let state = LENT.take().expect("it was lent above, and nobody else takes it");
    (state, result)
}

/// The state that is on loan.
pub(crate) fn with<R>(use_it: impl FnOnce(&mut State) -> R) -> R {
    LENT.with_borrow_mut(|state| use_it(state.as_mut().expect("a world is only there while a step runs")))
}
