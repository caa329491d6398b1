//! Settings: whatever text is given, it is a value that makes sense or a mistake that is named.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_actors::settings::{SHORTEST_TOKEN, TABLE, feature_gates, without_effect};
use proptest::prelude::*;

fn read(name: &str, value: &str) -> Result<Settings, Vec<String>> {
    let map = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    Settings::from_map(&map).map_err(|all| all.iter().map(ToString::to_string).collect())
}

fn accepts(name: &str, values: &[&str]) {
    for value in values {
        assert!(read(name, value).is_ok(), "{name}={value:?}: {:?}", read(name, value));
    }
}

fn refuses(name: &str, values: &[&str]) {
    for value in values {
        let errors = read(name, value).err().unwrap_or_else(|| panic!("{name}={value:?} is taken"));
        assert!(errors.iter().all(|error| error.starts_with(name) && error.contains("allowed: ")), "{errors:?}");
    }
}

#[test]
fn durations_are_gos_and_above_zero() {
    // Durations above Go's longest count as that.
    let good = ["500ms", "1s", "1m30s", "1.5h", "100us", "2562047h", "9999999999999999999h"];
    let bad = ["", "0", "0s", "-1s", "1", "one second", "1s ", "1e3s", "NaNs", "infs", "1s1", "٣s"];
    accepts("UNSCHEDULED_POD_DELAY", &good);
    refuses("UNSCHEDULED_POD_DELAY", &bad);
    accepts("UNSCHEDULED_POD_DELAY", &["never"]);
    refuses("STARTUP_TIMEOUT", &["never"]);
    assert_eq!(read("BATCH_MAX_DURATION", "1m30s").unwrap().batch_max, Duration::from_secs(90));
}

#[test]
fn what_has_a_least_time_keeps_to_it() {
    refuses("AMI_REFRESH_INTERVAL", &["59s", "1ms", "0s"]);
    accepts("AMI_REFRESH_INTERVAL", &["1m", "24h"]);
    refuses("LEADER_ELECTION_LEASE_DURATION", &["1500ms", "0s", "999ms"]);
}

#[test]
fn names_are_names_that_an_api_server_takes() {
    accepts("LEADER_ELECTION_NAME", &["a", "karpenter-leader-election", "a.b", "1-2.x"]);
    let long = "a".repeat(254);
    refuses(
        "LEADER_ELECTION_NAME",
        &["", "-a", "a-", ".a", "a.", "a..b", "a.-b", "a-.b", "A", "a_b", "a/b", "ä", "a b", &long],
    );
}

#[test]
fn an_url_is_absolute_and_of_one_word() {
    accepts("CLUSTER_ENDPOINT", &["", "https://x", "http://10.0.0.1:6443", "\"https://x.eks.amazonaws.com\""]);
    refuses(
        "CLUSTER_ENDPOINT",
        &["x", "https://", "https:///path", "ftp://x", "https://a b", "https://a\nb", "https://a\u{0}"],
    );
    refuses("WEBHOOK_URL", &["http://x", "https://x?y=1", "https://user@x"]);
}

#[test]
fn a_certificate_is_base64_to_its_last_character() {
    accepts("CLUSTER_CA_BUNDLE", &["", "LS0tLS1CRUdJTiBDRVJU", "LS0tLS1CRUdJTg==", "YWI="]);
    refuses("CLUSTER_CA_BUNDLE", &["====", "a===", "ab=c", "abc", "a b=", "-----BEGIN CERTIFICATE-----", "=abc"]);
}

#[test]
fn a_queue_goes_by_name_url_or_arn() {
    let queue =
        |value| read("INTERRUPTION_QUEUE", value).map(|own| (own.interruption_queue, own.interruption_queue_region));
    let own = |name: &str, region: &str| Ok((name.to_owned(), region.to_owned()));
    assert_eq!(queue("demo"), own("demo", ""));
    assert_eq!(queue("https://sqs.eu-west-1.amazonaws.com/111122223333/demo"), own("demo", "eu-west-1"));
    assert_eq!(queue("https://eu-west-1.queue.amazonaws.com/1/demo/"), own("demo", "eu-west-1"));
    assert_eq!(queue("arn:aws-cn:sqs:cn-north-1:1:demo.fifo"), own("demo.fifo", "cn-north-1"));
    assert_eq!(queue("\"demo\""), own("demo", ""));
    let long = "q".repeat(81);
    refuses(
        "INTERRUPTION_QUEUE",
        &["a b", "https://", "https://host", "arn:aws:sns:eu-west-1:1:topic", "arn:aws:sqs", "a/b", "q?", &long],
    );
}

#[test]
fn numbers_are_numbers_in_their_range() {
    accepts("MAX_COST_PER_HOUR", &["0.01", "12.5", "1e3"]);
    refuses("MAX_COST_PER_HOUR", &["0", "-1", "NaN", "inf", "1e999", "", "12,5", "$5"]);
    accepts("EXPENDABLE_PODS_PRIORITY_CUTOFF", &["-10", "0", "2000000000"]);
    refuses("EXPENDABLE_PODS_PRIORITY_CUTOFF", &["", "low", "-1.5", "9999999999", "-10 "]);
    refuses("MAX_LAUNCHES_PER_HOUR", &["0", "-1", "1.5", "99999999999", ""]);
    accepts("VM_MEMORY_OVERHEAD_PERCENT", &["0", "0.075", "0.99"]);
    refuses("VM_MEMORY_OVERHEAD_PERCENT", &["1", "-0.1", "NaN", "7.5%"]);
    accepts("MAX_FUTILE_LAUNCHES", &["1", "10", "never"]);
    refuses("MAX_FUTILE_LAUNCHES", &["0", "-1", "1.5", "Never", ""]);
    accepts("MAX_FUTILE_COST", &["0.5", "100", "never"]);
    refuses("MAX_FUTILE_COST", &["0", "-1", "NaN", "$5", ""]);
    accepts("MAX_PRICE_RISE", &["3", "20.5", "never"]);
    refuses("MAX_PRICE_RISE", &["0", "-2", "inf", "much", ""]);
    refuses("MAX_OPTION_PRICE", &["0.99", "NaN", "-2", "cheap"]);
    refuses("METRICS_PORT", &["65536", "-1", "http", ""]);
    accepts("CONSOLE_PORT", &["none", "0", "8082"]);
}

#[test]
fn a_boolean_is_true_or_false() {
    for known in TABLE.iter().filter(|known| known.is_boolean()) {
        accepts(known.name, &["true", "false"]);
        refuses(known.name, &["", "True", "1", "yes", "on", " true"]);
    }
}

#[test]
fn a_secret_is_shown_by_no_message() {
    for known in TABLE.iter().filter(|known| known.value == "TOKEN") {
        let short = "hunter2";
        let errors = read(known.name, short).unwrap_err();
        assert!(errors.iter().all(|error| !error.contains(short)), "{errors:?}");
        let good = "0123456789abcdef-very-secret";
        let own = read(known.name, good).unwrap();
        assert!(good.len() >= SHORTEST_TOKEN && !format!("{own:?}").contains(good));
        assert!(!serde_json::to_string(&own).unwrap().contains(good));
    }
}

#[test]
fn an_unknown_setting_is_a_mistake_that_names_the_known() {
    let errors = read("BATCH_IDLE", "1s").unwrap_err();
    assert!(errors[0].contains("there is no such setting") && errors[0].contains("BATCH_IDLE_DURATION"), "{errors:?}");
}

#[test]
fn what_goes_together_is_held_together() {
    let given = |pairs: &[(&str, &str)]| {
        let map = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Settings::from_map(&map)
    };
    assert!(given(&[("BATCH_IDLE_DURATION", "20s")]).is_err(), "longer than the default of the other");
    assert!(given(&[("BATCH_IDLE_DURATION", "20s"), ("BATCH_MAX_DURATION", "30s")]).is_ok());
    assert!(given(&[("LEADER_ELECTION_RENEW_DEADLINE", "15s")]).is_err(), "no room before others may lead");
    let own = given(&[("SYSTEM_NAMESPACE", "karpenter")]).unwrap();
    assert_eq!(own.lease_namespace, "karpenter");
    let own = given(&[("SYSTEM_NAMESPACE", "karpenter"), ("LEADER_ELECTION_NAMESPACE", "leases")]).unwrap();
    assert_eq!(own.lease_namespace, "leases");
}

#[test]
fn every_mistake_is_named_at_once() {
    let map = BTreeMap::from(
        [("BATCH_IDLE_DURATION", "x"), ("METRICS_PORT", "y"), ("NO_SUCH", "z")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let errors = Settings::from_map(&map).unwrap_err();
    let names: Vec<_> = errors.iter().map(|error| error.name.as_str()).collect();
    assert_eq!(names, ["BATCH_IDLE_DURATION", "METRICS_PORT", "NO_SUCH"]);
}

#[test]
fn gates_are_read_one_by_one_and_contradictions_refused() {
    let on = |text| read("FEATURE_GATES", text).map(|own| own.node_repair());
    assert_eq!(on("NodeRepair=true"), Ok(true));
    assert_eq!(on(" NodeRepair=true , ,SpotToSpotConsolidation=false,"), Ok(true));
    assert_eq!(on("NodeRepair=false,NodeRepair=false"), Ok(false));
    refuses("FEATURE_GATES", &["NodeRepair", "NodeRepair=yes", "NodeRepair=True", "NodeRepair=true,NodeRepair=false"]);
    for gate in feature_gates() {
        accepts("FEATURE_GATES", &[&format!("{gate}=true")]);
    }
    let unknown = without_effect(&BTreeMap::from([("FEATURE_GATES".to_owned(), "Tpyo=true".to_owned())]));
    assert!(unknown.len() == 1 && unknown[0].contains("Tpyo"), "{unknown:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever text any setting is given: it is read or refused, by its own name.
    #[test]
    fn no_text_of_any_setting_is_more_than_a_mistake(at in 0..TABLE.len(), value in "\\PC{0,40}") {
        let name = TABLE[at].name;
        if let Err(errors) = read(name, &value) {
            prop_assert!(!errors.is_empty());
            prop_assert!(errors.iter().all(|error| error.len() < 4000), "{:?}", errors);
        }
    }

    /// Texts that are nearly right are read or refused as well.
    #[test]
    fn numbers_with_units_of_any_size_are_read_or_refused(at in 0..TABLE.len(), number in any::<f64>(), unit in "(ns|us|ms|s|m|h|%|)") {
        let _ = read(TABLE[at].name, &format!("{number}{unit}"));
    }

    /// A duration that is taken is the one that was written.
    #[test]
    fn a_duration_is_what_it_says(millis in 1_u64..10_000_000) {
        let own = read("STARTUP_TIMEOUT", &format!("{millis}ms")).unwrap();
        prop_assert_eq!(own.kube_access.startup_timeout, Duration::from_millis(millis));
    }
}
