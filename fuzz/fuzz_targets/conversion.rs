//! An object between v1beta1 and v1: what goes there and back is as it was, and a second way changes nothing.
#![no_main]

use dovetail_api::convert::webhook::{WebhookVersion, converted};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &[u8]| {
    let Ok(object) = serde_json::from_slice::<Value>(text) else { return };
    for (to, back) in [(WebhookVersion::V1, WebhookVersion::V1Beta1), (WebhookVersion::V1Beta1, WebhookVersion::V1)] {
        let Ok(there) = converted(&object, to) else { continue };
        if there == object {
            continue;
        }
        let again = converted(&there, back).expect("what was converted is one of ours");
        let second = converted(&again, to).expect("what was converted is one of ours");
        assert_eq!(second.get("spec"), there.get("spec"), "a second way gives another spec");
    }
});
