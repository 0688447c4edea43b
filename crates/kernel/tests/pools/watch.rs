//! The records of watchers: evidence on a lease, and the delay of a revoke.

use crate::rig::Pool;
use mundi_kernel::lease_kernel::command::Command;
use mundi_model::{
    limits,
    pool::{AuthorityChange, LeaseId},
    watch::EvidenceKind,
};
use serde_json::json;

fn evidence(lease_id: LeaseId, detail: &str) -> Command {
    Command::Evidence { lease_id, kind: EvidenceKind::HolderEnded, detail: detail.to_owned() }
}

#[test]
fn evidence_is_kept_with_an_active_lease_and_changes_nothing_else() {
    let mut pool = Pool::of(2);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    assert_eq!(pool.result(evidence(lease, "too early")), "invalid_state", "only what can be revoked");
    pool.activate(lease, 7, 1);
    let before = pool.query("resources", json!(null))["items"].clone();
    assert_eq!(pool.result(evidence(lease, "the world was deleted")), "ok");
    assert_eq!(pool.query("resources", json!(null))["items"], before);
    let read = pool.query("lease", json!({ "lease_id": lease }))["lease"].clone();
    assert_eq!((&read["state"], &read["lease_epoch"]), (&json!("active"), &json!(1)));
    let kept = &read["evidence"][0];
    assert_eq!((&kept["kind"], &kept["detail"]), (&json!("holder_ended"), &json!("the world was deleted")));
    for _ in 1..limits::POOL_EVIDENCE_MAX {
        assert_eq!(pool.result(evidence(lease, "again")), "ok");
    }
    assert_eq!(pool.result(evidence(lease, "too many")), "noop");
    assert_eq!(pool.release(lease, 7, 1), "ok", "its holder may still end it");
    assert_eq!(pool.result(evidence(lease, "too late")), "lease_retired");
    assert_eq!(pool.result(evidence(LeaseId::from_bytes([0xff; 16]), "of nothing")), "lease_not_found");
}

#[test]
fn the_delay_of_a_revoke_is_published_until_the_lease_is_reclaimed() {
    let mut pool = Pool::of(1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    pool.activate(lease, 7, 1);
    pool.authorities.clear();
    pool.run(Command::Revoke { lease_id: lease, reclaim_after_ms: Some(500) });
    let planned = AuthorityChange { reclaim_after_ms: Some(500), ..AuthorityChange::withdrawn(lease) };
    assert_eq!(pool.authorities.last(), Some(&planned));
    let read = pool.query("lease", json!({ "lease_id": lease }))["lease"].clone();
    assert_eq!((&read["state"], &read["reclaim_after_ms"]), (&json!("revoking"), &json!(500)));
    pool.pass_slots(1_000);
    assert_eq!(pool.reserve(1, 8).result.as_str(), "resource_busy", "a delay frees nothing, however much time passes");
    pool.authorities.clear();
    assert_eq!(pool.result(Command::Reclaim { lease_id: lease }), "ok");
    assert_eq!(pool.authorities.last(), Some(&AuthorityChange::withdrawn(lease)));
    assert_eq!(pool.reserve(1, 8).result.as_str(), "ok");
}

#[test]
fn what_watchers_wrote_goes_with_its_lease() {
    let mut pool = Pool::of(1);
    let lease = pool.reserve(1, 7).lease_id.unwrap();
    pool.activate(lease, 7, 1);
    pool.run(evidence(lease, "gone"));
    pool.run(Command::revoke(lease));
    pool.run(Command::Reclaim { lease_id: lease });
    pool.pass_slots(100_000);
    let next = pool.reserve(1, 8).lease_id.unwrap();
    pool.activate(next, 8, 1);
    let digest = pool.world.digest();
    assert_eq!(pool.query("lease", json!({ "lease_id": lease }))["result"], "lease_retired");
    assert!(pool.cells().iter().all(|(key, _)| !key.starts_with("watched/")));
    assert_eq!(pool.replayed().digest(), digest);
}
