//! Drains: pods leave when their places are ready, volumes are waited for, and what asks for a rollout gets one.

use dovetail_actors::Settings;
use dovetail_actors::messages::Roll;
use dovetail_core::cluster_state::NominationTarget;
use dovetail_sandbox::apiserver::{DEPLOYMENTS, DeleteOptions, NODE_CLAIMS, PODS, VOLUME_ATTACHMENTS};
use serde_json::{Value, json};

use super::terminator::{delete_claim, go_on, is_gone, lives, show, start, working};
use crate::alone::objects::node_name;
use crate::alone::{Alone, alone, alone_with, seconds};

fn evictions(bench: &Alone) -> usize {
    bench.wire.count("POST", "/eviction")
}

/// A pod is expected on a node that is ready for it.
fn place_on(bench: &Alone, uid: &str, number: u64) {
    let target = NominationTarget::Node(node_name(number));
    bench.heard.cluster(|state| state.nominate([uid], &target, seconds(1_000_000_000)));
}

#[test]
fn pods_of_a_node_that_works_stay_until_their_places_are_ready() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        working(&bench, &actor, 2);
        let uid = bench.pod("web", Some(1));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 30).await;
        assert_eq!((evictions(&bench), lives(&bench, 1)), (0, true), "{:?}", bench.told.lines());
        place_on(&bench, &uid, 2);
        go_on(&bench, &actor, 1, 30).await;
        assert!(evictions(&bench) >= 1 && is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
    });
}

#[test]
fn a_pod_for_which_there_is_never_a_place_is_evicted_in_the_end() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web", Some(1));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 1800).await;
        assert!(is_gone(&bench, 1), "{:?}", bench.told.lines());
        assert!(bench.told.count("places_given_up") >= 1, "it is said: {:?}", bench.told.lines());
    });
}

#[test]
fn why_a_drain_waits_is_said_and_not_again_and_again() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        for n in 0..30 {
            bench.pod_of(&format!("web-{n}"), Some(1), "10m");
        }
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 120).await;
        let lines = bench.told.lines();
        assert!(lines.len() < 40, "{} lines: {lines:?}", lines.len());
        assert_eq!(bench.told.count("draining"), 1);
        assert!(lines.iter().all(|line| line.len() < 1000), "thirty pods are not all named");
    });
}

fn attach(bench: &Alone, name: &str, number: u64) {
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node_name(number), "source": {"persistentVolumeName": format!("pv-{name}")}}});
    bench.api.create(&VOLUME_ATTACHMENTS, "", attachment).unwrap();
}

#[test]
fn instance_with_volume_is_not_ended_before_it_detaches() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        attach(&bench, "one", 1);
        attach(&bench, "of-another-node", 2);
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 30).await;
        assert!(lives(&bench, 1), "{:?}", bench.told.lines());
        let said = bench.records("AwaitingVolumeDetachment");
        assert!(said.iter().all(|(_, why)| why.contains("one") && !why.contains("of-another-node")), "{said:?}");
        assert_eq!(bench.told.count("awaiting_volumes"), 1);
        bench.delete(&VOLUME_ATTACHMENTS, "one");
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1));
    });
}

#[test]
fn until_volumes_are_listed_no_instance_is_ended() {
    alone(|bench| async move {
        bench.wire.forbid("GET", "/volumeattachments", usize::MAX);
        let actor = start(&bench);
        working(&bench, &actor, 1);
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 60).await;
        assert!(lives(&bench, 1), "{:?}", bench.told.lines());
        bench.wire.heal();
        go_on(&bench, &actor, 1, 30).await;
        assert!(is_gone(&bench, 1));
    });
}

#[test]
fn a_node_that_is_silent_holds_no_volume_and_no_pod_for_ever() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.pod("web", Some(1));
        bench.kubelet(1, "Unknown");
        delete_claim(&bench, 1);
        for _ in 0..60 {
            // Nobody ends its pods: its kubelet is not there.
            show(&bench, &actor, 1);
            bench.pass(1.0).await;
        }
        assert!(evictions(&bench) >= 1);
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        bench.api.delete(&PODS, "default", "web", &now).unwrap();
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1));
    });
}

#[test]
fn pod_tolerating_the_taint_is_neither_evicted_nor_awaited() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "default",
                "ownerReferences": [bench.owner(&dovetail_sandbox::apiserver::DAEMON_SETS, "DaemonSet")]},
            "spec": {"containers": [{"name": "main", "image": "pause"}], "tolerations": [{"operator": "Exists"}]}});
        bench.api.create(&PODS, "default", pod).unwrap();
        bench.api.bind("default", "agent", &node_name(1)).unwrap();
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 30).await;
        assert!(is_gone(&bench, 1) && evictions(&bench) == 0, "{:?}", bench.told.lines());
    });
}

/// A Deployment of one replica behind the ReplicaSet of the bench's pods; its pods ask to be moved by a rollout.
fn deployment(bench: &Alone, more: Value) {
    let owner = bench.owner(&dovetail_sandbox::apiserver::REPLICA_SETS, "ReplicaSet");
    let labels = json!({"app": "web"});
    let mut spec = json!({"replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = bench
        .api
        .create(&DEPLOYMENTS, "default", json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec}))
        .unwrap();
    let generation = made["metadata"]["generation"].clone();
    let status = json!({"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
    bench.api.patch_status(&DEPLOYMENTS, "default", "web", &json!({"status": status})).unwrap();
    let of = json!({"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
        "uid": made["metadata"]["uid"], "controller": true}]}});
    bench
        .api
        .patch(&dovetail_sandbox::apiserver::REPLICA_SETS, "default", owner["name"].as_str().unwrap(), &of)
        .unwrap();
}

fn asks_for_rollout(bench: &Alone, pod: &str) {
    let ask = json!({"metadata": {"annotations": {"dovetail.dev/move": "rollout"}}});
    bench.api.patch(&PODS, "default", pod, &ask).unwrap();
}

fn restarts(bench: &Alone) -> usize {
    bench.wire.count("PATCH", "/deployments/web")
}

fn moving() -> Settings {
    Settings { moves_rollout: true, ..Settings::default() }
}

#[test]
fn a_pod_alone_that_asks_for_it_is_moved_by_one_restart() {
    alone_with(moving(), |bench| async move {
        bench.heard.cluster(|state| state.allow_rollouts(true));
        let actor = start(&bench);
        working(&bench, &actor, 1);
        working(&bench, &actor, 2);
        let uid = bench.pod("web-0", Some(1));
        asks_for_rollout(&bench, "web-0");
        deployment(&bench, json!({}));
        delete_claim(&bench, 1);
        bench.show();
        place_on(&bench, &uid, 2);
        go_on(&bench, &actor, 1, 60).await;
        assert_eq!((restarts(&bench), evictions(&bench)), (1, 0), "{:?}", bench.told.lines());
        assert!(bench.heard.all::<Roll>().iter().any(|roll| roll.rolls && roll.pods == [uid.clone()]));
        assert_eq!(bench.told.count("deployment_restarted"), 1);
    });
}

#[test]
fn deployment_without_surge_is_not_restarted_its_pod_is_evicted() {
    for more in [json!({"paused": true}), json!({"strategy": {"type": "Recreate"}})] {
        alone_with(moving(), |bench| async move {
            bench.heard.cluster(|state| state.allow_rollouts(true));
            let actor = start(&bench);
            working(&bench, &actor, 1);
            working(&bench, &actor, 2);
            let uid = bench.pod("web-0", Some(1));
            asks_for_rollout(&bench, "web-0");
            deployment(&bench, more.clone());
            delete_claim(&bench, 1);
            bench.show();
            place_on(&bench, &uid, 2);
            go_on(&bench, &actor, 1, 60).await;
            assert!(restarts(&bench) == 0 && evictions(&bench) >= 1, "{more}: {:?}", bench.told.lines());
            assert_eq!(bench.told.count("not_restarted"), 1, "{more}");
        });
    }
}

#[test]
fn pod_is_evicted_without_restart_right_and_that_is_named() {
    alone_with(moving(), |bench| async move {
        bench.heard.cluster(|state| state.allow_rollouts(true));
        bench.wire.forbid("PATCH", "/deployments/web", usize::MAX);
        let actor = start(&bench);
        working(&bench, &actor, 1);
        working(&bench, &actor, 2);
        let uid = bench.pod("web-0", Some(1));
        asks_for_rollout(&bench, "web-0");
        deployment(&bench, json!({}));
        delete_claim(&bench, 1);
        bench.show();
        place_on(&bench, &uid, 2);
        go_on(&bench, &actor, 1, 90).await;
        assert!(evictions(&bench) >= 1, "{:?}", bench.told.lines());
        assert!(bench.told.lines().iter().any(|line| line.contains("moves.rollout")), "{:?}", bench.told.lines());
        assert!(!bench.is_there(&NODE_CLAIMS, "default-1"));
    });
}
