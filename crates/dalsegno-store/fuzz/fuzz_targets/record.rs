//! Feeds bytes to `record` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_store_fuzz::record(data));
