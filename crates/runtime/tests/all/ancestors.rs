//! The twelve bugs that systems like this one really had, and the test that keeps each of them out.
//!
//! Each is tested where it would arise. This page is their register: it says where, and fails when a test is gone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

/// A bug, and the tests against it: a file of `crates/`, and the name of a test in it.
type Bug = (&'static str, &'static [(&'static str, &'static str)]);

const BUGS: [Bug; 12] = [
    (
        "release deleted the lease key, so the epoch restarted at 1 and stale tokens lived again",
        &[
            ("store/tests/all/worlds.rs", "an_epoch_never_restarts_not_even_with_the_world_deleted"),
            ("runtime/tests/all/host.rs", "a_released_fence_is_dead_for_good"),
        ],
    ),
    (
        "claim and acknowledgement took a worker id and no attempt token",
        &[
            ("store/tests/effects/claims.rs", "a_slow_worker_whose_claim_was_reaped_cannot_acknowledge"),
            ("runtime/tests/shell/mailbox.rs", "a_slow_worker_cannot_finish_what_was_claimed_again"),
        ],
    ),
    (
        "acquire ignored the pin, and stole an unexpired lease because a heartbeat lapsed",
        &[
            ("store/src/protocol/leases/acquire_lease.rs", "an_assignment_to_another_worker_is_respected"),
            ("store/src/protocol/leases/acquire_lease.rs", "an_unexpired_lease_is_never_stolen"),
            ("runtime/tests/worker/assignments.rs", "a_world_runs_only_where_it_is_assigned"),
        ],
    ),
    (
        "an acknowledgement removed the item before it checked the owner",
        &[
            ("store/tests/effects/claims.rs", "a_slow_worker_whose_claim_was_reaped_cannot_acknowledge"),
            ("runtime/tests/shell/mailbox.rs", "a_slow_worker_cannot_finish_what_was_claimed_again"),
        ],
    ),
    (
        "a partition was chosen with a hash that is not stable across compiler releases",
        &[
            ("store/src/keyspace/queue_shard.rs", "the_queue_shard_of_a_kind_never_changes"),
            ("store/tests/effects/claims.rs", "an_item_lies_where_any_release_looks_for_it"),
        ],
    ),
    (
        "effects were deduped by a hash that left out the world: a fork's effect was swallowed by its parent's",
        &[
            ("store/tests/effects/claims.rs", "the_same_intent_of_two_worlds_is_two_effects"),
            ("kernel/tests/kernel/forks.rs", "live_publishes_open_intents_anew_under_names_of_its_own"),
        ],
    ),
    (
        "sequence numbers restarted at 0 when a queue ran empty",
        &[
            ("store/tests/all/worlds.rs", "a_sequence_never_restarts_when_the_inbox_runs_empty"),
            ("store/tests/effects/claims.rs", "a_sequence_is_never_used_twice_and_stays_with_its_item"),
            ("runtime/tests/shell/mailbox.rs", "a_mailbox_that_ran_empty_does_not_start_over"),
        ],
    ),
    (
        "intents were published after the commit, in another transaction: a crash between lost them",
        &[
            ("store/tests/effects/claims.rs", "no_turn_is_journaled_without_its_effects"),
            (
                "adapters/tests/plane/crash_points.rs",
                "a_node_that_dies_at_any_await_loses_no_input_and_repeats_no_answer",
            ),
        ],
    ),
    (
        "one engine transaction per event",
        &[("runtime/tests/all/host.rs", "a_turn_takes_everything_that_waits_in_one_transaction")],
    ),
    (
        "a failing timer with no retry budget blocked all that came after it",
        &[("store/tests/all/timers.rs", "a_failing_timer_blocks_nobody_and_ends_as_a_dead_letter")],
    ),
    (
        "`replay three times` compared three copies of one file and so could not fail",
        &[
            ("kernel/tests/kernel/replays.rs", "a_forged_outcome_diverges_at_its_own_height"),
            ("kernel/tests/kernel/replays.rs", "a_forged_input_shows_in_the_digest_of_its_turn"),
        ],
    ),
    (
        "an event was written before the transaction that it reported, and twice",
        &[
            ("store/tests/crash/journal.rs", "commit_turn"),
            ("runtime/tests/all/host.rs", "a_crash_at_every_await_loses_nothing_and_repeats_nothing"),
            ("runtime/tests/all/host.rs", "a_commit_whose_answer_is_lost_is_neither_lost_nor_repeated"),
        ],
    ),
];

#[test]
fn each_bug_of_our_ancestors_has_its_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (bug, tests) in BUGS {
        for (file, test) in tests {
            let source = fs::read_to_string(crates.join(file)).unwrap();
            assert!(
                source.contains(&format!("#[test]\nfn {test}()"))
                    || source.contains(&format!("#[test]\n    fn {test}()")),
                "{bug}: no {test} in {file}"
            );
        }
    }
}
