//! Whether an engine keeps the contract: a function per property, for any engine.
//!
//! An engine's author writes a [`Subject`] (how to open an empty store, how to run a task beside others) and
//! calls [`run_all`], which answers with a [`Report`]; or invokes
//! [`conformance_tests!`](crate::conformance_tests), which makes a `#[test]` of every property.
//!
//! - A property that does not hold is a [`Finding`] with a story, never a panic, so that a report names them all.
//! - There is no clock and no randomness here: seeds are counted, and the subject supplies the time limit.
//! - Every property was seen to fail on an engine that is wrong in just that way (`tests/wrong_engines/`).
//!   A property that cannot fail proves nothing.
//!
//! [`Lossy`] is an engine around an engine that loses the answers of commits. Layers test their retries with it.

pub mod age;
pub mod atomicity;
pub mod conflicts;
pub mod counters;
pub mod deletes;
pub mod history;
pub mod isolation;
pub mod limits;
mod lossy;
pub mod model;
pub mod own_writes;
pub mod planned;
pub mod realtime;
pub mod reopen;
mod report;
pub mod retry;
pub mod scans;
mod seeds;
pub mod stamps;
mod subject;
mod tools;
pub mod watches;

pub use lossy::{Lossy, LossyTransaction};
pub use report::{Finding, Proof, Report};
pub use seeds::Seeded;
pub use subject::Subject;

use futures_util::future::{BoxFuture, Either, select};
use std::pin::pin;

/// A named property that an engine has or has not.
pub struct Property<S> {
    pub name: &'static str,
    prove: fn(&S) -> BoxFuture<'_, Proof>,
}

impl<S: Subject> Property<S> {
    /// Tries the property. One that does not come to an end within the subject's time limit does not hold.
    pub async fn prove(&self, subject: &S) -> Proof {
        match select((self.prove)(subject), pin!(subject.time_limit())).await {
            Either::Left((proof, _)) => proof,
            Either::Right(((), hopeless)) => {
                // Dropping it would drop its engine, which may wait for ever as well.
                std::mem::forget(hopeless);
                Err(Finding::Violation("it did not come to an end".to_owned()))
            }
        }
    }
}

/// Tries every property, and stops at none.
pub async fn run_all<S: Subject>(subject: &S) -> Report {
    let mut report = Report::default();
    for property in properties::<S>() {
        report.add(property.name, property.prove(subject).await);
    }
    report
}

/// The one list of properties: calls the macro named in brackets with all of them.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_conformance_property {
    ([$($then:tt)+] $($with:tt)*) => {
        $($then)+! { [$($with)*]
            atomicity::a_commit_is_seen_whole_or_not_at_all,
            atomicity::an_abandoned_transaction_leaves_nothing,
            atomicity::a_refused_commit_leaves_nothing,
            isolation::reads_come_from_one_snapshot,
            isolation::lost_updates_are_refused,
            isolation::write_skew_is_refused,
            isolation::write_skew_over_ranges_is_refused,
            isolation::every_kind_of_write_is_noticed_by_a_key_read,
            isolation::every_kind_of_write_is_noticed_by_a_range_read,
            isolation::phantoms_are_refused,
            conflicts::snapshot_reads_add_no_conflict,
            conflicts::a_limited_read_depends_only_on_what_it_read,
            conflicts::blind_writes_do_not_conflict,
            conflicts::own_writes_do_not_conflict_with_own_reads,
            conflicts::neighbours_do_not_conflict,
            conflicts::readers_always_succeed,
            planned::prefetched_reads_find_what_reads_find,
            planned::planned_reads_conflict_as_reads_do,
            planned::plans_add_no_conflict,
            own_writes::own_puts_and_deletes_are_read,
            own_writes::own_range_deletes_are_read,
            own_writes::own_adds_are_read,
            own_writes::ranges_merge_own_writes_in_both_directions,
            own_writes::what_is_planned_as_new_need_not_be,
            scans::ranges_are_ordered_by_bytes_in_both_directions,
            scans::limits_cut_and_more_says_so,
            scans::pages_put_together_give_the_whole,
            scans::bounds_are_start_inclusive_and_end_exclusive,
            scans::a_page_is_bounded_in_bytes,
            deletes::a_range_delete_takes_what_others_committed_before_it,
            deletes::a_range_delete_spares_what_comes_after_it,
            deletes::a_range_delete_takes_exactly_its_range,
            counters::concurrent_adds_all_count,
            counters::adds_wrap_and_start_from_zero,
            counters::adds_do_not_conflict,
            stamps::stamps_rise_and_equal_the_returned_one,
            stamps::no_stamp_appears_behind_one_already_seen,
            stamps::a_snapshot_has_seen_what_its_version_says,
            realtime::who_begins_after_an_acknowledgement_sees_it,
            realtime::a_planned_read_has_seen_what_its_version_says,
            realtime::an_acknowledged_chain_is_seen_in_order,
            retry::an_idempotent_retry_applies_once,
            retry::a_conflict_was_surely_not_applied,
            watches::a_change_ends_a_watch,
            watches::a_watch_on_an_older_value_ends_at_once,
            watches::watches_never_miss_a_change,
            watches::a_dropped_watch_harms_nobody,
            limits::keys_out_of_bounds_are_refused,
            limits::values_out_of_bounds_are_refused,
            limits::range_reads_out_of_bounds_are_refused,
            limits::transactions_are_bounded_in_bytes,
            limits::transactions_are_bounded_in_operations,
            limits::what_is_read_counts_towards_the_bound,
            limits::a_range_delete_of_more_than_fits_is_done_or_refused_as_a_whole,
            age::an_old_transaction_neither_reads_nor_commits,
            reopen::acknowledged_commits_survive_a_crash,
            reopen::what_was_not_committed_does_not_survive,
            reopen::stamps_go_on_rising_after_a_crash,
            model::random_transactions_agree_with_a_sorted_map,
            model::concurrent_writes_equal_their_replay,
            history::concurrent_histories_have_an_order,
            history::histories_with_lost_answers_have_an_order,
        }
    };
}

/// One `#[test]` per property, each of which calls `prove` with the property's name.
///
/// `prove` makes a fresh [`Subject`], takes the property of that name from [`properties`] and blocks on its proof.
#[macro_export]
macro_rules! conformance_tests {
    ($prove:path) => {
        $crate::for_each_conformance_property!([$crate::conformance_test_functions] $prove);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test_functions {
    ([$prove:path] $($module:ident::$name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                $prove(stringify!($name));
            }
        )*
    };
}

macro_rules! property_list {
    ([$subject:ident] $($module:ident::$name:ident,)*) => {
        vec![$(Property { name: stringify!($name), prove: |subject: &$subject| Box::pin($module::$name(subject)) },)*]
    };
}

/// Every property, in the order of the report.
pub fn properties<S: Subject>() -> Vec<Property<S>> {
    for_each_conformance_property!([property_list] S)
}
