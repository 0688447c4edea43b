//! Looks for the order that explains a history: a search in the manner of Wing and Gong, which remembers the
//! places that led nowhere.
//!
//! Stamps make it quick, and stricter: writers whose stamp is known have only one possible order. What is left
//! to find is the place of readers, and of writers whose result is unknown.

use super::record::{Event, Fate, KEYS};
use crate::conformance::tools::shown_value;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// The value of each key.
type State = [Option<Bytes>; KEYS.len()];

/// The longest beginning of an order that was found, and the state after it.
#[derive(Debug)]
pub(super) struct Stuck {
    longest: Vec<usize>,
    state: State,
}

/// An order of the events that explains all they saw, as indexes into the history.
pub(super) fn order(history: &[Event]) -> Result<Vec<usize>, Stuck> {
    let mut search = Search::new(history);
    if search.go_on(State::default()) { Ok(search.placed) } else { Err(search.stuck) }
}

struct Search<'a> {
    history: &'a [Event],
    /// Not placed yet.
    waiting: BTreeSet<usize>,
    placed: Vec<usize>,
    /// The calls that were still waiting, and the state, at places that lead nowhere.
    hopeless: BTreeSet<(BTreeSet<usize>, State)>,
    stuck: Stuck,
}

impl<'a> Search<'a> {
    fn new(history: &'a [Event]) -> Self {
        let seen: BTreeSet<&Bytes> =
            history.iter().flat_map(|event| event.reads.iter().filter_map(|(_, value)| value.as_ref())).collect();
        // A writer with an unknown result that nobody saw may as well not have happened: leaving it out of an order
        // spoils no read. One that was seen did happen.
        let happened =
            |event: &Event| event.fate != Fate::Unknown || event.writes.iter().any(|(_, value)| seen.contains(value));
        let waiting = (0..history.len()).filter(|index| happened(&history[*index])).collect();
        let stuck = Stuck { longest: Vec::new(), state: State::default() };
        Self { history, waiting, placed: Vec::new(), hopeless: BTreeSet::new(), stuck }
    }

    /// Places all that waits, from this state on. Its depth is the length of the history, which is short.
    fn go_on(&mut self, state: State) -> bool {
        if self.waiting.is_empty() {
            return true;
        }
        if self.placed.len() >= self.stuck.longest.len() {
            self.stuck = Stuck { longest: self.placed.clone(), state: state.clone() };
        }
        if self.hopeless.contains(&(self.waiting.clone(), state.clone())) {
            return false;
        }
        for next in self.candidates(&state) {
            self.waiting.remove(&next);
            self.placed.push(next);
            if self.go_on(after(&self.history[next], &state)) {
                return true;
            }
            self.placed.pop();
            self.waiting.insert(next);
        }
        self.hopeless.insert((self.waiting.clone(), state));
        false
    }

    /// The calls that may come next. A reader whose reads are true now may always be placed now: it changes nothing.
    fn candidates(&self, state: &State) -> Vec<usize> {
        let next_stamp = self.waiting.iter().filter_map(|index| stamp(&self.history[*index])).min();
        let first_answer = self.waiting.iter().map(|index| answered(&self.history[*index])).min();
        let mut candidates: Vec<usize> = self
            .waiting
            .iter()
            .copied()
            .filter(|index| {
                let event = &self.history[*index];
                let is_its_turn = stamp(event).is_none() || stamp(event) == next_stamp;
                is_its_turn && first_answer >= Some(event.called) && explains(state, event)
            })
            .collect();
        if let Some(reader) = candidates.iter().find(|index| self.history[**index].writes.is_empty()) {
            return vec![*reader];
        }
        candidates.sort_by_key(|index| stamp(&self.history[*index]).is_none());
        candidates
    }
}

fn stamp(event: &Event) -> Option<mundi_model::Stamp> {
    if let Fate::Applied(stamp) = event.fate { Some(stamp) } else { None }
}

/// A commit with an unknown result may be applied at any time after it was called.
fn answered(event: &Event) -> u64 {
    if event.fate == Fate::Unknown { u64::MAX } else { event.answered }
}

fn explains(state: &State, event: &Event) -> bool {
    event.reads.iter().all(|(key, value)| state[*key] == *value)
}

fn after(event: &Event, state: &State) -> State {
    let mut state = state.clone();
    for (key, value) in &event.writes {
        state[*key] = Some(value.clone());
    }
    state
}

/// The history, as far as an order was found, and what could not follow.
pub(super) fn explain(history: &[Event], stuck: &Stuck) -> String {
    let place: BTreeMap<usize, usize> =
        stuck.longest.iter().enumerate().map(|(place, index)| (*index, place)).collect();
    let tail = stuck.longest.iter().rev().take(8).rev().map(|index| format!("  {}", history[*index]));
    let left = (0..history.len())
        .filter(|index| !place.contains_key(index))
        .take(8)
        .map(|index| format!("  {}", history[index]));
    let state: Vec<String> = KEYS
        .iter()
        .zip(&stuck.state)
        .map(|(key, value)| format!("{}={}", key.escape_ascii(), shown_value(value.as_ref())))
        .collect();
    let (tail, left): (Vec<_>, Vec<_>) = (tail.collect(), left.collect());
    format!(
        "no order explains the history: {} of {} transactions can be placed, the last of them\n{}\nand with {} none of these can follow\n{}",
        stuck.longest.len(),
        history.len(),
        tail.join("\n"),
        state.join(" "),
        left.join("\n"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::Stamp;

    fn event(called: u64, answered: u64, fate: Fate) -> Event {
        Event { task: 0, called, answered, reads: Vec::new(), writes: Vec::new(), fate }
    }

    fn reader(called: u64, answered: u64, reads: &[(usize, Option<&'static str>)]) -> Event {
        let reads = reads.iter().map(|(key, value)| (*key, value.map(Bytes::from))).collect();
        Event { reads, ..event(called, answered, Fate::ReadOnly) }
    }

    fn writer(called: u64, answered: u64, key: usize, value: &'static str, fate: Fate) -> Event {
        Event { writes: vec![(key, Bytes::from(value))], ..event(called, answered, fate) }
    }

    fn applied(version: u64) -> Fate {
        Fate::Applied(Stamp::new(version, 0))
    }

    #[test]
    fn a_reader_beside_a_writer_may_see_either_state() {
        let write = writer(0, 3, 0, "1", applied(1));
        assert!(order(&[write.clone(), reader(1, 2, &[(0, None)])]).is_ok());
        assert!(order(&[write, reader(1, 2, &[(0, Some("1"))])]).is_ok());
    }

    #[test]
    fn a_reader_after_a_writer_must_see_it() {
        assert!(order(&[writer(0, 1, 0, "1", applied(1)), reader(2, 3, &[(0, None)])]).is_err());
    }

    #[test]
    fn two_readers_may_not_disagree_about_the_order_of_writers() {
        let history = [
            writer(0, 9, 0, "1", applied(1)),
            writer(0, 9, 1, "2", applied(2)),
            reader(1, 2, &[(0, Some("1")), (1, None)]),
            reader(3, 4, &[(0, None), (1, Some("2"))]),
        ];
        assert!(order(&history[..3]).is_ok());
        assert!(order(&history).is_err());
    }

    #[test]
    fn stamps_must_follow_real_time() {
        assert!(order(&[writer(0, 1, 0, "1", applied(2)), writer(2, 3, 0, "2", applied(1))]).is_err());
    }

    #[test]
    fn a_lost_update_has_no_order() {
        let update = |value, fate| Event { reads: vec![(0, None)], ..writer(0, 9, 0, value, fate) };
        assert!(order(&[update("1", applied(1)), update("2", applied(2))]).is_err());
    }

    #[test]
    fn an_unknown_commit_may_have_happened_later_or_never_but_not_before_its_call() {
        let unknown = writer(2, 3, 0, "u", Fate::Unknown);
        let (before, after) = (reader(0, 1, &[(0, Some("u"))]), reader(6, 7, &[(0, Some("u"))]));
        let between = reader(4, 5, &[(0, None)]);
        assert!(order(&[unknown.clone(), between.clone()]).is_ok());
        assert!(order(&[unknown.clone(), between, after]).is_ok());
        assert!(order(&[before, unknown]).is_err());
    }

    #[test]
    fn a_value_that_nobody_wrote_is_explained_by_nothing() {
        let history = [reader(0, 1, &[(0, Some("ghost"))])];
        let stuck = order(&history).unwrap_err();
        assert!(explain(&history, &stuck).contains("ghost"));
    }
}
