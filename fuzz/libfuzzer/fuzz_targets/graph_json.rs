//! libFuzzer runs `plexus_fuzz::graph_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| plexus_fuzz::graph_json(data));
