//! The terminator and what is refused: steps, evictions, calls of EC2 and look-ups are tried ever more seldom, said at the first time
//! and then by count, and done before long once nobody refuses them any more.

use dovetail_actors::messages::InstanceKnown;
use dovetail_core::ownership::OwnershipMarks;
use dovetail_sandbox::apiserver::{NODE_CLAIMS, NODES, PODS, VOLUME_ATTACHMENTS};
use serde_json::{Value, json};

use super::terminator::{INITIALIZED, delete_claim, go_on, is_gone, lives, show, start, working};
use crate::alone::objects::{id, node_name};
use crate::alone::wire::{Act, Refuses, status};
use crate::alone::{Alone, alone};
use crate::world::SpoilEnd;

fn refusals_said(bench: &Alone) -> Vec<String> {
    bench.told.lines().into_iter().filter(|line| line.contains("was refused")).collect()
}

#[test]
fn refused_step_is_retried_less_often_and_said_by_count() {
    for refuses in Refuses::WRITES {
        for (method, path) in [("PATCH", "/nodes/"), ("PATCH", "/nodeclaims/default-1"), ("DELETE", "/nodes/")] {
            alone(|bench| async move {
                let actor = start(&bench);
                working(&bench, &actor, 1);
                refuses.begin(&bench.wire, method, path);
                delete_claim(&bench, 1);
                go_on(&bench, &actor, 1, 600).await;
                assert!(!is_gone(&bench, 1), "{refuses:?} {method} {path}");
                let (calls, said) = (bench.wire.count(method, path), refusals_said(&bench));
                assert!(
                    (5..=refuses.most(30, 20)).contains(&calls),
                    "{refuses:?} {method} {path}: {calls} in ten minutes"
                );
                assert!((1..=4).contains(&said.len()), "{refuses:?} {method} {path}: {said:?}");
                bench.wire.heal();
                go_on(&bench, &actor, 1, 100).await;
                assert!(
                    is_gone(&bench, 1) && !lives(&bench, 1),
                    "{refuses:?} {method} {path}: {:?}",
                    bench.told.lines()
                );
                assert!(bench.told.count("recovered") >= 1, "{refuses:?} {method} {path}: {:?}", bench.told.lines());
            });
        }
    }
}

#[test]
fn refused_eviction_is_retried_less_often_and_said_by_count() {
    for refuses in Refuses::WRITES {
        alone(|bench| async move {
            let actor = start(&bench);
            working(&bench, &actor, 1);
            bench.pod("web-a", Some(1));
            bench.kubelet(1, "Unknown");
            refuses.begin(&bench.wire, "POST", "/eviction");
            delete_claim(&bench, 1);
            go_on(&bench, &actor, 1, 600).await;
            let (tries, said) = (bench.wire.count("POST", "/eviction"), refusals_said(&bench));
            assert!((10..=40).contains(&tries), "{refuses:?}: {tries} in ten minutes");
            assert!((2..=3).contains(&said.len()) && said[1].contains("refused 10 times"), "{refuses:?}: {said:?}");
            assert!(lives(&bench, 1));
            bench.wire.heal();
            go_on(&bench, &actor, 1, 90).await;
            assert!(is_gone(&bench, 1), "{refuses:?}: {:?}", bench.told.lines());
        });
    }
}

#[test]
fn end_refused_by_ec2_is_asked_less_often_than_its_state() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        bench.sky.inner.spoil_end(&id(1), Some(SpoilEnd::Refused));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 600).await;
        let (ends, looks) = (bench.sky.count("terminate_all"), bench.sky.count("instances_of"));
        assert!((30..=85).contains(&ends) && looks > ends, "{ends} ends and {looks} looks in ten minutes");
        assert_eq!(bench.told.count("retrying"), 1, "{:?}", bench.told.lines());
        let said = refusals_said(&bench);
        assert!(said.len() == 1 && said[0].contains("refused 10 times"), "{said:?}");
        // Somebody lifts its protection.
        bench.sky.inner.spoil_end(&id(1), None);
        go_on(&bench, &actor, 1, 20).await;
        assert!(is_gone(&bench, 1) && !lives(&bench, 1), "{:?}", bench.told.lines());
    });
}

#[test]
fn refused_end_of_a_token_only_instance_delays_no_other() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.launched("default-1", 1, &[]);
        bench.api.patch_status(&NODE_CLAIMS, "", "default-1", &json!({"status": {"providerID": ""}})).unwrap();
        bench.sky.inner.spoil_end(&id(1), Some(SpoilEnd::Refused));
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 120).await;
        assert!(lives(&bench, 1) && bench.is_there(&NODE_CLAIMS, "default-1"));
        let (ends, looks) = (bench.sky.count("terminate_all"), bench.sky.count("instances_with_token"));
        assert!((5..=20).contains(&ends) && looks > ends, "{ends} ends and {looks} looks in two minutes");
        working(&bench, &actor, 2);
        delete_claim(&bench, 2);
        go_on(&bench, &actor, 2, 10).await;
        assert!(is_gone(&bench, 2) && !lives(&bench, 2), "{:?}", bench.told.lines());
        // Somebody lifts its protection.
        bench.sky.inner.spoil_end(&id(1), None);
        go_on(&bench, &actor, 1, 20).await;
        assert!(!bench.is_there(&NODE_CLAIMS, "default-1") && !lives(&bench, 1), "{:?}", bench.told.lines());
    });
}

#[test]
fn foreign_instance_is_said_once_though_its_claim_cannot_go() {
    alone(|bench| async move {
        let actor = start(&bench);
        bench.launched("default-1", 1, &INITIALIZED);
        bench.working(1);
        show(&bench, &actor, 1);
        let marks = OwnershipMarks::launched_with("dt-of-another-1", "");
        actor.do_send(InstanceKnown { id: id(1), marks: Some(std::sync::Arc::new(marks)) });
        bench.wire.refuse("PATCH", "/nodeclaims/default-1", usize::MAX, 422);
        delete_claim(&bench, 1);
        go_on(&bench, &actor, 1, 300).await;
        assert!(bench.is_there(&NODE_CLAIMS, "default-1") && bench.is_there(&NODES, &node_name(1)));
        assert_eq!(bench.told.count("instance_not_owned"), 1);
        assert_eq!(bench.records("InstanceNotOwned").len(), 1);
        let asked = bench.wire.count("PATCH", "/nodeclaims/default-1");
        assert!((4..=20).contains(&asked), "{asked} in five minutes");
        bench.wire.heal();
        go_on(&bench, &actor, 1, 70).await;
        assert!(!bench.is_there(&NODE_CLAIMS, "default-1") && lives(&bench, 1));
    });
}

/// A pod that stays until its node ends, with a volume.
fn stays_with_volume(bench: &Alone) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "agent", "namespace": "default"},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "pause"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}});
    bench.api.create(&PODS, "default", pod).unwrap();
    bench.api.bind("default", "agent", &node_name(1)).unwrap();
    let attachment = json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"},
        "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node_name(1), "source": {"persistentVolumeName": "pv-1"}}});
    bench.api.create(&VOLUME_ATTACHMENTS, "", attachment).unwrap();
}

#[test]
fn volume_that_cannot_be_looked_up_is_retried_less_often() {
    // It cannot be read, or may not be.
    for answer in [Act::Answer(200, json!({"spec": 7})), Act::Answer(422, status(422))] {
        alone(|bench| async move {
            let actor = start(&bench);
            working(&bench, &actor, 1);
            stays_with_volume(&bench);
            bench.wire.next("GET", "/persistentvolumeclaims/data", usize::MAX, answer.clone());
            bench.pass(1.0).await;
            delete_claim(&bench, 1);
            for _ in 0..600 {
                show(&bench, &actor, 1);
                bench.pass(0.5).await;
            }
            let asked = bench.wire.count("GET", "/persistentvolumeclaims/data");
            assert!((4..=20).contains(&asked), "{asked} in five minutes");
            assert!((1..=2).contains(&refusals_said(&bench).len()), "{:?}", bench.told.lines());
            assert_ne!(bench.claim_now("default-1").metadata.finalizers, None::<Vec<String>>);
        });
    }
}

#[test]
fn unwritable_interruption_is_retried_less_and_less_often() {
    alone(|bench| async move {
        let actor = start(&bench);
        working(&bench, &actor, 1);
        // It has no place elsewhere, so that the claim stays.
        bench.pod("web-a", Some(1));
        let said = json!({"metadata": {"annotations": {"dovetail.dev/interruption": "spot_interrupted 2026-01-01T10:00:00Z"}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &said).unwrap();
        show(&bench, &actor, 1);
        bench.pass(1.0).await;
        // A backup shows the claim as it was before.
        let none = json!({"metadata": {"annotations": {"dovetail.dev/interruption": Value::Null}}});
        bench.api.patch(&NODE_CLAIMS, "", "default-1", &none).unwrap();
        bench.wire.refuse("PATCH", "/nodeclaims/default-1", usize::MAX, 422);
        for _ in 0..600 {
            show(&bench, &actor, 1);
            bench.pass(0.5).await;
        }
        let asked = bench.wire.count("PATCH", "/nodeclaims/default-1");
        assert!((4..=20).contains(&asked), "{asked} in five minutes");
    });
}
