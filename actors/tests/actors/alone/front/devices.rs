//! Devices that pods claim: watched only where they are asked for, searched by the solver, and waited for by the registrar.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dovetail_actors::messages::{DevicesChanged, LaunchClaims, NodeChanged};
use dovetail_actors::{InlineSolver, Settings, Solution, Solver};
use dovetail_core::Problem;
use dovetail_core::dra::{DeviceAnswer, DeviceBook, DeviceQuestion};
use dovetail_core::pack::Options;
use dovetail_sandbox::apiserver::{DEVICE_CLASSES, NODE_CLAIMS, PODS, REPLICA_SETS, RESOURCE_CLAIMS, RESOURCE_SLICES};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::packer::{batch, start_with};
use super::registrar::{joins, show};
use crate::alone::keepers::cluster_watcher::leading;
use crate::alone::{Alone, alone, alone_with};

fn asked_for() -> Settings {
    Settings::from_map(&[("IGNORE_DRA_REQUESTS".to_owned(), "false".to_owned())].into()).unwrap()
}

fn slice(node: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")},
        "spec": {"driver": "gpu.nvidia.com", "nodeName": node, "devices": [{"name": "gpu-0"}],
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}}})
}

fn claim(class: &str) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "own", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}}})
}

fn class() -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}})
}

fn create_all(bench: &Alone) {
    bench.api.create(&RESOURCE_SLICES, "", slice("n1")).unwrap();
    bench.api.create(&DEVICE_CLASSES, "", class()).unwrap();
    bench.api.create(&RESOURCE_CLAIMS, "default", claim("gpu")).unwrap();
}

#[test]
fn devices_are_watched_only_where_they_are_asked_for() {
    alone(|bench| async move {
        create_all(&bench);
        let _watching = leading(&bench).await;
        bench.pass(120.0).await;
        assert!(bench.wire.asked("GET", "").iter().all(|one| !one.path.contains("resource.k8s.io")));
        assert_eq!(bench.heard.count::<DevicesChanged>(), 0);
    });
    alone_with(asked_for(), |bench| async move {
        create_all(&bench);
        let _watching = leading(&bench).await;
        bench.pass(10.0).await;
        bench.api.create(&RESOURCE_SLICES, "", slice("n2")).unwrap();
        bench.pass(1.0).await;
        let DevicesChanged(book) = &*bench.heard.last::<DevicesChanged>();
        let counts = (book.claims.all().len(), book.classes.all().len(), book.slices.all().len());
        assert_eq!(counts, (1, 1, 2));
        bench.heard.forget();
        bench.pass(60.0).await;
        assert_eq!(bench.heard.count::<DevicesChanged>(), 0, "nothing has changed");
    });
}

/// The cluster's state with a pod that claims a device, and a book by which a class of this name has devices that every node uses.
fn claiming(bench: &Alone, class_of_claim: &str) -> Vec<String> {
    bench.pool("default");
    bench.offer("default");
    bench.heard.cluster(|state| {
        let book = state.devices_mut();
        book.apply_class(&serde_json::from_value(class()).unwrap());
        book.apply_claim(&serde_json::from_value(claim(class_of_claim)).unwrap());
    });
    let owner = bench.owner(&REPLICA_SETS, "ReplicaSet");
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "with", "namespace": "default", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "own"}]}});
    let made = bench.api.create(&PODS, "default", pod).unwrap();
    let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
    bench.pod_status("with", json!({"phase": "Pending", "conditions": conditions}));
    let with = made["metadata"]["uid"].as_str().unwrap().to_owned();
    vec![with, bench.pod_of("without", None, "100m")]
}

/// A solver that counts the questions about devices, or breaks at them.
struct Asked {
    questions: Arc<AtomicUsize>,
    breaks: bool,
}

impl Solver for Asked {
    fn solve(&self, problem: Arc<Problem>, options: Options) -> BoxFuture<'static, Solution> {
        InlineSolver.solve(problem, options)
    }

    fn place_devices(&self, question: Arc<DeviceQuestion>) -> BoxFuture<'static, DeviceAnswer> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        assert!(!self.breaks, "no devices today");
        InlineSolver.place_devices(question)
    }
}

fn packed(settings: Settings, breaks: bool) -> (usize, usize, String) {
    let outcome = Arc::new(std::sync::Mutex::new((0, 0, String::new())));
    let found = outcome.clone();
    alone_with(settings, |bench| async move {
        let questions = Arc::new(AtomicUsize::new(0));
        let uids = claiming(&bench, "gpu");
        bench.show();
        let packer = start_with(&bench, Arc::new(Asked { questions: questions.clone(), breaks }));
        packer.do_send(batch(&uids));
        bench.pass(1.0).await;
        let pods =
            bench.heard.all::<LaunchClaims>().iter().flat_map(|launch| &launch.orders).map(|order| order.pods).sum();
        let failed = bench.records("FailedScheduling");
        let why = failed.iter().find(|(name, _)| name == "with").map(|(_, why)| why.clone()).unwrap_or_default();
        *found.lock().unwrap() = (questions.load(Ordering::Relaxed), pods, why);
    });
    let found = outcome.lock().unwrap();
    found.clone()
}

#[test]
fn solver_is_asked_for_devices_and_may_break_at_them() {
    let (questions, pods, why) = packed(asked_for(), false);
    assert_eq!((questions, pods), (1, 1));
    assert!(why.contains("no instance type is known to have devices"), "{why}");
    let (questions, pods, why) = packed(asked_for(), true);
    assert_eq!((questions, pods), (1, 1), "the other pod gets its node");
    assert!(why.contains("the search for devices failed") && why.contains("no devices today"), "{why}");
    let (questions, pods, why) = packed(Settings::default(), false);
    assert_eq!((questions, pods), (0, 1), "by default nobody is asked");
    assert!(why.contains("dynamic resource allocation"), "{why}");
}

#[test]
fn node_is_initialized_once_its_drivers_have_published() {
    alone_with(asked_for(), |bench| async move {
        let actor = super::registrar::start(&bench);
        let name = bench.launched("default-1", 1, &["Launched"]).metadata.name.clone().unwrap();
        let mut object = serde_json::Value::clone(&bench.api.get(&NODE_CLAIMS, "", &name).unwrap());
        object["metadata"]["annotations"]["karpenter.sh/requested-dra-drivers"] = json!("gpu.nvidia.com");
        bench.api.update(&NODE_CLAIMS, object).unwrap();
        let claim = bench.claim_now(&name);
        actor.do_send(dovetail_actors::messages::ClaimChanged(claim.clone()));
        actor.do_send(bench.marks(&claim, 1));
        bench.joined(1);
        bench.kubelet(1, "True");
        show(&bench, &actor, 1);
        bench.pass(5.0).await;
        let condition = |bench: &Alone| {
            let claim = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap();
            let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
            all.iter()
                .find(|one| one["type"] == "Initialized")
                .map(|one| (one["status"].clone(), one["reason"].clone()))
        };
        assert_eq!(condition(&bench), Some((json!("Unknown"), json!("DRADriverPoolsNotPublished"))));
        let mut book = DeviceBook::default();
        let node = bench.node_now(1).metadata.name.clone().unwrap();
        book.apply_slice(&serde_json::from_value(slice(&node)).unwrap());
        show(&bench, &actor, 1);
        actor.do_send(DevicesChanged(book));
        bench.pass(5.0).await;
        assert_eq!(condition(&bench).unwrap().0, json!("True"));
    });
}

/// A claim that says nothing of devices, and any claim with the setting at its default, waits for none.
#[test]
fn other_nodes_wait_for_no_driver() {
    alone_with(asked_for(), |bench| async move {
        let actor = super::registrar::start(&bench);
        joins(&bench, &actor, 1);
        bench.kubelet(1, "True");
        show(&bench, &actor, 1);
        actor.do_send(NodeChanged(bench.node_now(1)));
        bench.pass(5.0).await;
        let claim = bench.api.get(&NODE_CLAIMS, "", "default-1").unwrap();
        assert!(!claim.to_string().contains("DRADriver"), "{claim}");
    });
}
