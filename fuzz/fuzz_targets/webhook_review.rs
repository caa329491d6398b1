//! The body that a caller of the conversion webhook sends: answered within the bound of its length, or refused with a reason.
#![no_main]

use dovetail_api::convert::webhook::reply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    match reply(body) {
        Ok(answer) => {
            assert!(answer.len() <= 3 * body.len() + (64 << 10), "{} bytes for {}", answer.len(), body.len());
            serde_json::from_slice::<serde_json::Value>(&answer).expect("an answer is JSON");
        }
        Err(why) => assert!(!why.is_empty() && why.len() < 4096, "refused with {} bytes", why.len()),
    }
});
