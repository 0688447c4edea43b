//! Pools under faults: no two authorities, no early reuse; and each planted bug of the lease kernel and of watchers is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_model::mutants::{Mutant, plant};
use mundi_sim::{Faults, run_pool_seed, run_watched_pool_seed};

/// How many seeds a planted bug may survive.
const SEEDS_MAX: u64 = 60;

fn faults() -> Faults {
    "latency,lost-replies,late-commits,conflicts,partitions,crashes,pauses,clock-skew,clock-jumps,churn,tiny-limits"
        .parse()
        .unwrap()
}

/// More with `MUNDI_POOL_SEEDS`.
#[test]
fn seeds_keep_every_promise_of_pools() {
    let seeds = std::env::var("MUNDI_POOL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let mut reservations = 0;
    for seed in 0..seeds {
        let tally = run_pool_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        reservations += tally.reservations;
    }
    assert!(reservations > 5 * seeds, "the pools were hardly used: {reservations} in {seeds} seeds");
}

/// One process for all: what is planted is planted in the process.
#[test]
fn every_planted_bug_of_pools_is_found() {
    for mutant in Mutant::OF_POOLS {
        plant(Some(mutant));
        let found =
            (0..SEEDS_MAX).find_map(|seed| run_pool_seed(seed, &Faults::none()).err().map(|failure| (seed, failure)));
        plant(None);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS_MAX} seeds"));
        assert_eq!(failure.checker, "pools", "{mutant:?}, seed {seed}: {failure}");
        println!("{mutant:?}: seed {seed}: {failure}");
    }
    for mutant in Mutant::OF_WATCHERS {
        plant(Some(mutant));
        let jumps: Faults = "clock-jumps".parse().unwrap();
        let found =
            (0..SEEDS_MAX).find_map(|seed| run_watched_pool_seed(seed, &jumps).err().map(|failure| (seed, failure)));
        plant(None);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS_MAX} seeds"));
        assert_eq!(failure.checker, "watches", "{mutant:?}, seed {seed}: {failure}");
        println!("{mutant:?}: seed {seed}: {failure}");
    }
}

/// Two watchers at once, which crash, stand still, are cut off and have clocks that jump. More with `MUNDI_POOL_SEEDS`.
#[test]
fn watchers_never_reclaim_early_and_reclaim_in_the_end() {
    let seeds = std::env::var("MUNDI_POOL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let mut reclaims = 0;
    for seed in 0..seeds {
        let tally = run_watched_pool_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        reclaims += tally.reclaims;
    }
    assert!(reclaims > seeds, "the watchers hardly did anything: {reclaims} in {seeds} seeds");
}
