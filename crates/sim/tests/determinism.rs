//! The first thing to know about a simulator: the same seed does the same.

use mundi_sim::{Faults, run_seed};

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_another_seed_another_one() {
    let mut hashes = std::collections::BTreeSet::new();
    for seed in 0..8 {
        let first = run_seed(seed, &Faults::all(), true);
        let second = run_seed(seed, &Faults::all(), true);
        let differs = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((first.trace_hash, first.polls), (second.trace_hash, second.polls), "seed {seed}");
        hashes.insert(first.trace_hash);
    }
    assert_eq!(hashes.len(), 8);
}
