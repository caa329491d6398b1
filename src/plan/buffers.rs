//! Capacity buffers in a plan: room for pods that do not exist yet, found after all pods of the plan have their places.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use dovetail_api::autoscaling::{CapacityBuffer, VERSIONS};
use dovetail_api::manifest::Manifest;
use dovetail_core::Problem;
use dovetail_core::buffers::{Buffer, BufferFault, BufferPlan, BufferSource, buffer_demand, cap_all, with_chunks};
use dovetail_core::cluster_state::Planning;
use dovetail_core::pack::{Options, Packing, node_of_claim};
use dovetail_core::resources::PODS;
use dovetail_input::Mistake;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::Serialize;

use super::answer::type_name;
use super::unplanned;
use crate::survive;

/// Buffers of manifests by namespace and name, each with what it asks for.
pub(super) type Demands = BTreeMap<String, Result<Buffer, BufferFault>>;

/// The room of the plan's buffers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RoomPlan {
    buffers: Vec<BufferRoom>,
    /// Nodes that are launched for room alone.
    nodes: Vec<RoomNode>,
    /// Dollars an hour of these nodes, each at its cheapest.
    hourly_price: f64,
}

/// The room of one buffer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BufferRoom {
    buffer: String,
    /// Number of pods that room is held for.
    pods: usize,
    /// Number of these whose room is on nodes of the plan, which pods have not filled.
    on_other_nodes: usize,
    /// Number of these whose room is on nodes of its own.
    on_new_nodes: usize,
    /// Dollars an hour of the room: its share of its nodes' prices.
    hourly_price: f64,
    /// The reason that it has less room than it asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
struct RoomNode {
    instance_type: String,
    zone: String,
    capacity_type: String,
}

/// The buffers among manifests where they are held, and the line that names the kinds that are passed over.
pub(super) fn of_manifests(manifests: &[Manifest], are_held: bool) -> Result<(Demands, Option<String>), Vec<Mistake>> {
    let demands = if are_held { demands(manifests)? } else { Demands::new() };
    let passed = manifests.iter().filter(|one| !(are_held && is_read(one)));
    Ok((demands, unplanned::line(passed)))
}

/// True for a manifest that is read for buffers alone.
fn is_read(manifest: &Manifest) -> bool {
    is_buffer(manifest) || (manifest.kind == "PodTemplate" && manifest.api_version == "v1")
}

fn is_buffer(manifest: &Manifest) -> bool {
    manifest.kind == "CapacityBuffer" && VERSIONS.contains(&manifest.api_version.as_str())
}

fn namespace_of(manifest: &Manifest) -> &str {
    manifest.namespace.as_deref().unwrap_or("default")
}

/// The buffers among manifests.
fn demands(manifests: &[Manifest]) -> Result<Demands, Vec<Mistake>> {
    let (mut all, mut mistakes) = (Demands::new(), Vec::new());
    for manifest in manifests.iter().filter(|one| is_buffer(one)) {
        let mut buffer: CapacityBuffer = match serde_json::from_value(manifest.object.clone()) {
            Ok(buffer) => buffer,
            Err(why) => {
                let (file, field) = (manifest.file.clone(), format!("CapacityBuffer/{}", manifest.name));
                let (line, allowed) = (manifest.line, String::new());
                mistakes.push(Mistake { file, line, field, what: why.to_string(), allowed });
                continue;
            }
        };
        let key = format!("{}/{}", namespace_of(manifest), manifest.name);
        buffer.metadata.namespace = Some(namespace_of(manifest).to_owned());
        buffer.metadata.uid = Some(key.clone());
        let find_zone = |name: &str| TimeZone::get(name).ok();
        // At no time of the day: it is planned as if its schedule held.
        buffer.metadata.annotations = None;
        let demand = source_of(&buffer, manifests)
            .and_then(|source| buffer_demand(&buffer, &source, &find_zone, Timestamp::UNIX_EPOCH));
        all.insert(key, demand);
    }
    cap_all(all.values_mut().filter_map(|demand| demand.as_mut().ok()));
    if mistakes.is_empty() { Ok(all) } else { Err(mistakes) }
}

/// The template and the size of what a buffer refers to, among the manifests.
fn source_of(buffer: &CapacityBuffer, manifests: &[Manifest]) -> Result<BufferSource, BufferFault> {
    let namespace = buffer.metadata.namespace.as_deref().unwrap_or_default();
    let (kind, name, missing) = match (&buffer.spec.pod_template_ref, &buffer.spec.scalable_ref) {
        (Some(template), None) => ("PodTemplate", &template.name, "PodTemplateNotFound"),
        (None, Some(workload)) => (workload.kind.as_str(), &workload.name, "ScalableRefNotFound"),
        _ => {
            let what = "one of spec.podTemplateRef and spec.scalableRef has to be set";
            return Err(BufferFault::unresolved(what));
        }
    };
    let own = |one: &&Manifest| one.kind == kind && one.name == *name && namespace_of(one) == namespace;
    let Some(found) = manifests.iter().find(own) else {
        return Err(BufferFault::NotReady(missing, format!("{kind} {name} is not among the manifests")));
    };
    let spec = &found.object["spec"];
    let template = if kind == "PodTemplate" { &found.object["template"] } else { &spec["template"] };
    let template: PodTemplateSpec = serde_json::from_value(template.clone())
        .map_err(|why| BufferFault::unresolved(format!("{kind} {name}: its template: {why}")))?;
    let count = if kind == "Job" { &spec["parallelism"] } else { &spec["replicas"] };
    let count = usize::try_from(count.as_i64().unwrap_or(1)).unwrap_or_default();
    Ok(BufferSource { template, replicas: (kind != "PodTemplate").then_some(count), template_ref: None })
}

/// Finds room after all pods of the plan.
pub(super) fn plan(problem: &Problem, packing: &Packing, demands: &Demands, options: &Options) -> RoomPlan {
    let held: Vec<Buffer> = demands.values().filter_map(|demand| demand.as_ref().ok()).cloned().collect();
    let planning = Planning { problem: Arc::new(filled(problem, packing)), ..Planning::default() };
    let asked = with_chunks(planning, &held);
    let problem = &asked.planning.problem;
    let packing = if asked.is_empty() { Packing::default() } else { survive::solve(problem, options) };
    let found = BufferPlan::from_packing(&held, &asked, &packing);
    let mut plan = RoomPlan::default();
    for (key, demand) in demands {
        let now = found.buffers.get(key).cloned().unwrap_or_default();
        let missing = match demand {
            Err(BufferFault::OtherStrategy(strategy)) => Some(format!("strategy {strategy} is another provider's")),
            Err(BufferFault::NotReady(_, why)) => Some(why.clone()),
            Ok(_) => now.why.clone(),
        };
        plan.buffers.push(BufferRoom {
            buffer: key.clone(),
            pods: demand.as_ref().map(Buffer::wanted).unwrap_or_default(),
            on_other_nodes: now.ready + now.coming,
            on_new_nodes: now.new,
            hourly_price: now.dollars,
            missing,
        });
    }
    for claim in &packing.claims {
        // A sum of none is -0.
        plan.hourly_price += claim.price;
        plan.nodes.push(RoomNode {
            instance_type: type_name(problem, claim.cheapest_type()).to_owned(),
            zone: claim.cheapest_zone.clone(),
            capacity_type: claim.cheapest_capacity_type.clone(),
        });
    }
    plan.nodes.sort_unstable();
    plan
}

/// The cluster once all pods of the plan have their places: no pod waits.
fn filled(problem: &Problem, packing: &Packing) -> Problem {
    let mut then = Problem { pods: Vec::new(), ..problem.clone() };
    for (node, pods) in &packing.on_existing {
        for pod in pods.iter().map(|pod| &problem.pods[*pod]) {
            let mut requests = pod.requests.clone();
            requests.set(PODS, requests.get(PODS).max(1));
            then.existing_nodes[*node].used.add(&requests);
            then.existing_nodes[*node].pods.push(Arc::new(pod.clone()));
        }
    }
    for (nth, claim) in packing.claims.iter().enumerate() {
        let Some(mut node) = node_of_claim(problem, claim, format!("planned-{}", nth + 1)) else { continue };
        node.used = claim.requests.clone();
        node.pods = claim.pods.iter().map(|pod| Arc::new(problem.pods[*pod].clone())).collect();
        then.existing_nodes.push(node);
    }
    then
}

/// A line for each buffer, and one for their nodes.
pub(super) fn lines(plan: &RoomPlan) -> String {
    let mut text = String::new();
    for one in &plan.buffers {
        let found = one.on_other_nodes + one.on_new_nodes;
        let _ = write!(
            text,
            "capacity buffer {}: room for {found} of {} pods, {} of them on other nodes of the plan, ${:.4} an hour",
            one.buffer, one.pods, one.on_other_nodes, one.hourly_price
        );
        let missing = one.missing.as_ref().map(|why| format!("; the rest is missing: {why}"));
        let _ = writeln!(text, "{}", missing.unwrap_or_default());
    }
    if !plan.nodes.is_empty() {
        let mut alike: BTreeMap<String, usize> = BTreeMap::new();
        for node in &plan.nodes {
            *alike.entry(format!("{} {} {}", node.instance_type, node.capacity_type, node.zone)).or_default() += 1;
        }
        let each: Vec<String> = alike.iter().map(|(one, count)| format!("{count} {one}")).collect();
        let _ = writeln!(
            text,
            "nodes for capacity buffers: {} to launch ({}), ${:.4} an hour more",
            plan.nodes.len(),
            each.join(", "),
            plan.hourly_price
        );
    }
    text
}
