//! Feeds bytes to `import` of `checks.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| dalsegno_memory_fuzz::import(data));
