//! Manifests in place of a workload file: the same cluster state that the control plane keeps, filled by hand.

use std::sync::Arc;

use dovetail_api::manifest::{self, Manifest, Objects};
use dovetail_api::names::conditions::{READY, TRUE};
use dovetail_api::v1::{EC2NodeClass, NodePool, set_condition};
use dovetail_cloud::catalogue::Catalogue;
use dovetail_cloud::resolve::{self, NodeClassView, SubnetView};
use dovetail_cloud::shipped;
use dovetail_core::InstanceType;
use dovetail_core::cluster_state::{ClusterState, PlanningInput};
use dovetail_core::pack;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::jiff::Timestamp;

use super::{Loaded, node_groups, storage};
use crate::cli::{PackingPolicy, PlanArgs};
use crate::input::{Mistake, environment};
use crate::manifests::read_manifests;
use crate::stopwatch::Stopwatch;

/// Zones in which the imagined cluster has subnets.
pub(super) const ZONES: usize = 3;

/// Reads manifests into a problem.
pub fn load(args: &PlanArgs) -> Result<Loaded, Vec<Mistake>> {
    let watch = Stopwatch::start();
    if !shipped::regions().any(|known| known == args.region) {
        let known = shipped::regions().collect::<Vec<_>>().join(", ");
        return Err(vec![Mistake::of_file("--region", format!("unknown region {:?}", args.region)).allowing(known)]);
    }
    let catalogue = shipped::catalogue(&args.region);
    let env = environment(&args.environment.env, &args.environment.env_file)?;
    let manifests = read_manifests(&args.manifests, &env, &args.cluster_name)?;
    let objects = Objects::from_manifests(&manifests);
    let mut warnings = objects.warnings.clone();
    let mut input = PlanningInput::default();
    let mut state = ClusterState::new();
    for class in &objects.node_classes {
        let types = instance_types(&catalogue, class, &manifests)?;
        input.instance_types.insert(name(&class.metadata), Arc::new(types));
    }
    for pool in &objects.node_pools {
        settle_class(pool, &catalogue, &mut input, &mut warnings);
        state.apply_pool(ready(pool.clone()));
    }
    storage::apply(&mut state, &manifests, &mut warnings);
    apply_workloads(&mut state, &manifests)?;
    let planning = state.snapshot().planning(&input);
    let mut problem = Arc::unwrap_or_clone(planning.problem);
    problem.name = args.manifests.join(", ");
    let groups = args.packing_policy == Some(PackingPolicy::NodeGroups);
    node_groups::apply(&mut problem, &manifests, &catalogue, groups, &mut warnings)?;
    warnings.extend(
        planning.skipped.iter().map(|skipped| format!("nodepool {} is left out: {}", skipped.pool, skipped.why)),
    );
    warnings.extend(pack::warnings(&problem));
    Ok(Loaded { problem, load: watch.elapsed(), warnings })
}

fn name(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

/// Subnets in the region's first zones, since there is no VPC to look at.
fn subnets(catalogue: &Catalogue) -> Vec<SubnetView> {
    catalogue.first_zones(ZONES).into_iter().map(|zone| SubnetView { zone, id: String::new() }).collect()
}

fn instance_types(
    catalogue: &Catalogue,
    class: &EC2NodeClass,
    manifests: &[Manifest],
) -> Result<Vec<Arc<InstanceType>>, Vec<Mistake>> {
    let view = NodeClassView::of(&class.spec, subnets(catalogue)).map_err(|error| {
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

fn resolved(catalogue: &Catalogue, view: &NodeClassView) -> Vec<Arc<InstanceType>> {
    resolve::instance_types(catalogue, view, &resolve::Settings::default()).into_iter().map(Arc::new).collect()
}

/// A pool whose class is not among the manifests is planned with the defaults of AL2023, and that is said.
fn settle_class(pool: &NodePool, catalogue: &Catalogue, input: &mut PlanningInput, warnings: &mut Vec<String>) {
    let class = &pool.spec.template.spec.node_class_ref.name;
    if input.instance_types.contains_key(class) {
        return;
    }
    warnings.push(format!(
        "nodepool {}: EC2NodeClass {class} is not among the manifests; planned with the defaults of AL2023",
        name(&pool.metadata)
    ));
    let view = NodeClassView { subnets: subnets(catalogue), ..NodeClassView::default() };
    input.instance_types.insert(class.clone(), Arc::new(resolved(catalogue, &view)));
}

/// Every pod of every workload waits for a node; DaemonSets are overhead.
fn apply_workloads(state: &mut ClusterState, manifests: &[Manifest]) -> Result<(), Vec<Mistake>> {
    let mut mistakes = Vec::new();
    for manifest in manifests {
        if manifest.kind == "DaemonSet" {
            // Read and checked as one before.
            if let Ok(set) = serde_json::from_value(manifest.object.clone()) {
                state.apply_daemon_set(set);
            }
            continue;
        }
        for pod in manifest::workload_pods(manifest) {
            if let Err(why) = state.apply_pod(&unschedulable(pod)) {
                mistakes.push(Mistake {
                    file: manifest.file.clone(),
                    line: manifest.line,
                    field: format!("{}/{}", manifest.kind, manifest.name),
                    what: why.to_string(),
                    allowed: String::new(),
                });
                break;
            }
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

/// A pool as it is once its class is resolved and its specification has been looked at.
fn ready(mut pool: NodePool) -> NodePool {
    let status = pool.status.get_or_insert_default();
    set_condition(&mut status.conditions, (READY, TRUE, "", ""), pool.metadata.generation, Timestamp::UNIX_EPOCH);
    pool
}

/// A pod as kube-scheduler leaves it when no node takes it.
fn unschedulable(mut pod: Pod) -> Pod {
    let condition = PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "False".to_owned(),
        reason: Some("Unschedulable".to_owned()),
        ..PodCondition::default()
    };
    pod.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
    if pod.metadata.uid.is_none() {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        pod.metadata.uid = Some(format!("{namespace}/{}", pod.metadata.name.clone().unwrap_or_default()));
    }
    pod
}
