//! Capacity buffers: read in the version that is served, held once, and no trouble where the kind is missing or forbidden.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::InlineSolver;
use dovetail_actors::buffers::{Buffers, BuffersLinks};
use dovetail_actors::messages::{ClusterChanged, HoldRoom, LaunchClaims, PlanClaims};
use dovetail_core::cluster_state::HeldRoom;
use dovetail_sandbox::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, DeleteOptions, Gvr};
use serde_json::{Value, json};

use crate::alone::Alone;
use crate::alone::front::packer::with_pool;

fn start(bench: &Alone) -> Addr<Buffers> {
    bench.show();
    let ear = &bench.ear;
    let links = BuffersLinks {
        cluster: ear.clone().into(),
        catalogue: ear.clone().into(),
        launcher: ear.clone().into(),
        recorder: ear.clone().into(),
        calls: bench.calls("buffers"),
    };
    bench.start(Buffers::new(&bench.env, links, Arc::new(InlineSolver)))
}

/// Serves the kind in this version.
fn serve(bench: &Alone, version: &str) {
    let mut crd = dovetail_api::crds::buffer_crd();
    crd.spec.versions[0].name = version.to_owned();
    bench.api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
}

fn buffers(version: &str) -> Gvr {
    Gvr::new("autoscaling.x-k8s.io", version, "capacitybuffers")
}

/// A buffer of so many pods of half a CPU.
fn buffer(bench: &Alone, version: &str, replicas: u32) {
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "small"}, "template": {"spec":
        {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}}});
    bench.api.create(&Gvr::new("", "v1", "podtemplates"), "default", template).unwrap();
    let object = json!({"apiVersion": format!("autoscaling.x-k8s.io/{version}"), "kind": "CapacityBuffer",
        "metadata": {"name": "room"}, "spec": {"podTemplateRef": {"name": "small"}, "replicas": replicas}});
    bench.api.create(&buffers(version), "default", object).unwrap();
}

/// The rooms that were ordered, by the annotations of their claims.
fn ordered(bench: &Alone) -> Vec<String> {
    let all = bench.heard.all::<LaunchClaims>();
    let claims = all.iter().flat_map(|launch| &launch.orders).map(|order| &order.claim);
    claims.map(|claim| claim.metadata.annotations.as_ref().unwrap()["dovetail.dev/launched-for-room"].clone()).collect()
}

fn pods_ordered(bench: &Alone) -> usize {
    ordered(bench).iter().map(|room| room.rsplit_once('=').unwrap().1.parse::<usize>().unwrap()).sum()
}

fn condition(bench: &Alone, version: &str) -> Value {
    let object = bench.api.get(&buffers(version), "default", "room").unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == "Provisioning").unwrap_or_default()
}

#[test]
fn kind_that_is_not_served_is_said_once_and_read_when_it_is() {
    with_pool(async |bench| {
        let _actor = start(&bench);
        bench.pass(200.0).await;
        assert_eq!(bench.told.count("buffers_not_served"), 1);
        assert_eq!(bench.heard.last::<HoldRoom>().room, HeldRoom::new(), "disruption waits for nothing");
        serve(&bench, "v1beta1");
        buffer(&bench, "v1beta1", 3);
        bench.until(65, || pods_ordered(&bench) == 3).await;
    });
}

#[test]
fn buffers_of_v1alpha1_alone_are_held_and_told_there() {
    with_pool(async |bench| {
        serve(&bench, "v1alpha1");
        buffer(&bench, "v1alpha1", 3);
        let _actor = start(&bench);
        bench.until(5, || pods_ordered(&bench) == 3).await;
        bench.pass(1.0).await;
        let said = condition(&bench, "v1alpha1");
        assert_eq!(said["reason"], "RequiresNewCapacity", "{said}");
        assert_eq!(said["message"], "room for 0 of 3 pods is there, for 3 on its way");
        assert_eq!(bench.records("TriggeredScaleUp").len(), 1);
    });
}

#[test]
fn room_is_planned_before_it_is_ordered_and_never_twice() {
    with_pool(async |bench| {
        serve(&bench, "v1beta1");
        buffer(&bench, "v1beta1", 20);
        let actor = start(&bench);
        bench.until(5, || pods_ordered(&bench) == 20).await;
        let names: Vec<_> = bench.heard.names().into_iter().filter(|name| *name != "Record").collect();
        let first = |name| names.iter().position(|one| *one == name).unwrap();
        assert!(first("PlanClaims") < first("LaunchClaims"), "{names:?}");
        assert!(bench.heard.all::<PlanClaims>().iter().all(|plan| plan.expected.is_empty()));
        for _ in 0..5 {
            actor.do_send(ClusterChanged);
            bench.pass(3.0).await;
        }
        assert_eq!(pods_ordered(&bench), 20);
        let held: usize = bench.heard.last::<HoldRoom>().room.values().map(Vec::len).sum();
        assert_eq!(held, 20);
        // It goes: its room goes at once.
        bench.api.delete(&buffers("v1beta1"), "default", "room", &DeleteOptions::default()).unwrap();
        bench.until(3, || bench.heard.last::<HoldRoom>().room.is_empty()).await;
    });
}

#[test]
fn unlisted_buffers_hold_up_disruption_for_two_minutes() {
    with_pool(async |bench| {
        serve(&bench, "v1beta1");
        bench.wire.forbid("GET", "/capacitybuffers", usize::MAX);
        let _actor = start(&bench);
        bench.pass(110.0).await;
        assert_eq!(bench.heard.count::<HoldRoom>(), 0);
        bench.pass(30.0).await;
        assert_eq!(bench.heard.last::<HoldRoom>().room, HeldRoom::new());
    });
}
