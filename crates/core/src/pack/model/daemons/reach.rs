//! The nodes of a pool on which a DaemonSet's pod runs: those that it is meant for, on which it fits beside nothing else, and
//! from which no DaemonSet that comes first keeps it off.

use std::collections::BTreeSet;

use super::order::DaemonOrder;
use super::rules::TYPES_A_STEP;
use super::terms;
use crate::daemons::{fits_alone, too_large_by};
use crate::labels;
use crate::pack::explain::amounts::{grouped, person};
use crate::pack::filter::alternatives::Alternative;
use crate::pack::filter::taints;
use crate::pack::model::bits::Bits;
use crate::pack::model::columns::Columns;
use crate::pack::model::ids::{IndexVec, InstanceTypeId, PoolId};
use crate::pack::model::offers::{Mask, Offers};
use crate::pack::model::pools::PoolView;
use crate::pack::rounds::steps::Steps;
use crate::pod::Pod;
use crate::problem::Problem;
use crate::requirements::Requirements;
use crate::resources::Resources;

/// Largest number of DaemonSets of a pool that are told apart because they run on some of its nodes only; more count on each of
/// its nodes.
const MOST_PARTIAL: u32 = 64;

/// One way to be meant for a pool's nodes: a term of node selector and node affinity.
#[derive(Debug, Clone, PartialEq)]
struct Way {
    /// The offerings by which such a node can be bought.
    offering_bits: Mask,
    /// Requirements on labels that the pool leaves open.
    open: Requirements,
}

/// A DaemonSet that runs on nodes of a pool.
#[derive(Debug, Clone)]
pub(crate) struct RunsOn {
    /// Its index among the problem's.
    pub daemon: usize,
    /// The types on whose nodes it may run.
    pub types: Bits,
    ways: Vec<Way>,
    /// Its bit among those that run on some nodes of the pool only, whatever their types; none for others.
    bit: u64,
}

/// A DaemonSet that is not counted on nodes that it is meant for, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DaemonLeftOut {
    pub daemon: usize,
    /// The pool, or `None` if it counts in no pool.
    pub pool: Option<PoolId>,
    pub why: String,
}

/// The DaemonSets that run on new nodes.
#[derive(Debug, Default)]
pub(crate) struct DaemonReach {
    /// By pool, in the order in which they count.
    pub pools: IndexVec<PoolId, Vec<RunsOn>>,
    pub left_out: Vec<DaemonLeftOut>,
    /// Those, by index, that count in no pool, whatever its nodes are.
    nowhere: BTreeSet<usize>,
}

impl DaemonReach {
    /// Reads the DaemonSets of a problem.
    pub fn from_problem(
        problem: &Problem,
        pools: &IndexVec<PoolId, PoolView>,
        columns: &Columns<'_>,
        offers: &Offers,
        steps: &Steps,
    ) -> Self {
        let mut all = Self { pools: pools.iter().map(|_| vec![]).collect(), ..Self::default() };
        if problem.daemon_pods.is_empty() {
            return all;
        }
        let rooms: Vec<Resources> = problem.instance_types.iter().map(|one| one.allocatable()).collect();
        let order = DaemonOrder::from_problem(problem, |work| steps.spend(work));
        all.nowhere = order.left_out.iter().map(|one| one.daemon).collect();
        all.left_out.extend(order.left_out.iter().cloned());
        for daemon in order.counted.iter().copied() {
            let pod = &problem.daemon_pods[daemon];
            // A DaemonSet that cannot be read has no pod anywhere.
            let Ok(terms) = terms(pod) else { continue };
            if !steps.spend((1 + terms.len() * pools.len()) * (1 + rooms.len() / TYPES_A_STEP)) {
                break;
            }
            let mut fits = Bits::empty(rooms.len());
            let fitting = rooms.iter().enumerate().filter(|(_, room)| fits_alone(pod, room));
            fitting.for_each(|(at, _)| fits.insert(InstanceTypeId::from(at)));
            for (at, view) in pools.enumerate() {
                let node_pool = &problem.node_pools[view.index];
                if taints::untolerated(&node_pool.taints, &pod.tolerations, true).is_some() {
                    continue;
                }
                let Some(mut one) = RunsOn::by_terms(daemon, &terms, view, columns, offers) else { continue };
                let meant = one.types.clone();
                one.types.and(&fits);
                if one.types.is_empty() {
                    let why = no_room(pod, &rooms, &meant);
                    all.left_out.push(DaemonLeftOut { daemon, pool: Some(at), why });
                    continue;
                }
                all.add(problem, at, one, &order);
            }
        }
        all
    }

    /// True if a DaemonSet counts in no pool, whatever its nodes are.
    pub fn is_left_out(&self, daemon: usize) -> bool {
        self.nowhere.contains(&daemon)
    }

    /// Adds a DaemonSet to a pool, where those that come first leave it a node.
    fn add(&mut self, problem: &Problem, pool: PoolId, mut one: RunsOn, order: &DaemonOrder) {
        for other in &self.pools[pool] {
            if order.exclude(one.daemon, other.daemon) && other.is_wherever(&one) {
                one.types.without(&other.types);
                if one.types.is_empty() {
                    let name = full_name(&problem.daemon_pods[other.daemon]);
                    let why = format!("DaemonSet {name} is on every node that it could be on, and keeps it off");
                    self.left_out.push(DaemonLeftOut { daemon: one.daemon, pool: Some(pool), why });
                    return;
                }
            }
        }
        let partial = self.pools[pool].iter().filter(|other| other.bit != 0).count();
        one.bit = match u32::try_from(partial) {
            Ok(nth) if nth < MOST_PARTIAL && one.bit != 0 => 1 << nth,
            _ => 0,
        };
        self.pools[pool].push(one);
    }

    /// The DaemonSet on a pool's nodes, if it runs there.
    pub fn on_pool(&self, daemon: usize, pool: PoolId) -> Option<&RunsOn> {
        self.pools[pool].iter().find(|one| one.daemon == daemon)
    }
}

impl RunsOn {
    /// A pod's reach by its terms, whatever its size; `None` if it is meant for no node of the pool.
    pub(super) fn by_terms(
        daemon: usize,
        terms: &[Alternative],
        view: &PoolView,
        columns: &Columns<'_>,
        offers: &Offers,
    ) -> Option<Self> {
        let mut one = Self { daemon, types: view.types.clone(), ways: vec![], bit: 1 };
        one.types.clear();
        for term in terms {
            let Some((types, way)) = reached(&term.requirements, view, columns, offers) else { continue };
            one.types.or(&types);
            if way.open.is_empty() && way.offering_bits == view.offering_bits {
                one.bit = 0;
            }
            if !one.ways.contains(&way) {
                one.ways.push(way);
            }
        }
        (!one.types.is_empty()).then_some(one)
    }

    /// Its bit, if a node with these requirements that is bought in these ways has no pod of it.
    pub fn bit_if_absent(&self, view: &PoolView, wanted: &Requirements, offering_bits: Mask) -> u64 {
        if self.bit == 0 {
            return 0;
        }
        let possible = |way: &Way| {
            way.offering_bits & offering_bits != 0
                && way.open.iter().all(|(key, asked)| {
                    let Some(said) = wanted.get(key) else { return true };
                    let own = view.requirements.get(key);
                    let node = own.map_or_else(|| said.clone(), |own| own.intersect(said));
                    node.intersects(asked) || node.allows_absence() && asked.allows_absence()
                })
        };
        if self.ways.iter().any(possible) { 0 } else { self.bit }
    }

    /// True if a node of a type has a pod of it, by the bits of those that are absent.
    pub fn counts(&self, absent: u64, at: InstanceTypeId) -> bool {
        self.bit & absent == 0 && self.types.has(at)
    }

    /// True if it runs on every node of its types on which the other runs.
    fn is_wherever(&self, other: &Self) -> bool {
        !self.is_partial() || other.ways.iter().all(|way| self.ways.contains(way))
    }

    /// True if it runs on some nodes of the pool only, whatever their types.
    pub fn is_partial(&self) -> bool {
        self.bit != 0
    }
}

/// The types of a pool that a term means, and the way to be meant for their nodes; `None` if it means none.
fn reached(wanted: &Requirements, view: &PoolView, columns: &Columns<'_>, offers: &Offers) -> Option<(Bits, Way)> {
    let mut types = view.types.clone();
    let mut open = Requirements::new();
    for (key, requirement) in wanted.iter() {
        let own = view.requirements.get(key);
        if own.is_some_and(|own| !(own.intersects(requirement) || own.allows_absence() && requirement.allows_absence()))
        {
            return None;
        }
        match columns.get(key) {
            _ if offers.keys.contains(key) || view.labels.contains(key) => {}
            Some(column) => types.and(&column.select(requirement)),
            // `registered` and `initialized` are true on every node by the time a daemon asks.
            None if key == "karpenter.sh/registered" || key == "karpenter.sh/initialized" => {}
            None => match own {
                None if !requirement.allows_absence() => return None,
                Some(own) if own.single().is_some() => {}
                _ => open.add(key, requirement.clone()),
            },
        }
    }
    let offering_bits = view.offering_bits & offers.select(wanted);
    (!types.is_empty() && offering_bits != 0).then_some((types, Way { offering_bits, open }))
}

/// True if a pool's node may have a label. Well-known labels are on every node by the time that pods are bound there.
pub(super) fn may_have(view: &PoolView, columns: &Columns<'_>, offers: &Offers, key: &str) -> bool {
    key == labels::HOSTNAME
        || labels::WELL_KNOWN.contains(&key)
        || offers.keys.contains(key)
        || columns.get(key).is_some()
        || view.requirements.get(key).is_some_and(|own| !own.is_empty())
}

/// Namespace and name.
pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// The reason why a DaemonSet fits none of the types that it is meant for: the resource that is short on all of them.
fn no_room(pod: &Pod, rooms: &[Resources], meant: &Bits) -> String {
    let count = meant.count();
    let noun = if count == 1 { "instance type" } else { "instance types" };
    let largest = |name: &str| meant.iter().map(|at| rooms[at.index()].get(name)).max().unwrap_or(0).max(0);
    let all: Resources = pod.requests.iter().map(|(name, _)| (name.to_owned(), largest(name))).collect();
    match too_large_by(pod, &all) {
        Some(name) => format!(
            "it needs {}, the largest of {} {noun} has {}",
            person(name, pod.requests.get(name)),
            grouped(count),
            person(name, all.get(name))
        ),
        None => format!("it needs {} at once, none of {} {noun} has all of it", pod.requests, grouped(count)),
    }
}
