//! Feeds bytes to `settings` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_workspace_fuzz::settings(data));
