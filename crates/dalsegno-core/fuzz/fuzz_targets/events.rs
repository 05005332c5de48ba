//! Feeds bytes to `events` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_core_fuzz::events(data));
