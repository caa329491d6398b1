//! Manifests as users write them: read or refused with a place, and what is read has pods that can be counted.
#![no_main]

use dovetail_api::manifest::{Objects, ReadOptions, read_manifests, workload_pods};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let options = ReadOptions { cluster_name: "demo".into(), ..ReadOptions::default() };
    match read_manifests(&[("file.yaml", text)], &options) {
        Ok(manifests) => {
            let _ = Objects::from_manifests(&manifests);
            for manifest in &manifests {
                let _ = workload_pods(manifest);
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty(), "refused without a reason");
            // For YAML a carriage return by itself ends a line, too, and a file's end may be on a line of its own.
            let lines = text.replace("\r\n", "\n").matches(['\n', '\r']).count() + 2;
            for mistake in mistakes {
                assert!(mistake.line <= lines, "{mistake:?} is beyond the file's {lines} lines");
            }
        }
    }
});
