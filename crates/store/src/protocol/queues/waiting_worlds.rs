//! The worlds that wait for an effect, a timer or a child, a part at a time.
//!
//! Guarantees: each part is one consistent moment and looks at a bounded number of queued items; a world may stand in several parts. An effect that
//! its world has withdrawn counts until a worker drops it.
//! Unknown commit: cannot be; it writes nothing.

use crate::{
    OnUnknown, Protocol, StoreError,
    keyspace::{Family, child_work, effect_inflight, effect_pending, timer_due},
};
use bytes::Bytes;
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits};
use std::collections::BTreeSet;

/// In the order of their keys.
const FAMILIES: [Family; 5] =
    [Family::EffectPending, Family::EffectInflight, Family::EffectRetry, Family::TimerDue, Family::ChildWork];

#[derive(Debug, Clone)]
pub struct WaitingWorlds {
    pub universe: UniverseId,
    /// Where the part before ended.
    pub after: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitingPart {
    pub worlds: BTreeSet<WorldId>,
    /// Items that were looked at.
    pub looks: usize,
    /// Where the next part begins; nothing, if this was the last one.
    pub next: Option<Bytes>,
}

impl Protocol for WaitingWorlds {
    type Output = WaitingPart;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<WaitingPart, StoreError> {
        let mut part = WaitingPart::default();
        for family in FAMILIES {
            let mut span = family.prefix(self.universe).span();
            if let Some(after) = &self.after {
                span = span.after_bytes(after);
            }
            if span.start >= span.end {
                continue;
            }
            let found = tx.range(span.read(limits::LIST_LOOKS_MAX - part.looks).snapshot()).await?;
            for (key, bytes) in &found.items {
                part.worlds.insert(self.world_of(family, key, bytes)?);
            }
            part.looks += found.items.len();
            if found.more || part.looks == limits::LIST_LOOKS_MAX {
                part.next = found.items.last().map(|(key, _)| key.clone());
                break;
            }
        }
        Ok(part)
    }
}

impl WaitingWorlds {
    fn world_of(&self, family: Family, key: &Bytes, bytes: &Bytes) -> Result<WorldId, StoreError> {
        Ok(match family {
            Family::EffectInflight => effect_inflight::decode(key, bytes)?.item.world,
            Family::TimerDue => timer_due::decode(key, bytes)?.world,
            Family::ChildWork => child_work::parse(self.universe, key)?,
            _ => effect_pending::decode(key, bytes)?.world,
        })
    }
}
