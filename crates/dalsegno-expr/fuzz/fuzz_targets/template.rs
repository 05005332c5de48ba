//! Feeds bytes to `template` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_expr_fuzz::template(data));
