//! Each checker is proven by a mutant: a planted bug that the simulator must find.

use mundi_model::mutants::{Mutant, plant};
use mundi_sim::{Failure, Faults, run_seed};

/// How many seeds a planted bug may survive.
const SEEDS_MAX: u64 = 60;

/// The first seed that finds what is planted, and what it finds.
fn hunt() -> Option<(u64, Failure)> {
    let mut outcomes = (0..SEEDS_MAX).map(|seed| run_seed(seed, &Faults::all(), false));
    outcomes.find_map(|outcome| outcome.failure.map(|failure| (outcome.seed, failure)))
}

#[test]
fn every_planted_bug_is_found_and_none_is_found_where_none_was_planted() {
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        plant(Some(mutant));
        match hunt() {
            Some((seed, failure)) => eprintln!("{mutant:?}: seed {seed}, {failure}"),
            None => survivors.push(mutant),
        }
    }
    plant(None);
    assert!(survivors.is_empty(), "{SEEDS_MAX} seeds did not find {survivors:?}");
}
