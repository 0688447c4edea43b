//! Queries that fail again and again are held back: each run may cost as much of a processor as a step, and anybody who may read can ask for it.
//!
//! Counted by process, world and name of the query. What a program answers is no failure, also if it is an error.

use crate::RuntimeError;
use mundi_model::{
    Code, Coded, WorldId,
    limits::{QUERIES_FAILING_MAX, QUERY_FAILURES_MAX, QUERY_PAUSE_NS, QUERY_PAUSE_NS_MAX},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct FailingQueries(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How many there are: almost always none, and then nothing is locked.
    count: AtomicUsize,
    by_name: Mutex<BTreeMap<(WorldId, String), Failing>>,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    /// Runs that failed in a row.
    failures: u32,
    last: Code,
    failed_at_ns: u64,
    /// Refused until then; one run is let through after it.
    until_ns: u64,
}

fn is_failure(code: Code) -> bool {
    matches!(
        code,
        Code::ProgramTrapped
            | Code::ProgramPanicked
            | Code::BudgetExhausted
            | Code::SchemaWorkExceeded
            | Code::StepAbandoned
    )
}

fn pause_ns(failures: u32) -> u64 {
    match failures.checked_sub(QUERY_FAILURES_MAX) {
        None => 0,
        Some(more) => QUERY_PAUSE_NS.saturating_mul(1 << more.min(16)).min(QUERY_PAUSE_NS_MAX),
    }
}

impl FailingQueries {
    /// Refuses a run of a query that is held back.
    pub(super) fn admit(&self, world: WorldId, query: &str, now_ns: u64) -> Result<(), RuntimeError> {
        if self.0.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut by_name = self.0.by_name.lock();
        let Some(failing) = by_name.get_mut(&(world, query.to_owned())) else { return Ok(()) };
        let Failing { failures, last, until_ns, .. } = *failing;
        if now_ns < until_ns {
            let (query, left_ms) = (query.to_owned(), (until_ns - now_ns).div_ceil(1_000_000));
            return Err(RuntimeError::QueryHeldBack { world, query, failures, last, left_ms });
        }
        failing.until_ns = now_ns.saturating_add(pause_ns(failures)); // others wait for what comes of this run
        Ok(())
    }

    /// Counts a run that failed; one that did not ends the count. Returns the failure from which on the query is held back.
    pub(super) fn note<T>(
        &self,
        world: WorldId,
        query: &str,
        result: &Result<T, RuntimeError>,
        now_ns: u64,
    ) -> Option<Code> {
        let failed = result.as_ref().err().map(Coded::code).filter(|code| is_failure(*code));
        if failed.is_none() && self.0.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut held_back = None;
        let mut by_name = self.0.by_name.lock();
        let key = (world, query.to_owned());
        match failed {
            // What says nothing about the query, such as a node without room, ends nothing.
            None if result.is_err() => {}
            None => drop(by_name.remove(&key)),
            Some(last) => {
                let failures = by_name.get(&key).map_or(0, |failing| failing.failures).saturating_add(1);
                let until_ns = now_ns.saturating_add(pause_ns(failures));
                held_back = (failures == QUERY_FAILURES_MAX).then_some(last);
                by_name.insert(key, Failing { failures, last, failed_at_ns: now_ns, until_ns });
                forget_oldest(&mut by_name);
            }
        }
        self.0.count.store(by_name.len(), Ordering::Relaxed);
        held_back
    }
}

fn forget_oldest(by_name: &mut BTreeMap<(WorldId, String), Failing>) {
    if by_name.len() <= QUERIES_FAILING_MAX {
        return;
    }
    let oldest = by_name.iter().min_by_key(|(_, failing)| failing.failed_at_ns).map(|(key, _)| key.clone());
    oldest.map(|key| by_name.remove(&key));
}

#[cfg(test)]
mod tests {
    use super::*;
    use mundi_kernel::QueryError;
    use mundi_store::testing::world_id;

    fn failed(code: Code) -> Result<(), RuntimeError> {
        Err(QueryError::Failed { code, reason: "why".to_owned() }.into())
    }

    fn is_refused(queries: &FailingQueries, query: &str, now_ns: u64) -> bool {
        queries.admit(world_id(1), query, now_ns).is_err_and(|error| error.code() == Code::QueryHeldBack)
    }

    #[test]
    fn a_query_that_fails_again_and_again_waits_longer_each_time_and_one_success_ends_that() {
        let queries = FailingQueries::default();
        for _ in 0..QUERY_FAILURES_MAX {
            assert!(!is_refused(&queries, "loop", 0));
            queries.note(world_id(1), "loop", &failed(Code::BudgetExhausted), 0);
        }
        assert!(is_refused(&queries, "loop", 0) && is_refused(&queries, "loop", QUERY_PAUSE_NS - 1));
        assert!(!is_refused(&queries, "other", 0), "another query of the world");
        assert!(queries.admit(world_id(2), "loop", 0).is_ok(), "the same query of another world");
        assert!(!is_refused(&queries, "loop", QUERY_PAUSE_NS), "one is tried");
        assert!(is_refused(&queries, "loop", QUERY_PAUSE_NS), "and the others wait for it");
        queries.note(world_id(1), "loop", &failed(Code::ProgramTrapped), QUERY_PAUSE_NS);
        assert!(
            is_refused(&queries, "loop", 3 * QUERY_PAUSE_NS - 1) && !is_refused(&queries, "loop", 3 * QUERY_PAUSE_NS)
        );
        queries.note(world_id(1), "loop", &Ok(()), 3 * QUERY_PAUSE_NS);
        assert!(!is_refused(&queries, "loop", 3 * QUERY_PAUSE_NS));
    }

    #[test]
    fn what_a_program_answers_and_what_lies_in_the_node_is_no_failure() {
        let queries = FailingQueries::default();
        for code in [Code::ProgramFailed, Code::StepCrowded, Code::OutputRefused] {
            for _ in 0..2 * QUERY_FAILURES_MAX {
                queries.note(world_id(1), "asks", &failed(code), 0);
            }
            assert!(!is_refused(&queries, "asks", 0), "{code}");
        }
    }

    #[test]
    fn no_more_queries_are_remembered_than_there_may_be() {
        let queries = FailingQueries::default();
        for (name, now_ns) in (0..QUERIES_FAILING_MAX + 10).zip(0..) {
            queries.note(world_id(1), &name.to_string(), &failed(Code::ProgramPanicked), now_ns);
        }
        let by_name = queries.0.by_name.lock();
        assert_eq!(by_name.len(), QUERIES_FAILING_MAX);
        assert!(!by_name.contains_key(&(world_id(1), "0".to_owned())), "the oldest one was forgotten");
    }
}
