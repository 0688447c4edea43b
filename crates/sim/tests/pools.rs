//! Pools under faults: no two authorities, no early reuse, no effect under a lease that ended; and each planted bug of the lease kernel, of
//! claims of effects and of watchers is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_model::mutants::{Mutant, plant};
use mundi_sim::{Faults, LeasedTally, run_leased_effects_seed, run_pool_seed, run_watched_pool_seed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many seeds a planted bug may survive.
const SEEDS_MAX: u64 = 60;

/// Bugs are planted in the process: where tests share one, no other test runs meanwhile.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn faults() -> Faults {
    "latency,lost-replies,late-commits,conflicts,partitions,crashes,pauses,clock-skew,clock-jumps,churn,tiny-limits"
        .parse()
        .unwrap()
}

/// More with `MUNDI_POOL_SEEDS`.
#[test]
fn seeds_keep_every_promise_of_pools() {
    let _alone = alone();
    let seeds = std::env::var("MUNDI_POOL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let mut reservations = 0;
    for seed in 0..seeds {
        let tally = run_pool_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        reservations += tally.reservations;
    }
    assert!(reservations > 5 * seeds, "the pools were hardly used: {reservations} in {seeds} seeds");
}

#[test]
fn every_planted_bug_of_pools_is_found() {
    let _alone = alone();
    for mutant in Mutant::OF_POOLS {
        plant(Some(mutant));
        let found =
            (0..SEEDS_MAX).find_map(|seed| run_pool_seed(seed, &Faults::none()).err().map(|failure| (seed, failure)));
        plant(None);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS_MAX} seeds"));
        assert_eq!(failure.checker, "pools", "{mutant:?}, seed {seed}: {failure}");
        println!("{mutant:?}: seed {seed}: {failure}");
    }
    for mutant in Mutant::OF_LEASED_EFFECTS {
        plant(Some(mutant));
        let delays: Faults = "latency".parse().unwrap();
        let found =
            (0..SEEDS_MAX).find_map(|seed| run_leased_effects_seed(seed, &delays).err().map(|failure| (seed, failure)));
        plant(None);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS_MAX} seeds"));
        assert_eq!(failure.checker, "leased_effects", "{mutant:?}, seed {seed}: {failure}");
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

/// Worlds ask for effects under leases that they hold, that end meanwhile, or that they never had. More with `MUNDI_POOL_SEEDS`.
#[test]
fn effects_begin_under_leases_that_are_held_and_under_no_other() {
    let _alone = alone();
    let seeds = std::env::var("MUNDI_POOL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut all = LeasedTally::default();
    for seed in 0..seeds {
        let tally = run_leased_effects_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        all.begun += tally.begun;
        all.refused += tally.refused;
        all.refused_later += tally.refused_later;
    }
    assert!(all.begun > 2 * seeds && all.refused > 5 * seeds && all.refused_later > 0, "hardly any: {all:?}");
}

/// Two watchers at once, which crash, stand still, are cut off and have clocks that jump. More with `MUNDI_POOL_SEEDS`.
#[test]
fn watchers_never_reclaim_early_and_reclaim_in_the_end() {
    let _alone = alone();
    let seeds = std::env::var("MUNDI_POOL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let mut reclaims = 0;
    for seed in 0..seeds {
        let tally = run_watched_pool_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        reclaims += tally.reclaims;
    }
    assert!(reclaims > seeds, "the watchers hardly did anything: {reclaims} in {seeds} seeds");
}
