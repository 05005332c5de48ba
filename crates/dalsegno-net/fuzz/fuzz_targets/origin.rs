//! Feeds bytes to `origin` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_net_fuzz::origin(data));
