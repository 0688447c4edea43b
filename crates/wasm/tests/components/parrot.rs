//! A guest that says to its host whatever it is told to: each sentence is a call with numbers that someone drew.

use crate::{guest::Guest, rig::Rig};
use mundi_model::record::{Input, Payload};
use std::cell::RefCell;

/// A sentence: which call, and four numbers. They point into the guest's memory, or past it.
pub(crate) const SENTENCE_BYTES: usize = 17;

/// The value of an event is a byte string in CBOR with a head of three bytes, and the sentences after it.
fn parrot() -> Guest {
    Guest {
        extra: r#"(func $number (param $at i32) (result i32) (i32.load (local.get $at)))"#.to_owned(),
        ..Guest::handling(
            r#"(local $at i32) (local $end i32) (local $op i32) (local $a i32) (local $b i32) (local $c i32) (local $d i32)
            (local.set $at (i32.add (i32.load offset=84 (local.get $event)) (i32.const 3)))
            (local.set $end (i32.add (i32.load offset=84 (local.get $event)) (i32.load offset=88 (local.get $event))))
            (block $over (loop $again
              (br_if $over (i32.gt_u (i32.add (local.get $at) (i32.const 17)) (local.get $end)))
              (local.set $op (i32.rem_u (i32.load8_u (local.get $at)) (i32.const 8)))
              (local.set $a (call $number (i32.add (local.get $at) (i32.const 1))))
              (local.set $b (call $number (i32.add (local.get $at) (i32.const 5))))
              (local.set $c (call $number (i32.add (local.get $at) (i32.const 9))))
              (local.set $d (call $number (i32.add (local.get $at) (i32.const 13))))
              (if (i32.eq (local.get $op) (i32.const 0)) (then (call $put (local.get $a) (local.get $b) (local.get $c) (local.get $d))))
              (if (i32.eq (local.get $op) (i32.const 1)) (then (call $get (local.get $a) (local.get $b) (local.get $c))))
              (if (i32.eq (local.get $op) (i32.const 2)) (then (call $emit (i32.const 520) (i32.const 8) (local.get $a) (local.get $b) (local.get $c) (local.get $d) (i32.const 256))))
              (if (i32.eq (local.get $op) (i32.const 3)) (then (call $reply (local.get $a) (local.get $b) (local.get $c) (local.get $d))))
              (if (i32.eq (local.get $op) (i32.const 4)) (then (call $log (local.get $a) (local.get $b) (local.get $c))))
              (if (i32.eq (local.get $op) (i32.const 5)) (then (drop (call $random))))
              (if (i32.eq (local.get $op) (i32.const 6)) (then (return (local.get $a))))
              (local.set $at (i32.add (local.get $at) (i32.const 17)))
              (br $again)))
            i32.const 0"#,
        )
    }
}

/// Lets the guest say it. Whatever it is: the step ends, its outcome is journaled, and the world continues.
pub(crate) fn said(bytes: &[u8]) {
    thread_local! {
        static RIG: RefCell<Rig> = RefCell::new(Rig::new(&parrot().component()));
    }
    let sentences = &bytes[..bytes.len().min(512 * SENTENCE_BYTES)];
    let Ok(len) = u16::try_from(sentences.len()) else { return };
    let value = [&[0x59], &len.to_be_bytes()[..], sentences].concat();
    RIG.with_borrow_mut(|rig| {
        let before = rig.world.head();
        let input = Input::Event { schema: "go".to_owned(), value: Payload::Inline(value), key: None };
        rig.take(input).expect("whatever a guest says, the turn is taken");
        assert!(rig.world.head() > before);
        rig.records.truncate(1); // a fuzzer goes on for days
    });
}
