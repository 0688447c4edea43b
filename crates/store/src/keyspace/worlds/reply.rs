//! `u/<u>/w/<w>/replies/<seq>`: the reply to the call at this position of the inbox.
//!
//! Written by `commit_turn`, unless the caller is notified from the turn itself (then only the journal has it); removed by `compact_inbox` together with the call, so the grace period is also
//! how long a caller may come back for its answer. Immutable: a call is answered once.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, Span, decode_value, get, newest};
use minicbor::{Decode, Encode};
use mundi_engine::{Engine, Transaction};
use mundi_model::{Height, InboxSeq, UniverseId, WorldId, cbor, record::ReplyOutcome};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct StoredReply {
    #[n(0)]
    pub outcome: ReplyOutcome,
    /// The height of the record that says so.
    #[n(1)]
    pub height: Height,
}

pub fn key(universe: UniverseId, world: WorldId, call: InboxSeq) -> Key {
    KeyBuilder::world(universe, world, Family::Reply).bytes(call.as_bytes()).key()
}

pub(crate) fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::Reply).key()
}

pub fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<InboxSeq, StoreError> {
    let mut reader = KeyReader::after(Family::Reply, &prefix(universe, world), key)?;
    let call = reader.seq()?;
    reader.end(call)
}

/// The answer to a call, once there is one.
pub async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    call: InboxSeq,
) -> Result<Option<StoredReply>, StoreError> {
    get(tx, Family::Reply, &key(universe, world, call)).await
}

/// As [`read`], of the newest state, in a transaction that it shares with others that look at the same moment.
pub async fn read_newest<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
    call: InboxSeq,
) -> Result<Option<StoredReply>, StoreError> {
    let key = key(universe, world, call);
    let (bytes, _) = newest(engine, &key).await?;
    bytes.map(|bytes| decode_value(Family::Reply, key.as_bytes(), &bytes)).transpose()
}

/// Completes once there is an answer; perhaps earlier. Look, and wait again.
pub fn arrived<E: Engine>(
    engine: &E,
    universe: UniverseId,
    world: WorldId,
    call: InboxSeq,
) -> impl Future<Output = Result<(), StoreError>> + Send + 'static {
    let (engine, key) = (engine.clone(), key(universe, world, call));
    async move { Ok(engine.watch(key.as_bytes(), None).await?) }
}

pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    call: InboxSeq,
    reply: &StoredReply,
) -> Result<(), StoreError> {
    Ok(tx.put(key(universe, world, call).as_bytes(), cbor::encode(reply))?)
}

/// The replies to the calls in `after..=through`, without the first.
pub(crate) fn through(universe: UniverseId, world: WorldId, after: Option<InboxSeq>, through: InboxSeq) -> Span {
    let start = after.map_or_else(|| prefix(universe, world), |after| key(universe, world, after).successor());
    Span { start, end: key(universe, world, through).successor() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::laws;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in laws::seqs(), b in laws::seqs()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |seq| key(universe, world, *seq), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_value_survives(payload in laws::payloads(), code: String, height in laws::heights(), noise: Vec<u8>) {
            for outcome in [ReplyOutcome::Ok(payload), ReplyOutcome::Failed(code, "why".into(), Some(height))] {
                laws::value_survives(Family::Reply, &StoredReply { outcome, height }, &noise)?;
            }
        }
    }
}
