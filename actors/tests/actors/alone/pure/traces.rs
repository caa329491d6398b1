//! Traces and names as they are written on objects and told: anybody may write an annotation.

use std::collections::BTreeSet;
use std::time::Duration;

use dovetail_actors::context::backoff::Backoff;
use dovetail_actors::messages::{TraceContext, reference};
use dovetail_actors::telemetry::log_event::{LogEvent, Names};
use proptest::prelude::*;

use crate::alone::trace;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_traceparent_is_hex_digits_of_its_lengths_and_not_zero() {
    let read = TraceContext::parse(GOOD).unwrap();
    assert_eq!((read.trace_id().as_str(), read.span()), ("4bf92f3577b34da6a3ce929d0e0e4736", 0x00f0_67aa_0ba9_02b7));
    for bad in [
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-+0f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "zz-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7_01",
    ] {
        assert_eq!(TraceContext::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_later_version_of_the_format_is_read_as_far_as_it_is_known() {
    let later = GOOD.replacen("00-", "cc-", 1) + "-what-the-future-brings";
    assert_eq!(TraceContext::parse(&later), TraceContext::parse(GOOD));
}

#[test]
fn an_id_that_is_nearly_a_uuid_is_the_trace_of_nothing() {
    let mut rng = fastrand::Rng::with_seed(1);
    let sign = TraceContext::of_event("+b1c0c52-2f0a-4d4e-9a55-0a4f6c0e1d01", &mut rng);
    let again = TraceContext::of_event("+b1c0c52-2f0a-4d4e-9a55-0a4f6c0e1d01", &mut rng);
    assert_ne!(sign.trace(), again.trace(), "each is a trace of its own");
}

#[test]
fn names_are_told_up_to_a_number_and_the_rest_is_counted() {
    assert_eq!(Names::first(2, ["a", "b", "c", "d"]).to_string(), "a, b and 2 other(s)");
    assert_eq!(Names::first(2, ["a", "b"]).to_string(), "a, b");
    assert_eq!(Names::first(2, [""; 0]).to_string(), "");
    let many = Names::first(20, (0..1_000_000).map(|n| n.to_string()));
    assert_eq!((many.named.len(), many.others), (20, 999_980));
}

#[test]
fn every_event_has_a_name_of_its_own() {
    let all = LogEvent::EVENTS;
    let unique: BTreeSet<_> = all.iter().collect();
    assert_eq!(unique.len(), all.len());
    assert!(all.iter().all(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
}

#[test]
fn what_is_not_known_of_an_object_is_left_out() {
    let node = reference("v1", "Node", "", "node-1", "");
    assert_eq!((node.namespace, node.uid, node.name.as_deref()), (None, None, Some("node-1")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_is_read_again(seed in any::<u64>(), name in "[a-z]{0,12}", key in "\\PC{0,20}") {
        let context = trace(seed).inner(&name, &key);
        prop_assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        prop_assert_eq!(context.trace(), trace(seed).trace());
    }

    #[test]
    fn no_text_is_more_than_no_trace(text in "\\PC{0,80}") {
        if let Some(read) = TraceContext::parse(&text) {
            prop_assert!(read.trace() != 0 && read.span() != 0);
        }
    }

    #[test]
    fn a_pause_is_within_its_bounds_and_grows(base in 1_u64..5_000, times in 1_u64..1_000, seed in any::<u64>()) {
        let (first, longest) = (Duration::from_millis(base), Duration::from_millis(base * times));
        let mut backoff = Backoff::new(first, longest, fastrand::Rng::with_seed(seed));
        let pauses: Vec<Duration> = (0..40).map(|_| backoff.pause()).collect();
        prop_assert!(pauses.iter().all(|pause| *pause >= first / 2 && *pause <= longest));
        prop_assert!(pauses[39] >= longest / 2);
        backoff.reset();
        prop_assert!(backoff.pause() <= first && backoff.failures() == 1);
    }
}
