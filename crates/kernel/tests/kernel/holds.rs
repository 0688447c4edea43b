//! A world that its manifest holds at a failed input: what is journaled, what a skip passes, and that replay agrees.

use crate::rig::{CHILD, Rig, control, event, identity, manifest, receipt, refusal, upgrade};
use mundi_kernel::{
    Repair,
    fork::{ForkRequest, fork},
    manifest::{Manifest, OnFailure},
    rehearse::{Compare, rehearse},
    snapshot::KernelSnapshot,
    turn::Arrival,
};
use mundi_model::{
    InboxSeq, cbor,
    record::{EffectPolicy, Operator, ReceiptStatus, ReplyOutcome},
};

fn holding() -> Rig {
    Rig::with(&Manifest { on_failure: OnFailure::Hold, ..manifest(1) })
}

fn repair(rig: &mut Rig, command: &str, seq: InboxSeq) -> Arrival {
    let operator = Operator { token: None, name: "ann".into() };
    rig.arrival(control(command, cbor::encode(&Repair { seq, operator })))
}

#[test]
fn a_failed_input_is_not_taken_and_nothing_of_its_step_stays() {
    let mut rig = holding();
    let items =
        ["add n", "put a 1\nemit http get\nlog hello\nfail x", "add n"].map(|script| rig.arrival(event(script)));
    let output = rig.turn(&items);
    assert_eq!((output.consumed, output.publish.len()), (1, 0));
    assert_eq!(rig.kinds(), ["genesis", "ingress", "held", "digest"]);
    assert_eq!(output.logs[0].1.text, "hello", "what it said helps to mend it");
    let held = rig.world.held().unwrap();
    assert_eq!((held.seq, held.height.get()), (items[1].seq, 2));
    assert_eq!((rig.text("a").as_str(), rig.world.is_paused()), ("", true));
    let output = rig.turn(&items[1..]);
    assert_eq!((output.consumed, output.records.len()), (0, 0), "it waits");
    let mut replayed = rig.replayed();
    assert_eq!(replayed.held(), rig.world.held());
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn a_skip_passes_one_input_and_only_the_one_that_is_held() {
    let mut rig = holding();
    let items = ["fail x", "add n", "fail y"].map(|script| rig.arrival(event(script)));
    rig.turn(&items);
    let wrong = repair(&mut rig, "skip", items[1].seq);
    let output = rig.turn(&[items[0].clone(), wrong]);
    assert_eq!(refusal(&output), "CONTROL_INVALID");
    assert!(rig.world.is_paused());
    let skip = repair(&mut rig, "skip", items[0].seq);
    rig.turn(&[items[0].clone(), skip]);
    let output = rig.turn(&items);
    assert_eq!(refusal(&output), "STEP_SKIPPED");
    assert_eq!(output.consumed, 2, "the one behind it was taken, and the next failure holds again");
    let ReplyOutcome::Failed(code, _, Some(_)) = &output.replies[0].outcome else { panic!("{:?}", output.replies) };
    assert_eq!((code.as_str(), rig.world.held().unwrap().seq), ("STEP_SKIPPED", items[2].seq));
    let late = repair(&mut rig, "skip", items[0].seq);
    let output = rig.turn(&[items[2].clone(), late]);
    assert_eq!(refusal(&output), "CONTROL_INVALID", "a skip that comes twice passes one");
    assert_eq!(identity(&mut rig.replayed(), &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn a_receipt_before_a_failed_input_is_taken() {
    let mut rig = holding();
    let output = rig.run("emit http get");
    let get = output.publish[0].intent.hash;
    let answer = rig.arrival(receipt(get, "http", ReceiptStatus::Ok, b"answer"));
    let fails = rig.arrival(event("fail x"));
    rig.turn(&[answer.clone(), fails.clone()]);
    assert!(!rig.world.waits_for(get) && rig.world.held().unwrap().seq == fails.seq);
    let skip = repair(&mut rig, "skip", fails.seq);
    rig.turn(&[fails.clone(), skip]);
    rig.turn(&[fails]);
    assert_eq!((rig.world.held(), rig.world.is_paused()), (None, false));
}

#[test]
fn a_skipped_receipt_closes_its_intent() {
    let mut rig = holding();
    let get = rig.run("emit http unreadable").publish[0].intent.hash;
    let answer = rig.arrival(receipt(get, "http", ReceiptStatus::Ok, b"answer"));
    rig.turn(std::slice::from_ref(&answer));
    assert!(rig.world.waits_for(get) && rig.world.held().unwrap().seq == answer.seq);
    let skip = repair(&mut rig, "skip", answer.seq);
    rig.turn(&[answer.clone(), skip]);
    assert_eq!(refusal(&rig.turn(&[answer])), "STEP_SKIPPED");
    assert!(!rig.world.waits_for(get), "it has had its answer");
    assert_eq!(identity(&mut rig.replayed(), &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn an_upgrade_is_taken_ahead_and_a_retry_takes_the_input_again() {
    let mut rig = holding();
    let fails = rig.arrival(event("add n\nfail x"));
    rig.turn(std::slice::from_ref(&fails));
    let other = rig.store_manifest(&Manifest { on_failure: OnFailure::Continue, ..manifest(2) });
    let takes_over = rig.arrival(upgrade(other));
    rig.turn(&[fails.clone(), takes_over]);
    assert!(rig.world.held().is_some(), "the upgrade alone takes nothing again");
    let retry = repair(&mut rig, "retry", fails.seq);
    rig.turn(&[fails.clone(), retry]);
    let output = rig.turn(&[fails]);
    assert_eq!(
        (refusal(&output).as_str(), output.consumed),
        ("PROGRAM_FAILED", 1),
        "under the new policy it is consumed"
    );
    let mut replayed = rig.replayed();
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

/// Once a retry that came twice ended whatever hold or pause it met.
#[test]
fn a_retry_ends_no_hold_but_the_one_that_it_names() {
    let mut rig = holding();
    let items = ["fail x", "fail y"].map(|script| rig.arrival(event(script)));
    rig.turn(&items);
    let skip = repair(&mut rig, "skip", items[0].seq);
    rig.turn(&[items[0].clone(), skip]);
    rig.turn(&items);
    assert_eq!(rig.world.held().unwrap().seq, items[1].seq);
    let late = repair(&mut rig, "retry", items[0].seq);
    let output = rig.turn(&[items[1].clone(), late]);
    assert_eq!(refusal(&output), "CONTROL_INVALID");
    assert_eq!(rig.world.held().unwrap().seq, items[1].seq, "it is held where it was");
}

#[test]
fn a_history_with_holds_can_be_rehearsed_and_forked() {
    let mut rig = holding();
    let start = rig.snapshot().note;
    let from = rig.journal.len();
    let items = ["add n", "fail x", "add n"].map(|script| rig.arrival(event(script)));
    rig.turn(&items);
    let taken = rig.snapshot();
    let parent = KernelSnapshot::from_bytes(&taken.bytes).unwrap();
    let branch =
        fork(&parent, ForkRequest { child: CHILD, policy: EffectPolicy::Suppress, answers: None, now_ns: 9_000 })
            .unwrap();
    rig.objects.put(branch.bytes.clone());
    let child = rig.restore(&branch.note);
    assert_eq!((child.held(), child.is_paused()), (None, false), "what its parent is held at is not in its inbox");
    let skip = repair(&mut rig, "skip", items[1].seq);
    rig.turn(&[items[1].clone(), skip]);
    rig.turn(&items[1..]);
    let same = rig.store_manifest(&Manifest { on_failure: OnFailure::Hold, ..manifest(2) });
    let rehearsed =
        rehearse(&rig.objects, &rig.registry, &start, same, Compare::Outputs, &rig.journal[from..]).unwrap();
    assert_eq!(rehearsed.divergence, None);
    assert_eq!(rehearsed.records, (rig.journal.len() - from) as u64);
}
