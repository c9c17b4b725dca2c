#![no_main]
//! libFuzzer entry of the target `mock_profile`.

#[expect(dead_code, reason = "one target of the list is used here")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::mock_profile(data));
