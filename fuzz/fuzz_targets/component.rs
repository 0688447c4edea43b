#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mundi_wasm::decoders::component(bytes));
