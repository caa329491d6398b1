//! Buffers at a small cluster: what they ask for, where it is held, what is said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::autoscaling::CapacityBuffer;
use dovetail_api::v1::NodeClaim;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::{Node, Pod as KubePod};
use serde_json::{Value, json};

use super::*;
use crate::cluster_state::{ClusterState, HeldRoom, Moment, NominationTarget, PlanningInput, Snapshot};
use crate::instance_type::InstanceType;
use crate::pack::{Options, Packing, solve};

fn now() -> Timestamp {
    "2026-03-10T12:00:00Z".parse().unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment { monotonic: Duration::from_secs(seconds), wall: now() }
}

fn buffer(spec: Value) -> CapacityBuffer {
    let metadata = json!({"name": "web", "namespace": "default", "uid": "b", "generation": 3});
    serde_json::from_value(json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": metadata, "spec": spec}))
    .unwrap()
}

/// A template of a pod that requests one CPU and 1Gi, for a workload of so many pods.
fn source(replicas: Option<usize>) -> BufferSource {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"nodeName": "n", "volumes": [{"name": "v",
        "persistentVolumeClaim": {"claimName": "c"}}], "containers": [{"name": "main",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}});
    BufferSource { template: serde_json::from_value(template).unwrap(), replicas, template_ref: None }
}

fn zones(name: &str) -> Option<TimeZone> {
    (name == "Europe/Berlin").then(|| TimeZone::fixed(jiff::tz::offset(1)))
}

fn demand(spec: Value, replicas: Option<usize>) -> Result<Buffer, BufferFault> {
    buffer_demand(&buffer(spec), &source(replicas), &zones, now())
}

fn asked(spec: Value, replicas: Option<usize>) -> usize {
    demand(spec, replicas).unwrap().asked
}

#[test]
fn number_is_the_larger_of_both_and_within_the_limits() {
    for (spec, replicas, wanted) in [
        (json!({"replicas": 5}), None, 5),
        (json!({"replicas": 0}), None, 0),
        (json!({"replicas": 3, "percentage": 20}), Some(30), 6),
        (json!({"replicas": 9, "percentage": 20}), Some(30), 9),
        (json!({"percentage": 10}), Some(11), 2),
        (json!({"percentage": 50}), Some(0), 0),
        (json!({"percentage": 50, "limits": {"cpu": "4"}}), Some(0), 0),
        (json!({"replicas": 5, "limits": {"cpu": "3500m"}}), None, 3),
        (json!({"replicas": 5, "limits": {"cpu": "9", "memory": "2Gi"}}), None, 2),
        (json!({"replicas": 5, "limits": {"cpu": "9", "example.com/gpu": "1"}}), None, 5),
        (json!({"limits": {"memory": "7Gi"}}), None, 7),
        (json!({"replicas": 1_000_000}), None, 1_000_000),
    ] {
        assert_eq!(asked(spec.clone(), replicas), wanted, "{spec}");
    }
    for spec in [json!({}), json!({"replicas": 5, "limits": {"example.com/gpu": "1"}}), json!({"percentage": 5})] {
        assert!(matches!(demand(spec.clone(), None), Err(BufferFault::NotReady("ResolutionFailed", _))), "{spec}");
    }
}

#[test]
fn other_strategies_are_left_alone() {
    let other = demand(json!({"provisioningStrategy": "example.com/other", "replicas": 5}), None);
    assert_eq!(other, Err(BufferFault::OtherStrategy("example.com/other".into())));
    assert_eq!(judge_buffer(&other, None, None), None);
    assert_eq!(asked(json!({"provisioningStrategy": "buffer.x-k8s.io/active-capacity", "replicas": 5}), None), 5);
}

#[test]
fn a_chunk_has_the_templates_labels_and_none_of_its_volumes() {
    let chunk = demand(json!({"replicas": 5}), None).unwrap().chunk(1);
    assert_eq!((chunk.name.as_str(), chunk.uid.as_str()), ("capacity-buffer-web-2", "capacity-buffer.b-2"));
    assert!(chunk.is_room() && chunk.labels["app"] == "web" && chunk.priority == i32::MIN);
    assert!(chunk.volume_topology.is_empty() && chunk.blocked.is_none());
    assert_eq!(write_room([&chunk, &chunk]), Some("default/web=2".to_owned()));
}

#[test]
fn schedule_holds_by_its_own_time_zone() {
    let scheduled = |text: &str, time: &str| {
        let mut own = buffer(json!({"replicas": 1}));
        own.metadata.annotations = Some([("dovetail.dev/schedule".to_owned(), text.to_owned())].into());
        buffer_demand(&own, &source(None), &zones, time.parse().unwrap()).map(|buffer| buffer.in_time)
    };
    let morning = "0 7 * * mon-fri 2h Europe/Berlin";
    for (time, holds) in [("05:59:59", false), ("06:00:00", true), ("07:59:59", true), ("08:00:00", false)] {
        assert_eq!(scheduled(morning, &format!("2026-03-10T{time}Z")), Ok(holds), "{time}");
    }
    assert_eq!(scheduled("0 7 * * * 1h; 0 12 * * * 1h", "2026-03-10T12:30:00Z"), Ok(true));
    for wrong in ["", "0 7 * * *", "0 7 * * 1h", "0 7 * * * 1h Mars/Base", "x 7 * * * 1h", "0 7 * * * soon"] {
        let said = scheduled(wrong, "2026-03-10T12:30:00Z");
        assert!(matches!(said, Err(BufferFault::NotReady("ResolutionFailed", _))), "{wrong:?}: {said:?}");
    }
}

pub(crate) struct World {
    pub state: ClusterState,
    version: u64,
}

impl World {
    /// A pool whose nodes have 4 CPUs.
    pub fn new(limits: Value) -> Self {
        let mut world = Self { state: ClusterState::new(), version: 1 };
        let spec = json!({"limits": limits, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}});
        let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "base", "uid": "p", "resourceVersion": "1"}, "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": now()}]}});
        world.state.apply_pool(serde_json::from_value(pool).unwrap());
        world
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub fn claim(&mut self, name: &str, initialized: bool, room: Option<&str>) {
        let annotations = room.into_iter().map(|room| ("dovetail.dev/launched-for-room", room)).collect();
        self.claim_with(name, initialized, &annotations);
    }

    pub fn claim_with(&mut self, name: &str, initialized: bool, annotations: &BTreeMap<&str, &str>) {
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now()});
        let mut conditions = vec![condition("Launched")];
        conditions
            .extend(initialized.then(|| [condition("Initialized"), condition("Registered")]).into_iter().flatten());
        let (version, capacity) = (self.next(), json!({"cpu": "4", "memory": "16Gi", "pods": "29"}));
        let node = if initialized { name } else { "" };
        let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
                "annotations": annotations, "labels": {"karpenter.sh/nodepool": "base"}},
            "spec": {"requirements": [], "expireAfter": "Never",
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": format!("aws:///a/{name}"), "nodeName": node, "conditions": conditions,
                "capacity": capacity, "allocatable": capacity}});
        self.state.apply_claim(Arc::new(serde_json::from_value::<NodeClaim>(claim).unwrap()));
    }

    /// A claim whose node is ready.
    pub fn node(&mut self, name: &str) {
        self.node_with(name, &BTreeMap::new());
    }

    pub fn node_with(&mut self, name: &str, annotations: &BTreeMap<&str, &str>) {
        self.claim_with(name, true, annotations);
        let (version, capacity) = (self.next(), json!({"cpu": "4", "memory": "16Gi", "pods": "29"}));
        let node = json!({"metadata": {"name": name, "uid": format!("n-{name}"), "resourceVersion": version,
                "labels": {"karpenter.sh/nodepool": "base", "karpenter.sh/registered": "true",
                    "karpenter.sh/initialized": "true"}},
            "spec": {"providerID": format!("aws:///a/{name}")},
            "status": {"capacity": capacity, "allocatable": capacity,
                "conditions": [{"type": "Ready", "status": "True"}]}});
        self.state.apply_node(&serde_json::from_value::<Node>(node).unwrap());
    }

    pub fn pod(&mut self, name: &str, node: Option<&str>, cpu: &str) {
        self.pod_with(name, node, cpu, &BTreeMap::new());
    }

    pub fn pod_with(&mut self, name: &str, node: Option<&str>, cpu: &str, annotations: &BTreeMap<&str, &str>) {
        let version = self.next();
        let status = match node {
            Some(_) => json!({"phase": "Running"}),
            None => json!({"phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
        };
        let metadata = json!({"name": name, "namespace": "default", "uid": name, "resourceVersion": version,
            "annotations": annotations});
        let pod = json!({"metadata": metadata,
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
            "status": status});
        self.state.apply_pod(&serde_json::from_value::<KubePod>(pod).unwrap()).unwrap();
    }

    pub fn snapshot(&self) -> Snapshot {
        self.state.snapshot()
    }

    /// Input of a problem beside the snapshot: one type of 4 CPUs.
    pub fn input(now: Moment) -> PlanningInput {
        let offering =
            json!({"zone": "a", "capacityType": "on-demand", "price": 0.2, "available": true, "requirements": []});
        let kind = json!({"name": "four", "capacity": {"cpu": "4", "memory": "16Gi", "pods": "29"}, "requirements": [],
            "offerings": [offering]});
        let kind: InstanceType = serde_json::from_value(kind).unwrap();
        let instance_types = [("default".to_owned(), Arc::new(vec![Arc::new(kind)]))].into();
        PlanningInput { instance_types, now, ..PlanningInput::default() }
    }

    fn plan(&self, buffers: &[Buffer]) -> (ChunkProblem, Packing, BufferPlan) {
        let input = Self::input(at(0));
        let asked = plan_chunks(&self.snapshot(), &input, buffers, |_| false);
        let packing = solve(&asked.planning.problem, &Options::default());
        let plan = BufferPlan::from_packing(buffers, &asked, &packing);
        (asked, packing, plan)
    }

    fn chunks(&self, buffers: &[Buffer]) -> ChunksNow {
        self.plan(buffers).2.buffers["default/web"].clone()
    }
}

fn of(replicas: usize) -> Vec<Buffer> {
    vec![demand(json!({"replicas": replicas}), None).unwrap()]
}

#[test]
fn chunks_take_what_pods_leave_and_new_nodes_for_the_rest() {
    let mut world = World::new(json!({}));
    world.node("n1");
    world.pod("a", Some("n1"), "2");
    let now = world.chunks(&of(5));
    assert_eq!((now.ready, now.coming, now.new, now.left_over), (2, 0, 3, 0), "{now:?}");
    assert!(now.on.contains(&NominationTarget::Node("n1".into())));
    // A pod comes into the room: it is found anew elsewhere.
    world.pod("b", Some("n1"), "2");
    let now = world.chunks(&of(5));
    assert_eq!((now.ready, now.new), (0, 5));
}

#[test]
fn room_on_its_way_is_planned_once_whatever_its_labels() {
    let mut world = World::new(json!({}));
    world.claim("c1", false, Some("default/web=3"));
    let (asked, _, plan) = world.plan(&of(3));
    let now = &plan.buffers["default/web"];
    assert!(asked.is_empty() && plan.new.is_empty(), "{now:?}");
    assert_eq!((now.coming, plan.places[&NominationTarget::Claim("c1".into())].len()), (3, 3));
    // The annotation promises no more than is wanted, and no more than there is room for.
    assert_eq!(world.chunks(&of(2)).coming, 2);
    world.claim("c1", false, Some("default/web=99,default/other=7,nonsense,x=y"));
    let now = world.chunks(&of(6));
    assert_eq!((now.coming, now.new), (4, 2));
}

#[test]
fn pods_that_wait_come_first_under_a_limit() {
    let mut world = World::new(json!({"cpu": "4"}));
    world.pod("a", None, "3500m");
    let (_, packing, plan) = world.plan(&of(3));
    let now = &plan.buffers["default/web"];
    assert!(packing.unscheduled.iter().all(|(pod, _)| *pod > 0), "the pod is placed");
    assert_eq!((now.new, now.left_over), (0, 3), "{now:?}");
    assert!(now.why.as_ref().is_some_and(|why| why.contains("limit")), "{:?}", now.why);
}

#[test]
fn room_is_a_pod_to_disruption_while_there_is_room() {
    let mut world = World::new(json!({}));
    world.node("n1");
    let chunks: Vec<_> = (0..2).map(|nth| Arc::new(of(2)[0].chunk(nth))).collect();
    let room = HeldRoom::from([(NominationTarget::Node("n1".into()), chunks)]);
    assert!(world.snapshot().room.is_none());
    world.state.hold_room(room);
    let seen = world.snapshot().with_room();
    assert_eq!((seen.loads["n1"].visitors, seen.loads["n1"].costly), (2, 2));
    assert!(!world.snapshot().loads.contains_key("n1"), "packing does not see it");
    world.pod("a", Some("n1"), "3");
    let seen = world.snapshot().with_room();
    assert_eq!(seen.loads["n1"].visitors, 2, "a pod and one of two chunks");
    world.state.mark_deleting(["n1"], true);
    assert_eq!(world.snapshot().with_room().loads["n1"].visitors, 1, "it leaves");
}

#[test]
fn a_node_with_room_is_awaited_until_the_term_ends() {
    let mut world = World::new(json!({}));
    world.claim("c1", false, None);
    let place = NominationTarget::Claim("c1".into());
    assert!(!world.snapshot().is_awaited(&place, at(0)));
    world.state.hold_room(HeldRoom::from([(place.clone(), vec![Arc::new(of(1)[0].chunk(0))])]));
    assert!(world.snapshot().is_awaited(&place, at(0)) && world.snapshot().awaited(at(0)).contains(&place));
    world.state.forget_plans();
    assert!(!world.snapshot().is_awaited(&place, at(0)) && world.snapshot().room.is_none());
}

#[test]
fn verdict_has_the_count_and_the_reason_for_the_rest() {
    let now = ChunksNow { ready: 2, coming: 1, new: 1, left_over: 1, why: Some("no".into()), ..ChunksNow::default() };
    let judged = |demand: &Result<Buffer, BufferFault>, now: Option<&ChunksNow>, paused| {
        let BufferVerdict { ready, provisioning, replicas, .. } = judge_buffer(demand, now, paused).unwrap();
        (ready.1, ready.2, provisioning.0, provisioning.1, provisioning.2, replicas)
    };
    let five = demand(json!({"replicas": 5}), None);
    let text = "room for 2 of 5 pods is there, for 2 on its way, for 1 not: no";
    let said = judged(&five, Some(&now), None);
    assert_eq!(said, ("Resolved", String::new(), "False", "RequiresNewCapacity", text.into(), Some(5)));
    assert!(judged(&five, Some(&now), Some("it waits")).4.ends_with("not: it waits"));
    let all = ChunksNow { ready: 5, ..ChunksNow::default() };
    assert_eq!(judged(&five, Some(&all), None).3, "FitsExistingCapacity");
    assert_eq!(judged(&demand(json!({"replicas": 0}), None), None, None).3, "BufferEmpty");
    let million = judged(&demand(json!({"replicas": 1_000_000}), None), None, None);
    assert!(million.1.contains("cut to 2000 of 1000000") && million.5 == Some(2000), "{million:?}");
    let limited = judged(&demand(json!({"replicas": 9, "limits": {"cpu": "4"}}), None), None, None);
    assert_eq!(limited.1, "spec.limits leave room for 4 of 9 pods");
    let missing = Err(BufferFault::NotReady("PodTemplateNotFound", "there is none".into()));
    let said = judged(&missing, None, None);
    assert_eq!((said.0, said.3, said.5), ("PodTemplateNotFound", "NotReadyForProvisioning", None));
}

#[test]
fn all_buffers_together_are_cut() {
    let mut all: Vec<Buffer> = (0..7).flat_map(|_| of(1_000_000)).collect();
    cap_all(all.iter_mut());
    let chunks: Vec<usize> = all.iter().map(|one| one.chunks).collect();
    assert_eq!(chunks, [2000, 2000, 2000, 2000, 2000, 0, 0]);
    let said = judge_buffer(&Ok(all[6].clone()), None, None).unwrap();
    assert!(said.ready.2.contains("all buffers together hold 10000"), "{said:?}");
}

#[test]
fn launches_that_come_to_nothing_pause_longer_and_longer() {
    let (mut memory, mut world) = (BufferMemory::default(), World::new(json!({})));
    let (_, _, plan) = world.plan(&of(3));
    let mut seconds = 0;
    for pause in [2, 4, 8] {
        memory.note_ordered("default/web", "gone");
        memory.look_back(&world.snapshot(), &plan, Duration::from_secs(seconds));
        let paused = |at: u64| memory.paused("default/web", Duration::from_secs(at)).is_some();
        assert!(paused(seconds + pause - 1) && !paused(seconds + pause), "{pause}");
        seconds += pause;
    }
    // A node without a chunk and without a pod is of no use either; one with a pod is.
    world.node("n1");
    memory.note_ordered("default/web", "n1");
    let none =
        BufferPlan { buffers: [("default/web".to_owned(), ChunksNow::default())].into(), ..BufferPlan::default() };
    memory.look_back(&world.snapshot(), &none, Duration::from_secs(seconds));
    assert!(memory.paused("default/web", Duration::from_secs(seconds + 15)).is_some());
    world.pod("a", Some("n1"), "1");
    memory.note_ordered("default/web", "n1");
    memory.look_back(&world.snapshot(), &none, Duration::from_secs(seconds + 20));
    memory.note_ordered("default/web", "gone");
    memory.look_back(&world.snapshot(), &none, Duration::from_secs(seconds + 20));
    assert!(memory.paused("default/web", Duration::from_secs(seconds + 22)).is_none(), "pauses begin anew");
}

#[test]
fn nodes_for_room_wait_for_those_of_pods_for_a_while() {
    let (mut memory, at) = (BufferMemory::default(), Duration::from_secs);
    assert!(memory.waits_for_pods(true, true, at(100)) && memory.waits_for_pods(true, true, at(129)));
    assert!(!memory.waits_for_pods(true, true, at(130)), "pods that nothing fits hold nothing up");
    assert!(!memory.waits_for_pods(false, true, at(140)) && memory.waits_for_pods(true, true, at(150)));
    assert!(!memory.waits_for_pods(true, false, at(151)));
}
