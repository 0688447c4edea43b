//! Turns: what is recorded, what is published, and that an abandoned turn did not happen.

use crate::rig::{Rig, body, control, event, identity, message, refusal};
use mundi_kernel::{
    MemoryObjects,
    objects::LoadError,
    turn::{Arrived, TurnBudget, TurnError},
};
use mundi_model::{
    Code, Coded, Hash,
    record::{Body, Input, Payload, ReplyOutcome},
};

#[test]
fn a_turn_records_its_items_what_follows_and_a_digest() {
    let mut rig = Rig::new();
    rig.run("put a 1\nemit http get\ntimer wake 5000\nreply hello");
    assert_eq!(rig.kinds(), ["genesis", "ingress", "intent", "intent", "reply", "digest"]);
    let items = ["put b 2", "put c 3"].map(|script| rig.arrival(event(script)));
    let output = rig.turn(&items);
    assert_eq!(output.consumed, 2);
    assert_eq!(rig.kinds()[6..], ["ingress", "ingress", "digest"], "one digest for the whole turn");
    assert_eq!(rig.text("c"), "3");
}

#[test]
fn a_dropped_turn_did_not_happen() {
    let mut rig = Rig::new();
    rig.run("put a 1\nemit http get\ntimer wake 5000");
    let before = identity(&mut rig.world, &rig.objects);
    let items =
        [rig.arrival(event("put a 2\ncancel get\nemit mail x\ncancel-timer wake")), rig.arrival(event("panic x"))];
    drop(rig.world.turn(&rig.objects, &items, TurnBudget::default()).unwrap());
    assert_eq!(identity(&mut rig.world, &rig.objects), before);
    assert_eq!(rig.text("a"), "1");
    assert_eq!(rig.turn(&items).consumed, 2, "the same items can be taken again");
}

#[test]
fn an_object_that_is_not_at_hand_is_named_and_the_turn_can_be_run_again() {
    let mut rig = Rig::new();
    rig.run("put a 1");
    let taken = rig.snapshot();
    let mut world = rig.restore(&taken.note);
    let items = [rig.arrival(event("add n")), rig.arrival(event("copy a list"))];

    let mut at_hand = MemoryObjects::new();
    let mut fetched = 0;
    let output = loop {
        match world.turn(&at_hand, &items, TurnBudget::default()) {
            Ok(turn) => break turn.keep(),
            Err(TurnError::Load(LoadError::Missing(hash))) => {
                at_hand.put(mundi_kernel::Objects::load(&rig.objects, &hash).unwrap());
                fetched += 1;
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(fetched, 1, "the one leaf of the cells");
    assert_eq!(output.records, rig.turn(&items).records, "as if everything had been there");
}

#[test]
fn a_program_that_ignores_a_missing_object_does_not_get_away_with_it() {
    // `copy` reads, and the line after it would succeed.
    let mut rig = Rig::new();
    rig.run("put a 1");
    let taken = rig.snapshot();
    let mut world = rig.restore(&taken.note);
    let item = rig.arrival(event("copy a list\nput b 2"));
    let nothing = MemoryObjects::new();
    let refused = world.turn(&nothing, &[item], TurnBudget::default()).err().unwrap();
    assert_eq!(refused.code(), Code::ObjectMissing);
    assert_eq!(world.head(), taken.note.height);
}

#[test]
fn logical_time_never_goes_back() {
    let mut rig = Rig::new();
    rig.now_ns = 9_000;
    rig.run("now a");
    rig.now_ns = 3_000;
    rig.run("now b");
    assert_eq!(rig.cell("a"), rig.cell("b"), "the worker's clock went back, the world's did not");
    rig.now_ns = 20_000;
    rig.run("now c");
    assert!(rig.cell("c") > rig.cell("b"));
    let Body::Ingress(ingress) = body(&rig.journal[3]) else { panic!() };
    assert_eq!((ingress.stamps.now_ns, ingress.stamps.logical_now_ns), (3_010, 9_010));
}

#[test]
fn random_numbers_come_from_the_record_and_differ_between_records() {
    let mut rig = Rig::new();
    rig.run("random a\nrandom b");
    rig.run("random c");
    assert_ne!(rig.cell("a"), rig.cell("b"));
    assert_ne!(rig.cell("a"), rig.cell("c"));
    let replayed = rig.replayed();
    assert_eq!(replayed.digest(), rig.world.digest());
}

#[test]
fn an_item_that_cannot_be_read_is_recorded_as_rejected_and_the_next_one_is_taken() {
    let mut rig = Rig::new();
    let mut items = [rig.arrival(event("")), rig.arrival(event("put a 1"))];
    items[0].item = Arrived::read(b"\xff");
    let output = rig.turn(&items);
    assert_eq!(output.consumed, 2);
    assert_eq!(rig.kinds()[1..], ["rejected", "ingress", "digest"]);
    let Body::Rejected(rejected) = body(&rig.journal[1]) else { panic!() };
    assert_eq!((rejected.code.as_str(), rejected.item), ("CBOR_MALFORMED", Hash::of(b"\xff")));
}

#[test]
fn an_item_beyond_its_bounds_is_rejected_and_its_caller_hears_of_it() {
    let mut rig = Rig::new();
    for input in [
        message("inbox", &"x".repeat(20_000)),
        message(&"i".repeat(300), ""),
        Input::Event { schema: "script".into(), value: Payload::Blob(Hash::of(b""), 1 << 40), key: None },
    ] {
        let output = rig.take(input);
        assert_eq!(refusal(&output), "ITEM_TOO_LARGE");
        let ReplyOutcome::Failed(code, ..) = &output.replies[0].outcome else { panic!() };
        assert_eq!(code, "ITEM_TOO_LARGE");
    }
}

#[test]
fn large_payloads_travel_as_objects_both_ways() {
    let mut rig = Rig::new();
    let script = mundi_model::cbor::encode(&mundi_model::Value::Text("put a 1\n".repeat(3_000) + "put b 2"));
    let value = Payload::Blob(rig.objects.put(script.clone()), script.len() as u64);
    rig.take(Input::Event { schema: "script".into(), value, key: None });
    assert_eq!(rig.text("b"), "2");
    let output = rig.run("emit-large http get");
    assert_eq!(output.objects.len(), 1, "the parameters became an object");
    assert!(output.records.iter().all(|record| record.len() < 1_000));
    assert!(matches!(output.publish[0].intent.params, Payload::Blob(..)));
    rig.replayed();
}

#[test]
fn items_out_of_order_are_the_hosts_fault_and_change_nothing() {
    let mut rig = Rig::new();
    let items = [rig.arrival(event("put a 1")), rig.arrival(event("put a 2"))];
    let backwards = [items[1].clone(), items[0].clone()];
    assert_eq!(rig.try_turn(&backwards).unwrap_err().code(), Code::TurnInvalid);
    rig.turn(&items);
    assert_eq!(rig.try_turn(&items[1..]).unwrap_err().code(), Code::TurnInvalid, "an item is taken once");
    assert_eq!(rig.text("a"), "2");
}

#[test]
fn a_turn_ends_at_its_budget_and_leaves_the_rest() {
    let mut rig = Rig::new();
    let items: Vec<_> = (0..10).map(|_| rig.arrival(event("add n"))).collect();
    let budget = TurnBudget { records_max: 3, ..TurnBudget::default() };
    let output = rig.world.turn(&rig.objects, &items, budget).unwrap().keep();
    assert_eq!((output.consumed, output.records.len()), (3, 4), "three items and the digest");
    let none = TurnBudget { records_max: 1, ..TurnBudget::default() };
    assert_eq!(rig.world.turn(&rig.objects, &items[3..], none).unwrap().keep().consumed, 1, "always one");
}

#[test]
fn many_written_cells_end_a_turn_and_become_a_tree_before_the_next() {
    let mut rig = Rig::new();
    let items: Vec<_> =
        ["many a 6000", "many b 6000", "wipe a 6000", "copy a list"].map(|s| rig.arrival(event(s))).into();
    let output = rig.turn(&items);
    assert_eq!(output.consumed, 2, "what was written is much by now");
    assert_eq!(rig.world.written_cells(), 12_000);
    rig.turn(&items[2..]);
    assert_eq!(rig.world.written_cells(), 6_001, "only what this turn wrote");
    assert_eq!(rig.text("list"), "");
    let mut replayed = rig.replayed();
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn a_query_reads_the_world_and_cannot_change_it() {
    let mut rig = Rig::new();
    rig.run("put a 1\nput b 2");
    let before = identity(&mut rig.world, &rig.objects);
    let ask = |name: &str| rig.world.query(&rig.objects, name, b"\xf6");
    assert_eq!(ask("keys").unwrap(), b"a b ");
    assert_eq!(ask("panic").unwrap_err().code(), Code::ProgramPanicked);
    assert_eq!(ask("undeclared").unwrap_err().code(), Code::QueryInvalid);
    assert_eq!(rig.world.query(&rig.objects, "keys", b"\xff").unwrap_err().code(), Code::QueryInvalid);
    assert_eq!(identity(&mut rig.world, &rig.objects), before);
}

#[test]
fn a_paused_world_keeps_its_items_and_takes_control_commands_ahead_of_them() {
    let mut rig = Rig::pausing_after(2);
    let items: Vec<_> = ["fail a", "fail b", "put a 1", "put b 2"].map(|script| rig.arrival(event(script))).into();
    let output = rig.turn(&items);
    assert_eq!(output.consumed, 2, "paused after the second failure");
    assert!(rig.world.is_paused());

    let resume = rig.arrival(control("resume", Vec::new()));
    let last = rig.arrival(event("put c 3"));
    let waiting = [items[2].clone(), items[3].clone(), resume.clone(), last.clone()];
    let output = rig.turn(&waiting);
    assert_eq!(output.consumed, 0, "the cursor stays before what still waits");
    assert!(!rig.world.is_paused());
    assert_eq!(rig.kinds().iter().filter(|kind| **kind == "ingress").count(), 3);

    let output = rig.turn(&waiting);
    assert_eq!(output.consumed, 4, "the command is passed over the second time");
    assert_eq!(output.records.len(), 4, "three items and the digest");
    assert_eq!((rig.text("a"), rig.text("b"), rig.text("c")), ("1".into(), "2".into(), "3".into()));
    let mut replayed = rig.replayed();
    assert_eq!(identity(&mut replayed, &rig.objects), identity(&mut rig.world, &rig.objects));
}

#[test]
fn a_success_in_between_starts_the_count_of_failures_again() {
    let mut rig = Rig::pausing_after(2);
    for script in ["fail a", "put a 1", "fail b"] {
        rig.run(script);
    }
    assert!(!rig.world.is_paused());
    rig.run("panic c");
    assert!(rig.world.is_paused());
}

#[test]
fn an_operator_can_pause_and_an_unknown_command_is_rejected() {
    let mut rig = Rig::new();
    assert_eq!(refusal(&rig.take(control("dance", Vec::new()))), "CONTROL_INVALID");
    rig.take(control("pause", Vec::new()));
    assert!(rig.world.is_paused());
    let item = rig.arrival(event("put a 1"));
    assert_eq!(rig.turn(&[item]).consumed, 0);
}

#[test]
fn logs_reach_the_host_and_are_no_part_of_the_outcome() {
    let mut rig = Rig::new();
    let output = rig.run("log hello\nput a 1");
    assert_eq!(output.logs[0].1.text, "hello");
    let mut silent = Rig::new();
    silent.run("put a 1");
    assert_eq!(rig.world.digest(), silent.world.digest());
}
