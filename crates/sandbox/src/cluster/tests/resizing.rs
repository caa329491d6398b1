//! Pods that are resized in place.

use super::*;

/// A pod of one CPU, with these annotations.
fn small(rig: &Rig, name: &str, annotations: Value) {
    rig.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [container("1")]},
    }));
}

fn resize(rig: &Rig, name: &str, cpu: &str) {
    rig.api.resize_pod("default", name, &json!({"cpu": cpu})).unwrap();
}

/// CPUs that are allocated to a pod's container, and those that it runs with; none before the first resize.
fn cpus(rig: &Rig, name: &str) -> [Option<String>; 2] {
    let pod = rig.get(&api::PODS, name);
    let own = &pod["status"]["containerStatuses"][0];
    [&own["allocatedResources"]["cpu"], &own["resources"]["requests"]["cpu"]].map(|cpu| cpu.as_str().map(str::to_owned))
}

fn both(allocated: &str, running: &str) -> [Option<String>; 2] {
    [Some(allocated.to_owned()), Some(running.to_owned())]
}

/// The reason for which a resize waits, empty if it does not.
fn pending(rig: &Rig, name: &str) -> String {
    let pod = rig.get(&api::PODS, name);
    let waits = super::super::pod::condition(&pod, crate::cluster::resized::PENDING);
    waits.and_then(|one| one["reason"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn one_of_two_that_grow_gets_the_room_and_the_other_waits() {
    on(&[nodes("m5.xlarge", 1)], async |rig| {
        small(&rig, "a", json!({}));
        small(&rig, "b", json!({}));
        rig.after(10.0).await;
        resize(&rig, "a", "2500m");
        resize(&rig, "b", "2500m");
        rig.after(30.0).await;
        let (grown, waits) = if pending(&rig, "a").is_empty() { ("a", "b") } else { ("b", "a") };
        assert_eq!((cpus(&rig, grown), pending(&rig, waits).as_str()), (both("2500m", "2500m"), "Deferred"));
        resize(&rig, grown, "1");
        rig.after(30.0).await;
        assert_eq!((cpus(&rig, waits), pending(&rig, waits).as_str()), (both("2500m", "2500m"), ""));
    });
}

#[test]
fn second_resize_does_not_cut_the_first_one_short() {
    on(&[nodes("m5.xlarge", 1)], async |rig| {
        small(&rig, "a", json!({"sandbox.dovetail.dev/resizes-for": "60s"}));
        rig.after(10.0).await;
        resize(&rig, "a", "2");
        rig.after(5.0).await;
        assert_eq!(cpus(&rig, "a"), both("2", "1"));
        resize(&rig, "a", "1");
        resize(&rig, "a", "2");
        rig.after(30.0).await;
        assert_eq!(cpus(&rig, "a"), both("2", "1"), "its container still has what it had");
        rig.after(35.0).await;
        assert_eq!(cpus(&rig, "a"), both("2", "2"));
        resize(&rig, "a", "3");
        rig.after(5.0).await;
        resize(&rig, "a", "2");
        rig.after(5.0).await;
        assert_eq!(cpus(&rig, "a"), both("2", "2"), "what was set aside is given back");
    });
}

#[test]
fn resize_that_is_taken_back_waits_no_more() {
    on(&[nodes("m5.xlarge", 1)], async |rig| {
        small(&rig, "a", json!({}));
        rig.after(10.0).await;
        resize(&rig, "a", "400");
        rig.after(5.0).await;
        assert_eq!((cpus(&rig, "a"), pending(&rig, "a").as_str()), (both("1", "1"), "Infeasible"));
        resize(&rig, "a", "1");
        rig.after(5.0).await;
        assert_eq!((cpus(&rig, "a"), pending(&rig, "a").as_str()), (both("1", "1"), ""));
    });
}

/// Nobody keeps its Node: its containers never start, and have no statuses.
#[test]
fn pod_that_grows_before_it_starts_takes_the_room_it_asks_for() {
    on(&[], async |rig| {
        rig.node("n", "a", "4");
        small(&rig, "a", json!({}));
        rig.after(5.0).await;
        assert_eq!(rig.place("a"), "n");
        resize(&rig, "a", "4");
        rig.after(1.0).await;
        small(&rig, "b", json!({}));
        rig.after(5.0).await;
        assert_eq!(rig.place("b"), "");
        resize(&rig, "a", "1");
        rig.after(30.0).await;
        assert_eq!(rig.place("b"), "n", "it has room again");
    });
}
