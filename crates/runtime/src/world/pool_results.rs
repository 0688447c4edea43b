//! Counts the answers of pools where their turns are committed: each command is counted once, whoever sent it by whatever way.

use crate::metrics::Metrics;
use mundi_kernel::{lease_kernel, manifest::CompiledManifest, registry::native_descriptor};
use mundi_model::{
    Hash, Value, cbor,
    record::{Payload, ReplyOutcome},
};
use std::sync::LazyLock;

static POOL_PROGRAM: LazyLock<Hash> =
    LazyLock::new(|| Hash::of(native_descriptor(lease_kernel::NAME, lease_kernel::VERSION).as_bytes()));

pub(crate) fn is_pool(manifest: &CompiledManifest) -> bool {
    manifest.manifest.program == *POOL_PROGRAM
}

/// Counts the result codes that a pool answered.
pub(super) fn pool_results<'a>(outcomes: impl Iterator<Item = &'a ReplyOutcome>, metrics: &Metrics) {
    for outcome in outcomes {
        let ReplyOutcome::Ok(Payload::Inline(bytes)) = outcome else { continue };
        let Ok(Value::Map(fields)) = cbor::decode(bytes) else { continue };
        let Some(Value::Text(result)) = fields.get("result") else { continue };
        let known = lease_kernel::result::ResultCode::ALL.iter().find(|known| known.as_str() == result);
        known.into_iter().for_each(|known| metrics.count_pool_result(known.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_codes_are_counted_and_what_is_none_is_not() {
        let answer = |result: &str| {
            let fields = [("result".to_owned(), Value::Text(result.to_owned()))];
            ReplyOutcome::Ok(Payload::Inline(cbor::encode(&Value::Map(fields.into()))))
        };
        let refused = ReplyOutcome::Failed("X".into(), "why".into(), None);
        let metrics = Metrics::default();
        let outcomes = [answer("ok"), answer("stale_epoch"), answer("ok"), answer("no code"), refused];
        pool_results(outcomes.iter(), &metrics);
        assert_eq!(metrics.pool_results(), [("ok", 2), ("stale_epoch", 1)]);
    }
}
