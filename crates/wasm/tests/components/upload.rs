//! Uploads that are refused before they are compiled; a broken component is one of them.

use crate::{
    guest::{Guest, counter},
    rig::{Rig, components, failure},
};
use mundi_kernel::loader::{Loader, Readiness};
use mundi_model::{Code, Coded, Hash, limits};
use mundi_wasm::inspect::{Refusal, inspect};
use std::fmt::Write;

#[test]
fn a_good_component_passes() {
    let inspected = inspect(&counter().component()).unwrap();
    assert_eq!(inspected.imports, ["mundi:program/types@1.1.0", "mundi:program/host@1.1.0"]);
}

#[test]
fn what_is_no_component_is_told_apart() {
    assert_eq!(inspect(b""), Err(Refusal::NotWasm));
    assert_eq!(inspect(b"#!/bin/sh"), Err(Refusal::NotWasm));
    assert_eq!(inspect(&counter().core()), Err(Refusal::CoreModule));
    let wasi = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))))"#;
    assert!(matches!(inspect(&wat::parse_str(wasi).unwrap()), Err(Refusal::Wasi(_))));
}

#[test]
fn a_component_that_asks_for_the_outside_hears_how_to_build_without() {
    let text = r#"(component
        (import "wasi:clocks/wall-clock@0.2.0" (instance))
        (import "wasi:random/random@0.2.0" (instance)))"#;
    let refused = inspect(&wat::parse_str(text).unwrap()).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramRefused);
    let said = refused.to_string();
    for part in ["wasi:clocks/wall-clock@0.2.0, wasi:random/random@0.2.0", "wasm32-unknown-unknown", "--stub-wasi"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn imports_that_do_not_exist_are_named() {
    for import in ["mundi:program/secrets@1.0.0", "mundi:program/host@2.0.0", "env", "mundi:program/host@10.0.0"] {
        let text = format!(r#"(component (import "{import}" (instance)))"#);
        let refused = inspect(&wat::parse_str(&text).unwrap()).unwrap_err();
        assert_eq!(refused, Refusal::ImportUnknown(import.to_owned()));
    }
    // The interface exists, the function does not.
    let text = r#"(component (import "mundi:program/host@1.0.0" (instance (export "unlink" (func)))))"#;
    let refused = components().prepare_now(&wat::parse_str(text).unwrap()).unwrap_err();
    assert_eq!(refused.code(), Code::ProgramRefused);
    assert!(refused.to_string().contains("unlink"), "{refused}");
}

#[test]
fn a_component_without_the_exports_is_refused() {
    let refused = components().prepare_now(&wat::parse_str("(component)").unwrap()).unwrap_err();
    assert!(refused.to_string().contains("no export"), "{refused}");
}

#[test]
fn a_component_of_a_hundred_megabytes_is_refused_by_its_size() {
    let mut bytes = counter().component();
    bytes.resize(100_000_000, 0);
    assert_eq!(inspect(&bytes), Err(Refusal::TooLarge { bytes: 100_000_000 }));
}

#[test]
fn components_that_multiply_are_refused_before_they_are_compiled() {
    // Each level instantiates the one before twice: thirty levels would be a thousand million instances.
    let mut text = String::from("(component (component $c0)");
    for level in 1..30 {
        let below = level - 1;
        write!(text, "(component $c{level} (instance (instantiate $c{below})) (instance (instantiate $c{below})))")
            .unwrap();
    }
    text.push_str("(instance (instantiate $c29)))");
    assert_eq!(inspect(&wat::parse_str(&text).unwrap()), Err(Refusal::Nested));
    let many = format!("(component (component $c) {})", "(instance (instantiate $c))".repeat(101));
    assert!(matches!(inspect(&wat::parse_str(&many).unwrap()), Err(Refusal::TooMany { .. })));
}

#[test]
fn types_that_multiply_are_refused() {
    let mut text = String::from("(component (type $t0 (tuple u8 u8))");
    for level in 1..40 {
        let below = level - 1;
        write!(text, "(type $t{level} (tuple $t{below} $t{below}))").unwrap();
    }
    text.push(')');
    assert!(matches!(inspect(&wat::parse_str(&text).unwrap()), Err(Refusal::Invalid(_))));
}

#[test]
fn a_function_that_would_compile_for_ever_is_too_long() {
    // A megabyte of one function: the time to place its values grows faster than its length.
    let body = "(drop (i32.add (i32.const 1) (i32.const 2)))".repeat(limits::COMPONENT_FUNCTION_BYTES_MAX / 6 + 1);
    let guest = Guest { extra: format!("(func {body})"), ..Guest::default() };
    let refused = inspect(&guest.component()).unwrap_err();
    assert!(matches!(refused, Refusal::TooMany { what: "bytes in one function", .. }), "{refused}");
}

/// Some kilobytes each, and gigabytes to a compiler, which cannot be stopped.
#[test]
fn a_function_that_carries_too_much_from_place_to_place_is_refused_before_it_is_compiled() {
    let refused = |extra: String| {
        let component = Guest { extra, ..Guest::default() }.component();
        assert!(component.len() < 64_000, "{} bytes", component.len());
        let refused = inspect(&component).unwrap_err();
        assert!(matches!(refused, Refusal::TooMany { what: "live values in one function", .. }), "{refused}");
    };
    // Each local goes around each of the loops.
    let count = |local: usize| format!("(local.set {local} (i32.add (local.get {local}) (i32.const 1)))");
    let sets: String = (0..1_000).map(count).collect();
    let loops = |depth: usize| {
        let (begin, end) = ("(loop ".repeat(depth), "(br_if 0 (local.get 0)))".repeat(depth));
        format!("(func (local {}) {begin}{sets}{end})", "i32 ".repeat(1_000))
    };
    refused(loops(1_000));
    // Each of a thousand values goes through each block, loop and call.
    let wide = "i32 ".repeat(1_000);
    let types = format!("(type $w (func (param {wide}) (result {wide}))) (func $w (type $w) unreachable)");
    let values =
        |middle: String| format!("{types} (func {} {middle} {})", "i32.const 1 ".repeat(1_000), "drop ".repeat(1_000));
    refused(values("block (type $w) end ".repeat(1_000)));
    refused(values("loop (type $w) ".repeat(1_000) + &"end ".repeat(1_000)));
    refused(values("call $w ".repeat(1_000)));
    // What a compiler of people makes of a large function passes.
    let usual = Guest { extra: loops(20), ..Guest::default() };
    assert!(inspect(&usual.component()).is_ok());
    // Many heavy functions are too much, too.
    let many = Guest { extra: loops(100).repeat(200), ..Guest::default() };
    let refused = inspect(&many.component()).unwrap_err();
    assert!(matches!(refused, Refusal::TooMany { what: "live values in all functions", .. }), "{refused}");
}

#[test]
fn relaxed_and_parallel_instructions_are_refused() {
    for (extra, memory) in [
        (
            "(func (param v128 v128 v128) (result v128) (f32x4.relaxed_madd (local.get 0) (local.get 1) (local.get 2)))",
            "",
        ),
        ("", "(memory 1 1 shared)"),
    ] {
        let core = wat::parse_str(format!("(module {extra} {memory})")).unwrap();
        let escaped: String = core.iter().fold(String::new(), |mut text, byte| {
            write!(text, "\\{byte:02x}").unwrap();
            text
        });
        let text = format!(r#"(component (core module binary "{escaped}"))"#);
        let component =
            wat::parse_str(&text).or_else(|_| wat::parse_str(format!("(component (core module {extra} {memory}))")));
        let refused = inspect(&component.unwrap()).unwrap_err();
        assert!(matches!(refused, Refusal::Invalid(_)), "{refused}");
    }
}

#[test]
fn a_truncated_component_is_refused_or_lacks_nothing_but_its_notes() {
    // Cut between two sections it is a component still, and lacks what comes after.
    let (components, good) = (components(), counter().component());
    for len in 0..good.len() {
        if inspect(&good[..len]).is_ok()
            && let Ok(mut rig) = Rig::with(&components, &good[..len], |_| {})
        {
            assert_eq!(failure(&rig.go()), None, "the first {len} of {} bytes", good.len());
            assert_eq!(rig.world.cell(&rig.objects, "cell").unwrap(), Some(vec![1]));
        }
    }
}

/// A fixed corpus of broken components goes all the way through: each is refused, or runs within its bounds.
#[test]
fn a_bit_flipped_component_is_refused_or_runs_within_its_bounds() {
    let components = components();
    let good = counter().component();
    let flips = std::env::var("MUNDI_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(200_usize);
    let (mut refused, mut state) = (0, 0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..flips {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let mut bad = good.clone();
        let bit = usize::try_from(state % (bad.len() as u64 * 8)).unwrap();
        bad[bit / 8] ^= 1 << (bit % 8);
        match Rig::with(&components, &bad, |_| {}) {
            Ok(mut rig) => drop(rig.send("go", serde_json::Value::Null)),
            Err(error) => {
                assert_eq!(error.code(), Code::ProgramRefused, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > flips / 4, "only {refused} of {flips} were refused");
}

#[test]
fn a_refused_component_stays_refused_and_the_next_one_is_compiled() {
    let components = components();
    let bad = wat::parse_str("(component)").unwrap();
    let wait = |bytes: Vec<u8>| {
        let hash = Hash::of(&bytes);
        components.prepare(hash, Some(bytes.into()));
        loop {
            match components.prepare(hash, None) {
                Readiness::Queued { .. } | Readiness::Compiling { .. } => std::thread::yield_now(),
                ended => break ended,
            }
        }
    };
    assert!(matches!(wait(bad.clone()), Readiness::Refused(_)));
    assert!(matches!(wait(bad), Readiness::Refused(_)));
    assert!(matches!(wait(counter().component()), Readiness::Ready(_)));
}
