//! Feeds bytes to `line` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_protocol_fuzz::line(data));
