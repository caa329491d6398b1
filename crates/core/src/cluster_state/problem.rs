//! A snapshot as a packing problem: pods that wait, nodes that are there or on their way, pools that may make more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::{annotations, conditions, labels};
use dovetail_api::v1::{NodePool, condition, condition_status, is_true};
use dovetail_api::{convert, validation::own::max_cost_of_pool, validation::own::percent};
use k8s_openapi::api::core::v1::TopologySpreadConstraint;
use serde::Serialize;

use super::launches::room::{limits_of, usage, with_cost};
use super::objects::{daemon::ComingDaemons, load::with_itself};
use super::placing::pod_groups::by_name;
use super::storage::any_attaches;
use super::{JoinedNode, Moment, NodeSource, PodEntry, RefusedPlace, Snapshot, SpotShareNotes, WatchedKind};
use crate::adoption;
use crate::commitments::Commitments;
use crate::daemons::DaemonShare;
use crate::instance_type::{InstanceType, subtract_reserved};
use crate::labels::CAPACITY_RESERVATION_ID;
use crate::lifecycle::claim::packing_requirement;
use crate::pod::Pod;
use crate::pod_groups::GangTable;
use crate::problem::{ExistingNode, MinValuesPolicy, Namespace, Policy, Pool, PreferencePolicy, Problem, UnusablePool};
use crate::resources::{PODS, Resources};
use crate::validity;

/// The input of a problem beside the snapshot.
#[derive(Clone, Debug, Default)]
pub struct PlanningInput {
    /// Instance types of each EC2NodeClass that is resolved, by its name.
    pub instance_types: BTreeMap<String, Arc<Vec<Arc<InstanceType>>>>,
    /// The setting `PREFERENCE_POLICY`.
    pub preferences: PreferencePolicy,
    /// The setting `MIN_VALUES_POLICY`.
    pub min_values: MinValuesPolicy,
    /// The setting `PACKING_POLICY`, for pools that do not say.
    pub policy: Policy,
    /// The time of planning: marks that have run out by then do not count.
    pub now: Moment,
    /// The setting `SCHEDULER_CONFIG`: default constraints, without selectors, for pods that have none.
    pub default_spread: Vec<TopologySpreadConstraint>,
    /// The setting `DAEMONSET_MAX_OVERHEAD_PERCENT`.
    pub daemon_share: DaemonShare,
    /// The setting `COMMITMENTS`. The problem is the same without: packing and consolidation offer what is left.
    pub commitments: Arc<Commitments>,
    /// Pods, by uid, that are to be packed; `None` packs all that wait. Pods that have to leave their node are always packed.
    pub only: Option<Arc<BTreeSet<String>>>,
    /// True for a plan of static pools, which leaves out all others.
    pub of_static: bool,
    /// True if gangs are planned, all or none of each; false blocks their pods that have no node.
    pub whole_gangs: bool,
    /// True if zones where most nodes are unwell are places for pods of unwell nodes.
    pub into_sick_zones: bool,
    /// Kinds of devices that nodes are launched for; `None` if pods with claims for devices get no node.
    pub devices: Option<crate::dra::DeviceGates>,
}

/// A problem, and the meaning of its indices.
#[derive(Clone, Debug, Default)]
pub struct Planning {
    /// The packing problem.
    pub problem: Arc<Problem>,
    /// Pools of the problem, in its order.
    pub pools: Vec<Arc<NodePool>>,
    /// Machines behind the problem's existing nodes, in its order.
    pub existing: Vec<JoinedNode>,
    /// Pools that are left out.
    pub skipped: Vec<SkippedPool>,
    /// Reasons for pods that are kept off pools whose nodes their workloads do not use, by uid.
    pub held: BTreeMap<String, String>,
    /// True if a pool is left out because its readiness is still unknown: a little later it may take part.
    pub unsettled: bool,
    /// Nodes that are out for pods of the problem, as kube-scheduler has refused them.
    pub refused_places: Vec<RefusedPlace>,
    /// Pods that may be on no spot node, and annotations about that which do not count.
    pub spot_share: SpotShareNotes,
    /// Gangs that have to have enough places or none in a packing of the problem.
    pub gangs: GangTable,
}

/// Beginning of the reason for a pool that is left out because it is not valid.
const NOT_VALID: &str = "it is not valid: ";

/// A pool that packing may not use now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct SkippedPool {
    /// Name of the NodePool.
    pub pool: String,
    /// The reason, for people.
    pub why: String,
    /// True if its launches are refused.
    pub refused: bool,
}

impl Snapshot {
    /// The pods that wait for a node or have to leave theirs and are expected on none, in the order of their names.
    #[must_use]
    pub fn pending(&self, now: Moment) -> Vec<&Arc<PodEntry>> {
        self.without_a_place(now, |entry| entry.provisionable)
    }

    pub(super) fn without_a_place(&self, now: Moment, waits: impl Fn(&PodEntry) -> bool) -> Vec<&Arc<PodEntry>> {
        let waiting = self.unbound().filter(|entry| waits(entry) && !self.is_made_room_for(entry));
        let leaving = self.deleting.nodes.iter().filter(|node| !self.deleting.held.contains(*node));
        let moving = leaving.flat_map(|node| self.displaced(node, now.wall));
        let is_placed = |entry: &PodEntry| self.expected_on(&entry.pod.uid, now).is_some();
        let mut all: Vec<_> = waiting.chain(moving).filter(|entry| !is_placed(entry)).collect();
        all.sort_by(by_name);
        all
    }

    /// The packing problem at `input.now`.
    #[must_use]
    pub fn planning(&self, input: &PlanningInput) -> Planning {
        self.planning_for(input, &self.to_pack(input))
    }

    /// The packing problem at `input.now` for these pods, wherever they are.
    #[must_use]
    pub fn planning_for(&self, input: &PlanningInput, to_pack: &[&Arc<PodEntry>]) -> Planning {
        let joined = self.joined();
        let mut problem = Problem {
            preference_policy: input.preferences,
            min_values_policy: input.min_values,
            well_known_labels: self.provider.well_known_labels().into_iter().map(str::to_owned).collect(),
            daemon_share: input.daemon_share,
            namespaces: self.storage.namespaces.values().map(|one| Namespace::clone(one)).collect(),
            daemon_pods: [self.daemon_pods(), self.daemons_beyond(input.now.wall)].concat(),
            ..Problem::default()
        };
        let (pools, skipped) = self.pools(input, &joined, &mut problem);
        self.price_interruptions(&mut problem.instance_types, input.now.wall);
        problem.left_out =
            skipped.iter().map(|one| UnusablePool { pool: one.pool.clone(), why: one.why.clone() }).collect();
        problem.quotas = self.quotas_used(&joined, &problem.instance_types);
        self.take_reserved(&mut problem.instance_types);
        let existing: Vec<_> = joined.into_iter().filter(|node| !node.deleting && !self.has_no_room(node)).collect();
        let expected = self.expected(input.now);
        let attached: Vec<_> =
            existing.iter().map(|node| self.attached(self.on_node(node, &expected).into_iter())).collect();
        problem.pods = self.with_volumes(to_pack, &attached.iter().flatten().cloned().collect());
        self.mark_expendable(&mut problem.pods);
        self.mark_consumers(&mut problem.pods);
        self.spread_by_default(&input.default_spread, &mut problem.pods);
        if input.preferences == PreferencePolicy::Respect {
            self.relax(&mut problem.pods, input.now);
        }
        problem.existing_nodes = {
            // After the pods that wait, which decide what DaemonSets count.
            let daemons = ComingDaemons::new(&problem);
            existing.iter().map(|node| self.existing(node, &daemons, &expected)).collect()
        };
        let mut refused_places = self.refuse_places(&mut problem.pods, &existing, input.now);
        if any_attaches(&problem.pods) {
            let shared: BTreeSet<&str> =
                problem.pods.iter().flat_map(|pod| pod.shared_volumes.keys()).map(String::as_str).collect();
            for ((node, attached), out) in existing.iter().zip(&attached).zip(&mut problem.existing_nodes) {
                self.set_attachments(node, attached, &problem.instance_types, out);
                let own = attached.iter().map(|(_, name)| name).filter(|name| shared.contains(name.as_str()));
                out.volumes = own.cloned().collect();
            }
        }
        let mut held = self.hold_back(&mut problem.pods, input.now);
        held.extend(self.keep_off_refused(&mut problem.pods, input.now, &mut refused_places));
        self.keep_off_sick_places(&mut problem.pods, &existing, input.into_sick_zones);
        let spot_share = self.split_by_spot_share(&mut problem.pods, input.now);
        let gangs = self.hold_gangs(&mut problem.pods, input);
        let unsettled = self.pools.values().any(|pool| is_unsettled(pool));
        let problem = Arc::new(problem);
        Planning { problem, pools, existing, skipped, held, unsettled, refused_places, spot_share, gangs }
    }

    /// Writes the usable pools and their instance types into the problem.
    fn pools(
        &self,
        input: &PlanningInput,
        joined: &[JoinedNode],
        problem: &mut Problem,
    ) -> (Vec<Arc<NodePool>>, Vec<SkippedPool>) {
        let (mut pools, mut skipped) = (Vec::new(), Vec::new());
        let overlaid = self.overlaid(&input.instance_types);
        // By class, and by the list of types where overlays say something of them.
        let mut ranges: BTreeMap<(&str, Option<*const Vec<Arc<InstanceType>>>), Vec<usize>> = BTreeMap::new();
        for (name, pool) in self.pools.iter() {
            // A pool with a class of another kind is unusable, whatever the class's name.
            let class = pool.spec.template.spec.node_class_ref.name_for(self.provider).unwrap_or_default();
            let kind = self.provider.class().kind;
            let types = input.instance_types.get(class).filter(|types| !types.is_empty());
            let closed = self.is_closed(name, pool, input.now);
            let refused = closed.is_some();
            let why = match (unusable(pool, input.of_static).or(closed), types) {
                (Some(why), _) => why,
                (None, None) => match self.unreadable(WatchedKind::NodeClass, class) {
                    Some(object) => format!("its {kind} {class} cannot be read: {}", object.why),
                    None => format!("no instance types for its {kind} {class}"),
                },
                (None, Some(types)) => {
                    let own = overlaid.types.get(name);
                    let types = own.unwrap_or(types);
                    let indices = ranges.entry((class, own.map(Arc::as_ptr))).or_insert_with(|| {
                        let first = problem.instance_types.len();
                        problem.instance_types.extend(self.as_observed(class, types, input.now.wall));
                        (first..problem.instance_types.len()).collect()
                    });
                    let own = || joined.iter().filter(|node| node.pool == *name);
                    let limits = limits_of(pool);
                    let used = with_cost(usage(own(), types), &limits, own(), types);
                    problem.node_pools.push(as_pool(name, pool, (limits, used), indices.clone(), input.policy));
                    pools.push(pool.clone());
                    continue;
                }
            };
            skipped.push(SkippedPool { pool: name.clone(), why, refused });
        }
        let unread = self.unreadable_of(WatchedKind::NodePool);
        skipped.extend(unread.map(|(pool, object)| SkippedPool {
            pool: pool.to_owned(),
            why: format!("it cannot be read: {}", object.why),
            refused: false,
        }));
        if ranges.len() == 1 {
            problem.node_pools.iter_mut().for_each(|pool| pool.instance_types = None);
        }
        (pools, skipped)
    }

    /// True if nothing can be planned on a machine: its Node cannot be read, or it is unknown whether it will exist.
    fn has_no_room(&self, node: &JoinedNode) -> bool {
        let unreadable = node.node_name().is_some_and(|name| self.unreadable(WatchedKind::Node, name).is_some());
        unreadable || matches!(&node.source, NodeSource::Claim(entry) if !entry.is_promised())
    }

    /// Subtracts from the reservations the places of claims that are still to be launched: the cloud does not know of them yet.
    fn take_reserved(&self, types: &mut [Arc<InstanceType>]) {
        let mut held: BTreeMap<String, u32> = BTreeMap::new();
        let to_launch = |claim: &&Arc<super::ClaimEntry>| {
            claim.claim.status.as_ref().is_none_or(|status| status.provider_id.is_empty())
        };
        for entry in self.claims.values().filter(to_launch) {
            let pins = entry.claim.spec.requirements.iter().filter(|one| one.key == CAPACITY_RESERVATION_ID);
            pins.flat_map(|pin| &pin.values).for_each(|id| *held.entry(id.clone()).or_default() += 1);
        }
        subtract_reserved(types, &held);
    }

    /// Pods expected on a node or claim though not bound there, by its name.
    fn expected(&self, now: Moment) -> BTreeMap<&super::NominationTarget, Vec<&Arc<PodEntry>>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for target in self.nominations.targets() {
            let uids = self.nominations.pods_at(target).filter(|uid| self.expected_on(uid, now).is_some());
            let pods: Vec<_> = uids.filter_map(|uid| self.pods.get(uid)).collect();
            if !pods.is_empty() {
                all.insert(target, pods);
            }
        }
        all
    }

    /// The pods on a node and those expected there.
    fn on_node<'s>(
        &'s self,
        node: &JoinedNode,
        expected: &BTreeMap<&super::NominationTarget, Vec<&'s Arc<PodEntry>>>,
    ) -> Vec<&'s Arc<PodEntry>> {
        let load = node.node_name().and_then(|name| self.loads.get(name));
        let bound = load.into_iter().flat_map(|load| load.pods.values());
        bound
            .chain(node.targets().iter().flatten().filter_map(|target| expected.get(target)).flatten().copied())
            .collect()
    }

    fn existing(
        &self,
        node: &JoinedNode,
        daemons: &ComingDaemons<'_>,
        expected: &BTreeMap<&super::NominationTarget, Vec<&Arc<PodEntry>>>,
    ) -> ExistingNode {
        let load = node.node_name().and_then(|name| self.loads.get(name));
        let mut used = load.map(|load| load.requests.clone()).unwrap_or_default();
        let mut pods: Vec<Arc<Pod>> = load
            .iter()
            .flat_map(|load| load.pods.values())
            .filter(|entry| entry.counts_for_topology())
            .map(|entry| entry.pod.clone())
            .collect();
        for entry in node.targets().iter().flatten().filter_map(|target| expected.get(target)).flatten() {
            let recreated = self.recreated(entry);
            used.add(&with_itself(&recreated.requests));
            pods.push(recreated);
        }
        self.take_booked(node, &mut used, &mut pods);
        let daemon_requests = daemons.requests(node, &used, load.map(AsRef::as_ref));
        if load.is_some_and(|load| load.pods.values().any(|entry| entry.unreadable)) {
            // Its requests are unknown: a negative rest fits no pod.
            used.set(PODS, i64::MAX);
        }
        ExistingNode {
            name: node.name.clone(),
            labels: node.labels.clone(),
            taints: node.taints.clone(),
            allocatable: node.allocatable.clone(),
            used,
            initialized: node.initialized,
            pods,
            daemon_requests,
            volumes: BTreeSet::new(),
            changed: self.judged_as_of(node),
        }
    }
}

/// The reason that a pool may not be used now. Its fields are looked at here too: its conditions may be of an earlier generation.
fn unusable(pool: &NodePool, of_static: bool) -> Option<String> {
    if pool.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".into());
    }
    if pool.spec.replicas.is_some() != of_static {
        return Some(if of_static { "it is not static".into() } else { "it is static".into() });
    }
    let mistakes = validity::node_pool(pool);
    if !mistakes.is_empty() {
        return Some(format!("{NOT_VALID}{}", validity::sentence(&mistakes)));
    }
    if let Err(text) = max_cost_of_pool(pool) {
        return Some(format!(
            "its annotation {} says {text:?}: nothing is launched before it is clear",
            annotations::MAX_COST_PER_HOUR
        ));
    }
    let known = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    match condition(known, conditions::VALIDATION_SUCCEEDED) {
        Some(valid) if valid.status == conditions::FALSE && valid.observed_generation == pool.metadata.generation => {
            Some(format!("{NOT_VALID}{}", valid.message))
        }
        _ => (!is_ready(pool)).then(|| not_ready(pool)),
    }
}

/// The sentence that names the class a pool waits for, with that class's message.
fn not_ready(pool: &NodePool) -> String {
    let known = pool.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let class = &pool.spec.template.spec.node_class_ref;
    match condition(known, conditions::NODE_CLASS_READY).filter(|one| one.status != conditions::TRUE) {
        Some(one) => format!("it is not Ready: {} {}: {}: {}", class.kind, class.name, one.reason, one.message),
        None => "it is not Ready".to_owned(),
    }
}

/// True if a pool's condition Ready is True.
pub(super) fn is_ready(pool: &NodePool) -> bool {
    pool.status.as_ref().is_some_and(|status| is_true(&status.conditions, conditions::READY))
}

pub(crate) fn is_unsettled(pool: &NodePool) -> bool {
    let known = pool.status.as_ref().map(|status| condition_status(&status.conditions, conditions::READY));
    pool.metadata.deletion_timestamp.is_none() && known.is_none_or(|status| status == conditions::UNKNOWN)
}

fn as_pool(
    name: &str,
    pool: &NodePool,
    (limits, usage): (Resources, Resources),
    instance_types: Vec<usize>,
    policy: Policy,
) -> Pool {
    let template = &pool.spec.template;
    let class = &template.spec.node_class_ref;
    let mut own_labels = template.metadata.labels.clone();
    own_labels.insert(class.label(), class.name.clone());
    let provisioner = convert::provisioner_of(pool);
    own_labels.extend(provisioner.map(|of| (labels::PROVISIONER_NAME.to_owned(), of.to_owned())));
    let own = |key: &str| pool.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let written = own(annotations::PACKING_POLICY);
    // A pool that Karpenter has had is packed Karpenter's way until it is taken over; the takeover writes its policy.
    let foreign = pool.metadata.annotations.as_ref().is_some_and(adoption::is_foreign);
    let unwritten = if foreign { Policy::FewestNodes } else { policy };
    Pool {
        name: name.to_owned(),
        weight: pool.spec.weight.unwrap_or(0),
        labels: own_labels,
        requirements: template.spec.requirements.iter().map(packing_requirement).collect(),
        taints: template.spec.taints.clone(),
        startup_taints: template.spec.startup_taints.clone(),
        limits,
        usage,
        min_nodes: 0,
        policy: written.and_then(|name| Policy::named(name)).unwrap_or(unwritten),
        instance_types: Some(instance_types),
        // The pool's labels say another provider's.
        node_class: class.ec2_name().map(ToOwned::to_owned),
        zone_balance: own(annotations::ZONE_BALANCE).and_then(|text| percent(text)).unwrap_or(0),
    }
}
