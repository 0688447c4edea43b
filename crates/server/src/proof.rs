//! The reports of a verification and of a rehearsal.

use crate::api::verify::RehearsalOf;
use mundi_kernel::verify::Verified;
use mundi_model::{Height, WorldId};
use mundi_runtime::{
    bundle,
    control::{Rehearsed, WorldProof},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The report of a rehearsal over a bundle, in the form that the API has for one over a world.
pub fn rehearsal_of_bundle(header: &bundle::Header, done: Rehearsed) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(RehearsalOf::new(header.world, header.name.clone(), done))
}

/// A world whose whole history was replayed, from genesis and from its baseline, with the same result. Of a bundle, `unproven` names what the
/// exporter says and no record proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProofReport {
    pub world: String,
    /// The height after the last record that was proven.
    pub head: u64,
    /// The hash of that record.
    pub chain: String,
    /// The running hash over all outcomes.
    pub digest: String,
    /// The hash of the world at the head: its snapshot, had it been taken there.
    pub state: String,
    pub records: u64,
    /// Effects that it asked for.
    pub intents: u64,
    /// Terminal receipts, each the only one of its intent.
    pub receipts: u64,
    pub open_intents: u64,
    /// Snapshots that the history gives, byte for byte.
    pub snapshots: u64,
    /// Objects that they need, all there.
    pub snapshot_objects: u64,
    /// Where the second replay began.
    pub baseline: u64,
    /// How often its history branched.
    pub forks: u64,
    /// Of a bundle: its parts that no record proves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unproven: Vec<String>,
}

impl ProofReport {
    /// Of a world on the server.
    pub fn of_world(world: WorldId, proof: &WorldProof) -> Self {
        Self::new(world, &proof.from_genesis, proof.baseline, proof.snapshot_objects)
    }

    /// Of a bundle.
    pub fn of_bundle(world: WorldId, proof: &bundle::Proof) -> Self {
        let unproven = proof.unproven.iter().map(|part| (*part).to_owned()).collect();
        Self { unproven, ..Self::new(world, &proof.from_genesis, proof.baseline, proof.snapshot_objects) }
    }

    fn new(world: WorldId, proven: &Verified, baseline: Height, snapshot_objects: u64) -> Self {
        let counted = proven.counted;
        Self {
            world: world.to_string(),
            head: proven.head.get(),
            chain: proven.chain.to_string(),
            digest: proven.digest.to_string(),
            state: proven.state.note.snapshot.to_string(),
            records: counted.records,
            intents: counted.intents,
            receipts: counted.receipts,
            open_intents: proven.open_intents,
            snapshots: counted.snapshots,
            snapshot_objects,
            baseline: baseline.get(),
            forks: counted.forks,
            unproven: Vec::new(),
        }
    }
}
