//! Hostile guests. Each is bounded, has a typed end, and is journaled if it happened in a step; its neighbours do not
//! notice.

use crate::{
    guest::{Guest, counter},
    rig::{Rig, components, components_with, failed, failure},
};
use mundi_kernel::{
    QueryError,
    loader::{CodeSource, Loader, UniverseShare},
    manifest::Manifest,
};
use mundi_model::{Code, Coded, UniverseId, limits};
use mundi_wasm::ComponentsConfig;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Runs a hostile step, between two steps of a neighbour on the same engine, and says how it ended.
fn ends(guest: &Guest) -> String {
    let components = components();
    let mut neighbour = Rig::with(&components, &counter().component(), |_| {}).unwrap();
    assert_eq!(failure(&neighbour.go()), None);
    let mut rig = Rig::with(&components, &guest.component(), |_| {}).unwrap();
    let output = rig.go();
    let code = failed(&output);
    // The step is journaled, undone, and the world continues to fail in the same way.
    assert_eq!(rig.world.cell(&rig.objects, "cell").unwrap(), None);
    assert!(output.publish.is_empty() && output.timers.is_empty());
    assert_eq!(failed(&rig.go()), code);
    assert_eq!(failure(&neighbour.go()), None);
    code
}

#[test]
fn an_infinite_loop_runs_out_of_fuel() {
    assert_eq!(ends(&Guest::handling("(loop $again (br $again)) i32.const 0")), "BUDGET_EXHAUSTED");
}

#[test]
fn a_long_copy_is_paid_by_the_byte() {
    // Few instructions, each of which moves a megabyte.
    let guest = Guest {
        memory: "(memory (export \"memory\") 64)",
        ..Guest::handling(
            "(loop $again (memory.fill (i32.const 1048576) (i32.const 1) (i32.const 1048576)) (br $again)) i32.const 0",
        )
    };
    assert_eq!(ends(&guest), "BUDGET_EXHAUSTED");
}

#[test]
fn a_deep_recursion_ends_at_the_stack_or_the_fuel() {
    let guest = Guest::handling("(drop (call $handle (local.get $event))) i32.const 0");
    assert_eq!(ends(&guest), "PROGRAM_TRAPPED");
}

#[test]
fn a_memory_bomb_gets_no_more_than_its_bound() {
    let guest =
        Guest::handling("(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable");
    assert_eq!(ends(&guest), "PROGRAM_TRAPPED");
}

#[test]
fn a_gigabyte_of_output_is_not_even_copied() {
    // A value of a gigabyte that it does not have, and one as large as all its memory.
    let beyond = "(call $put (i32.const 512) (i32.const 4) (i32.const 0) (i32.const 0x40000000)) i32.const 0";
    assert_eq!(ends(&Guest::handling(beyond)), "PROGRAM_TRAPPED");
    let whole = Guest {
        memory: "(memory (export \"memory\") 1024)",
        ..Guest::handling("(call $put (i32.const 512) (i32.const 4) (i32.const 0) (i32.const 0x4000000)) i32.const 0")
    };
    assert_eq!(ends(&whole), "PROGRAM_TRAPPED");
    // As a query's answer: a length of a gigabyte.
    let answer = "(i32.store8 (i32.const 256) (i32.const 0)) (i32.store (i32.const 260) (i32.const 0))
        (i32.store (i32.const 264) (i32.const 0x40000000)) i32.const 256";
    let rig = Rig::new(&Guest::asked(answer).component());
    let refused = rig.world.query(&rig.objects, "ask", &[0xf6]).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramTrapped, "{refused}");
}

#[test]
fn a_million_effects_are_too_many() {
    let emit = "(loop $again
        (call $emit (i32.const 520) (i32.const 8) (i32.const 536) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 256))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 1000000)))) i32.const 0";
    assert_eq!(ends(&Guest::handling(emit)), "BUDGET_EXHAUSTED");
}

#[test]
fn a_million_log_lines_are_paid_for() {
    let log = "(loop $again (call $log (i32.const 0) (i32.const 512) (i32.const 4)) (br $again)) i32.const 0";
    assert_eq!(ends(&Guest::handling(log)), "BUDGET_EXHAUSTED");
}

#[test]
fn texts_that_are_no_utf8_and_lengths_that_are_none_end_the_step() {
    let key = |at: &str, len: &str| {
        format!("(call $put (i32.const {at}) (i32.const {len}) (i32.const 0) (i32.const 1)) i32.const 0")
    };
    for (at, len) in [("540", "4"), ("512", "-1"), ("-4", "8"), ("0x7fffffff", "4")] {
        assert_eq!(ends(&Guest::handling(&key(at, len))), "PROGRAM_TRAPPED", "{at} {len}");
    }
    // A result with a case that does not exist, one outside of the memory, and an error text that is no UTF-8.
    assert_eq!(ends(&Guest::handling("(i32.store8 (i32.const 256) (i32.const 7)) i32.const 256")), "PROGRAM_TRAPPED");
    assert_eq!(ends(&Guest::handling("i32.const -4")), "PROGRAM_TRAPPED");
    let text = "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store (i32.const 260) (i32.const 540))
        (i32.store (i32.const 264) (i32.const 4)) i32.const 256";
    assert_eq!(ends(&Guest::handling(text)), "PROGRAM_TRAPPED");
}

#[test]
fn an_error_of_the_program_is_its_own() {
    let text = "(i32.store8 (i32.const 256) (i32.const 1)) (i32.store (i32.const 260) (i32.const 512))
        (i32.store (i32.const 264) (i32.const 4)) i32.const 256";
    let mut rig = Rig::new(&Guest::handling(text).component());
    let failed = failure(&rig.go()).unwrap();
    assert_eq!((&*failed.code, &*failed.reason), ("PROGRAM_FAILED", "cell"));
}

#[test]
fn what_a_guest_emits_must_be_canonical_and_declared() {
    // A kind that the manifest does not name; params that are no CBOR; a reply to something that is no place.
    let kind = "(call $emit (i32.const 512) (i32.const 4) (i32.const 536) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 256)) i32.const 0";
    assert_eq!(ends(&Guest::handling(kind)), "OUTPUT_REFUSED");
    let params = "(call $emit (i32.const 520) (i32.const 8) (i32.const 540) (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 256)) i32.const 0";
    assert_eq!(ends(&Guest::handling(params)), "OUTPUT_REFUSED");
    let place = "(call $reply (i32.const 512) (i32.const 4) (i32.const 536) (i32.const 1)) i32.const 0";
    assert_eq!(ends(&Guest::handling(place)), "OUTPUT_REFUSED");
}

#[test]
fn calls_out_of_order_end_where_they_happen() {
    // Two replies to one call.
    let reply = "(call $reply (i32.load (local.get $event)) (i32.load offset=4 (local.get $event)) (i32.const 536) (i32.const 1))";
    assert_eq!(ends(&Guest::handling(&format!("{reply} {reply} i32.const 0"))), "OUTPUT_REFUSED");
    // A write, an effect that the manifest declares, a reply and a random number, in a query.
    let put = "(call $put (i32.const 512) (i32.const 4) (i32.const 0) (i32.const 1))";
    let emit = "(call $emit (i32.const 520) (i32.const 8) (i32.const 536) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 256))";
    let answer = "(call $reply (i32.const 512) (i32.const 4) (i32.const 536) (i32.const 1))";
    for call in [put, emit, answer, "(drop (call $random))"] {
        let rig = Rig::new(&Guest::asked(&format!("{call} i32.const 0")).component());
        let refused = rig.world.query(&rig.objects, "ask", &[0xf6]).unwrap_err();
        assert!(matches!(&refused, QueryError::Failed { code: Code::ProgramTrapped, .. }), "{refused}");
        assert_eq!(rig.world.cell(&rig.objects, "cell").unwrap(), None);
    }
    // A call of the host while it gives memory for an argument: a component may not leave itself there.
    assert_eq!(ends(&Guest { giving: put, ..Guest::default() }), "PROGRAM_TRAPPED");
    // One before there is a world: while the component describes itself.
    let at_start = format!("(func $at_start {put}) (start $at_start)");
    let guest = Guest { extra: at_start, ..Guest::default() };
    let refused = components().prepare_now(&guest.component()).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramRefused, "{refused}");
}

#[test]
fn a_trap_in_the_middle_of_writes_leaves_nothing() {
    let guest = Guest::handling(
        "(call $put (i32.const 512) (i32.const 4) (i32.const 536) (i32.const 1))
         (call $emit (i32.const 520) (i32.const 8) (i32.const 536) (i32.const 1) (i32.const 0) (i32.const 0) (i32.const 256))
         (call $put (i32.const 512) (i32.const 4) (i32.const 540) (i32.const 4))
         unreachable",
    );
    assert_eq!(ends(&guest), "PROGRAM_TRAPPED");
}

#[test]
fn a_start_function_that_loops_runs_out_of_fuel_when_the_component_describes_itself() {
    let guest = Guest { extra: "(func $spin (loop $again (br $again))) (start $spin)".to_owned(), ..Guest::default() };
    let refused = components().prepare_now(&guest.component()).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramRefused);
    assert!(refused.to_string().contains("fuel"), "{refused}");
}

#[test]
fn a_description_that_is_none_is_refused() {
    for offer in ["", "[]", "{\"events\":{\"go\":7}}", "{\"whatever\":1}", "{\"limits\":{\"timers_max\":1000000000}}"] {
        let guest = Guest { offer: offer.to_owned(), ..Guest::default() };
        let refused = components().prepare_now(&guest.component()).unwrap_err();
        assert_eq!(refused.code(), Code::ProgramRefused, "{offer}: {refused}");
    }
}

#[test]
fn functions_that_take_a_compiler_minutes_are_refused_by_a_look() {
    let loops = "(loop (br_if 0 (local.get $i)))".repeat(32_500);
    let refused = components().prepare_now(&Guest::handling(&format!("{loops} i32.const 0")).component()).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramRefused);
    assert!(refused.to_string().contains("loops in one function"), "{refused}");
    let blocks = "(block (br_if 0 (local.get $i)))".repeat(32_500);
    let refused = components().prepare_now(&Guest::handling(&format!("{blocks} i32.const 0")).component()).unwrap_err();
    assert!(refused.to_string().contains("blocks in one function"), "{refused}");
    let few = "(loop (br_if 0 (local.get $i)))".repeat(400);
    components().prepare_now(&Guest::handling(&format!("{few} i32.const 0")).component()).unwrap();
}

/// By counts: on one slot, a neighbour in another universe takes its steps while one endless step after another runs.
#[test]
fn a_neighbour_takes_its_turns_between_the_slices_of_a_loop() {
    let components = components_with(ComponentsConfig { slots: 1, ..ComponentsConfig::default() });
    let of = |number: u8| -> Arc<dyn Loader> {
        let universe = UniverseId::from_bytes([number; UniverseId::LEN]);
        let (source, fuel): (CodeSource, _) = (Arc::new(|_| None), Arc::default());
        components.for_universe(UniverseShare { universe, weight: 1, source, fuel }).unwrap()
    };
    let endless = Guest::handling("(loop $again (br $again)) i32.const 0").component();
    let hungry = |manifest: &mut Manifest| manifest.wasm.as_mut().unwrap().limits.fuel_max = limits::WASM_FUEL_MAX;
    let mut neighbour = Rig::served(&components, of(2), &counter().component(), |_| {}).unwrap();
    let (begun, ended, loops) = (AtomicUsize::new(0), AtomicUsize::new(0), 3);
    std::thread::scope(|scope| {
        for _ in 0..loops {
            let mut rig = Rig::served(&components, of(1), &endless, hungry).unwrap();
            let (begun, ended) = (&begun, &ended);
            scope.spawn(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                assert_eq!(failed(&rig.go()), "BUDGET_EXHAUSTED", "the outcome is the same as without a pause");
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        while begun.load(Ordering::SeqCst) < loops {
            std::thread::yield_now();
        }
        #[expect(clippy::disallowed_methods, reason = "the loops run in the machine's own time")]
        std::thread::sleep(Duration::from_millis(50)); // by now they loop; if not, the neighbour only takes more steps
        let mut steps = 0;
        while ended.load(Ordering::SeqCst) == 0 {
            assert_eq!(failure(&neighbour.go()), None);
            steps += 1;
        }
        assert!(steps > 5, "{steps} steps in the time of a loop");
    });
    assert_eq!(ended.load(Ordering::SeqCst), loops);
}
