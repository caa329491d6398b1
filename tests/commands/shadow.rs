//! Shadow mode as the chart and the command line have it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeSet;

use dovetail_actors::Settings;
use dovetail_simulation::shadow::listed;
use serde_json::Value;

use crate::chart::{of_kind, rendered, variables};
use crate::common::{dovetail, stderr, stdout};

/// All that anybody may be allowed who changes nothing.
const READS: [&str; 3] = ["get", "list", "watch"];

fn chart() -> Vec<Value> {
    rendered(&["settings.clusterName=demo", "shadow.enabled=true", "replicas=2", "settings.interruptionQueue=demo"])
}

#[test]
fn a_shadow_s_roles_have_no_verb_that_writes_and_no_secret() {
    let objects = chart();
    let roles: Vec<&Value> =
        objects.iter().filter(|object| matches!(object["kind"].as_str(), Some("Role" | "ClusterRole"))).collect();
    assert_eq!(roles.len(), 1, "{roles:#?}");
    let rules = roles[0]["rules"].as_array().unwrap();
    assert!(rules.len() > 5);
    for rule in rules {
        let verbs = rule["verbs"].as_array().unwrap();
        assert!(verbs.iter().all(|verb| READS.contains(&verb.as_str().unwrap())), "{rule}");
        assert!(!rule["resources"].to_string().contains("secrets"), "{rule}");
    }
    let may = |verb: &str, group: &str, resource: &str| {
        let has = |rule: &Value, field: &str, one: &str| rule[field].as_array().unwrap().iter().any(|own| own == one);
        let allows = |rule: &&Value| {
            has(rule, "apiGroups", group) && has(rule, "resources", resource) && has(rule, "verbs", verb)
        };
        rules.iter().any(|rule| allows(&rule))
    };
    for gvr in listed() {
        for verb in ["list", "watch"] {
            assert!(may(verb, &gvr.group, &gvr.resource), "it may not {verb} {}", gvr.resource);
        }
    }
    let bound: BTreeSet<&str> = objects.iter().filter_map(|object| object["roleRef"]["name"].as_str()).collect();
    assert_eq!(bound, BTreeSet::from([roles[0]["metadata"]["name"].as_str().unwrap()]));
}

#[test]
fn a_shadow_is_one_replica_without_webhook_fence_lease_or_queue() {
    let objects = chart();
    let kinds = ["ValidatingAdmissionPolicy", "Secret", "FlowSchema"];
    assert!(kinds.iter().all(|kind| of_kind(&objects, kind).is_empty()));
    assert_eq!(of_kind(&objects, "Deployment")[0]["spec"]["replicas"], 1);
    let given = variables(&objects);
    let settings = Settings::from_map(&given).unwrap();
    assert!(settings.shadow && !settings.webhook.enabled && settings.interruption_queue.is_empty());
    assert!(!given.keys().any(|name| name.starts_with("LEADER_ELECTION")), "{given:?}");
    let without = rendered(&["settings.clusterName=demo"]);
    assert!(!Settings::from_map(&variables(&without)).unwrap().shadow);
    assert!(of_kind(&without, "ClusterRole").len() > 1);
}

#[test]
fn shadow_flag_is_in_the_help_and_contradictions_are_refused() {
    let help = stdout(&dovetail(&["run", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("--shadow") && help.contains("Dovetail writes nothing and takes no Lease"), "{help}");
    let refused = dovetail(&["run", "--cluster-name", "demo", "--shadow", "--webhook-enabled"]);
    assert_eq!((refused.status.code(), stdout(&refused).as_str()), (Some(2), ""));
    let told = "--webhook-enabled: a shadow writes nothing, and the webhook keeps its certificates in a Secret and in the \
                CRDs (allowed: false with SHADOW (--shadow))";
    assert_eq!(stderr(&refused).trim(), told);
    let refused = dovetail(&["run", "--cluster-name", "demo", "--shadow=perhaps"]);
    assert!(stderr(&refused).starts_with("--shadow: it is not a boolean"), "{}", stderr(&refused));
}
