//! What every change must survive. Longer: `cargo run --release -p mundi-sim -- --seeds 20000 --jobs 4`.

use mundi_sim::{Faults, Summary, run_seed};

/// Enough for about half a minute without optimization.
const SEEDS: u64 = 60;

#[test]
fn every_promise_is_kept_under_every_kind_of_fault() {
    let seeds = std::env::var("MUNDI_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut summary = Summary::default();
    for seed in 0..seeds {
        let outcome = run_seed(seed, &Faults::all(), false);
        summary.add(&outcome);
        assert_eq!(outcome.failure, None, "replay: cargo run -p mundi-sim -- --seed {seed}");
    }
    eprintln!("{}", summary.progress());
}

#[test]
fn without_faults_nothing_fails() {
    for seed in 0..4 {
        let outcome = run_seed(seed, &Faults::none(), false);
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert_eq!((outcome.tally.crashes, outcome.tally.unknown), (0, 0));
    }
}
