//! Feeds bytes to `agent` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_workspace_fuzz::agent(data));
