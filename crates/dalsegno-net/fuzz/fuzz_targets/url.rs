//! Feeds bytes to `url` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_net_fuzz::url(data));
