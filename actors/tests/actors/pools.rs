//! Pools of which no claim can be created, or no node be what its claim says: nothing is created for them, they say why, and
//! the pods go to the pools that are valid, whatever the weights.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::world;

use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_sandbox::apiserver::{DeleteOptions, NODE_CLAIMS, NODE_POOLS, NODES, PODS};
use serde_json::{Value, json};
use world::{World, minutes, on_demand_m5, run};

/// A pool of the greatest weight, of the class that the valid pool has, with parts set by their JSON pointer.
fn bad_pool(world: &World, name: &str, parts: &[(&str, Value)]) {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"weight": 100, "template": {"metadata": {"labels": {}, "annotations": {}}, "spec": {"requirements": on_demand_m5(),
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
    });
    for (pointer, value) in parts {
        let (parent, last) = pointer.rsplit_once('/').unwrap();
        pool.pointer_mut(parent).unwrap()[last] = value.clone();
    }
    world.api.create(&NODE_POOLS, "", pool).unwrap();
}

fn condition(world: &World, pool: &str, type_: &str) -> Option<(String, String)> {
    let pool = world.api.get(&NODE_POOLS, "", pool)?;
    let all = pool["status"]["conditions"].as_array()?;
    let one = all.iter().find(|one| one["type"] == type_)?;
    Some((one["status"].as_str()?.to_owned(), one["message"].as_str()?.to_owned()))
}

/// Pools that cannot serve, and the field that each names.
fn hopeless() -> Vec<(&'static str, Vec<(&'static str, Value)>, &'static str)> {
    let (labels, annotations) = ("/spec/template/metadata/labels", "/spec/template/metadata/annotations");
    let requirements = "/spec/template/spec/requirements";
    let many: Vec<Value> =
        (0..98).map(|n| json!({"key": format!("key-{n}"), "operator": "In", "values": ["a"]})).collect();
    let class = |group: &str, kind: &str| json!({"group": group, "kind": kind, "name": "default"});
    let both =
        json!([{"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "In", "values": ["c"]}]);
    let long: &'static str = Box::leak(format!("{}-long", "pool".repeat(20)).into_boxed_str());
    vec![
        ("label-key", vec![(labels, json!({"not a key": "a"}))], "spec.template.metadata.labels[not a key]"),
        ("annotation", vec![(annotations, json!({"not a key": "a"}))], "spec.template.metadata.annotations[not a key]"),
        ("token", vec![(annotations, json!({"dovetail.dev/launch-token": "x"}))], "[dovetail.dev/launch-token]"),
        ("expired", vec![("/spec/template/spec/expireAfter", json!("0s"))], "spec.template.spec.expireAfter"),
        ("foreign", vec![("/spec/template/spec/nodeClassRef", class("other.io", "Foo"))], "nodeClassRef"),
        ("same-kind", vec![("/spec/template/spec/nodeClassRef", class("other.io", "EC2NodeClass"))], "nodeClassRef"),
        (
            "value",
            vec![(requirements, json!([{"key": "a", "operator": "In", "values": ["b c"]}]))],
            "requirements[0].values[0]",
        ),
        ("against", vec![(requirements, both)], "spec.template.spec.requirements[1]"),
        ("many", vec![(requirements, json!(many))], "spec.requirements"),
        (
            "twice",
            vec![(
                "/spec/template/spec/taints",
                json!([
            {"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute", "value": "b"}]),
            )],
            "taints[1]",
        ),
        ("limit", vec![("/spec/limits", json!({"cpu": "-1"}))], "spec.limits.cpu"),
        (long, vec![], "metadata.name"),
    ]
}

#[test]
fn invalid_pool_creates_nothing_says_why_and_takes_no_pods() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        for (name, parts, _) in hopeless() {
            bad_pool(&world, name, &parts);
        }
        let _replica = world.replica(0);
        world.pods(5, "1");
        world.until_bound(5, Duration::from_secs(120)).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let pools: Vec<_> =
            world.claims().iter().map(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"].clone()).collect();
        assert!(!pools.is_empty() && pools.iter().all(|pool| pool == "default"), "{pools:?}");
        let refused = world.log_events().into_iter().filter(|line| line.contains("422")).collect::<Vec<_>>();
        assert!(refused.is_empty(), "{refused:#?}");
        for (name, _, field) in hopeless() {
            let (status, message) = condition(&world, name, "ValidationSucceeded").unwrap();
            assert!(status == "False" && message.contains(field), "{name}: {status} {message}");
            assert_eq!(condition(&world, name, "Ready").unwrap().0, "False", "{name}");
            let said = world.messages("NodePoolValidationFailed", name);
            assert!(said.len() == 1 && said[0].contains(field), "{name}: {said:?}");
        }
    });
}

#[test]
fn pod_only_an_invalid_pool_might_have_taken_is_told_so() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.api.delete(&NODE_POOLS, "", "default", &DeleteOptions::default()).unwrap();
        bad_pool(&world, "badlabel", &[("/spec/template/metadata/labels", json!({"a b": "c"}))]);
        let _replica = world.replica(0);
        world.pods(1, "1");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.claims().len(), 0);
        let said = world.messages("FailedScheduling", "pod-0000");
        assert!(
            said.iter().any(|said| said.contains("pool badlabel: it is not valid: spec.template.metadata.labels[a b]")),
            "{said:?}"
        );
    });
}

#[test]
fn label_no_instance_type_has_makes_no_claims_and_keeps_no_pods() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let labels = "/spec/template/metadata/labels";
        for (name, key, value) in [
            ("windows", "kubernetes.io/os", "windows"),
            ("old-key", "beta.kubernetes.io/os", "windows"),
            ("arm", "kubernetes.io/arch", "arm64"),
            ("type", "node.kubernetes.io/instance-type", "c5.large"),
            ("nowhere", "topology.kubernetes.io/zone", "nowhere-1a"),
            ("gpu", "karpenter.k8s.aws/instance-gpu-name", "t4"),
        ] {
            bad_pool(&world, name, &[(labels, json!({key: value}))]);
        }
        let _replica = world.replica(0);
        world.pods(5, "1");
        world.until_bound(5, Duration::from_secs(120)).await;
        let pools: Vec<_> =
            world.claims().iter().map(|claim| claim["metadata"]["labels"]["karpenter.sh/nodepool"].clone()).collect();
        assert!(pools.iter().all(|pool| pool == "default"), "{pools:?}");
        let made = world.log_events().into_iter().filter(|line| line.contains("created nodeclaim")).count();
        assert_eq!(made, pools.len(), "each that was made is there");
    });
}

#[test]
fn mended_pool_is_used_and_spoiled_pool_no_longer_is() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        world.api.delete(&NODE_POOLS, "", "default", &DeleteOptions::default()).unwrap();
        bad_pool(&world, "mended", &[("/spec/template/spec/expireAfter", json!("1m"))]);
        let _replica = world.replica(0);
        world.pods(1, "1");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(world.claims().len(), 0);
        let life = |text: &str| json!({"spec": {"template": {"spec": {"expireAfter": text}}}});
        world.api.patch(&NODE_POOLS, "", "mended", &life("720h")).unwrap();
        world.until_bound(1, Duration::from_secs(120)).await;
        world.api.patch(&NODE_POOLS, "", "mended", &life("1m")).unwrap();
        world.pods_of("later", 3, "30");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((world.claims().len(), world.bound()), (1, 1));
    });
}

#[test]
fn unreadable_budget_is_named_on_pool_and_its_nodes_stay() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let budgets = json!({"spec": {"disruption": {"consolidateAfter": "1s", "budgets": [
            {"nodes": "100%"}, {"nodes": "10%", "schedule": "99 99 * * *", "duration": "1h"}]}}});
        world.api.patch(&NODE_POOLS, "", "default", &budgets).unwrap();
        let _replica = world.replica(0);
        world.pods(1, "1");
        world.until_bound(1, Duration::from_secs(120)).await;
        let (status, message) = condition(&world, "default", "dovetail.dev/BudgetsValid").unwrap();
        assert!(
            status == "False" && message.contains("spec.disruption.budgets[1]: schedule \"99 99 * * *\""),
            "{message}"
        );
        assert_eq!(condition(&world, "default", "Ready").unwrap().0, "True");
        assert_eq!(world.messages("InvalidBudget", "default").len(), 1);
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        world.api.delete(&PODS, "default", "pod-0000", &now).unwrap();
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(world.claims().len(), 1, "empty, and it stays");
        let mended = json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}});
        world.api.patch(&NODE_POOLS, "", "default", &mended).unwrap();
        world.until(Duration::from_secs(120), || world.claims().is_empty()).await;
        assert_eq!(condition(&world, "default", "dovetail.dev/BudgetsValid"), None);
    });
}

#[test]
fn misspelt_or_unimplemented_wish_is_named_and_pool_is_used() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let asked = json!({"metadata": {"annotations": {"dovetail.dev/packing-policy": "cheapest"}}, "spec": {
            "limits": {"cpus": "9"}}});
        world.api.patch(&NODE_POOLS, "", "default", &asked).unwrap();
        let _replica = world.replica(0);
        world.pods(1, "1");
        world.until_bound(1, Duration::from_secs(120)).await;
        let (status, message) = condition(&world, "default", "dovetail.dev/NotImplemented").unwrap();
        assert!(status == "True" && message.contains("spec.limits.cpus (no node has such a resource"), "{message}");
        let (status, message) = condition(&world, "default", "dovetail.dev/AnnotationsKnown").unwrap();
        assert!(status == "False" && message.contains("\"cheapest\" is not known"), "{message}");
        assert_eq!(condition(&world, "default", "Ready").unwrap().0, "True");
        assert_eq!(world.messages("InvalidAnnotation", "default").len(), 1);
        let mended = json!({"metadata": {"annotations": {"dovetail.dev/packing-policy": "cost"}}, "spec": {
            "limits": {"cpus": null}}});
        world.api.patch(&NODE_POOLS, "", "default", &mended).unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        for type_ in ["dovetail.dev/NotImplemented", "dovetail.dev/AnnotationsKnown"] {
            assert_eq!(condition(&world, "default", type_), None, "{type_}");
        }
    });
}

#[test]
fn claim_of_another_kind_of_class_is_left_to_its_provider() {
    run(|world| async move {
        world.pool("default", on_demand_m5());
        let _replica = world.replica(0);
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "theirs", "finalizers": ["karpenter.sh/termination"], "labels": {"karpenter.sh/nodepool": "theirs"}},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}},
        });
        world.api.create(&NODE_CLAIMS, "", claim).unwrap();
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "theirs", "finalizers": ["karpenter.sh/termination"],
                "labels": {"karpenter.sh/nodepool": "theirs", "karpenter.azure.com/aksnodeclass": "default"}},
            "spec": {"providerID": "azure:///x"},
        });
        world.api.create(&NODES, "", node).unwrap();
        world.pods(1, "1");
        world.until_bound(1, Duration::from_secs(120)).await;
        let theirs = || world.api.get(&NODE_CLAIMS, "", "theirs").unwrap();
        assert!(theirs()["status"]["conditions"].as_array().is_none_or(Vec::is_empty), "{}", theirs()["status"]);
        world.api.delete(&NODE_CLAIMS, "", "theirs", &DeleteOptions::default()).unwrap();
        world.api.delete(&NODES, "", "theirs", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(theirs()["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
        let node = world.api.get(&NODES, "", "theirs").expect("its provider lets it go");
        assert_eq!(node["metadata"]["finalizers"], json!(["karpenter.sh/termination"]));
    });
}

#[test]
fn value_no_label_can_have_makes_no_claims() {
    run(|world| async move {
        world.pool(
            "default",
            json!([
                {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]},
                {"key": "team", "operator": "Exists"},
            ]),
        );
        let _replica = world.replica(0);
        let wants = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "team", "operator": "In", "values": ["no label has this"]}]}]}}});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "namespace": "default"},
            "spec": {"affinity": wants, "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        });
        world.api.create(&PODS, "default", pod.clone()).unwrap();
        world.api.patch_status(&PODS, "default", "odd", &json!({"status": pod["status"]})).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let made = world.log_events().into_iter().filter(|line| line.contains("422")).collect::<Vec<_>>();
        assert!(world.claims().is_empty() && made.is_empty(), "{made:#?}");
    });
}

#[test]
fn claim_with_lowered_min_values_says_so_by_event_others_do_not() {
    for (cpu, lowered) in [("80", true), ("500m", false)] {
        run(|world| async move {
            world.pool(
                "default",
                json!([
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "minValues": 2,
                        "values": ["m5.large", "m5.24xlarge"]}]),
            );
            world.pods(1, cpu);
            let min_values = dovetail_core::MinValuesPolicy::BestEffort;
            let _replica = world.replica_with(0, Settings { min_values, ..Settings::default() });
            world.until_bound(1, minutes(5)).await;
            let name = world.claims()[0]["metadata"]["name"].as_str().unwrap().to_owned();
            let said = world.messages("MinValuesRelaxed", &name);
            assert_eq!(said.len(), usize::from(lowered), "{cpu}: {said:?}");
            assert!(said.iter().all(|one| one.ends_with(": node.kubernetes.io/instance-type >= 1")), "{said:?}");
        });
    }
}
