#![no_main]

#[path = "../../crates/wasm/tests/components/guest.rs"]
#[allow(dead_code)]
mod guest;

use mundi_wasm::decoders::component;
use std::sync::OnceLock;

// What begins as a component does is taken as it is; everything else says what to change about a good one.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    if bytes.starts_with(b"\0asm") {
        return component(bytes);
    }
    component(&guest::changed(GOOD.get_or_init(|| guest::counter().component()), bytes));
});
