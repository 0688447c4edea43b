//! Every protocol that writes crashes at each of its operations in some test: this list says in which one, and the sources are
//! searched for protocols that are missing from it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// A test, and the protocols that die there.
type Deaths = (&'static str, &'static [&'static str]);

/// Files with such tests.
const DIE: &[(&str, &[Deaths])] = &[
    (
        "crates/store/tests/crash/universes.rs",
        &[
            ("create_universe", &["CreateUniverse"]),
            ("name_a_universe_guard_its_schema_and_heartbeat_in_it", &["NameUniverse", "GuardSchema", "Heartbeat"]),
            ("import_a_universe", &["Begin", "WritePart", "Finish"]),
            ("register_keep_and_let_go", &["Register", "KeepObject", "ReleaseObject"]),
            ("name_programs_and_delete_versions", &["NameProgram", "UnnameProgram"]),
            ("write_and_revoke_tokens", &["WriteToken", "SetTokenQuotas", "WriteQuotas", "ChargeToken"]),
            ("create_a_pool_and_delete_it", &["CreatePool", "DeletePool"]),
            ("watch_a_pool_and_hear_a_holder", &["SetWatch", "BeatLease"]),
            ("pin_an_object_and_let_it_go", &["PinBlob", "UnpinBlob"]),
        ],
    ),
    (
        "crates/store/tests/crash/worlds.rs",
        &[
            ("create_world", &["Create"]),
            ("import_a_world", &["Import", "Inherit"]),
            ("archive_a_world_and_bring_it_back", &["ArchiveWorld"]),
            ("put_a_world_on_hold_and_release_it", &["HoldWorld", "ReleaseHold"]),
            ("close_a_world_that_somebody_holds", &["CloseWorld"]),
            ("delete_world_in_chunks", &["DeleteWorld"]),
            ("name_a_world", &["NameWorld"]),
            ("label_a_world", &["LabelWorld"]),
            ("index_worlds_of_an_earlier_version", &["IndexWorlds"]),
        ],
    ),
    (
        "crates/store/tests/crash/leases.rs",
        &[
            ("acquire_lease", &["AcquireLease"]),
            ("end_a_probation", &["EndProbation"]),
            ("take_a_lease_over_to_delete_its_world", &["TakeOverLease"]),
            ("ask_for_a_lease_and_withdraw_the_request", &["WithdrawLeaseRequest"]),
            ("forget_that_a_world_is_assigned", &["ForgetAssignment"]),
            ("renew_leases", &["RenewLeases"]),
            ("release_lease", &["ReleaseLease"]),
            ("assign_world", &["AssignWorld"]),
            ("place_a_world_and_tell_its_worker", &["PlaceWorld"]),
            ("settle_world", &["SettleWorld"]),
        ],
    ),
    (
        "crates/store/tests/crash/inbox.rs",
        &[
            ("enqueue_of_named_items", &["Enqueue"]),
            ("drain_inbox", &["DrainInbox"]),
            ("commit_cursor", &["CommitCursor"]),
            ("compact_inbox_after_the_grace", &["CompactInbox"]),
            ("expire_dedupe_records", &["ExpireDedupe"]),
            ("call_another_world", &["CallWorld"]),
        ],
    ),
    (
        "crates/store/tests/crash/journal.rs",
        &[
            ("note_a_snapshot_that_is_due_and_wake_its_world", &["NoteSnapshotDue", "WakeDueSnapshots"]),
            ("append_batch", &["AppendBatch"]),
            ("commit_turn", &["CommitTurn"]),
            ("commit_a_turn_without_a_look_into_the_inbox", &["CommitTurn"]),
            ("commit_and_promote_snapshot", &["Commit"]),
        ],
    ),
    (
        "crates/store/tests/crash/effects.rs",
        &[
            ("claim_effects", &["ClaimEffects"]),
            ("complete_an_effect", &["CompleteEffect"]),
            ("fail_an_effect_for_now_and_for_good", &["FailEffect"]),
            ("extend_a_claim", &["ExtendClaims"]),
            ("reap_effects", &["ReapEffects"]),
            ("intervene_in_effects", &["CancelEffect", "RetryEffect"]),
            ("answer_effects_by_hand", &["AnswerEffect"]),
            ("fire_timers", &["FireTimers"]),
        ],
    ),
    (
        "crates/store/tests/crash/mail.rs",
        &[
            ("send_mail_with_names", &["SendMail"]),
            ("claim_a_message_and_raise_its_mark", &["ClaimMail"]),
            ("acknowledge_requeue_and_bury_a_message", &["FinishMail"]),
            ("replay_dead_letters_of_every_queue", &["ReplayDeadLetter"]),
            ("drop_dead_letters", &["DropDeadLetter"]),
        ],
    ),
    (
        "crates/store/tests/crash/children.rs",
        &[
            ("spawn_children_with_a_turn", &["CommitTurn"]),
            ("dispatch_a_child", &["LeaseChild"]),
            ("start_a_child", &["StartChild"]),
            ("start_a_child_that_is_a_world", &["StartWorld"]),
            ("a_world_says_that_it_is_done_or_is_cancelled", &["EndWorldChild", "CancelChild"]),
            ("finish_a_child", &["FinishChild"]),
            ("debit_a_child_within_and_beyond_its_budget", &["DebitChild"]),
            ("cancel_queued_leased_and_started_children", &["CancelChild"]),
            ("recover_children_whose_executors_are_gone", &["RecoverChild"]),
            ("extend_the_lease_of_a_child", &["ExtendChildLeases"]),
            ("fail_a_child_that_waits", &["FailQueuedChild"]),
            ("hold_a_parent", &["HoldParent"]),
            ("set_a_budget", &["SetBudget"]),
            ("note_a_request", &["NoteRequest"]),
        ],
    ),
    (
        "crates/store/src/segments/tests.rs",
        &[(
            "an_export_that_crashes_at_any_step_and_is_retried_leaves_the_same_bytes",
            &["BeginExport", "IndexSegment", "DeleteExported"],
        )],
    ),
    (
        "crates/store/src/blobs/tests.rs",
        &[("a_put_that_crashes_at_any_step_and_is_retried_leaves_the_same_bytes", &["CasPut"])],
    ),
];

/// The sweep of the content store crashes as a whole, step by step, in its own tests.
const SWEEP: [&str; 3] = ["content/cas_sweep.rs", "content/sweep_run.rs", "/reachability/"];
const SWEEP_TEST: (&str, &str) =
    ("crates/store/src/reachability/tests.rs", "a_sweep_that_crashes_at_any_step_is_finished_by_later_ones");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The protocols of the crate, each with the text of its implementation.
fn protocols() -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut BTreeMap<String, String>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_of_sweep(&path) {
                let text = fs::read_to_string(&path).unwrap();
                for (at, _) in text.match_indices(" Protocol for ").filter(|(at, _)| is_declared(&text, *at)) {
                    let rest = &text[at + " Protocol for ".len()..];
                    let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
                    let body = rest.split("\n}\n").next().unwrap();
                    found.insert(name.to_owned(), body.to_owned());
                }
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&root().join("crates/store/src"), &mut found);
    found
}

fn is_of_sweep(path: &Path) -> bool {
    SWEEP.iter().any(|part| path.to_string_lossy().contains(part))
}

fn is_declared(text: &str, at: usize) -> bool {
    text[..at].rsplit('\n').next().is_some_and(|line| line.starts_with("impl"))
}

/// Whether a protocol says of itself, in its own body, that it writes. One that leaves all writing to others is in the list.
fn seems_to_write(body: &str) -> bool {
    ["write(", "put(", "delete(", "delete_range(", "bump(", "add(", "ensure("].iter().any(|call| body.contains(call))
}

#[test]
fn every_protocol_that_writes_dies_at_every_operation_of_some_test() {
    let listed: BTreeSet<&str> =
        DIE.iter().flat_map(|(_, tests)| *tests).flat_map(|(_, names)| *names).copied().collect();
    let protocols = protocols();
    assert!(protocols.len() > 55, "{} protocols", protocols.len());
    let forgotten: Vec<_> =
        protocols.iter().filter(|(name, body)| seems_to_write(body) && !listed.contains(name.as_str())).collect();
    assert!(
        forgotten.is_empty(),
        "no test lets these die: {:?}",
        forgotten.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    let gone: Vec<_> = listed.iter().filter(|name| !protocols.contains_key(**name)).collect();
    assert!(gone.is_empty(), "there are no such protocols: {gone:?}");
}

#[test]
fn every_test_of_the_list_is_there() {
    let listed = DIE.iter().flat_map(|(file, tests)| tests.iter().map(move |(test, _)| (*file, *test)));
    for (file, test) in listed.chain([SWEEP_TEST]) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(&format!("fn {test}()")), "{file} has no test {test}");
    }
}
