//! The records of watchers: evidence about the holder of a lease, and the delay between its revoke and its reclaim.
//!
//! The kernel knows none of it: evidence changes no state, and a delay frees nothing by itself. A watcher outside reads the delay and sends
//! `reclaim` when the time has passed.

use super::super::{
    core::Core,
    records::{Evidence, Watched, cell},
    result::{Outcome, Refused, ResultCode},
};
use mundi_model::{
    limits,
    pool::{AuthorityChange, LeaseId},
    watch::EvidenceKind,
};

impl Core<'_> {
    /// Only for a lease that could be revoked. What is beyond the bound is not kept, and is on record all the same.
    pub(in super::super) fn add_evidence(
        &mut self,
        lease: LeaseId,
        kind: EvidenceKind,
        detail: &str,
    ) -> Result<Outcome, Refused> {
        self.check_active(lease)?;
        let mut watched = self.watched(lease)?;
        if watched.evidence.len() >= limits::POOL_EVIDENCE_MAX {
            return Ok(self.outcome(ResultCode::Noop));
        }
        let detail = detail.to_owned();
        watched.evidence.push(Evidence { lsn: self.lsn, slot: self.slot, kind, detail });
        self.put(&cell::watched(lease), &watched)?;
        Ok(Outcome { lease_id: Some(lease), ..self.outcome(ResultCode::Ok) })
    }

    pub(in super::super) fn revoke_watched(
        &mut self,
        lease: LeaseId,
        reclaim_after_ms: Option<u64>,
    ) -> Result<Outcome, Refused> {
        let outcome = self.revoke(lease)?;
        if reclaim_after_ms.is_some() {
            let watched = Watched { reclaim_after_ms, ..self.watched(lease)? };
            self.put(&cell::watched(lease), &watched)?;
            self.publish(AuthorityChange { reclaim_after_ms, ..AuthorityChange::withdrawn(lease) })?;
        }
        Ok(outcome)
    }

    /// From here on nobody waits to reclaim it.
    pub(in super::super) fn reclaim_watched(&mut self, lease: LeaseId) -> Result<Outcome, Refused> {
        let outcome = self.reclaim(lease)?;
        if self.watched(lease)?.reclaim_after_ms.is_some() {
            self.publish(AuthorityChange::withdrawn(lease))?;
        }
        Ok(outcome)
    }

    fn watched(&mut self, lease: LeaseId) -> Result<Watched, Refused> {
        Ok(self.get(&cell::watched(lease))?.unwrap_or_default())
    }
}
