//! Replay: from genesis, from any snapshot, to any height; and the first difference has a name.

use crate::rig::{Rig, body, event, fired, identity, kind, message, receipt};
use mundi_kernel::{
    MemoryObjects, Note,
    objects::LoadError,
    replay::{Replay, ReplayError},
};
use mundi_model::{
    Code, Coded, Hash, Height, cbor,
    record::{Body, Custom, Payload, ReceiptStatus, Record, ReplyOutcome},
};

/// A history in which every kind of record occurs.
fn eventful() -> Rig {
    let mut rig = Rig::pausing_after(3);
    let output = rig.run("put a 1\nemit http get\nemit mail post\ntimer wake 5000\nreply hello\nrandom r");
    let (get, wake) = (output.publish[0].intent.hash, output.timers[0].timer);
    rig.take(receipt(get, "http", ReceiptStatus::Ok, b"answer"));
    rig.take(receipt(get, "http", ReceiptStatus::Ok, b"again"));
    rig.take(fired(wake));
    rig.take(message("box", "hello"));
    rig.run("cancel post\nadd n");
    rig.run("put a 2\npanic oh");
    let manifest = rig.store_manifest(&crate::rig::manifest(2));
    rig.take(crate::rig::upgrade(manifest));
    let note = rig.snapshot().note;
    rig.note(Note::Snapshot(note.clone())).unwrap();
    rig.note(Note::Baseline(note)).unwrap();
    rig.note(Note::Custom(Custom { kind: "test".into(), payload: Payload::Inline(vec![1]) })).unwrap();
    let items = ["v2\nadd n", "fail x", "copy a list"].map(|script| rig.arrival(event(script)));
    rig.turn(&items);
    rig
}

fn replay(rig: &Rig) -> Replay {
    Replay::from_genesis(&rig.objects, rig.registry.clone(), &rig.journal[0]).unwrap()
}

/// The journal with one record changed, and everything above it chained again, as a forger would.
fn forged(rig: &Rig, at: usize, change: impl FnOnce(&mut Record)) -> Vec<Vec<u8>> {
    let mut records: Vec<Record> = rig.journal.iter().map(|bytes| cbor::decode(bytes).unwrap()).collect();
    change(&mut records[at]);
    let mut chain = Record::CHAIN_START;
    let mut sealed = Vec::new();
    for record in &mut records {
        record.prev = chain;
        let (bytes, hash) = record.seal();
        chain = hash;
        sealed.push(bytes);
    }
    sealed
}

fn find(rig: &Rig, wanted: &str) -> usize {
    rig.kinds().iter().position(|kind| *kind == wanted).unwrap()
}

#[test]
fn replay_from_genesis_gives_the_same_world() {
    let mut rig = eventful();
    let mut world = rig.replayed();
    assert_eq!(identity(&mut world, &rig.objects), identity(&mut rig.world, &rig.objects));
    assert_eq!(world.chain(), rig.world.chain());
    let next = [rig.arrival(event("add n\nrandom r"))];
    let output = world.turn(&rig.objects, &next, Default::default()).unwrap().keep();
    assert_eq!(output.records, rig.turn(&next).records);
}

#[test]
fn replay_to_any_height_and_on_from_there() {
    let mut rig = eventful();
    let whole = identity(&mut rig.world, &rig.objects);
    for height in 1..=rig.journal.len() {
        let mut replay = replay(&rig);
        replay.run(&rig.objects, &rig.journal[1..], Some(Height::new(height as u64))).unwrap();
        assert_eq!(replay.head().get(), height as u64);
        let Ok(mut world) = replay.finish() else { continue }; // in the middle of what follows from a step
        let taken = world.snapshot(&rig.objects).unwrap();
        rig.objects.extend(taken.objects);
        let mut replay = Replay::from_world(rig.restore(&taken.note));
        replay.run(&rig.objects, &rig.journal[height..], None).unwrap();
        assert_eq!(identity(&mut replay.finish().unwrap(), &rig.objects), whole, "from height {height}");
    }
}

#[test]
fn records_that_end_in_the_middle_of_a_step_make_no_world() {
    let rig = eventful();
    let mut replay = replay(&rig);
    replay.run(&rig.objects, &rig.journal[1..], Some(Height::new(2))).unwrap();
    let (before, after) = replay.step_around().unwrap();
    assert_eq!(before, Height::new(1));
    for (height, is_whole) in [(before.get(), true), (after.get() - 1, false), (after.get(), true)] {
        let mut other = self::replay(&rig);
        other.run(&rig.objects, &rig.journal[1..], Some(Height::new(height))).unwrap();
        assert_eq!(other.finish().is_ok(), is_whole, "at height {height}");
    }
    assert_eq!(replay.finish().err().unwrap(), ReplayError::MidStep(Height::new(2)));
}

#[test]
fn each_flipped_bit_of_a_journal_is_found_at_its_height() {
    let rig = eventful();
    for (height, record) in rig.journal.iter().enumerate().skip(1) {
        for byte in (0..record.len()).step_by(3) {
            let mut journal = rig.journal.clone();
            journal[height][byte] ^= 1;
            let error = replay(&rig).run(&rig.objects, &journal[1..], None);
            let last = height + 1 == journal.len();
            match error {
                Err(error) => {
                    let at = match error {
                        ReplayError::Broken { height, .. } | ReplayError::Diverged { height, .. } => height.get(),
                        // A damaged hash names an object that is not there.
                        ReplayError::Load(LoadError::Missing(_)) => height as u64,
                        other => panic!("{other}"),
                    };
                    // What only the chain covers shows when the next record names its predecessor.
                    assert!(at == height as u64 || at == height as u64 + 1, "bit {byte} of {height} found at {at}");
                }
                Ok(_) => assert!(last || kind(&body(record)) == "never", "bit {byte} of {height} was not found"),
            }
        }
    }
}

#[test]
fn a_forged_outcome_diverges_at_its_own_height() {
    let rig = eventful();
    type Forge = fn(&mut Body);
    let forgeries: [(&str, Forge); 5] = [
        ("intent", |body| {
            if let Body::Intent(intent) = body {
                intent.params = Payload::Inline(vec![]);
            }
        }),
        ("cancel", |body| *body = Body::Cancel(mundi_model::IntentHash::of(b"x"))),
        ("reply", |body| {
            if let Body::Reply(reply) = body {
                reply.outcome = ReplyOutcome::Ok(Payload::Inline(vec![]));
            }
        }),
        ("failed", |body| {
            if let Body::StepFailed(failed) = body {
                failed.code = "OTHER".into();
            }
        }),
        ("digest", |body| *body = Body::OutcomeDigest(Hash::of(b"x"))),
    ];
    for (kind, forge) in forgeries {
        let at = find(&rig, kind);
        let journal = forged(&rig, at, |record| forge(&mut record.body));
        let error = replay(&rig).run(&rig.objects, &journal[1..], None).unwrap_err();
        let ReplayError::Diverged { height, recorded, produced } = &error else { panic!("{kind}: {error}") };
        assert_eq!(height.get(), at as u64, "{kind}");
        assert_eq!((**recorded).clone(), body(&journal[at]));
        assert_eq!(produced.as_deref(), Some(&body(&rig.journal[at])), "{kind}");
        assert_eq!(error.code(), Code::ReplayDiverged);
    }
}

#[test]
fn a_forged_input_shows_in_the_digest_of_its_turn() {
    let rig = eventful();
    let at = find(&rig, "ingress");
    let journal = forged(&rig, at, |record| {
        let Body::Ingress(ingress) = &mut record.body else { panic!() };
        ingress.stamps.entropy = [9; 16];
    });
    let error = replay(&rig).run(&rig.objects, &journal[1..], None).unwrap_err();
    let ReplayError::Diverged { height, .. } = error else { panic!("{error}") };
    assert_eq!(height.get(), find(&rig, "digest") as u64, "the cell that holds a random number differs");
}

#[test]
fn forged_stamps_repeated_items_and_invented_records_are_refused() {
    let rig = eventful();
    let refused = |journal: &[Vec<u8>]| replay(&rig).run(&rig.objects, &journal[1..], None).unwrap_err();
    let ingress = find(&rig, "ingress");
    let back_in_time = forged(&rig, ingress, |record| {
        let Body::Ingress(ingress) = &mut record.body else { panic!() };
        ingress.stamps.logical_now_ns -= 1;
    });
    assert_eq!(refused(&back_in_time).code(), Code::JournalBroken);
    let other_manifest = forged(&rig, ingress, |record| {
        let Body::Ingress(ingress) = &mut record.body else { panic!() };
        ingress.stamps.manifest = Hash::of(b"x");
    });
    assert_eq!(refused(&other_manifest).code(), Code::JournalBroken);
    let custom = find(&rig, "custom");
    for invented in [body(&rig.journal[ingress]), body(&rig.journal[find(&rig, "intent")]), body(&rig.journal[0])] {
        let journal = forged(&rig, custom, |record| record.body = invented);
        let error = refused(&journal);
        assert!(matches!(error.code(), Code::JournalBroken | Code::ReplayDiverged), "{error}");
    }
    let mut without = rig.journal.clone();
    without.remove(custom);
    assert_eq!(refused(&without).code(), Code::JournalBroken, "a record is missing");
}

#[test]
fn the_sentence_of_a_failure_is_not_compared_but_its_code_is() {
    let mut rig = Rig::new();
    rig.run("panic oh");
    rig.run("put a 1");
    let at = find(&rig, "failed");
    let journal = forged(&rig, at, |record| {
        let Body::StepFailed(failed) = &mut record.body else { panic!() };
        failed.reason = "as another compiler would put it".into();
    });
    replay(&rig).run(&rig.objects, &journal[1..], None).unwrap();
}

#[test]
fn a_replay_that_misses_an_object_goes_on_when_it_is_there() {
    let mut rig = Rig::new();
    let script = cbor::encode(&mundi_model::Value::Text("put a 1\n".repeat(3_000) + "put b 2"));
    let hash = rig.objects.put(script.clone());
    let value = Payload::Blob(hash, script.len() as u64);
    rig.take(mundi_model::record::Input::Event { schema: "script".into(), value, key: None });
    let mut without: MemoryObjects = rig.objects.clone();
    without.remove(&hash);
    let mut replay = Replay::from_genesis(&without, rig.registry.clone(), &rig.journal[0]).unwrap();
    let missing = replay.run(&without, &rig.journal[1..], None).unwrap_err();
    assert_eq!(missing, ReplayError::Load(LoadError::Missing(hash)));
    assert_eq!(replay.head(), Height::new(1), "nothing was half applied");
    without.put(script);
    replay.run(&without, &rig.journal[1..], None).unwrap();
    assert_eq!(replay.finish().unwrap().chain(), rig.world.chain());
}

#[test]
fn a_long_history_streams_through_a_world_of_constant_size() {
    let mut rig = Rig::new();
    for _ in 0..50 {
        let items: Vec<_> = (0..40).map(|_| rig.arrival(event("add n\nrandom r"))).collect();
        rig.turn(&items);
    }
    let mut replay = replay(&rig);
    let mut largest = 0;
    for record in &rig.journal[1..] {
        replay.apply(&rig.objects, record).unwrap();
        largest = largest.max(replay.world().written_cells());
    }
    assert_eq!(largest, 2, "two thousand steps, two cells");
}
