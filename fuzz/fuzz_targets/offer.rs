#![no_main]

#[path = "../../crates/wasm/tests/components/guest.rs"]
#[allow(dead_code)]
mod guest;

use mundi_wasm::decoders::offer;

// What begins as a description does is taken as it is; everything else says what to change about a good one.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"{") {
        return offer(bytes);
    }
    offer(&guest::changed(include_bytes!("../../examples/order-saga/rust/mundi.json"), bytes));
});
