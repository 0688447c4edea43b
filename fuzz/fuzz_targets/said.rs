#![no_main]

#[path = "../../crates/wasm/tests/components/guest.rs"]
#[allow(dead_code)]
mod guest;
#[path = "../../crates/wasm/tests/components/parrot.rs"]
mod parrot;
#[path = "../../crates/wasm/tests/components/rig.rs"]
#[allow(dead_code)]
mod rig;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parrot::said(bytes));
