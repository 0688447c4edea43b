#![no_main]

#[path = "../../crates/wasm/tests/host/guest.rs"]
#[allow(dead_code)]
mod guest;
#[path = "../../crates/wasm/tests/host/parrot.rs"]
mod parrot;
#[path = "../../crates/wasm/tests/host/rig.rs"]
#[allow(dead_code)]
mod rig;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parrot::said(bytes));
