//! Watchers: no lease is reclaimed earlier after its revoke than its pool's policy says, by the true time, and none is revoked without
//! evidence on record.

use crate::log::{Commit, Write};
use mundi_kernel::lease_kernel::command::{COMMAND, Command, Request};
use mundi_model::{
    Value, cbor,
    pool::{ClientId, LeaseId},
    record::{Body, Input, Payload, Record},
};
use mundi_runtime::watcher::CLIENT;
use mundi_store::keyspace::{Family, Parts, lease_reclaim::LeaseReclaim};
use std::collections::{BTreeMap, BTreeSet};

/// How many leases watchers reclaimed, if every promise was kept.
pub(crate) fn check(records: &[Record], commits: &[Commit]) -> Result<u64, String> {
    check_evidence(records)?;
    let mut waiting = BTreeMap::new();
    let mut reclaims = 0;
    for commit in commits {
        for write in &commit.writes {
            if Parts::of(write.key()).is_none_or(|parts| parts.family != Family::LeaseReclaim) {
                continue;
            }
            match write {
                Write::Put(key, value) => {
                    let LeaseReclaim { after_ms } = cbor::decode(value).map_err(|error| error.to_string())?;
                    waiting.insert(key.clone(), (commit.at_ns, after_ms));
                }
                Write::Delete(key) => {
                    let Some((revoked_ns, after_ms)) = waiting.remove(key) else { continue };
                    let waited_ms = commit.at_ns.saturating_sub(revoked_ns) / 1_000_000;
                    if waited_ms < after_ms {
                        return Err(format!(
                            "a lease was reclaimed {waited_ms} ms after its revoke, not {after_ms} ms"
                        ));
                    }
                    reclaims += 1;
                }
                Write::Add(..) | Write::Clear(..) => {}
            }
        }
    }
    Ok(reclaims)
}

/// Whatever a watcher revokes, it has written down why before.
fn check_evidence(records: &[Record]) -> Result<(), String> {
    let watcher = ClientId::of_name(CLIENT);
    let mut evidence: BTreeSet<LeaseId> = BTreeSet::new();
    for record in records {
        let Body::Ingress(ingress) = &record.body else { continue };
        let Input::Event { schema, value: Payload::Inline(bytes), .. } = &ingress.item.input else { continue };
        if schema != COMMAND {
            continue;
        }
        let json = cbor::decode::<Value>(bytes).ok().and_then(|value| value.to_json().ok());
        let request: Option<Request> = json.and_then(|json| serde_json::from_value(json).ok());
        match request.filter(|request| request.client_id == Some(watcher)).map(|request| request.command) {
            Some(Command::Evidence { lease_id, .. }) => drop(evidence.insert(lease_id)),
            Some(Command::Revoke { lease_id, .. }) if !evidence.contains(&lease_id) => {
                return Err(format!("at height {}: a watcher revokes {lease_id} without evidence", record.height));
            }
            _ => {}
        }
    }
    Ok(())
}
