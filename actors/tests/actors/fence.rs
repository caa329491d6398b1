//! A new leader and the API server's guard against earlier ones: whether it is there, by which Lease it goes, and that
//! nothing begins before it lets this term pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use dovetail_actors::Settings;
use dovetail_sandbox::apiserver::{DeleteOptions, Gvr};
use serde_json::{Value, json};
use world::{World, run, seconds};

/// Fence of the chart.
const POLICY: &str = include_str!("../../../deploy/helm/dovetail/files/fence.yaml");
const POLICIES: Gvr = Gvr::from_static("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies");
const BINDINGS: Gvr = Gvr::from_static("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings");
const NAME: &str = "dovetail-fence";

/// The fence as the chart makes it, by this Lease in kube-system.
fn fence(world: &World, lease: &str, actions: &[&str]) {
    let spec: Value = serde_saphyr::from_str(POLICY).unwrap();
    world.api.create(&POLICIES, "", json!({"metadata": {"name": NAME}, "spec": spec})).unwrap();
    let by = json!({"name": lease, "namespace": "kube-system", "parameterNotFoundAction": "Allow"});
    let spec = json!({"policyName": NAME, "validationActions": actions, "paramRef": by});
    world.api.create(&BINDINGS, "", json!({"metadata": {"name": NAME}, "spec": spec})).unwrap();
}

/// Refuses the dry runs of NodeClaims with these words.
fn refuse_dry_runs(world: &World, words: &str) {
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{"apiGroups": ["karpenter.sh"], "apiVersions": ["*"],
            "operations": ["CREATE"], "resources": ["nodeclaims"]}]},
        "validations": [{"expression": "!request.dryRun", "message": words}],
    });
    world.api.create(&POLICIES, "", json!({"metadata": {"name": "no-dry-runs"}, "spec": spec})).unwrap();
    let spec = json!({"policyName": "no-dry-runs", "validationActions": ["Deny"]});
    world.api.create(&BINDINGS, "", json!({"metadata": {"name": "no-dry-runs"}, "spec": spec})).unwrap();
}

fn take_away(world: &World, kind: &Gvr, name: &str) {
    world.api.delete(kind, "", name, &DeleteOptions::default()).unwrap();
}

/// A pod that wants a node.
fn wanted(world: &World) {
    world.pool("default", json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]));
    world.pods(1, "500m");
}

/// The lines of a happening.
fn told(world: &World, event: &str) -> Vec<String> {
    let entries = world.journal.entries();
    entries.iter().filter(|one| one.log_event.event() == event).map(|one| one.log_event.to_string()).collect()
}

fn one_that_says(world: &World, event: &str, words: &str) {
    let lines = told(world, event);
    assert!(lines.len() == 1 && lines[0].contains(words), "{lines:#?}\n{}", world.log_events().join("\n"));
}

#[test]
fn a_fence_that_stands_is_not_spoken_of() {
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Deny"]);
        wanted(&world);
        let _replica = world.replica(0);
        world.until_bound(1, seconds(180)).await;
        assert_eq!((told(&world, "no_fence"), told(&world, "fence_unknown")), (vec![], vec![]));
    });
}

#[test]
fn replica_with_lease_unlike_fence_does_not_lead_and_names_both() {
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Deny"]);
        wanted(&world);
        let settings = Settings { lease_name: "own".into(), ..Settings::default() };
        let replica = world.replica_with(0, settings);
        let why = tokio::time::timeout(seconds(120), replica.exit().wait()).await.unwrap();
        assert!(why.contains("names kube-system/karpenter-leader-election"), "{why}");
        assert!(why.contains("come to kube-system/own"), "{why}");
        tokio::time::sleep(seconds(60)).await;
        assert!(world.claims().is_empty(), "{}", world.log_events().join("\n"));
    });
}

#[test]
fn without_a_fence_it_leads_and_says_once_what_is_missing() {
    run(|world| async move {
        wanted(&world);
        let _replica = world.replica(0);
        world.until_bound(1, seconds(180)).await;
        one_that_says(&world, "no_fence", "there is no ValidatingAdmissionPolicyBinding dovetail-fence");
    });
}

#[test]
fn binding_without_policy_or_denying_nothing_is_no_fence() {
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Deny"]);
        take_away(&world, &POLICIES, NAME);
        wanted(&world);
        let _replica = world.replica(0);
        world.until_bound(1, seconds(180)).await;
        one_that_says(&world, "no_fence", "there is no ValidatingAdmissionPolicy dovetail-fence");
    });
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Audit"]);
        wanted(&world);
        let _replica = world.replica(0);
        world.until_bound(1, seconds(180)).await;
        one_that_says(&world, "no_fence", "denies nothing");
    });
}

#[test]
fn who_refuses_dry_runs_is_quoted_and_the_leader_begins() {
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Deny"]);
        refuse_dry_runs(&world, "admission webhook \"audit\" does not support dry run");
        wanted(&world);
        let _replica = world.replica(0);
        world.until_bound(1, seconds(180)).await;
        one_that_says(&world, "fence_unknown", "admission webhook \"audit\" does not support dry run");
    });
}

#[test]
fn leader_waits_till_api_server_knows_its_term_and_says_so_once() {
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Deny"]);
        refuse_dry_runs(&world, "dovetail.dev/term is 99, the Lease's is 1");
        wanted(&world);
        let _replica = world.replica(0);
        tokio::time::sleep(seconds(300)).await;
        assert!(world.claims().is_empty(), "{}", world.log_events().join("\n"));
        one_that_says(&world, "retrying", "standing behind the fence");
        take_away(&world, &BINDINGS, "no-dry-runs");
        world.until_bound(1, seconds(120)).await;
        one_that_says(&world, "recovered", "standing behind the fence");
        assert_eq!(told(&world, "deposed"), Vec::<String>::new());
    });
}

#[test]
fn a_leader_that_is_refused_for_a_newer_term_begins_nothing() {
    run(|world| async move {
        fence(&world, "karpenter-leader-election", &["Deny"]);
        refuse_dry_runs(&world, "dovetail.dev/term is 1, the Lease's is 99");
        wanted(&world);
        let _replica = world.replica(0);
        tokio::time::sleep(seconds(120)).await;
        assert!(world.claims().is_empty(), "{}", world.log_events().join("\n"));
        assert_eq!((told(&world, "fence_unknown"), told(&world, "waiting")), (vec![], vec![]));
    });
}
