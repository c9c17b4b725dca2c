#![no_main]
//! libFuzzer entry of the target `trace_file`.

#[expect(dead_code, reason = "one target of the list is used here")]
#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::trace_file(data));
