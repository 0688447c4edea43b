//! Claims: an effect in flight is ended, extended or given back by the life of the node that claimed it, or by anyone
//! whose clock has passed the claim's deadline.

use super::Evidence;
use crate::log::{Author, Write};
use bytes::Bytes;
use mundi_model::cbor;
use mundi_store::keyspace::{Family, Parts, effect_inflight::EffectInflight};
use std::collections::BTreeMap;

pub(super) fn check(evidence: &Evidence) -> Result<(), String> {
    let mut held: BTreeMap<&Bytes, (Author, [u8; 16], u64)> = BTreeMap::new();
    for (number, commit) in evidence.commits.iter().enumerate() {
        for write in &commit.writes {
            let key = write.key();
            if Parts::of(key).is_none_or(|parts| parts.family != Family::EffectInflight) {
                continue;
            }
            if let Some((holder, _, deadline_ns)) = held.get(key)
                && *holder != commit.author
                && *deadline_ns > commit.clock_ns_max
            {
                let (protocol, author) = (commit.protocol, commit.author);
                return Err(format!("{author} ended a claim of {holder} ({protocol}, commit {number})"));
            }
            match write {
                Write::Put(_, value) => {
                    let inflight: EffectInflight = cbor::decode(value).map_err(|error| error.to_string())?;
                    held.insert(key, (commit.author, inflight.claim.token, inflight.claim.deadline_ns));
                }
                _ => drop(held.remove(key)),
            }
        }
    }
    Ok(())
}
