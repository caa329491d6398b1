//! Settings that are given and change nothing: each is said once at the start. Who brings an effect takes it out of here, and
//! out of the topic [`Topic::NoEffect`](super::Topic).

use std::collections::BTreeMap;

use super::gates as known_gates;
use super::parse::gates;
use super::table::{TABLE, Topic};

/// Gates of `FEATURE_GATES` that are known and have an effect: all of them.
const GATES_THERE: [&str; 16] = [
    known_gates::CAPACITY_BUFFER,
    known_gates::CAPACITY_QUOTA,
    known_gates::DRIFT,
    known_gates::GANG_SCHEDULING,
    known_gates::MANY_TO_MANY,
    known_gates::NODE_OVERLAY,
    known_gates::NODE_REPAIR,
    known_gates::POD_DELETION_COST_MANAGEMENT,
    known_gates::PROVISIONING_REQUEST,
    known_gates::REBOOT_FOR_REPAIR,
    known_gates::RESERVED_CAPACITY,
    known_gates::SPOT_TO_SPOT,
    known_gates::STATIC_CAPACITY,
    known_gates::TERMINATE_FIRST_DRIFT,
    known_gates::TERMINATE_FIRST_REPAIR,
    known_gates::VERTICAL_POD_AUTOSCALER,
];
/// Gates of `AWS_FEATURE_GATES` that are known and have an effect.
const AWS_GATES_THERE: [&str; 2] = [known_gates::DRA_EFA, known_gates::DRA_NVIDIA_GPU];
/// Gates of `AWS_FEATURE_GATES` that are known and do nothing yet.
const AWS_GATES_TO_COME: [&str; 1] = ["NodeClassCEL"];

/// Every gate of `FEATURE_GATES` that is known, in the order of their names.
#[must_use]
pub fn feature_gates() -> Vec<&'static str> {
    let mut all = GATES_THERE.to_vec();
    all.sort_unstable();
    all
}

/// Parts of the given settings that have no effect, by name, each with the reason.
#[must_use]
pub fn without_effect(given: &BTreeMap<String, String>) -> Vec<String> {
    let mut all = super::provider::without_effect(given);
    for (name, value) in given {
        match name.as_str() {
            "FEATURE_GATES" => all.extend(gates_of(name, value, &[], &GATES_THERE)),
            "AWS_FEATURE_GATES" => all.extend(gates_of(name, value, &AWS_GATES_TO_COME, &AWS_GATES_THERE)),
            _ => all.extend(of_table(name, value)),
        }
    }
    all
}

/// A setting of the table's last topic that is given as something else than its default.
fn of_table(name: &str, value: &str) -> Option<String> {
    let known = TABLE.iter().find(|known| known.name == name && known.topic == Topic::NoEffect)?;
    (value != known.default).then(|| format!("{name}={value}: {}", known.what))
}

fn gates_of(name: &str, value: &str, to_come: &[&str], there: &[&str]) -> Vec<String> {
    let all = gates(value).unwrap_or_default();
    let named = all.into_iter().filter_map(|(gate, on)| {
        if to_come.contains(&gate.as_str()) {
            return on.then(|| format!("{name} {gate}=true: not implemented"));
        }
        (!there.contains(&gate.as_str())).then(|| format!("{name} {gate}: there is no such gate"))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, value: &str) -> Vec<String> {
        without_effect(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn what_changes_nothing_is_told_and_a_default_is_not() {
        for (name, value) in [
            ("FEATURE_GATES", "SpotToSpotConsolidatoin=true"),
            ("AWS_FEATURE_GATES", "NodeClassCEL=true"),
            ("MEMORY_LIMIT", "1073741824"),
        ] {
            assert_eq!(named(name, value).len(), 1, "{name}={value}");
        }
        for (name, value) in [
            ("FEATURE_GATES", "Drift=false,ReservedCapacity=false,NodeRepair=true,NodeOverlay=true"),
            ("IGNORE_DRA_REQUESTS", "false"),
            ("AWS_FEATURE_GATES", "DRANVIDIAGPU=true,DRAEFA=true"),
            ("LOG_ERROR_OUTPUT_PATHS", "stderr"),
            ("BATCH_MAX_DURATION", "20s"),
        ] {
            assert_eq!(named(name, value), [""; 0], "{name}={value}");
        }
    }

    #[test]
    fn setting_without_effect_is_told_when_not_at_its_default() {
        for known in TABLE.iter().filter(|known| known.topic == Topic::NoEffect) {
            let other = match known.default {
                "true" => "false",
                "false" => "true",
                _ => "something",
            };
            assert_eq!(named(known.name, other).len(), 1, "{}", known.name);
        }
    }
}
