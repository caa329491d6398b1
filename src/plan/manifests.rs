//! Manifests in place of a workload file: the same cluster state that the control plane keeps, filled by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_api::manifest::{MAX_PODS, Manifest, Objects};
use dovetail_api::names::conditions::{FALSE, NODE_CLASS_READY, READY, TRUE, VALIDATION_SUCCEEDED};
use dovetail_api::unimplemented;
use dovetail_api::v1::{EC2NodeClass, NewCondition, NodePool, set_condition};
use dovetail_api::validation::{Wrong, own};
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::resolve::{self, NodeClassView, SubnetView};
use dovetail_cloud::shipped;
use dovetail_cloud::user_data::{self, ClusterFacts};
use dovetail_core::cluster_state::{ClusterState, PlanningInput, SkippedPool, Snapshot};
use dovetail_core::expendable::ExpendableCutoff;
use dovetail_core::overlays::WrittenOverlay;
use dovetail_core::quotas::WrittenQuota;
use dovetail_core::{InstanceType, Problem};
use dovetail_core::{disruption, pack, validity};
use dovetail_input::manifests::read_manifests;
use dovetail_input::{Mistake, environment};
use dovetail_telemetry::stopwatch::Stopwatch;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::admitted::{self, Admitted, PlanAdmission};
use super::devices::GivenDevices;
use super::live::LiveSummary;
use super::picture::{Picture, resolved_types};
use super::{Loaded, buffers, devices, node_groups, overlays, pod_groups, quotas, static_pools, storage, unplanned};
use crate::cli::{PackingPolicy, PlanArgs};
use crate::near::did_you_mean;
use crate::progress::ProgressLine;

/// Zones in which the imagined cluster has subnets.
pub(super) const ZONES: usize = 3;
/// Region of manifests that name none.
const USUAL_REGION: &str = "us-east-1";

/// Time that reading takes for each pod where there are very many, on one core of 2026.
const USUAL_TIME_OF_A_POD: Duration = Duration::from_micros(78);

/// Reads manifests into a problem.
pub fn load(args: &PlanArgs) -> Result<Loaded, Vec<Mistake>> {
    let watch = Stopwatch::start();
    let env = environment(&args.environment.env, &args.environment.env_file)?;
    let manifests = read_manifests(&args.manifests, &env, &args.cluster_name)?;
    let pods = pods_of(&manifests);
    let what = format!("reading {pods} pods");
    ProgressLine::during(args.quiet, &what, USUAL_TIME_OF_A_POD.saturating_mul(pods), || {
        load_manifests(args, manifests, &watch)
    })
}

/// The number of pods that manifests make, about, for the line of progress.
fn pods_of(manifests: &[Manifest]) -> u32 {
    let count = |one: &Manifest| {
        let spec = &one.object["spec"];
        let given = if one.kind == "Job" { &spec["parallelism"] } else { &spec["replicas"] };
        let is_one = matches!(one.kind.as_str(), "Pod" | "Deployment" | "StatefulSet" | "ReplicaSet" | "Job");
        given.as_u64().unwrap_or(u64::from(is_one)).min(MAX_PODS)
    };
    let all = manifests.iter().filter(|one| !one.foreign && one.kind != "NodePool").map(count);
    u32::try_from(all.fold(0, u64::saturating_add)).unwrap_or(u32::MAX)
}

fn load_manifests(args: &PlanArgs, mut manifests: Vec<Manifest>, watch: &Stopwatch) -> Result<Loaded, Vec<Mistake>> {
    let mut warnings = Vec::new();
    let picture = Picture::take_from(&mut manifests, &mut warnings)?;
    let catalogue = catalogue_for(args, picture.as_ref())?;
    let gates = static_pools::gates_of(args.feature_gates.as_deref())?;
    let groups = args.packing_policy == Some(PackingPolicy::NodeGroups);
    let Gated { overlays, quotas, devices, gangs } = Gated::take_from(&mut manifests, args, &gates, groups)?;
    let (buffers, passed_over) = buffers::of_manifests(&manifests, gates.capacity_buffers() && !groups)?;
    let unplanned = unplanned::warnings(&manifests);
    let planned = |manifest: &Manifest| !manifest.foreign && unplanned::other_moment(manifest).is_none();
    let mut manifests: Vec<Manifest> = manifests.into_iter().filter(planned).collect();
    unplanned::scale(&mut manifests);
    let mut input = PlanningInput { whole_gangs: true, ..PlanningInput::default() };
    let mut state = ClusterState::new();
    state.set_expendable(args.expendable_pods_priority_cutoff.map(ExpendableCutoff::from_priority).unwrap_or_default());
    apply_pools(&mut state, &mut input, &manifests, &catalogue, picture.is_some(), &mut warnings)?;
    overlays::apply_all(&mut state, overlays);
    quotas::apply_all(&mut state, quotas);
    pod_groups::apply_all(&mut state, gangs, gates.gang_scheduling() && !groups);
    let admission = PlanAdmission::from_manifests(&manifests);
    let mut pods = admission.pods(&manifests, &mut warnings);
    warnings.extend(devices.iter().flat_map(|devices| devices.apply_all(&mut state, &mut pods)));
    storage::apply(&mut state, &manifests, &pods, &mut warnings);
    let refused = admission.refused_daemon_sets(&manifests, &mut warnings);
    let name = args.manifests.join(", ");
    let (mut live, mut baseline) = (None, None);
    if let Some(picture) = picture {
        input.now.wall = picture.taken_at();
        picture.apply(&mut state, &mut warnings);
        let snapshot = state.snapshot();
        live = Some(LiveSummary::of_picture(&name, &snapshot, &input.instance_types, &catalogue.region));
        baseline = args.what_if.is_against_now().then(|| snapshot.planning(&input).problem);
    }
    apply_workloads(&mut state, &manifests, &pods, &refused)?;
    let planning = state.snapshot().planning(&input);
    warnings.extend(planning.spot_share.sentences());
    let mut problem = Arc::unwrap_or_clone(planning.problem);
    let (holds_replicas, snapshot) = (gates.static_capacity() && !groups, state.snapshot());
    let static_pools =
        holds_replicas.then(|| static_pools::add(&mut problem, &snapshot, &input, &super::options(args)));
    block_refused(&mut problem, &pods);
    problem.name = name;
    node_groups::apply(&mut problem, &manifests, &catalogue, groups, &mut warnings)?;
    warnings.extend(left_out(&planning.skipped, &snapshot, holds_replicas));
    warnings.extend(pack::warnings(&problem).into_iter().chain(unplanned));
    Ok(Loaded {
        problem: Arc::new(problem),
        load: watch.elapsed(),
        warnings,
        passed_over,
        live,
        baseline,
        static_pools: static_pools.unwrap_or_default(),
        commitments: Arc::default(),
        running: None,
        buffers,
        overlays: overlays::plans(&snapshot, &input),
        quotas: quotas::plans(&snapshot),
        devices: devices.map(|_| devices::devices_of(&state)),
        gangs: planning.gangs,
    })
}

/// Objects that count by feature gates and settings.
struct Gated {
    overlays: Vec<WrittenOverlay>,
    quotas: Vec<WrittenQuota>,
    devices: Option<GivenDevices>,
    gangs: Vec<pod_groups::WrittenGroup>,
}

impl Gated {
    /// Takes them out of manifests. `groups`: nodes are planned in groups of their own.
    fn take_from(
        manifests: &mut Vec<Manifest>,
        args: &PlanArgs,
        gates: &Settings,
        groups: bool,
    ) -> Result<Self, Vec<Mistake>> {
        Ok(Self {
            overlays: overlays::take_from(manifests, gates.node_overlays() && !groups)?,
            quotas: quotas::take_from(manifests, gates.capacity_quotas() && !groups)?,
            gangs: pod_groups::take_from(manifests, gates.gang_scheduling() && !groups),
            devices: devices::take_from(manifests, if groups { Some(true) } else { args.ignore_dra_requests })?,
        })
    }
}

/// The catalogue of the region that is asked for, or else of the picture's nodes.
fn catalogue_for(args: &PlanArgs, picture: Option<&Picture>) -> Result<RegionCatalogue, Vec<Mistake>> {
    match (args.region.as_deref(), picture.and_then(Picture::region)) {
        (Some(region), _) => catalogue_of("--region", region),
        (None, Some(region)) => catalogue_of("the region of the Nodes", &region),
        (None, None) => Ok(shipped::catalogue(USUAL_REGION)),
    }
}

/// Warnings about pools that are left out; static ones are not where their nodes are planned.
pub(super) fn left_out(skipped: &[SkippedPool], snapshot: &Snapshot, holds_replicas: bool) -> Vec<String> {
    let is_planned =
        |pool: &str| holds_replicas && snapshot.pools.get(pool).is_some_and(|one| one.spec.replicas.is_some());
    let skipped = skipped.iter().filter(|one| !is_planned(&one.pool));
    skipped.map(|one| format!("nodepool {} is left out: {}", one.pool, one.why)).collect()
}

/// The shipped catalogue of a region that is named at `place`.
pub(super) fn catalogue_of(place: &str, region: &str) -> Result<RegionCatalogue, Vec<Mistake>> {
    if shipped::regions().any(|known| known == region) {
        return Ok(shipped::catalogue(region));
    }
    let known: Vec<&str> = shipped::regions().collect();
    let what = format!("unknown region {region:?}{}", did_you_mean(region, known.iter().copied()));
    Err(vec![Mistake::of_file(place, what).allowing(known.join(", "))])
}

/// Puts classes and pools into the state, and the types of each class into the input.
pub(super) fn apply_pools(
    state: &mut ClusterState,
    input: &mut PlanningInput,
    manifests: &[Manifest],
    catalogue: &RegionCatalogue,
    is_picture: bool,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<Mistake>> {
    let objects = Objects::from_manifests(manifests);
    warnings.extend(objects.warnings.clone());
    let mut unready = BTreeMap::new();
    for class in &objects.node_classes {
        if let Some(why) = unusable_user_data(class) {
            warnings.push(format!("ec2nodeclass {}: it would not be Ready: {why}", name(&class.metadata)));
            unready.insert(name(&class.metadata), why);
        }
        let types = match is_picture.then(|| resolved_types(catalogue, class)).flatten() {
            Some(Ok(types)) => types,
            // A status that cannot be used, or none: as if it were new.
            Some(Err(_)) | None => instance_types(catalogue, class, manifests)?,
        };
        input.instance_types.insert(name(&class.metadata), Arc::new(types));
        warnings.extend(misspelt("ec2nodeclass", &class.metadata, own::of_class(class)));
        let missing = unimplemented::sentence(&unimplemented::of_class(class));
        warnings.extend(missing.map(|missing| format!("ec2nodeclass {}: {missing}", name(&class.metadata))));
    }
    for pool in &objects.node_pools {
        settle_class(pool, catalogue, input, warnings);
        warnings.extend(misspelt("nodepool", &pool.metadata, own::of_pool(pool)));
        let idle = unimplemented::sentence(
            &[unimplemented::of_static_pool(pool), unimplemented::limits_of_nothing(pool)].concat(),
        );
        warnings.extend(idle.map(|idle| format!("nodepool {}: {idle}", name(&pool.metadata))));
        let unread = validity::budgets(pool).into_iter();
        warnings
            .extend(unread.map(|why| format!("nodepool {}: {why}: nothing of it is disrupted", name(&pool.metadata))));
        let open = disruption::open_outside(pool).into_iter();
        warnings.extend(open.map(|why| format!("nodepool {}: {why}", name(&pool.metadata))));
        let class = pool.spec.template.spec.node_class_ref.ec2_name().and_then(|class| unready.get(class));
        let judged = pool.status.as_ref().is_some_and(|status| !status.conditions.is_empty());
        // In a picture the control plane has judged it.
        let pool = if is_picture && judged { pool.clone() } else { ready(pool.clone(), class.map(String::as_str)) };
        state.apply_pool(pool);
    }
    Ok(())
}

fn name(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

/// Our own annotations that are misspelt or misplaced, as warnings.
fn misspelt(kind: &str, metadata: &ObjectMeta, found: Vec<(String, Wrong)>) -> Vec<String> {
    let mistakes = found.into_iter().map(|(field, Wrong { what, allowed })| {
        format!("{kind} {}: {field}: {what} (allowed: {allowed}); it has no effect", name(metadata))
    });
    mistakes.collect()
}

/// Subnets in the region's first zones, since there is no VPC to look at.
fn subnets(catalogue: &RegionCatalogue) -> Vec<SubnetView> {
    catalogue.first_zones(ZONES).into_iter().map(|zone| SubnetView { zone, id: String::new() }).collect()
}

pub(super) fn instance_types(
    catalogue: &RegionCatalogue,
    class: &EC2NodeClass,
    manifests: &[Manifest],
) -> Result<Vec<Arc<InstanceType>>, Vec<Mistake>> {
    let view = NodeClassView::from_spec(&class.spec, subnets(catalogue)).map_err(|error| {
        let class = name(&class.metadata);
        let source = manifests.iter().find(|manifest| manifest.name == class && manifest.kind == "EC2NodeClass");
        vec![Mistake {
            file: source.map_or_else(|| class.clone(), |manifest| manifest.file.clone()),
            line: source.map_or(0, |manifest| manifest.line),
            field: error.field,
            what: error.problem,
            allowed: String::new(),
        }]
    })?;
    Ok(resolved(catalogue, &view))
}

fn resolved(catalogue: &RegionCatalogue, view: &NodeClassView) -> Vec<Arc<InstanceType>> {
    resolve::instance_types(catalogue, view, &resolve::ResolveSettings::default()).into_iter().map(Arc::new).collect()
}

/// A pool whose class is not among the manifests is planned with the defaults of AL2023, and that is said.
fn settle_class(pool: &NodePool, catalogue: &RegionCatalogue, input: &mut PlanningInput, warnings: &mut Vec<String>) {
    // A pool of another kind of class is left out, and the reason told with it.
    let Some(class) = pool.spec.template.spec.node_class_ref.ec2_name() else { return };
    if input.instance_types.contains_key(class) {
        return;
    }
    // One that is not valid is left out, which is told with why.
    if validity::verdict(pool).0 == TRUE {
        warnings.push(format!(
            "nodepool {}: EC2NodeClass {class} is not among the manifests; planned with the defaults of AL2023",
            name(&pool.metadata)
        ));
    }
    let view = NodeClassView { subnets: subnets(catalogue), ..NodeClassView::default() };
    input.instance_types.insert(class.to_owned(), Arc::new(resolved(catalogue, &view)));
}

/// Every pod of every workload waits for a node; DaemonSets are overhead.
pub(super) fn apply_workloads(
    state: &mut ClusterState,
    manifests: &[Manifest],
    pods: &[Admitted],
    refused: &BTreeSet<usize>,
) -> Result<(), Vec<Mistake>> {
    let sets =
        manifests.iter().enumerate().filter(|(at, manifest)| manifest.kind == "DaemonSet" && !refused.contains(at));
    for (_, manifest) in sets {
        // Read and checked as one before.
        if let Ok(mut set) = serde_json::from_value::<DaemonSet>(manifest.object.clone()) {
            set.metadata.namespace.clone_from(&manifest.namespace);
            state.apply_daemon_set(set);
        }
    }
    let mut mistakes: Vec<Mistake> = Vec::new();
    for admitted in pods {
        let manifest = &manifests[admitted.manifest];
        let Err(why) = state.apply_pod(&unschedulable(admitted.pod.clone())) else { continue };
        let field = format!("{}/{}", manifest.kind, manifest.name);
        // One line a workload.
        if mistakes.last().is_none_or(|last| (&last.file, last.line) != (&manifest.file, manifest.line)) {
            let (file, line) = (manifest.file.clone(), manifest.line);
            mistakes.push(Mistake { file, line, field, what: why.to_string(), allowed: String::new() });
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// A pod that the API server would refuse gets no node, and the reason says who refuses it.
fn block_refused(problem: &mut Problem, pods: &[Admitted]) {
    let why = |pod: &Admitted| Some((pod.pod.metadata.uid.clone()?, pod.refused.clone()?));
    let refused: BTreeMap<String, String> = pods.iter().filter_map(why).collect();
    for pod in &mut problem.pods {
        if let Some(why) = refused.get(&pod.uid) {
            pod.blocked = Some(format!("the API server would refuse it: {why}"));
        }
    }
}

/// A pool as it is once its class is resolved, or is not for what is wrong with it, and its specification has been looked at.
pub(super) fn ready(mut pool: NodePool, class: Option<&str>) -> NodePool {
    let (valid, generation) = (validity::verdict(&pool), pool.metadata.generation);
    let conditions = &mut pool.status.get_or_insert_default().conditions;
    let (says, reason, message) = (valid.0, valid.1, valid.2.as_str());
    let judged = |type_| NewCondition::new(type_, says).because(reason, message);
    let mut written = vec![judged(VALIDATION_SUCCEEDED), judged(READY)];
    if let Some(why) = class {
        let unready = |type_| NewCondition::new(type_, FALSE).because("NodeClassNotReady", why);
        written.extend([unready(NODE_CLASS_READY), unready(READY)]);
    }
    for written in written {
        set_condition(conditions, written, generation, Timestamp::UNIX_EPOCH);
    }
    pool
}

/// Reason why no node can be launched by a class: user data that its images cannot read, or that is longer than EC2 takes.
fn unusable_user_data(class: &EC2NodeClass) -> Option<String> {
    let family = resolve::family_of(&class.spec).ok()?;
    // An imagined cluster has no known facts, and most of them play no part.
    let cluster = ClusterFacts { service_cidr: Some("10.100.0.0/16".to_owned()), ..ClusterFacts::default() };
    user_data::judge(&class.spec, family, &cluster).err().map(|why| why.to_string())
}

/// A pod as kube-scheduler leaves it when no node takes it; one with gates it does not look at.
pub(super) fn unschedulable(mut pod: Pod) -> Pod {
    let reason = if admitted::is_gated(&pod) { "SchedulingGated" } else { "Unschedulable" };
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some(reason.to_owned()),
        ..PodCondition::default()
    };
    pod.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
    if pod.metadata.uid.is_none() {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        pod.metadata.uid = Some(format!("{namespace}/{}", pod.metadata.name.clone().unwrap_or_default()));
    }
    pod
}
