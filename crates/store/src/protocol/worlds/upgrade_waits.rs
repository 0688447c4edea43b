//! Whether an upgrade waits in a world's inbox: then the newest manifest on record does not decide what the world takes.
//!
//! Guarantees: one moment, read from the cursor, without a conflict. Only the first [`limits::TURN_ITEMS_MAX`] items are looked at, or fewer if they are
//! large, as many as one page has: an upgrade behind them is not seen, so that a long inbox is no reason to take every event in.
//! Unknown commit: cannot be; it writes nothing.

use crate::{OnUnknown, Protocol, StoreError, journal::append, keyspace::inbox_entry};
use mundi_engine::Transaction;
use mundi_model::{UniverseId, WorldId, limits, record::Input};

#[derive(Debug, Clone, Copy)]
pub struct UpgradeWaits {
    pub universe: UniverseId,
    pub world: WorldId,
}

impl Protocol for UpgradeWaits {
    type Output = bool;

    fn on_unknown(&self) -> OnUnknown {
        OnUnknown::RunAgain
    }

    async fn run<T: Transaction>(&self, tx: &mut T) -> Result<bool, StoreError> {
        let Self { universe, world } = *self;
        let cursor = append::position(tx, universe, world).await?.cursor;
        let looked_at = inbox_entry::after(universe, world, cursor).read(limits::TURN_ITEMS_MAX).snapshot();
        let waiting = tx.range(looked_at).await?;
        let upgrades = |input: &Input| matches!(input, Input::Control { command, .. } if command == "upgrade");
        for (key, bytes) in &waiting.items {
            if upgrades(&inbox_entry::decode(key, bytes)?.input) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
