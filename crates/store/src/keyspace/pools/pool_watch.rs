//! `u/<u>/pools/watch/<name>`: the policy by which watchers look at a pool.
//!
//! Written and removed by `set_watch`, removed by `delete_pool`. Free: the last one who sets it is right. Only a pool that stands in the list of
//! pools has one: a fork or an imported copy of its worlds does not.

use crate::StoreError;
use crate::keyspace::{Family, by_name::by_name};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, watch::WatchPolicy};

by_name!(Family::PoolWatch, WatchPolicy);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use mundi_model::watch::WatchProbe;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_name(a in "[a-z0-9-]{1,16}", b in "[a-z0-9-]{1,16}") {
            laws::keys_sort_by_name(key, parse, &a, &b)?;
        }

        #[test]
        fn the_value_survives(holder_ended: bool, silent: Option<u64>, after: Option<u64>, url: String, n: u32, noise: Vec<u8>) {
            let probe = (n % 2 == 0).then_some(WatchProbe { url, failures_max: n, timeout_ms: n.into() });
            let policy = WatchPolicy { holder_ended, silent_after_ms: silent, probe, reclaim_after_ms: after };
            laws::value_survives(Family::PoolWatch, &policy, &noise)?;
        }
    }
}
