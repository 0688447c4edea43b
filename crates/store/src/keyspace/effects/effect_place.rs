//! Where an effect lies in its queue: one name over the three families that hold it on its way.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, QueueShard, Shard, Span, queue::QueueSeq};
use mundi_model::{ParseIdError, UniverseId, hex, parse_hex};
use std::{fmt, str::FromStr};

/// How far an effect has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum EffectStage {
    /// Never tried.
    Pending = 0,
    /// Between two attempts, or until its turn under a rate.
    Waiting = 1,
    /// Claimed by an adapter.
    Claimed = 2,
}

impl EffectStage {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Waiting, Self::Claimed];

    pub(crate) fn family(self) -> Family {
        match self {
            Self::Pending => Family::EffectPending,
            Self::Waiting => Family::EffectRetry,
            Self::Claimed => Family::EffectInflight,
        }
    }
}

/// The place of one effect at one moment. It changes with each attempt: a place that was listed may be empty now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EffectPlace {
    pub stage: EffectStage,
    pub queue_shard: QueueShard,
    /// When its next attempt is due; 0 unless it is [`EffectStage::Waiting`].
    pub place_ns: u64,
    pub seq: QueueSeq,
}

const LEN: usize = 30;

pub(crate) fn key(universe: UniverseId, place: EffectPlace) -> Key {
    let queue_shard = KeyBuilder::universe(universe, place.stage.family()).queue_shard(place.queue_shard);
    let at = if place.stage == EffectStage::Waiting { queue_shard.u64(place.place_ns) } else { queue_shard };
    at.bytes(place.seq.as_bytes()).key()
}

/// All effects of a stage in one queue shard.
pub(crate) fn of_queue_shard(universe: UniverseId, stage: EffectStage, queue_shard: QueueShard) -> Span {
    KeyBuilder::universe(universe, stage.family()).queue_shard(queue_shard).key().span()
}

/// All effects of a stage of the kind of a queue shard.
pub(crate) fn of_kind(universe: UniverseId, stage: EffectStage, queue_shard: QueueShard) -> Span {
    KeyBuilder::universe(universe, stage.family()).u64(queue_shard.kind).key().span()
}

pub(crate) fn parse(universe: UniverseId, stage: EffectStage, key: &[u8]) -> Result<EffectPlace, StoreError> {
    let mut reader = KeyReader::after(stage.family(), &stage.family().prefix(universe), key)?;
    let (kind, shard) = (reader.u64()?, reader.u8()?);
    let shard = Shard::new(shard).ok_or_else(|| reader.bad())?;
    let place_ns = if stage == EffectStage::Waiting { reader.u64()? } else { 0 };
    let place = EffectPlace { stage, queue_shard: QueueShard { kind, shard }, place_ns, seq: reader.queue_seq()? };
    reader.end(place)
}

impl fmt::Display for EffectPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [self.stage as u8, self.queue_shard.shard.get()];
        let (kind, place_ns) = (self.queue_shard.kind.to_be_bytes(), self.place_ns.to_be_bytes());
        write!(f, "e_{}{}{}{}", hex(&head), hex(&kind), hex(&place_ns), hex(self.seq.as_bytes()))
    }
}

impl FromStr for EffectPlace {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let parsed = text.strip_prefix("e_").and_then(parse_hex::<LEN>).and_then(|bytes| {
            let stage = EffectStage::ALL.into_iter().find(|stage| *stage as u8 == bytes[0])?;
            let shard = Shard::new(bytes[1])?;
            let number = |at: usize| Some(u64::from_be_bytes(bytes[at..at + 8].try_into().ok()?));
            let seq = QueueSeq::from_bytes(bytes[18..].try_into().ok()?);
            Some(Self { stage, queue_shard: QueueShard { kind: number(2)?, shard }, place_ns: number(10)?, seq })
        });
        parsed.ok_or_else(|| ParseIdError::new("place of an effect", "`e_` and 60 hex digits", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    fn places() -> impl Strategy<Value = EffectPlace> {
        (prop::sample::select(&EffectStage::ALL[..]), any::<(String, Vec<u8>, u64)>(), queue_seqs()).prop_map(
            |(stage, (kind, name, place_ns), seq)| {
                let place_ns = if stage == EffectStage::Waiting { place_ns } else { 0 };
                EffectPlace { stage, queue_shard: QueueShard::new(&kind, Shard::of(&name)), place_ns, seq }
            },
        )
    }

    proptest! {
        #[test]
        fn a_place_survives_its_key_and_its_text(place in places()) {
            let key = key(laws::universe(), place);
            prop_assert_eq!(parse(laws::universe(), place.stage, key.as_bytes()).unwrap(), place);
            prop_assert_eq!(place.to_string().parse::<EffectPlace>().unwrap(), place);
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "(e_)?[0-9a-f]{0,70}") {
            if let Ok(place) = text.parse::<EffectPlace>() {
                prop_assert_eq!(place.to_string(), text);
            }
        }
    }
}
