//! The terms of an effect, from its manifest to its queue item.

use mundi_kernel::manifest::{EffectPolicies, Rate, Retry};
use mundi_store::keyspace::effect_pending::{EffectTerms, RateTerms};

/// The manifest's policies; the store's defaults where it says nothing.
pub(crate) fn effect_terms(policies: &EffectPolicies) -> EffectTerms {
    let usual = EffectTerms::default();
    let retry = policies.retry.unwrap_or(Retry {
        attempts_max: usual.attempts_max,
        backoff_ms: usual.backoff_ms,
        backoff_ms_max: usual.backoff_ms_max,
    });
    EffectTerms {
        timeout_ms: policies.timeout_ms.unwrap_or(usual.timeout_ms),
        attempts_max: retry.attempts_max,
        backoff_ms: retry.backoff_ms,
        backoff_ms_max: retry.backoff_ms_max,
        rate: policies.rate.map(|Rate { per_second, burst }| RateTerms { per_second, burst }),
        children_active_max: policies.children_active_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_manifest_says_holds_and_the_rest_is_as_usual() {
        let retry = Some(Retry { attempts_max: 9, backoff_ms: 7, backoff_ms_max: 8 });
        let rate = Some(Rate { per_second: 3, burst: 4 });
        let terms = effect_terms(&EffectPolicies { timeout_ms: Some(5), retry, rate, children_active_max: Some(3) });
        let rate = Some(RateTerms { per_second: 3, burst: 4 });
        let expected = EffectTerms {
            timeout_ms: 5,
            attempts_max: 9,
            backoff_ms: 7,
            backoff_ms_max: 8,
            rate,
            children_active_max: Some(3),
        };
        assert_eq!(terms, expected);
        assert_eq!(effect_terms(&EffectPolicies::default()), EffectTerms::default());
    }
}
