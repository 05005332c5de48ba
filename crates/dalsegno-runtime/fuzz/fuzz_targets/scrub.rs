//! Feeds bytes to `scrub` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_runtime_fuzz::scrub(data));
