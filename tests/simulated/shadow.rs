//! A shadow beside an active replica: it writes nothing, anywhere, and its report of what it would have done is what was done,
//! within the batch windows.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::{InlineSolver, MemoryJournal, Settings};
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_core::clock::Clock;
use dovetail_core::shadow::{ShadowReport, Side};
use dovetail_input::manifests::read_manifests;
use dovetail_sandbox::apiserver::Gvr;
use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
use dovetail_sandbox::faults::FaultSettings;
use dovetail_sandbox::log::Caller;
use dovetail_simulation::shadow::{Shadow, ShadowEvent, ShadowParts};
use dovetail_simulation::{World, WorldConfig};
use serde_json::json;
use tokio::task::LocalSet;

use crate::common::write;
use crate::played;

/// The shadow's name at the API server and at EC2.
const SHADOW: &str = "shadow";
/// From the first of its pods to a batch's end at the latest, on one side and on the other.
const WINDOW: f64 = 11.0;

/// A world with an active replica and a shadow beside it, and what was heard of the shadow.
struct Beside {
    world: Rc<World>,
    shadow: Shadow,
    heard: Rc<RefCell<Vec<ShadowEvent>>>,
}

/// Runs `story` in a world with these manifests. The shadow starts when the active replica has led for a while.
fn beside<T>(name: &str, seed: u64, manifests: &str, story: impl AsyncFnOnce(Beside) -> T) -> T {
    let file = write(&format!("shadow-{name}-{seed}/manifests.yaml"), manifests);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(DEFAULT_START));
        let config = WorldConfig {
            region: "ca-west-1".into(),
            catalogue: None,
            cluster_name: "demo".into(),
            seed,
            replicas: 1,
            settings: BTreeMap::new(),
            reservations: vec![],
            placement_groups: vec![],
            commitments: Default::default(),
            nodes: Vec::new(),
            faults: FaultSettings::default(),
            panics_for: vec![],
            claims_deleted: None,
            endpoint: None,
            clocks: Vec::new(),
            broken: None,
            alpha_as_written: false,
        };
        let world = Rc::new(World::new(config, clock.clone(), None, |_| {}).unwrap());
        world.apply(&read_manifests(&[file], &BTreeMap::new(), "demo").unwrap()).unwrap();
        world.start_replicas().unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        let heard = Rc::new(RefCell::new(Vec::new()));
        let hears = heard.clone();
        let who = Caller::named(SHADOW);
        let http = world.region.http_client(who.clone());
        let shadow = Shadow::start(ShadowParts {
            kube: world.api.client(who),
            cloud: Arc::new(Ec2Cloud::sandboxed(http, "ca-west-1", "demo", clock.clone(), 1)),
            settings: Settings { cluster_name: "demo".into(), ..Settings::default() },
            clock,
            seed: seed ^ 0x5ad0,
            solver: Arc::new(InlineSolver),
            journal: Arc::new(MemoryJournal::default()),
            listener: Rc::new(move |event: &ShadowEvent| hears.borrow_mut().push(event.clone())),
        });
        let shadow = shadow.await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        story(Beside { world, shadow, heard }).await
    })
}

impl Beside {
    /// The Deployment of the workload gets another number of pods.
    fn scale(&self, pods: u32) {
        let deployments = Gvr::new("apps", "v1", "deployments");
        let patch = json!({"spec": {"replicas": pods}});
        self.world.api.patch(&deployments, "default", "web", &patch).unwrap();
    }

    async fn pass(&self, seconds: u64) -> ShadowReport {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.shadow.report()
    }

    /// Asserts that the shadow asked nobody to change anything.
    fn wrote_nothing(&self) {
        let reads = |action: &str| ["Describe", "Get", "List"].iter().any(|verb| action.starts_with(verb));
        self.world.log.with_entries(|entries| {
            let own: Vec<_> = entries.iter().filter(|entry| entry.by == SHADOW).collect();
            let writes: Vec<_> = own.iter().filter(|entry| entry.kind == "api").map(|entry| entry.line()).collect();
            assert!(writes.is_empty(), "{writes:#?}");
            let asked: BTreeSet<&str> =
                own.iter().map(|entry| entry.text("action")).filter(|action| !action.is_empty()).collect();
            assert!(asked.iter().any(|action| action.starts_with("Describe")), "it was not noted at all: {asked:?}");
            assert!(asked.iter().all(|action| reads(action)), "{asked:?}");
        });
        let leases = self.world.api.list(&Gvr::new("coordination.k8s.io", "v1", "leases"));
        let holders: Vec<_> = leases.iter().filter_map(|lease| lease["spec"]["holderIdentity"].as_str()).collect();
        assert!(holders.iter().all(|holder| !holder.contains("shadow")), "{holders:?}");
    }
}

/// Pods of two nodes each way: the manifests of [`played`], whose empty nodes go.
fn manifests(pods: u32) -> String {
    played::manifests(pods).replace(
        "{consolidationPolicy: WhenEmpty, consolidateAfter: Never}",
        "{consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s, budgets: [{nodes: '100%'}]}",
    )
}

fn near(one: f64, other: f64, most: f64) -> bool {
    (one - other).abs() <= most
}

#[test]
fn shadow_of_our_own_replica_reports_what_that_replica_did() {
    for seed in [1, 2] {
        beside("load", seed, &manifests(0), async |beside| {
            for (pods, seconds) in [(6, 120), (20, 120), (3, 300), (9, 150)] {
                beside.scale(pods);
                let report = beside.pass(seconds).await;
                let (active, shadow) = (&report.active, &report.shadow);
                let place = format!("seed {seed}, {pods} pods: {report}\n{:#?}", beside.heard.borrow());
                assert_eq!((active.launched, active.nodes), (shadow.launched, shadow.nodes), "{place}");
                assert_eq!((active.removed, active.evictions), (shadow.removed, shadow.evictions), "{place}");
                assert!(near(active.cost_per_hour, shadow.cost_per_hour, 1e-9), "{place}");
                assert_eq!((active.pods_waiting, shadow.pods_waiting), (0, 0), "{place}");
            }
            let report = beside.shadow.report();
            let (active, shadow) = (&report.active, &report.shadow);
            assert!(active.launched >= 20 && active.removed >= 10, "{report}");
            // The provisioner decides when a node is launched for a pod. How long a node takes to join is chance.
            let most = WINDOW * active.pods_placed as f64;
            assert_eq!(active.pods_placed, shadow.pods_placed, "{report}");
            assert!(near(active.seconds_to_launch, shadow.seconds_to_launch, most), "{report}");
            let joins = most + 45.0 * active.pods_placed as f64;
            assert!(near(active.pending_seconds, shadow.pending_seconds, joins), "{report}");
            assert!(near(active.cost, shadow.cost, 0.1 * active.cost), "{report}");
            assert!(report.notes.is_empty(), "{:?}", report.notes);
            beside.wrote_nothing();
        });
    }
}

#[test]
fn shadow_takes_over_existing_nodes_and_their_pods_stay() {
    beside("there", 4, &manifests(5), async |beside| {
        let report = beside.pass(200).await;
        assert_eq!((report.active.nodes, report.shadow.nodes), (5, 5), "{report}");
        assert_eq!((report.active.launched, report.shadow.launched), (0, 0), "{report}");
        assert_eq!((report.shadow.pods_waiting, report.shadow.evictions), (0, 0), "{report}");
        beside.scale(2);
        let report = beside.pass(300).await;
        assert_eq!((report.active.nodes, report.shadow.nodes), (2, 2), "{report}");
        assert_eq!((report.active.removed, report.shadow.removed), (3, 3), "{report}");
        beside.wrote_nothing();
    });
}

#[test]
fn every_decision_of_either_side_is_told_once() {
    beside("told", 5, &manifests(0), async |beside| {
        beside.scale(4);
        let report = beside.pass(120).await;
        let told = |side: Side| {
            let heard = beside.heard.borrow();
            heard.iter().filter(|event| matches!(event, ShadowEvent::Decided(of, _) if *of == side)).count()
        };
        assert_eq!((told(Side::Active), told(Side::Shadow)), (4, 4), "{report}");
        assert_eq!((report.active.launched, report.shadow.launched), (4, 4));
        beside.scale(1);
        let report = beside.pass(600).await;
        assert!(report.active.removed > 0 && report.shadow.removed > 0, "{report}");
        let decided = (report.active.launched + report.active.removed, report.shadow.launched + report.shadow.removed);
        assert_eq!((told(Side::Active), told(Side::Shadow)), decided, "{report}");
    });
}

#[test]
fn a_run_with_a_shadow_is_the_same_every_time() {
    let run = || {
        beside("twice", 6, &manifests(0), async |beside| {
            beside.scale(7);
            let report = beside.pass(150).await;
            (serde_json::to_string(&report).unwrap(), beside.world.log.to_jsonl())
        })
    };
    assert!(run() == run());
}
