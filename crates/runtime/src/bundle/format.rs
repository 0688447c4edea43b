//! The content of a bundle's frames. No length in them is trusted.

use minicbor::{Decode, Encode};
use mundi_model::{Hash, Height, Labels, UniverseId, WorldId, record::SnapshotNote};

/// The form of a world that had no children.
pub(super) const FORMAT: u8 = 1;
/// The form of a world whose children travel with it.
pub(super) const FORMAT_CHILDREN: u8 = 2;

/// The contents of a frame. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Header = 1,
    /// Small objects, several to a frame.
    Objects = 2,
    /// A large object; its bytes follow in frames of their own.
    Large = 3,
    Part = 4,
    Snapshots = 5,
    Records = 6,
    End = 7,
    /// Totals, counters and terminal children, behind the records.
    Children = 8,
}

impl Kind {
    pub(super) fn of(byte: u8) -> Option<Self> {
        let all = [Self::Header, Self::Objects, Self::Large, Self::Part, Self::Snapshots, Self::Records];
        all.into_iter().chain([Self::End, Self::Children]).find(|kind| *kind as u8 == byte)
    }
}

/// The origin of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    #[n(0)]
    pub format: u8,
    /// Where it lived when it was exported.
    #[n(1)]
    pub universe: UniverseId,
    #[n(2)]
    pub world: WorldId,
    /// The height after the last record.
    #[n(3)]
    pub head: Height,
    /// The hash of the last record.
    #[n(4)]
    pub chain: Hash,
    /// The worlds whose records these are, the oldest first and the world itself last.
    #[n(5)]
    pub lineage: Vec<Ancestor>,
    /// The snapshot that restore started from.
    #[n(6)]
    pub baseline: SnapshotNote,
    /// Its name there.
    #[n(7)]
    pub name: Option<String>,
    /// Its labels there.
    #[n(8)]
    pub labels: Option<Labels>,
}

/// From a height on, the records are this world's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Ancestor {
    #[n(0)]
    pub world: WorldId,
    #[n(1)]
    pub from: Height,
}

impl Header {
    /// Where the records begin that are of this world, and of no ancestor with another id.
    pub fn own_from(&self) -> Height {
        let others = self.lineage.iter().rposition(|ancestor| ancestor.world != self.world);
        self.lineage.get(others.map_or(0, |at| at + 1)).map_or(self.head, |ancestor| ancestor.from)
    }
}

/// A small object.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Packed {
    #[n(0)]
    pub(super) refs: Vec<Hash>,
    #[n(1)]
    #[cbor(with = "minicbor::bytes")]
    pub(super) bytes: Vec<u8>,
}

/// A large object.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct Large {
    #[n(0)]
    pub(super) hash: Hash,
    #[n(1)]
    pub(super) size: u64,
    #[n(2)]
    pub(super) refs: Vec<Hash>,
}

/// The canonical bytes of one record.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub(super) struct Sealed(
    #[cbor(with = "minicbor::bytes")]
    #[n(0)]
    pub(super) Vec<u8>,
);

/// The totals of a whole bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub(super) struct End {
    #[n(0)]
    pub(super) objects: u64,
    #[n(1)]
    pub(super) object_bytes: u64,
    #[n(2)]
    pub(super) records: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worlds_own_records_begin_after_the_last_ancestor_of_another_id() {
        let id = |byte| WorldId::from_bytes([byte; 16]);
        let baseline = SnapshotNote {
            snapshot: Hash::of(b""),
            height: Height::GENESIS,
            logical_time_ns: 0,
            receipt_horizon: None,
            manifest: Hash::of(b""),
            chain: Hash::of(b""),
        };
        let own_from = |lineage: &[(u8, u64)]| {
            let lineage = lineage.iter().map(|(world, from)| Ancestor { world: id(*world), from: Height::new(*from) });
            let (universe, head) = (UniverseId::from_bytes([9; 16]), Height::new(90));
            let (world, chain, baseline) = (id(1), Hash::of(b""), baseline.clone());
            let (lineage, name, labels) = (lineage.collect(), None, None);
            Header { format: FORMAT, universe, world, head, chain, lineage, baseline, name, labels }.own_from().get()
        };
        assert_eq!(own_from(&[(1, 0)]), 0);
        assert_eq!(own_from(&[(2, 0), (1, 7)]), 7);
        // It came home once: a branch of itself.
        assert_eq!(own_from(&[(2, 0), (1, 7), (1, 30)]), 7);
    }
}
