//! The queue of components that wait for the compiler: universes alternate, and an entry is a hash, not the code.

use mundi_kernel::loader::CodeSource;
use mundi_model::{Hash, UniverseId, limits};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// A component that waits.
pub(crate) enum Queued {
    /// Its code is read when its turn comes.
    InStore { program: Hash, source: CodeSource },
    /// Its code is nowhere else.
    AtHand { program: Hash, code: Arc<[u8]> },
}

impl Queued {
    pub(crate) fn program(&self) -> Hash {
        match self {
            Self::InStore { program, .. } | Self::AtHand { program, .. } => *program,
        }
    }

    /// The code, if it can be read and is what was asked for.
    pub(crate) fn code(self) -> Option<Arc<[u8]>> {
        match self {
            Self::InStore { program, source } => source(program).filter(|code| Hash::of(code) == program),
            Self::AtHand { code, .. } => Some(code),
        }
    }

    /// The bytes that it keeps in memory.
    fn bytes(&self) -> usize {
        match self {
            Self::InStore { .. } => 0,
            Self::AtHand { code, .. } => code.len(),
        }
    }
}

/// The queue. One component of a universe is compiled at a time, so that each universe waits for its own.
#[derive(Default)]
pub(crate) struct CompileQueue {
    waiting: BTreeMap<UniverseId, VecDeque<Queued>>,
    /// Universes with something that waits, in the order of their turns.
    turns: VecDeque<UniverseId>,
    compiling: BTreeSet<UniverseId>,
    len: usize,
    bytes: usize,
}

impl CompileQueue {
    /// Says whether there was room. Whoever finds none comes again.
    pub(crate) fn push(&mut self, universe: UniverseId, queued: Queued) -> bool {
        let bytes = self.bytes.saturating_add(queued.bytes());
        let own = self.waiting.get(&universe).map_or(0, VecDeque::len);
        let has_room = self.len < limits::COMPONENTS_QUEUED_MAX
            && own < limits::COMPONENTS_QUEUED_OF_UNIVERSE_MAX
            && (bytes <= limits::COMPONENTS_QUEUED_BYTES_MAX || self.bytes == 0);
        if !has_room {
            return false;
        }
        let queue = self.waiting.entry(universe).or_default();
        if queue.is_empty() {
            self.turns.push_back(universe);
        }
        queue.push_back(queued);
        self.len += 1;
        self.bytes = bytes;
        true
    }

    /// The next component, of a universe that has none in progress. [`done`](Self::done) follows.
    pub(crate) fn pop(&mut self) -> Option<(UniverseId, Queued)> {
        let place = self.turns.iter().position(|universe| !self.compiling.contains(universe))?;
        let universe = self.turns.remove(place)?;
        let queue = self.waiting.get_mut(&universe)?;
        let queued = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&universe);
        } else {
            self.turns.push_back(universe);
        }
        self.len -= 1;
        self.bytes -= queued.bytes();
        self.compiling.insert(universe);
        Some((universe, queued))
    }

    pub(crate) fn done(&mut self, universe: UniverseId) {
        self.compiling.remove(&universe);
    }

    /// Components of its universe that are compiled before this one, or would be if it came now.
    pub(crate) fn ahead(&self, universe: UniverseId, program: &Hash) -> usize {
        let Some(queue) = self.waiting.get(&universe) else { return 0 };
        queue.iter().position(|queued| queued.program() == *program).unwrap_or(queue.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn universe(number: u8) -> UniverseId {
        UniverseId::from_bytes([number; UniverseId::LEN])
    }

    fn at_hand(text: &str) -> Queued {
        Queued::AtHand { program: Hash::of(text.as_bytes()), code: text.as_bytes().into() }
    }

    #[test]
    fn universes_take_turns_and_have_one_component_under_way_each() {
        let mut queue = CompileQueue::default();
        for text in ["a", "b", "c"] {
            assert!(queue.push(universe(1), at_hand(text)));
        }
        assert!(queue.push(universe(2), at_hand("d")));
        assert_eq!(queue.ahead(universe(1), &Hash::of(b"c")), 2);
        let mut next = || queue.pop().map(|(of, queued)| (of, queued.program()));
        assert_eq!(next(), Some((universe(1), Hash::of(b"a"))));
        assert_eq!(next(), Some((universe(2), Hash::of(b"d"))), "the other universe does not wait for b and c");
        assert_eq!(next(), None, "b waits until a is done");
        queue.done(universe(1));
        assert_eq!(queue.pop().map(|(of, queued)| (of, queued.program())), Some((universe(1), Hash::of(b"b"))));
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_in_bytes() {
        let mut queue = CompileQueue::default();
        let large = vec![0; limits::COMPONENTS_QUEUED_BYTES_MAX];
        let large = Queued::AtHand { program: Hash::of(&large), code: large.into() };
        assert!(queue.push(universe(1), large));
        assert!(!queue.push(universe(2), at_hand("one byte too many")));
        assert!(queue.pop().is_some());
        for number in 0..limits::COMPONENTS_QUEUED_OF_UNIVERSE_MAX {
            assert!(queue.push(universe(1), at_hand(&number.to_string())));
        }
        assert!(!queue.push(universe(1), at_hand("one too many")));
        assert!(queue.push(universe(2), at_hand("the other universe has room")));
    }
}
