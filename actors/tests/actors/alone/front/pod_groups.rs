//! Pods of PodGroups: a gang is ordered whole or not at all, its nodes are given back where not all can be had, and nothing is
//! watched while the gate is closed.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::Settings;
use dovetail_actors::messages::{LaunchClaims, PackNow, Remove};
use dovetail_actors::packer::Packer;
use dovetail_core::pod_groups::PodGroupApi;
use dovetail_sandbox::apiserver::{Gvr, NODE_POOLS, PODS};
use serde_json::{Value, json};

use crate::alone::front::packer::{batch, planned, start};
use crate::alone::keepers::cluster_watcher::{known, leading};
use crate::alone::{Alone, TERM, alone, alone_with, trace};

/// A pool of nodes with two CPUs, and of that many CPUs at most.
fn pool(bench: &Alone, cpus: u32) {
    bench.class("default");
    let template = json!({"spec": {
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    bench.pool_of("default", json!({"limits": {"cpu": cpus.to_string()}, "template": template}));
    bench.offer("default");
}

/// A pod that needs a node of its own, in the group `train`. Answers its uid.
fn member(bench: &Alone, number: usize) -> String {
    let name = format!("train-{number}");
    let uid = bench.pod_of(&name, None, "1500m");
    let label = json!({"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}});
    bench.api.patch(&PODS, "default", &name, &label).unwrap();
    uid
}

/// The group needs so many, which the state knows with the pods that there are.
fn group(bench: &Alone, min_count: usize) {
    bench.show();
    bench.heard.cluster(|state| {
        state.pod_groups_mut().follow(PodGroupApi::Coscheduling, true);
        state.pod_groups_mut().insert(PodGroupApi::Coscheduling, "default/train", Ok(Some(min_count)));
    });
}

#[test]
fn gang_is_ordered_at_once_when_enough_members_exist() {
    alone(|bench| async move {
        pool(&bench, 100);
        let mut uids: Vec<String> = (0..3).map(|at| member(&bench, at)).collect();
        group(&bench, 4);
        let packer = start(&bench);
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 0);
        let said = bench.records("FailedScheduling");
        let why = "PodGroup default/train waits for members: 3 of minCount 4 exist";
        assert!(said.len() == 3 && said.iter().all(|(_, text)| text.contains(why)), "{said:?}");
        uids.push(member(&bench, 3));
        bench.show();
        packer.do_send(batch(&uids[3..]));
        bench.pass(1.0).await;
        assert_eq!((bench.heard.count::<LaunchClaims>(), planned(&bench)), (1, 4));
        let launch = bench.heard.last::<LaunchClaims>();
        for order in &launch.orders {
            let own = order.claim.metadata.annotations.clone().unwrap();
            assert_eq!(own["dovetail.dev/launched-for-pod-group"], "default/train");
        }
    });
}

#[test]
fn gang_that_lacks_places_is_not_ordered_and_others_are() {
    alone(|bench| async move {
        pool(&bench, 8);
        let mut uids: Vec<String> = (0..5).map(|at| member(&bench, at)).collect();
        uids.push(bench.pod_of("web", None, "1500m"));
        group(&bench, 5);
        let packer = start(&bench);
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 1);
        let said = bench.records("FailedScheduling");
        let why = "of 5 members have a place: pool default: ";
        assert!(said.len() == 5 && said.iter().all(|(_, text)| text.contains(why)), "{said:?}");
    });
}

/// One of four nodes comes to nothing, and there is no other: the three go back, and the gang is tried again a minute later.
#[test]
fn nodes_of_a_gang_are_given_back_where_one_cannot_be_had() {
    alone(|bench| async move {
        pool(&bench, 8);
        let uids: Vec<String> = (0..4).map(|at| member(&bench, at)).collect();
        group(&bench, 4);
        let packer: Addr<Packer> = start(&bench);
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        assert_eq!(planned(&bench), 4);
        let claims: Vec<_> =
            bench.heard.last::<LaunchClaims>().orders.iter().map(|order| order.claim.clone()).collect();
        bench.heard.cluster(|state| {
            for mut claim in claims.clone() {
                claim.metadata.uid = claim.metadata.name.clone();
                claim.metadata.resource_version = Some("900000".to_owned());
                state.apply_claim(Arc::new(claim));
            }
            let lost = claims[0].metadata.name.clone().unwrap();
            state.delete_claim(&lost, Some(&lost));
            let mut pool = Value::clone(&bench.api.get(&NODE_POOLS, "", "default").unwrap());
            pool["spec"]["limits"]["cpu"] = json!("6");
            pool["metadata"]["resourceVersion"] = json!("900001");
            state.apply_pool(serde_json::from_value(pool).unwrap());
        });
        packer.do_send(PackNow::after(TERM, trace(2)));
        bench.pass(1.0).await;
        assert_eq!(bench.heard.last::<Remove>().claims.len(), 3);
        assert_eq!((planned(&bench), bench.told.count("gang_given_back")), (4, 1));
        bench.heard.cluster(|state| {
            for claim in &claims {
                let name = claim.metadata.name.clone().unwrap();
                state.delete_claim(&name, Some(&name));
            }
        });
        bench.pass(30.0).await;
        assert_eq!(planned(&bench), 4, "it waits for its pause");
        let pool = bench.api.get(&NODE_POOLS, "", "default").unwrap();
        let mut pool = Value::clone(&pool);
        pool["metadata"]["resourceVersion"] = json!("900002");
        bench.heard.cluster(|state| state.apply_pool(serde_json::from_value(pool).unwrap()));
        bench.until(60, || planned(&bench) == 8).await;
    });
}

fn groups(version: &str) -> Gvr {
    Gvr::new("scheduling.k8s.io", version, "podgroups")
}

fn settings(gates: &str) -> Settings {
    Settings::from_map(&[("FEATURE_GATES".to_owned(), gates.to_owned())].into()).unwrap()
}

#[test]
fn groups_are_watched_where_the_gate_is_open_and_only_there() {
    let object = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}});
    for (gates, followed, said) in [("GangScheduling=true", true, 1), ("GangScheduling=false", false, 0)] {
        let object = object.clone();
        alone_with(settings(gates), |bench| async move {
            bench.api.create(&groups("v1alpha2"), "default", object).unwrap();
            let watching = leading(&bench).await;
            let snapshot = known(&watching.cluster).await.expect("the cluster is known");
            assert_eq!(!snapshot.pod_groups.is_empty(), followed, "{gates}");
            assert_eq!(bench.told.count("pod_groups_not_served"), said, "the coscheduling plugin's are not served");
        });
    }
}
