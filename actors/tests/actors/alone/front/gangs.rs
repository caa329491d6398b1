//! ProvisioningRequests: read in the version that is served, ordered whole and once, and no trouble where the kind is missing.

use std::sync::Arc;

use actix::prelude::*;
use dovetail_actors::InlineSolver;
use dovetail_actors::gangs::{Gangs, GangsLinks};
use dovetail_actors::messages::{BookRoom, ClusterChanged, LaunchClaims, PlanClaims};
use dovetail_core::cluster_state::HeldRoom;
use dovetail_sandbox::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, DeleteOptions, Gvr};
use serde_json::{Value, json};

use crate::alone::Alone;
use crate::alone::front::packer::with_pool;

fn start(bench: &Alone) -> Addr<Gangs> {
    bench.show();
    let ear = &bench.ear;
    let links = GangsLinks {
        cluster: ear.clone().into(),
        catalogue: ear.clone().into(),
        launcher: ear.clone().into(),
        terminator: ear.clone().into(),
        recorder: ear.clone().into(),
        calls: bench.calls("gangs"),
    };
    bench.start(Gangs::new(&bench.env, links, Arc::new(InlineSolver)))
}

/// Serves the kind in this version.
fn serve(bench: &Alone, version: &str) {
    let mut crd = dovetail_api::crds::request_crd();
    crd.spec.versions[0].name = version.to_owned();
    bench.api.create(&CUSTOM_RESOURCE_DEFINITIONS, "", serde_json::to_value(crd).unwrap()).unwrap();
}

fn requests(version: &str) -> Gvr {
    Gvr::new("autoscaling.x-k8s.io", version, "provisioningrequests")
}

/// A PodTemplate of half a CPU.
fn template(bench: &Alone) {
    let template = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "small"}, "template": {"spec":
        {"containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}}});
    bench.api.create(&Gvr::new("", "v1", "podtemplates"), "default", template).unwrap();
}

/// A request for so many pods of that template.
fn request(bench: &Alone, version: &str, pods: u32) {
    let class = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
    let sets = json!([{"podTemplateRef": {"name": "small"}, "count": pods}]);
    let object = json!({"apiVersion": format!("autoscaling.x-k8s.io/{version}"), "kind": "ProvisioningRequest",
        "metadata": {"name": "train"}, "spec": {"provisioningClassName": class, "podSets": sets}});
    bench.api.create(&requests(version), "default", object).unwrap();
}

/// Number of pods that claims were ordered for, by their annotations.
fn pods_ordered(bench: &Alone) -> usize {
    let all = bench.heard.all::<LaunchClaims>();
    let claims = all.iter().flat_map(|launch| &launch.orders).map(|order| &order.claim);
    let written = claims.map(|claim| claim.metadata.annotations.clone().unwrap());
    written
        .map(|own| own["dovetail.dev/launched-for-request"].rsplit_once('=').unwrap().1.parse::<usize>().unwrap())
        .sum()
}

fn condition(bench: &Alone, version: &str, type_: &str) -> Value {
    let object = bench.api.get(&requests(version), "default", "train").unwrap();
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|one| one["type"] == type_).unwrap_or_default()
}

#[test]
fn requests_not_served_are_said_once_and_read_when_they_are() {
    with_pool(async |bench| {
        let _actor = start(&bench);
        bench.pass(200.0).await;
        assert_eq!(bench.told.count("requests_not_served"), 1);
        assert_eq!(bench.heard.last::<BookRoom>().room, HeldRoom::new(), "disruption waits for nothing");
        serve(&bench, "v1");
        template(&bench);
        request(&bench, "v1", 3);
        bench.until(65, || pods_ordered(&bench) == 3).await;
    });
}

#[test]
fn requests_of_v1beta1_alone_are_fulfilled_and_told_there() {
    with_pool(async |bench| {
        serve(&bench, "v1beta1");
        template(&bench);
        request(&bench, "v1beta1", 3);
        let _actor = start(&bench);
        bench.until(5, || pods_ordered(&bench) == 3).await;
        bench.pass(1.0).await;
        let said = condition(&bench, "v1beta1", "Provisioned");
        assert_eq!((&said["status"], &said["reason"]), (&json!("False"), &json!("CapacityIsComing")), "{said}");
        assert_eq!(condition(&bench, "v1beta1", "Accepted")["status"], "True");
        assert_eq!(bench.records("TriggeredScaleUp").len(), 1);
    });
}

#[test]
fn request_is_planned_before_it_is_ordered_and_never_twice() {
    with_pool(async |bench| {
        serve(&bench, "v1");
        template(&bench);
        request(&bench, "v1", 20);
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
        let held: usize = bench.heard.last::<BookRoom>().room.values().map(Vec::len).sum();
        assert_eq!(held, 20);
        // It goes: its room goes at once.
        bench.api.delete(&requests("v1"), "default", "train", &DeleteOptions::default()).unwrap();
        bench.until(3, || bench.heard.last::<BookRoom>().room.is_empty()).await;
    });
}

#[test]
fn request_waits_for_its_template_and_says_so() {
    with_pool(async |bench| {
        serve(&bench, "v1");
        request(&bench, "v1", 2);
        let _actor = start(&bench);
        bench.pass(5.0).await;
        let said = condition(&bench, "v1", "Provisioned");
        assert_eq!((&said["status"], &said["reason"]), (&json!("False"), &json!("FailedToCreatePods")), "{said}");
        assert_eq!(bench.told.count("request_without_room"), 1);
        template(&bench);
        bench.until(25, || pods_ordered(&bench) == 2).await;
    });
}

#[test]
fn unlisted_requests_hold_up_disruption_for_two_minutes() {
    with_pool(async |bench| {
        serve(&bench, "v1");
        bench.wire.forbid("GET", "/provisioningrequests", usize::MAX);
        let _actor = start(&bench);
        bench.pass(110.0).await;
        assert_eq!(bench.heard.count::<BookRoom>(), 0);
        bench.pass(30.0).await;
        assert_eq!(bench.heard.last::<BookRoom>().room, HeldRoom::new());
    });
}
