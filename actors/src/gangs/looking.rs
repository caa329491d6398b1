//! A look: what each request asks for, and the places of its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::provisioning::ProvisioningRequest;
use dovetail_core::cluster_state::{PlanningInput, Snapshot};
use dovetail_core::gangs::{
    Consumers, Gang, GangFault, GangMemory, GangPhase, GangPlan, GangProblem, HeldGang, MOST_PODS_OF_ALL, is_ours,
    phase_of, plan_gangs, read_request,
};
use dovetail_core::pack::Packing;
use kube::ResourceExt;

use super::GangsLinks;
use super::templates::KnownTemplates;
use super::watching::KnownRequest;
use crate::context::env::Env;
use crate::context::solver::{Solver, attempt};
use crate::messages::{InstanceTypesFor, TakeObserved};

/// Everything that a look needs.
pub(super) struct Asked {
    pub links: GangsLinks,
    pub solver: Arc<dyn Solver>,
    pub env: Env,
    pub templates: KnownTemplates,
    pub requests: BTreeMap<String, KnownRequest>,
    pub memory: GangMemory,
}

/// A request of ours with what it asks for.
pub(super) struct ReadRequest {
    pub request: Arc<ProvisioningRequest>,
    /// False if only its metadata is known: nothing is written on it.
    pub readable: bool,
    pub phase: GangPhase,
    pub gang: Result<Arc<Gang>, GangFault>,
    /// Numbers of pods of each set that have not come.
    pub wanted: Vec<usize>,
}

/// Outcome of a look.
pub(super) struct Planned {
    pub templates: KnownTemplates,
    pub snapshot: Snapshot,
    /// By namespace and name.
    pub requests: BTreeMap<String, ReadRequest>,
    pub asked: GangProblem,
    pub packing: Packing,
    pub plan: GangPlan,
}

/// Finds places for the pods of all requests.
pub(super) async fn find_places(asked: Asked) -> Option<Planned> {
    let Asked { links, solver, env, mut templates, requests, memory } = asked;
    let live = |request: &Arc<ProvisioningRequest>| is_ours(request) && phase_of(request) != GangPhase::Over;
    let readable = requests.values().filter_map(|one| one.as_ref().ok()).filter(|request| live(request));
    let wanted: BTreeSet<(String, String)> = readable
        .flat_map(|request| {
            let names = request.spec.pod_sets.iter().map(|set| set.pod_template_ref.name.clone());
            names.map(move |name| (request.namespace().unwrap_or_default(), name))
        })
        .collect();
    templates.refresh(&links.calls, wanted, env.now()).await;
    let snapshot = links.cluster.send(TakeObserved).await.ok()??;
    let now = env.moment();
    let mut requests = read_all(requests, &templates, &snapshot);
    let held = held_gangs(&mut requests, |key| memory.is_paused(key, now.monotonic));
    let mut planned = Planned {
        templates,
        snapshot,
        requests,
        asked: GangProblem::default(),
        packing: Packing::default(),
        plan: GangPlan::default(),
    };
    if held.is_empty() {
        return Some(planned);
    }
    let classes = planned.snapshot.used_classes();
    let instance_types = links.catalogue.send(InstanceTypesFor::new(classes)).await.ok()??;
    let input = PlanningInput { instance_types, now, ..env.planning_input() };
    planned.asked = plan_gangs(&planned.snapshot, &input, &held, memory.places());
    if !planned.asked.is_empty() {
        planned.packing = attempt(solver, planned.asked.planning.problem.clone(), env.pack_options()).await.ok()?;
    }
    planned.plan = GangPlan::from_packing(&planned.asked, &planned.packing);
    Some(planned)
}

/// The requests that are left to nobody else.
fn read_all(
    requests: BTreeMap<String, KnownRequest>,
    templates: &KnownTemplates,
    snapshot: &Snapshot,
) -> BTreeMap<String, ReadRequest> {
    let consumers = Consumers::of_snapshot(snapshot);
    let mut all = BTreeMap::new();
    for (key, known) in requests {
        let readable = known.is_ok();
        let (request, gang) = match known {
            Ok(request) if !is_ours(&request) => continue,
            Ok(request) => {
                let of_namespace = templates.of_namespace(&request.namespace().unwrap_or_default());
                let gang = read_request(&request, &of_namespace).map(Arc::new);
                (request, gang)
            }
            Err((request, why)) => (request, Err(GangFault::Waits(why))),
        };
        let wanted = gang.as_ref().map(|gang| consumers.leave(gang)).unwrap_or_default();
        all.insert(key, ReadRequest { phase: phase_of(&request), request, readable, gang, wanted });
    }
    all
}

/// Requests for which room is held or looked for, those whose room is held first, then the oldest. One that would be too many with
/// those before it waits.
fn held_gangs(requests: &mut BTreeMap<String, ReadRequest>, is_paused: impl Fn(&str) -> bool) -> Vec<HeldGang> {
    let mut all: Vec<_> = requests
        .iter()
        .filter(|(key, one)| one.phase != GangPhase::Over && !(one.phase == GangPhase::Waiting && is_paused(key)))
        .filter_map(|(key, one)| Some((key.clone(), one.gang.as_ref().ok()?.clone(), one)))
        .map(|(key, gang, one)| {
            let sought = one.phase == GangPhase::Waiting;
            (key, HeldGang { gang, wanted: one.wanted.clone(), sought })
        })
        .collect();
    all.sort_by(|(a, one), (b, other)| (one.sought, one.gang.created, a).cmp(&(other.sought, other.gang.created, b)));
    let (mut pods, mut held) = (0, Vec::new());
    for (key, one) in all {
        let own: usize = one.wanted.iter().sum();
        if one.sought && pods + own > MOST_PODS_OF_ALL {
            let why = format!("requests before it have room for {pods} pods: {MOST_PODS_OF_ALL} together are allowed");
            if let Some(read) = requests.get_mut(&key) {
                read.gang = Err(GangFault::Waits(why));
            }
            continue;
        }
        pods += own;
        held.push(one);
    }
    held
}
