//! Changes that alter a hash, and changes that do not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use dovetail_api::v1::{EC2NodeClass, NodePool};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::lifecycle::hash::{VERSION, node_class, node_pool};

fn pool(change: impl FnOnce(&mut Value)) -> String {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"limits": {"cpu": "10"}, "weight": 3, "template": {
            "metadata": {"labels": {"team": "a", "tier": "web"}, "annotations": {"note": "x"}},
            "spec": {
                "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "value": "1", "effect": "NoExecute"}],
                "startupTaints": [{"key": "c", "effect": "NoSchedule"}],
                "terminationGracePeriod": "1h", "expireAfter": "720h",
            }}},
    });
    change(&mut pool);
    node_pool(&serde_json::from_value::<NodePool>(pool).unwrap())
}

fn class(change: impl FnOnce(&mut Value)) -> String {
    let mut class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"},
        "spec": {
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": "KarpenterNodeRole-demo", "userData": "echo", "tags": {"release": "one", "owner": "a"},
            "kubelet": {"maxPods": 40, "clusterDNS": ["10.0.0.10", "10.0.0.11"],
                "systemReserved": {"cpu": "1"}, "allowedUnsafeSysctls": ["a", "b"]},
            "blockDeviceMappings": [
                {"deviceName": "/dev/xvda", "rootVolume": true, "ebs": {"volumeSize": "100Gi", "volumeType": "gp3"}},
                {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "20Gi", "encrypted": true}}],
        },
    });
    change(&mut class);
    node_class(&serde_json::from_value::<EC2NodeClass>(class).unwrap().spec)
}

fn same(_: &mut Value) {}

#[test]
fn hashes_are_what_they_were_when_this_version_came() {
    assert_eq!(VERSION, "dovetail-v2", "another hash needs another version, or every node drifts by an upgrade");
    assert_eq!((pool(same).as_str(), class(same).as_str()), ("3070040778595652173", "8678564672878180237"));
}

#[test]
fn a_template_that_means_the_same_has_the_same_hash() {
    let spec = |pool: &mut Value, field: &str, value: Value| pool["spec"]["template"]["spec"][field] = value;
    let written: Vec<(&str, String)> = vec![
        (
            "taints in another order",
            pool(|pool| pool["spec"]["template"]["spec"]["taints"].as_array_mut().unwrap().reverse()),
        ),
        ("an empty value", pool(|pool| pool["spec"]["template"]["spec"]["taints"][0]["value"] = json!(""))),
        ("other units", pool(|pool| spec(pool, "expireAfter", json!("43200m")))),
        (
            "its default",
            pool(|pool| drop(pool["spec"]["template"]["spec"].as_object_mut().unwrap().remove("expireAfter"))),
        ),
        ("grace in minutes", pool(|pool| spec(pool, "terminationGracePeriod", json!("60m")))),
        ("other requirements", pool(|pool| spec(pool, "requirements", json!([])))),
        ("other limits", pool(|pool| pool["spec"]["limits"] = json!({"cpu": "99"}))),
        ("another weight", pool(|pool| pool["spec"]["weight"] = json!(7))),
        (
            "other budgets",
            pool(|pool| pool["spec"]["disruption"] = json!({"budgets": [{"nodes": "3"}], "consolidateAfter": "9m"})),
        ),
    ];
    for (what, hash) in written {
        assert_eq!(hash, pool(same), "{what}");
    }
}

#[test]
fn a_template_that_makes_other_nodes_has_another_hash() {
    let changes: Vec<(&str, Value)> = vec![
        ("/spec/template/metadata/labels/team", json!("b")),
        ("/spec/template/metadata/annotations/note", json!("y")),
        ("/spec/template/spec/taints/0/key", json!("z")),
        ("/spec/template/spec/taints/1/value", json!("2")),
        ("/spec/template/spec/startupTaints", json!([])),
        ("/spec/template/spec/nodeClassRef/name", json!("other")),
        ("/spec/template/spec/terminationGracePeriod", json!("2h")),
        ("/spec/template/spec/expireAfter", json!("Never")),
    ];
    let mut known = vec![pool(same)];
    for (path, value) in changes {
        let hash = pool(|pool| *pool.pointer_mut(path).unwrap() = value);
        assert!(!known.contains(&hash), "{path}");
        known.push(hash);
    }
    let moved = pool(|pool| {
        let taints = pool["spec"]["template"]["spec"]["taints"].take();
        pool["spec"]["template"]["spec"]["taints"] = pool["spec"]["template"]["spec"]["startupTaints"].take();
        pool["spec"]["template"]["spec"]["startupTaints"] = taints;
    });
    assert!(!known.contains(&moved), "which list a taint stands in counts");
}

#[test]
fn a_class_that_means_the_same_has_the_same_hash() {
    let set = |path: &str, value: Value| class(|class| *class.pointer_mut(path).unwrap() = value);
    let reversed = |path: &str| class(|class| class.pointer_mut(path).unwrap().as_array_mut().unwrap().reverse());
    let written: Vec<(&str, String)> = vec![
        ("another selector of subnets", set("/spec/subnetSelectorTerms", json!([{"id": "subnet-1"}]))),
        ("another selector of groups", set("/spec/securityGroupSelectorTerms", json!([{"name": "nodes"}]))),
        ("a pinned alias", set("/spec/amiSelectorTerms", json!([{"alias": "al2023@v20260101"}]))),
        (
            "images by name, of the same family",
            class(|class| {
                class["spec"]["amiSelectorTerms"] = json!([{"name": "al2023-*"}]);
                class["spec"]["amiFamily"] = json!("AL2023");
            }),
        ),
        ("reservations", class(|class| class["spec"]["capacityReservationSelectorTerms"] = json!([{"id": "cr-1"}]))),
        ("prefixes", class(|class| class["spec"]["ipPrefixCount"] = json!(2))),
        ("disks in another order", reversed("/spec/blockDeviceMappings")),
        ("sysctls in another order", reversed("/spec/kubelet/allowedUnsafeSysctls")),
        ("a size in other units", set("/spec/blockDeviceMappings/0/ebs/volumeSize", json!("102400Mi"))),
        ("an amount in other units", set("/spec/kubelet/systemReserved/cpu", json!("1000m"))),
        ("no list", class(|class| class["spec"]["networkInterfaces"] = json!([]))),
        ("a default", class(|class| class["spec"]["metadataOptions"] = json!({"httpTokens": "required"}))),
        ("no enclaves", class(|class| class["spec"]["enclaveOptions"] = json!({"enabled": false}))),
        ("no monitoring", class(|class| class["spec"]["detailedMonitoring"] = json!(false))),
    ];
    for (what, hash) in written {
        assert_eq!(hash, class(same), "{what}");
    }
}

#[test]
fn a_class_that_makes_other_instances_has_another_hash() {
    let changes: Vec<(&str, Value)> = vec![
        ("/spec/role", json!("Other")),
        ("/spec/userData", json!("echo two")),
        ("/spec/tags/release", json!("two")),
        ("/spec/kubelet/maxPods", json!(41)),
        ("/spec/kubelet/clusterDNS", json!(["10.0.0.11", "10.0.0.10"])),
        ("/spec/blockDeviceMappings/0/ebs/volumeSize", json!("200Gi")),
        ("/spec/blockDeviceMappings/1/ebs/encrypted", json!(false)),
        ("/spec/blockDeviceMappings/1/deviceName", json!("/dev/xvdc")),
        ("/spec/amiSelectorTerms", json!([{"alias": "bottlerocket@latest"}])),
    ];
    let mut known = vec![class(same)];
    for (path, value) in changes {
        let hash = class(|class| *class.pointer_mut(path).unwrap() = value);
        assert!(!known.contains(&hash), "{path}");
        known.push(hash);
    }
    for (field, value) in [
        ("associatePublicIPAddress", json!(false)),
        ("instanceStorePolicy", json!("RAID0")),
        ("detailedMonitoring", json!(true)),
        ("metadataOptions", json!({"httpTokens": "optional"})),
        ("context", json!("c")),
        ("connectionTracking", json!({"udpTimeout": 30})),
        ("cpuOptions", json!({"nestedVirtualization": "enabled"})),
        ("enclaveOptions", json!({"enabled": true})),
        ("placementGroupSelector", json!({"name": "g"})),
        ("networkInterfaces", json!([{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}])),
    ] {
        let hash = class(|class| class["spec"][field] = value);
        assert!(!known.contains(&hash), "{field}");
        known.push(hash);
    }
}

proptest! {
    #[test]
    fn no_order_of_taints_changes_a_hash(keys in proptest::collection::vec("[a-c]", 0..6), seed in any::<u64>()) {
        let taint = |key: &String| json!({"key": key, "effect": "NoSchedule"});
        let mut taints: Vec<Value> = keys.iter().map(taint).collect();
        let before = pool(|pool| pool["spec"]["template"]["spec"]["taints"] = json!(taints));
        if !taints.is_empty() {
            let by = usize::try_from(seed % taints.len() as u64).unwrap();
            taints.rotate_left(by);
            taints.swap(0, by);
            taints.push(taints[0].clone());
        }
        prop_assert_eq!(before, pool(|pool| pool["spec"]["template"]["spec"]["taints"] = json!(taints)));
    }
}
