//! Feeds bytes to `document` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_tools_fuzz::document(data));
