//! Feeds bytes to `archive` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_store_fuzz::archive(data));
