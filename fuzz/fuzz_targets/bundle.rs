#![no_main]

use mundi_sim::forgery::{check, forge};

// What begins as a bundle does is taken as it is; everything else says what to forge about a good one.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if bytes.starts_with(b"MUNDIWB1") {
        check(bytes);
    } else {
        check(&forge(bytes));
    }
});
