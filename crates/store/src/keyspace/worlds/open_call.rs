//! `u/<u>/w/<w>/calls/<seq>`: the effect of another world that waits for the reply to the call at this place of the inbox.
//!
//! Written by `call_world`, in the commit that enqueues the call; removed by the turn that replies, or with the name of the call once
//! its effect is over (`expire_dedupe`). Free: rewritten when the effect moves in its queue. The sequence is filled in by the engine, and is that of the call: both have the same stamp and
//! the same index.

use crate::StoreError;
use crate::keyspace::{Family, Key, KeyBuilder, KeyReader, get, inbox_dedupe::SendingEffect, put};
use minicbor::{Decode, Encode};
use mundi_engine::Transaction;
use mundi_model::{InboxSeq, IntentHash, UniverseId, WorldId, cbor};

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct OpenCall {
    /// The effect that waits, and its sequence.
    #[n(0)]
    pub(crate) effect: SendingEffect,
    /// Where the effect lies until its deadline.
    #[n(1)]
    pub(crate) place_ns: u64,
    /// The correlation id that its receipt carries on.
    #[n(2)]
    pub(crate) correlation_id: Option<String>,
    #[n(3)]
    pub(crate) trace: Option<String>,
    /// The call that the caller itself works for.
    #[n(4)]
    pub(crate) call: Option<InboxSeq>,
}

impl OpenCall {
    /// The world that waits, and its intent.
    pub fn caller(&self) -> (UniverseId, WorldId, IntentHash) {
        (self.effect.universe, self.effect.world, self.effect.intent)
    }
}

pub(crate) fn key(universe: UniverseId, world: WorldId, call: InboxSeq) -> Key {
    KeyBuilder::world(universe, world, Family::OpenCall).bytes(call.as_bytes()).key()
}

fn prefix(universe: UniverseId, world: WorldId) -> Key {
    KeyBuilder::world(universe, world, Family::OpenCall).key()
}

pub fn parse(universe: UniverseId, world: WorldId, key: &[u8]) -> Result<InboxSeq, StoreError> {
    let mut reader = KeyReader::after(Family::OpenCall, &prefix(universe, world), key)?;
    let call = reader.seq()?;
    reader.end(call)
}

pub(crate) async fn read<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    call: InboxSeq,
) -> Result<Option<OpenCall>, StoreError> {
    get(tx, Family::OpenCall, &key(universe, world, call)).await
}

/// For the call at `index` of this commit.
pub(crate) fn open<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    index: u16,
    call: &OpenCall,
) -> Result<(), StoreError> {
    Ok(tx.put_stamped(prefix(universe, world).as_bytes(), &index.to_be_bytes(), cbor::encode(call))?)
}

/// The effect lies elsewhere now.
pub(crate) fn write<T: Transaction>(
    tx: &mut T,
    universe: UniverseId,
    world: WorldId,
    at: InboxSeq,
    call: &OpenCall,
) -> Result<(), StoreError> {
    put(tx, &key(universe, world, at), call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::{QueueShard, laws, queue::tests::queue_seqs};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_by_sequence(a in laws::seqs(), b in laws::seqs()) {
            let (universe, world) = (laws::universe(), laws::world());
            laws::keys_are_ordered((a, b), |seq| key(universe, world, *seq), |key| parse(universe, world, key))?;
        }

        #[test]
        fn the_value_survives(
            seq in queue_seqs(),
            world in laws::worlds(),
            intent in laws::intents(),
            place_ns: u64,
            correlation_id: Option<String>,
            call in proptest::option::of(laws::seqs()),
            noise: Vec<u8>,
        ) {
            let effect = SendingEffect::new(laws::universe(), QueueShard::of("world.call", intent), seq, world, intent);
            let trace = correlation_id.clone();
            laws::value_survives(Family::OpenCall, &OpenCall { effect, place_ns, correlation_id, trace, call }, &noise)?;
        }
    }
}
