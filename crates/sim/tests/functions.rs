//! Durable functions under faults: each await ends once, in the order on record, and nothing is asked for again; each planted bug is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_sdk::functions::mutants::{Mutant, plant};
use mundi_sim::{Faults, run_function_seed};

/// How many seeds a planted bug may survive.
const SEEDS_MAX: u64 = 30;

fn faults() -> Faults {
    "latency,lost-replies,lost-requests,late-commits,conflicts,spurious-wakes,partitions,crashes,pauses,clock-skew,clock-jumps,late-objects,\
     missing-objects,lost-object-replies,churn,tiny-limits"
        .parse()
        .unwrap()
}

/// More with `MUNDI_FUNCTION_SEEDS`. One test, because what is planted is planted in the process.
#[test]
fn seeds_keep_every_promise_of_functions_and_every_planted_bug_is_found() {
    let seeds = std::env::var("MUNDI_FUNCTION_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let mut ended = 0;
    for seed in 0..seeds {
        let tally = run_function_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        ended += tally.ended;
    }
    assert!(ended > 2 * seeds, "hardly a function came to its end: {ended} in {seeds} seeds");

    for mutant in Mutant::ALL {
        plant(Some(mutant));
        let found = (0..SEEDS_MAX)
            .find_map(|seed| run_function_seed(seed, &Faults::none()).err().map(|failure| (seed, failure)));
        plant(None);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS_MAX} seeds"));
        assert_eq!(failure.checker, "functions", "{mutant:?}, seed {seed}: {failure}");
        println!("{mutant:?}: seed {seed}: {failure}");
    }
}
