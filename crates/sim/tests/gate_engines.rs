//! The artifacts of the stop gate are the same bytes on every engine: in memory, embedded, and on a PostgreSQL server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use mundi_engine::{
    Embedded, Postgres,
    postgres::{
        Options,
        testing::{fresh_schema, shared},
    },
};
use mundi_model::json::to_canonical;
use mundi_sim::gate_fixtures::{Scenario, artifact, artifact_on};

const SEEDS: u64 = 4;

#[test]
fn an_artifact_is_byte_identical_on_every_engine() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for scenario in Scenario::ALL {
        for seed in 0..SEEDS {
            let in_memory = to_canonical(&artifact(scenario, seed).unwrap());
            let folder = tempfile::tempdir().unwrap();
            let embedded = Embedded::open(folder.path()).unwrap();
            let on_disk = runtime.block_on(artifact_on(embedded, scenario, seed)).unwrap();
            assert_eq!(to_canonical(&on_disk), in_memory, "embedded, {scenario:?} {seed}");
            let options = Options { schema: fresh_schema(), ..Options::default() };
            let postgres = runtime.block_on(Postgres::open_with(shared().url(), options)).unwrap();
            let in_tables = runtime.block_on(artifact_on(postgres, scenario, seed)).unwrap();
            assert_eq!(to_canonical(&in_tables), in_memory, "PostgreSQL, {scenario:?} {seed}");
        }
    }
}
