//! Feeds bytes to `tenant` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_workspace_fuzz::tenant(data));
