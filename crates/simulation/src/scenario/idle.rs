//! Settings of a scenario that change nothing in a simulation.

use std::collections::BTreeMap;

use dovetail_actors::settings::without_effect;

/// Settings that only a process of its own has: a connection to a cluster, ports, a log; and another provisioner to watch.
const OF_A_PROCESS: [&str; 16] = [
    "BIND_ADDRESS",
    "CONSOLE_PORT",
    "CONSOLE_TOKEN",
    "EKS_CONTROL_PLANE",
    "HEALTH_PROBE_PORT",
    "KUBECONFIG",
    "KUBERNETES_MIN_VERSION",
    "KUBE_CLIENT_BURST",
    "KUBE_CLIENT_QPS",
    "KUBE_CONTEXT",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "LOG_OUTPUT_PATHS",
    "METRICS_PORT",
    "SHADOW",
    "STARTUP_TIMEOUT",
];

/// A line for each, for standard error.
pub(crate) fn idle_settings(settings: &BTreeMap<String, String>) -> Vec<String> {
    let given = settings.keys().filter(|name| OF_A_PROCESS.contains(&name.as_str()));
    let of_a_process = given.map(|name| format!("{name}: it is of `dovetail run`, not of a simulation"));
    without_effect(settings).into_iter().chain(of_a_process).map(|what| format!("without effect: {what}")).collect()
}

#[cfg(test)]
mod tests {
    use dovetail_actors::settings::TABLE;

    use super::*;

    #[test]
    fn settings_of_a_process_and_unimplemented_ones_are_reported() {
        for name in OF_A_PROCESS {
            assert!(TABLE.iter().any(|known| known.name == name), "{name}");
        }
        let settings = [("SHADOW", "true"), ("FEATURE_GATES", "NodeOverly=true"), ("BATCH_IDLE_DURATION", "2s")];
        let told = idle_settings(&settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        assert_eq!(
            told,
            [
                "without effect: FEATURE_GATES NodeOverly: there is no such gate",
                "without effect: SHADOW: it is of `dovetail run`, not of a simulation",
            ]
        );
    }
}
