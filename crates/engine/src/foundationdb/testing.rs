//! A real cluster for tests. Nobody starts one: the variable `MUNDI_TEST_FDB` names its cluster file.

use std::{
    env, process,
    sync::atomic::{AtomicU32, Ordering},
};

/// The variable that names the file of the cluster. What the tests write there stays.
pub const CLUSTER_FILE: &str = "MUNDI_TEST_FDB";

/// The URL of a deployment of its own in the cluster.
///
/// # Panics
///
/// If there is no cluster: a test that was asked to run on one must not pass without.
pub fn fresh_url() -> String {
    url_of(&fresh_prefix())
}

/// The URL of a deployment, for processes that share it.
pub fn url_of(prefix: &str) -> String {
    match env::var(CLUSTER_FILE) {
        Ok(file) => format!("foundationdb://{file}?prefix={prefix}"),
        Err(_) => panic!("{CLUSTER_FILE} names no cluster file: these tests need a cluster"),
    }
}

/// A name that no other test of this machine has.
pub fn fresh_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, number) = (process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("test-{process}-{number}-{:08x}", random())
}

/// A process id comes again: a number that does not.
fn random() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    let hash = std::collections::hash_map::RandomState::default().build_hasher().finish();
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}
