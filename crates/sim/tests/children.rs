//! Children under faults: started at most once, ended exactly once, recovered in order; and each planted bug is found.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_model::mutants::{Mutant, plant};
use mundi_sim::{Faults, run_child_seed};

/// How many seeds a planted bug may survive.
const SEEDS_MAX: u64 = 60;

fn faults() -> Faults {
    "latency,lost-replies,late-commits,conflicts,partitions,crashes,pauses,clock-skew,clock-jumps,churn,tiny-limits"
        .parse()
        .unwrap()
}

/// The rule that finds a planted bug, by a part of what the checker says: one of these.
fn rules(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::StartUnrecorded => &["events, and has"],
        Mutant::ChildLeaseUnchecked => &["was started without its lease", "was started under two leases"],
        Mutant::DispatchBeforeRecovery => &["was dispatched before one of the same parent was recovered"],
        Mutant::RecoveryUnordered => &["was recovered after"],
        Mutant::CancelLineageLost => &["its end does not name the request"],
        Mutant::BudgetUnchecked => &["were spent of"],
        Mutant::ReportRepeated => &["its executor said at most"],
        Mutant::CallKeyShared => &["has the key of another call"],
        Mutant::ChildWorldMissing => &["and that its world exists is false"],
        Mutant::ChildWorldRecovered => &["is a world, and recovery ended it"],
        Mutant::ChildWorldUntold => &["was cancelled, and was not told"],
        Mutant::PhaseLowered => &["went from started back to leased"],
        other => panic!("{other:?} is not of children"),
    }
}

/// More with `MUNDI_CHILD_SEEDS`. One test, because what is planted is planted in the process.
#[test]
fn seeds_keep_every_promise_of_children_and_every_planted_bug_is_found() {
    let seeds = std::env::var("MUNDI_CHILD_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let (mut starts, mut recovered) = (0, 0);
    for seed in 0..seeds {
        let tally = run_child_seed(seed, &faults()).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        (starts, recovered) = (starts + tally.starts, recovered + tally.recovered);
    }
    assert!(starts > 2 * seeds && recovered > seeds / 2, "{starts} starts, {recovered} recovered in {seeds} seeds");

    for mutant in Mutant::OF_CHILDREN {
        plant(Some(mutant));
        let found =
            (0..SEEDS_MAX).find_map(|seed| run_child_seed(seed, &Faults::none()).err().map(|failure| (seed, failure)));
        plant(None);
        let (seed, failure) = found.unwrap_or_else(|| panic!("{mutant:?} survived {SEEDS_MAX} seeds"));
        assert_eq!(failure.checker, "children", "{mutant:?}, seed {seed}: {failure}");
        let found = failure.to_string();
        assert!(rules(mutant).iter().any(|rule| found.contains(rule)), "{mutant:?}, seed {seed}: {found}");
        println!("{mutant:?}: seed {seed}: {failure}");
    }
}
