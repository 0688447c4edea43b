//! The terms of an effect, from its manifest to its queue item.

use mundi_kernel::manifest::{EffectPolicies, Rate, Retry};
use mundi_store::keyspace::effect_pending::{EffectTerms, RateTerms};

/// How effects are tried again if neither their manifest nor a configuration says it.
pub fn usual_retry() -> Retry {
    let EffectTerms { attempts_max, backoff_ms, backoff_ms_max, .. } = EffectTerms::default();
    Retry { attempts_max, backoff_ms, backoff_ms_max }
}

/// The manifest's policies. Where it says nothing, `retry` holds, and the store's defaults for the rest.
pub(crate) fn effect_terms(policies: &EffectPolicies, retry: Retry) -> EffectTerms {
    let usual = EffectTerms::default();
    let retry = policies.retry.unwrap_or(retry);
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
        let policies = EffectPolicies { timeout_ms: Some(5), retry, rate, children_active_max: Some(3) };
        let terms = effect_terms(&policies, usual_retry());
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
        assert_eq!(effect_terms(&EffectPolicies::default(), usual_retry()), EffectTerms::default());
        let once = Retry { attempts_max: 1, backoff_ms: 2, backoff_ms_max: 3 };
        let expected = EffectTerms { attempts_max: 1, backoff_ms: 2, backoff_ms_max: 3, ..EffectTerms::default() };
        assert_eq!(effect_terms(&EffectPolicies::default(), once), expected);
    }
}
