//! Snapshots that hold nothing but their facts.

use crate::snapshot::{ReadSnapshot, SnapshotFacts};
use bytes::Bytes;
use minicbor::{Decode, Encode};
use mundi_model::{Hash, Height, IntentHash, cbor};

#[derive(Encode, Decode)]
struct Stored {
    #[n(0)]
    height: Height,
    #[n(1)]
    logical_time_ns: u64,
    #[n(2)]
    manifest: Hash,
    #[n(3)]
    roots: Vec<Hash>,
    #[n(4)]
    receipt_horizon: Option<Height>,
    #[n(5)]
    open_intents: Vec<(IntentHash, Height)>,
    #[n(6)]
    paused: bool,
}

/// Reads what [`PlainSnapshots::encode`] wrote.
#[derive(Debug, Clone, Copy)]
pub struct PlainSnapshots;

impl PlainSnapshots {
    pub fn encode(facts: &SnapshotFacts) -> Bytes {
        let SnapshotFacts { height, logical_time_ns, manifest, roots, receipt_horizon, open_intents, paused } =
            facts.clone();
        let stored = Stored { height, logical_time_ns, manifest, roots, receipt_horizon, open_intents, paused };
        cbor::encode(&stored).into()
    }
}

impl ReadSnapshot for PlainSnapshots {
    fn facts(&self, bytes: &[u8]) -> Result<SnapshotFacts, String> {
        let stored: Stored = cbor::decode(bytes).map_err(|error| error.to_string())?;
        let Stored { height, logical_time_ns, manifest, roots, receipt_horizon, open_intents, paused } = stored;
        Ok(SnapshotFacts { height, logical_time_ns, manifest, roots, receipt_horizon, open_intents, paused })
    }
}
