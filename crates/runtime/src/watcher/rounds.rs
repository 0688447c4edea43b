//! The state of a watcher between rounds, and its decisions. No clock decides anything here: time is counted in rounds.

use super::probe::Probed;
use mundi_model::{
    WorldId, limits,
    mutants::{Mutant, planted},
    pool::LeaseId,
    watch::{EvidenceKind, WatchPolicy},
};
use mundi_store::{
    keyspace::lease_reclaim::LeaseReclaim,
    protocol::{HolderSeen, WatchedLease},
};
use std::{collections::BTreeMap, time::Duration};

/// A lease to be revoked, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) lease: LeaseId,
    pub(super) kind: EvidenceKind,
    pub(super) detail: String,
}

/// How time is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    interval_ms: u64,
    /// For the planted bug alone.
    now_ns: u64,
}

impl Rounds {
    pub(super) fn of(interval: Duration, now_ns: u64) -> Self {
        Self { interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1), now_ns }
    }

    /// So many rounds after the one in which something was first seen, at least this time has passed since.
    fn to_wait(self, ms: u64) -> u64 {
        ms.div_ceil(self.interval_ms)
    }
}

/// By the world of each shard.
#[derive(Debug, Default)]
pub(super) struct Memory(BTreeMap<WorldId, ShardMemory>);

impl Memory {
    pub(super) fn of(&mut self, world: WorldId) -> &mut ShardMemory {
        self.0.entry(world).or_default()
    }

    /// Forgets the shards of pools that are not watched any more.
    pub(super) fn keep_only(&mut self, worlds: &[WorldId]) {
        self.0.retain(|world, _| worlds.contains(world));
    }
}

#[derive(Debug, Default)]
pub(super) struct ShardMemory {
    policy: WatchPolicy,
    leases: BTreeMap<LeaseId, Followed>,
    reclaims: BTreeMap<LeaseId, Waited>,
}

#[derive(Debug, Default)]
struct Followed {
    /// It was there in this round.
    is_there: bool,
    beats: i64,
    /// Rounds since the holder was last heard, or since the lease was first seen.
    silent_rounds: u64,
    probe_failures: u32,
    /// The names of its members, once it was asked.
    resources: Option<Vec<String>>,
}

#[derive(Debug)]
struct Waited {
    is_there: bool,
    rounds: u64,
    first_seen_ns: u64,
}

impl ShardMemory {
    /// Counts that were made under another policy mean nothing: nobody was asked for a heartbeat then, or another address was probed.
    pub(super) fn begin_leases(&mut self, policy: &WatchPolicy) {
        if self.policy != *policy {
            self.policy.clone_from(policy);
            self.leases.clear();
        }
        self.leases.values_mut().for_each(|followed| followed.is_there = false);
    }

    /// Forgets the leases that have ended.
    pub(super) fn end_leases(&mut self) {
        self.leases.retain(|_, followed| followed.is_there);
    }

    pub(super) fn begin_reclaims(&mut self) {
        self.reclaims.values_mut().for_each(|waited| waited.is_there = false);
    }

    pub(super) fn end_reclaims(&mut self) {
        self.reclaims.retain(|_, waited| waited.is_there);
    }

    /// Beyond the bound a lease is followed once others have ended.
    pub(super) fn has_room_for(&self, lease: LeaseId) -> bool {
        self.leases.len() < limits::WATCHED_LEASES_MAX || self.leases.contains_key(&lease)
    }

    pub(super) fn resources(&self, lease: LeaseId) -> Option<&[String]> {
        self.leases.get(&lease)?.resources.as_deref()
    }

    /// The leases that this page gives reason to revoke.
    pub(super) fn leases_seen(
        &mut self,
        policy: &WatchPolicy,
        rounds: Rounds,
        page: &[WatchedLease],
        probed: &[Probed],
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for watched in page {
            let probed = probed.iter().find(|probed| probed.lease == watched.lease);
            let followed = self.follow(watched, probed);
            let found = found(policy, rounds, watched, followed);
            findings.extend(found.map(|(kind, detail)| Finding { lease: watched.lease, kind, detail }));
        }
        findings
    }

    fn follow(&mut self, watched: &WatchedLease, probed: Option<&Probed>) -> &Followed {
        let is_new = !self.leases.contains_key(&watched.lease);
        let followed = self.leases.entry(watched.lease).or_default();
        followed.is_there = true;
        let is_heard = is_new || followed.beats != watched.beats;
        followed.silent_rounds = if is_heard { 0 } else { followed.silent_rounds.saturating_add(1) };
        followed.beats = watched.beats;
        if let Some(probed) = probed {
            followed.resources.clone_from(&probed.resources);
            followed.probe_failures = match probed.is_well {
                Some(true) => 0,
                Some(false) => followed.probe_failures.saturating_add(1),
                None => followed.probe_failures, // it was not tried
            };
        }
        followed
    }

    /// The leases whose delay is over.
    pub(super) fn reclaims_seen(&mut self, rounds: Rounds, page: &[(LeaseId, LeaseReclaim)]) -> Vec<LeaseId> {
        let mut due = Vec::new();
        for (lease, LeaseReclaim { after_ms }) in page {
            if self.reclaims.len() >= limits::WATCHED_LEASES_MAX && !self.reclaims.contains_key(lease) {
                continue;
            }
            let waited = self.reclaims.entry(*lease).and_modify(|waited| waited.rounds += 1).or_insert(Waited {
                is_there: true,
                rounds: 0,
                first_seen_ns: rounds.now_ns,
            });
            waited.is_there = true;
            let is_due = match planted(Mutant::WatcherTrustsClock) {
                true => rounds.now_ns.saturating_sub(waited.first_seen_ns) / 1_000_000 >= *after_ms,
                false => waited.rounds >= rounds.to_wait(*after_ms),
            };
            due.extend(is_due.then_some(*lease));
        }
        due
    }
}

/// The first rule of the policy that the holder breaks.
fn found(
    policy: &WatchPolicy,
    rounds: Rounds,
    watched: &WatchedLease,
    followed: &Followed,
) -> Option<(EvidenceKind, String)> {
    match watched.holder {
        HolderSeen::Deleted if policy.holder_ended => {
            return Some((EvidenceKind::HolderEnded, "the holder's world was deleted".to_owned()));
        }
        HolderSeen::Archived if policy.holder_ended => {
            return Some((EvidenceKind::HolderEnded, "the holder's world was archived".to_owned()));
        }
        _ => {}
    }
    if let Some(silent_after_ms) = policy.silent_after_ms
        && watched.holder == HolderSeen::Outside
        && followed.silent_rounds >= rounds.to_wait(silent_after_ms)
    {
        let detail = format!("no heartbeat for {silent_after_ms} ms; {} came before", watched.beats);
        return Some((EvidenceKind::Silent, detail));
    }
    let probe = policy.probe.as_ref()?;
    (followed.probe_failures >= probe.failures_max).then(|| {
        let detail = format!("the probe failed {} times in a row", followed.probe_failures);
        (EvidenceKind::ProbeFailed, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_model::{
        Height,
        pool::{HolderId, LeaseAuthority},
        watch::WatchProbe,
    };

    const LEASE: LeaseId = LeaseId::from_bytes([1; 16]);

    fn rounds() -> Rounds {
        Rounds::of(Duration::from_millis(100), 0)
    }

    fn seen(holder: HolderSeen, beats: i64) -> WatchedLease {
        let authority = LeaseAuthority { epoch: 1, holder: HolderId::of_name("ada") };
        WatchedLease { lease: LEASE, authority, holder, beats }
    }

    fn round(memory: &mut ShardMemory, policy: &WatchPolicy, watched: WatchedLease) -> Option<EvidenceKind> {
        memory.begin_leases(policy);
        let found = memory.leases_seen(policy, rounds(), &[watched], &[]);
        memory.end_leases();
        found.first().map(|finding| finding.kind)
    }

    #[test]
    fn a_holder_is_silent_only_after_as_many_rounds_as_the_time_has_and_a_beat_begins_anew() {
        let policy = WatchPolicy { silent_after_ms: Some(250), ..WatchPolicy::default() };
        let mut memory = ShardMemory::default();
        let quiet = [0, 0, 0].map(|beats| round(&mut memory, &policy, seen(HolderSeen::Outside, beats)));
        assert_eq!(quiet, [None, None, None], "three looks are two intervals apart");
        assert_eq!(round(&mut memory, &policy, seen(HolderSeen::Outside, 1)), None, "it was heard");
        let quiet = [1, 1, 1].map(|beats| round(&mut memory, &policy, seen(HolderSeen::Outside, beats)));
        assert_eq!(quiet, [None, None, Some(EvidenceKind::Silent)]);
        let mut fresh = ShardMemory::default();
        assert_eq!(round(&mut fresh, &policy, seen(HolderSeen::Outside, 1)), None, "who starts counts from zero");
    }

    #[test]
    fn a_new_rule_counts_from_its_first_round() {
        let other = WatchPolicy { holder_ended: true, ..WatchPolicy::default() };
        let silent = WatchPolicy { silent_after_ms: Some(100), ..other.clone() };
        let mut memory = ShardMemory::default();
        for _ in 0..9 {
            assert_eq!(round(&mut memory, &other, seen(HolderSeen::Outside, 0)), None);
        }
        let looks = [0; 2].map(|beats| round(&mut memory, &silent, seen(HolderSeen::Outside, beats)));
        assert_eq!(looks, [None, Some(EvidenceKind::Silent)]);
    }

    #[test]
    fn a_world_is_never_silent_and_is_gone_only_when_it_was_deleted_or_archived() {
        let policy = WatchPolicy { silent_after_ms: Some(1), holder_ended: true, ..WatchPolicy::default() };
        let mut memory = ShardMemory::default();
        for _ in 0..9 {
            assert_eq!(round(&mut memory, &policy, seen(HolderSeen::World, 0)), None);
        }
        for holder in [HolderSeen::Deleted, HolderSeen::Archived] {
            assert_eq!(round(&mut memory, &policy, seen(holder, 0)), Some(EvidenceKind::HolderEnded));
            let none = WatchPolicy { reclaim_after_ms: Some(0), ..WatchPolicy::default() };
            assert_eq!(round(&mut memory, &none, seen(holder, 0)), None, "no rule, no revoke");
        }
    }

    #[test]
    fn a_probe_must_fail_in_a_row_and_one_that_was_not_tried_says_nothing() {
        let probe = WatchProbe { url: "http://h".to_owned(), failures_max: 2, timeout_ms: 1 };
        let policy = WatchPolicy { probe: Some(probe), ..WatchPolicy::default() };
        let mut memory = ShardMemory::default();
        let mut look = |is_well| {
            let probed = Probed { lease: LEASE, is_well, resources: None };
            memory.leases_seen(&policy, rounds(), &[seen(HolderSeen::Outside, 0)], &[probed]).len()
        };
        let looks = [Some(false), Some(true), Some(false), None, Some(false)].map(&mut look);
        assert_eq!(looks, [0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_delay_begins_with_the_first_look_and_anew_after_a_restart() {
        let lease = LeaseId::new(0, Height::new(7));
        let page = [(lease, LeaseReclaim { after_ms: 250 })];
        let mut memory = ShardMemory::default();
        let look = |memory: &mut ShardMemory| {
            memory.begin_reclaims();
            let due = memory.reclaims_seen(rounds(), &page);
            memory.end_reclaims();
            !due.is_empty()
        };
        assert_eq!([0; 4].map(|_| look(&mut memory)), [false, false, false, true]);
        let mut fresh = ShardMemory::default();
        assert!(!look(&mut fresh));
        let at_once = [(lease, LeaseReclaim { after_ms: 0 })];
        assert_eq!(ShardMemory::default().reclaims_seen(rounds(), &at_once), [lease]);
    }
}
