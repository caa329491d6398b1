//! Instances that join, nodes that fall silent, pods that are lost.

use super::*;
use crate::region::{CapacityType, Placement};

fn launch(rig: &Rig, user_data: &str) -> crate::region::RegionInstance {
    rig.region
        .place(&Placement {
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::Spot,
            tags: BTreeMap::new(),
            user_data: user_data.into(),
        })
        .unwrap()
}

const NODE_CONFIG: &str = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: demo\n  kubelet:\n    config:\n      maxPods: 29\n      registerWithTaints:\n      - effect: NoExecute\n        key: karpenter.sh/unregistered\n    flags:\n    - --node-labels=\"karpenter.sh/nodepool=default,karpenter.sh/capacity-type=spot\"\n";

#[test]
fn instance_joins_as_an_eks_node_20_to_60_seconds_after_launch() {
    on(&[], async |rig| {
        let instance = launch(&rig, NODE_CONFIG);
        rig.after(65.0).await;
        let joined = rig.told("node", "joined");
        assert!(joined.len() == 1 && (20.0..=60.1).contains(&joined[0].0), "{joined:?}");
        let node = rig.get(&api::NODES, &instance.hostname);
        assert!(
            instance.hostname.starts_with("ip-") && instance.hostname.ends_with(".ec2.internal"),
            "{}",
            instance.hostname
        );
        let labels = &node["metadata"]["labels"];
        for (label, value) in [
            ("beta.kubernetes.io/instance-type", "m5.large"),
            ("failure-domain.beta.kubernetes.io/zone", "us-east-1a"),
            ("kubernetes.io/hostname", instance.hostname.as_str()),
            ("kubernetes.io/arch", "amd64"),
            ("node.kubernetes.io/instance-type", "m5.large"),
            ("topology.kubernetes.io/region", "us-east-1"),
            ("topology.ebs.csi.aws.com/zone", "us-east-1a"),
            ("karpenter.sh/nodepool", "default"),
        ] {
            assert_eq!(labels[label], value, "{label}");
        }
        assert_eq!(node["spec"]["providerID"], json!(instance.provider_id()));
        assert_eq!(
            (&node["status"]["capacity"]["pods"], &node["status"]["allocatable"]["cpu"]),
            (&json!("29"), &json!("1930m"))
        );
        assert_eq!(status(&node, "Ready"), "True");
        let taints: Vec<&str> =
            node["spec"]["taints"].as_array().unwrap().iter().map(|t| t["key"].as_str().unwrap()).collect();
        assert_eq!(taints, ["karpenter.sh/unregistered"]);
    });
}

#[test]
fn pods_wait_for_the_unregistered_taint_to_go_and_run_then() {
    on(&[], async |rig| {
        let instance = launch(&rig, NODE_CONFIG);
        rig.deployment("web", 3, "100m");
        rig.after(70.0).await;
        assert_eq!(rig.bound(), 0);
        rig.api.patch(&api::NODES, "", &instance.hostname, &json!({"spec": {"taints": null}})).unwrap();
        rig.after(15.0).await;
        assert_eq!(rig.ready(), 3);
    });
}

#[test]
fn instance_whose_user_data_names_no_cluster_never_joins() {
    on(&[], async |rig| {
        launch(&rig, "#!/bin/sh\n");
        rig.after(300.0).await;
        assert!(rig.api.list(&api::NODES).is_empty());
        assert!(rig.log.to_jsonl().contains("never-joins"));
    });
}

#[test]
fn pods_of_an_ended_instance_are_lost_and_return_elsewhere() {
    on(&[nodes("m5.large", 1), nodes("m5.xlarge", 1)], async |rig| {
        rig.deployment("web", 4, "300m");
        rig.after(5.0).await;
        let node = rig.places().values().next().unwrap().clone();
        let lost = rig.places().values().filter(|n| **n == node).count();
        let id =
            rig.get(&api::NODES, &node)["spec"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        rig.region.terminate(&id).unwrap();
        rig.after(1.0).await;
        assert_eq!(rig.told("pod", "lost").len(), lost);
        rig.after(45.0).await;
        if let Some(object) = rig.api.get(&api::NODES, "", &node) {
            assert_eq!(status(&object, "Ready"), "Unknown");
        }
        rig.after(180.0).await;
        assert!(rig.api.get(&api::NODES, "", &node).is_none());
        assert_eq!(rig.ready(), 4);
        assert!(rig.places().values().all(|n| *n != node));
    });
}

#[test]
fn a_no_execute_taint_drives_out_what_does_not_tolerate_it() {
    on(&[nodes("m5.large", 1)], async |rig| {
        rig.pod("plain", json!({}), json!({"containers": [container("100m")]}));
        let patient = json!([{"key": "fire", "operator": "Exists", "tolerationSeconds": 20}]);
        rig.pod("patient", json!({}), json!({"containers": [container("100m")], "tolerations": patient}));
        rig.pod(
            "stoic",
            json!({}),
            json!({"containers": [container("100m")], "tolerations": [{"operator": "Exists"}]}),
        );
        rig.after(5.0).await;
        let node = rig.place("plain");
        let taint = json!({"spec": {"taints": [{"key": "fire", "effect": "NoExecute"}]}});
        rig.api.patch(&api::NODES, "", &node, &taint).unwrap();
        rig.after(2.0).await;
        assert_eq!(rig.places().keys().map(String::as_str).collect::<Vec<_>>(), ["patient", "stoic"]);
        rig.after(20.0).await;
        assert_eq!(rig.places().keys().map(String::as_str).collect::<Vec<_>>(), ["stoic"]);
    });
}

#[test]
fn nodes_of_a_zone_that_is_down_fall_silent_and_return_with_it() {
    on(&[nodes("m5.large", 3)], async |rig| {
        rig.after(1.0).await;
        rig.region.set_zone_down("us-east-1a", true);
        rig.after(60.0).await;
        let ready = |rig: &Rig| rig.api.list(&api::NODES).iter().filter(|n| status(n, "Ready") == "True").count();
        assert_eq!(ready(&rig), 2);
        rig.region.set_zone_down("us-east-1a", false);
        rig.after(15.0).await;
        assert_eq!(ready(&rig), 3);
    });
}

#[test]
fn nodes_beforehand_are_ready_at_time_0_with_group_labels() {
    on(&[nodes("m5.large", 2)], async |rig| {
        let nodes = rig.api.list(&api::NODES);
        assert_eq!(nodes.len(), 2);
        for node in nodes {
            assert_eq!(status(&node, "Ready"), "True");
            assert_eq!(node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"], "demo-ng");
            assert!(node["spec"]["taints"].is_null());
        }
    });
}

#[test]
fn one_seed_tells_one_story_and_another_seed_another() {
    let tell = |seed: u64| {
        seeded(seed, ClusterSettings::default(), &[nodes("m5.large", 2)], async |rig| {
            rig.deployment("web", 10, "250m");
            launch(&rig, NODE_CONFIG);
            rig.after(90.0).await;
            rig.log.to_jsonl()
        })
    };
    assert_eq!(tell(7), tell(7));
    assert_ne!(tell(7), tell(8));
}

#[test]
fn taken_over_instance_runs_a_kubelet_and_keeps_its_address() {
    on(&[], async |rig| {
        let other = crate::region::TakenOver {
            id: "i-0taken".into(),
            hostname: "ip-10-0-0-11.ec2.internal".into(),
            private_ip: [10, 0, 0, 11].into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::OnDemand,
            architecture: "x86_64".into(),
            launched: DEFAULT_START,
            tags: BTreeMap::new(),
        };
        rig.region.take_over(other.clone());
        rig.node_with(&other.hostname, "us-east-1a", "2", json!({"providerID": "aws:///us-east-1a/i-0taken"}));
        rig.pod("web", json!({}), json!({"nodeName": other.hostname}));
        rig.after(60.0).await;
        assert_eq!(rig.ready(), 1, "its kubelet runs what is bound to it");
        let node = rig.get(&api::NODES, &other.hostname);
        assert_eq!(status(&node, "Ready"), "True", "nobody takes it for silent: {node}");
        assert_eq!(rig.told("node", "joined").len(), 1, "it joined once: {:?}", rig.told("node", "joined"));
        let addresses: Vec<_> = (0..20).map(|_| launch(&rig, "").private_ip).collect();
        assert!(!addresses.contains(&other.private_ip), "{addresses:?}");
    });
}
