//! A message in the queue of interruptions: acted on or ignored, and nothing it says is repeated without a bound.
#![no_main]

use dovetail_core::interruption::Announcement;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &str| {
    match Announcement::parse(body) {
        Ok(announcement) => assert!(announcement.id.chars().count() <= 4096),
        Err(ignored) => assert!(!ignored.to_string().is_empty()),
    }
});
