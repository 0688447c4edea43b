//! Bundles forged with valid checksums: every forged field is refused, means nothing, or is reported as unproven. The fuzzer continues from here
//! (`fuzz/fuzz_targets/bundle.rs`).

use mundi_sim::forgery::{GOOD, Verdict, check, forge};
use mundi_store::testing::Rng;
use std::collections::BTreeMap;

/// Enough for a few seconds without optimization.
const FORGERIES: u64 = 3_000;

#[test]
fn the_bundle_that_is_forged_proves_itself() {
    assert_eq!(check(&GOOD), Verdict::SameMeaning);
}

#[test]
fn a_forged_bundle_is_refused_or_means_the_same_or_says_that_it_is_another_history() {
    let forgeries = std::env::var("MUNDI_FORGERIES").ok().and_then(|text| text.parse().ok()).unwrap_or(FORGERIES);
    let (mut rng, mut verdicts) = (Rng::new(1), BTreeMap::<Verdict, u64>::new());
    for _ in 0..forgeries {
        let choices = rng.bytes(24);
        let forged = forge(&choices);
        let verdict = std::panic::catch_unwind(|| check(&forged));
        assert!(verdict.is_ok(), "believed: {choices:?}");
        verdict.into_iter().for_each(|verdict| *verdicts.entry(verdict).or_default() += 1);
    }
    eprintln!("{verdicts:?}");
    assert!(verdicts.contains_key(&Verdict::Unproven), "no name, no label and no child was forged: {verdicts:?}");
    assert!(verdicts.get(&Verdict::Refused).is_some_and(|refused| *refused > forgeries / 2), "{verdicts:?}");
}
