//! The stage before packing: each pod with claims is given one existing node with enough free devices, or a bin of a new node.
//! Packing then keeps to that by rules that it knows. It is stateless: what was decided for pods that wait for their nodes is
//! worked out again from the nodes at which they are expected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bins::{Bin, TypeAt, bind_together, least_price, of_pool, rules_of};
use super::book::DeviceBook;
use super::claim::{Claim, Wish};
use super::device::DeviceId;
use super::places::{DeviceGates, KnownDevices, Places};
use super::search::{MOST_STEPS, Place, Search, Wanted};
use super::selector::Selectors;
use crate::labels::WELL_KNOWN;
use crate::pod::{NO_DEVICES, Pod};
use crate::problem::Problem;
use crate::requirements::{NodeSelectorRequirement, Requirements};
use crate::resources::Resources;

/// Steps of all searches for pods of one namespace in a packing at most, so that one cannot use up the time of all.
const STEPS_A_NAMESPACE: u64 = 4 * MOST_STEPS;
/// Steps of all searches in a packing at most.
const STEPS_OF_ALL: u64 = 8 * MOST_STEPS;
/// Most kinds of pods that are guided apart, so that the same search is not made again.
const MOST_KINDS: usize = 500;
/// Most lists of rules of one pod.
const MOST_RULES: usize = 64;
/// Most tries of one packing; the places of the last one stand.
const MOST_TRIES: usize = 4;

/// Places that packing has refused, for another try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Misfits {
    /// Pods, by index, with existing nodes that they do not fit on.
    pub(super) on_nodes: BTreeSet<(usize, usize)>,
    /// Pods, by index, that do not fit on one node with others.
    pub(super) alone: BTreeSet<usize>,
    /// Number of tries that these are of.
    tries: usize,
}

/// The outcome of the stage: the rules by which packing treats pods with claims.
#[derive(Clone, Debug, Default)]
pub struct DevicePlan {
    /// Pods as they are, by index.
    originals: BTreeMap<usize, Pod>,
    /// Existing nodes of pods.
    pinned: BTreeMap<usize, usize>,
    /// Pods of each new node.
    bins: Vec<Vec<usize>>,
    /// Drivers of the devices that pods will have on new nodes.
    drivers: BTreeMap<usize, BTreeSet<String>>,
    /// Dollars an hour of the new nodes, each at its cheapest.
    new_price: f64,
}

impl DevicePlan {
    /// True if no pod has claims.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.originals.is_empty()
    }

    /// The places that did not come out, given the pods that packing left over; `None` if there are none to be tried otherwise, or
    /// no more tries.
    #[must_use]
    pub fn misfits(&self, left_over: impl Iterator<Item = usize>, known: &Misfits) -> Option<Misfits> {
        let mut all = known.clone();
        for pod in left_over {
            if let Some(node) = self.pinned.get(&pod) {
                all.on_nodes.insert((pod, *node));
            }
            if let Some(bin) = self.bins.iter().find(|bin| bin.len() > 1 && bin.contains(&pod)) {
                all.alone.extend(bin);
            }
        }
        let tries = known.tries + 1;
        (all != *known && tries < MOST_TRIES).then_some(Misfits { tries, ..all })
    }

    /// A plan in which no pod with claims has a place, for this reason; packing is told by the problem.
    pub(super) fn without_places(problem: &mut Problem, why: &str) -> Self {
        let mut plan = Self::default();
        for (at, pod) in problem.pods.iter_mut().enumerate().filter(|(_, pod)| pod.has_claims()) {
            plan.originals.insert(at, pod.clone());
            pod.blocked = Some(why.to_owned());
        }
        plan
    }

    /// Takes the rules off that are for packing alone. Reasons that a pod can have no devices stay.
    pub fn restore(&self, problem: &mut Problem) {
        for (at, pod) in &self.originals {
            let guided = &mut problem.pods[*at];
            let blocked = guided.blocked.take();
            *guided = Pod { blocked, ..pod.clone() };
        }
    }

    /// Number of new nodes that pods with claims need, and their dollars an hour, each at its cheapest.
    #[must_use]
    pub fn new_nodes(&self) -> (usize, f64) {
        (self.bins.len(), self.new_price)
    }

    /// Drivers whose devices the pods of a new node will have, each once.
    #[must_use]
    pub fn drivers_of(&self, pods: &[usize]) -> BTreeSet<&str> {
        pods.iter().filter_map(|pod| self.drivers.get(pod)).flatten().map(String::as_str).collect()
    }
}

/// Decides the places of pods with claims, and guides packing by rules in the problem. `leaving` has the uids of pods whose claims
/// are as good as free.
#[must_use]
pub fn plan_devices(
    problem: &mut Problem,
    known_devices: KnownDevices<'_>,
    leaving: &BTreeSet<&str>,
    gates: DeviceGates,
    misfits: &Misfits,
) -> DevicePlan {
    if !problem.pods.iter().any(Pod::has_claims) {
        return DevicePlan::default();
    }
    let known = problem.clone();
    let mut selectors = Selectors::default();
    let mut stage = Stage::new(&known, known_devices, leaving, gates, &mut selectors);
    stage.misfits = misfits.clone();
    let mut order: Vec<usize> = (0..known.pods.len()).filter(|at| known.pods[*at].has_claims()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(known.pods[*at].priority));
    for at in order {
        stage.originals.insert(at, known.pods[at].clone());
        let mut guided = known.pods[at].clone();
        if guided.blocked.as_deref() == Some(NO_DEVICES) {
            guided.blocked = None;
        }
        if guided.blocked.is_none() {
            guided.blocked = stage.place_pod(at, &mut guided).err();
        }
        problem.pods[at] = guided;
    }
    stage.guide_packing(problem)
}

/// Place of a claim that is not allocated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Located {
    On(usize),
    In(usize),
}

/// Claims of a pod, as far as they decide its place.
#[derive(Default)]
pub(super) struct Asked<'a> {
    /// Claims that have no devices yet.
    pub(super) wishes: Vec<&'a Arc<Claim>>,
    /// For each claim that has devices for some nodes only: the ways to be one of them.
    pub(super) terms: Vec<&'a Vec<Requirements>>,
    /// Claims that have devices.
    pub(super) allocated: Vec<&'a Arc<Claim>>,
    /// The place of claims that other pods of this packing use too.
    pub(super) at: Option<Located>,
}

/// A kind of pods, by an example: the types that a node for one alone may be, if they are known, and its wishes.
pub(super) type Kind<'a> = (usize, Option<Result<Vec<TypeAt>, String>>, Vec<&'a Arc<Claim>>);

/// The reason where no instance type is known to have devices.
pub(super) const NO_TYPE: &str = "no instance type is known to have devices";

pub(super) struct Stage<'a, 's> {
    pub(super) problem: &'a Problem,
    pub(super) book: &'a DeviceBook,
    pub(super) leaving: &'a BTreeSet<&'a str>,
    pub(super) places: Places<'a>,
    /// Devices of existing nodes.
    pub(super) existing: Vec<Option<Place>>,
    /// Requests of pods that are placed on existing nodes here.
    pub(super) added: Vec<Resources>,
    pub(super) bins: Vec<Bin>,
    /// Places of claims by key.
    pub(super) located: BTreeMap<String, Located>,
    pub(super) kinds: Vec<Kind<'a>>,
    /// Kinds of pods, by number, with existing nodes that have no devices for them.
    pub(super) refused: BTreeSet<(usize, usize)>,
    pub(super) search: Search<'s>,
    pub(super) steps_left: u64,
    pub(super) of_namespace: BTreeMap<&'a str, u64>,
    pub(super) misfits: Misfits,
    pub(super) originals: BTreeMap<usize, Pod>,
    pub(super) pinned: BTreeMap<usize, usize>,
    pub(super) allowed_undefined: BTreeSet<String>,
    pub(super) pools: Vec<Requirements>,
}

impl<'a, 's> Stage<'a, 's> {
    fn new(
        problem: &'a Problem,
        (book, nodes, models): KnownDevices<'a>,
        leaving: &'a BTreeSet<&'a str>,
        gates: DeviceGates,
        selectors: &'s mut Selectors,
    ) -> Self
    where
        'a: 's,
    {
        let undefined = WELL_KNOWN.iter().copied().chain(problem.well_known_labels.iter().map(String::as_str));
        let mut stage = Self {
            problem,
            book,
            leaving,
            places: Places::new(problem, (book, nodes, models), leaving, gates),
            existing: Vec::new(),
            added: vec![Resources::new(); problem.existing_nodes.len()],
            bins: Vec::new(),
            located: BTreeMap::new(),
            kinds: Vec::new(),
            refused: BTreeSet::new(),
            search: Search { classes: book.classes.all(), selectors, steps: 0 },
            steps_left: STEPS_OF_ALL,
            of_namespace: BTreeMap::new(),
            misfits: Misfits::default(),
            originals: BTreeMap::new(),
            pinned: BTreeMap::new(),
            allowed_undefined: undefined.map(str::to_owned).collect(),
            pools: problem.node_pools.iter().map(of_pool).collect(),
        };
        for (at, node) in nodes.iter().enumerate().take(problem.existing_nodes.len()) {
            let place = stage.places.existing(at, node, stage.search.selectors);
            stage.existing.push(place);
            stage.take_expected(at, node.initialized);
        }
        stage
    }

    /// Takes the devices of pods that are expected on a node; where that fails nobody else is placed there. On a node that is not
    /// ready, pods that are bound already have of the devices that its type will have.
    fn take_expected(&mut self, at: usize, initialized: bool) {
        let problem = self.problem;
        for pod in problem.existing_nodes[at].pods.iter().filter(|pod| !pod.devices.is_empty()) {
            let Some(mut place) = self.existing[at].take() else { return };
            let Ok(asked) = self.asked(pod) else { continue };
            let mut wishes = asked.wishes;
            if !initialized {
                wishes.extend(asked.allocated);
            }
            if self.take_devices(pod, &wishes, &mut place).is_ok() {
                self.existing[at] = Some(place);
                self.locate(&wishes, Located::On(at));
            }
        }
    }

    /// Claims of a pod, as they stand at this point of the stage.
    pub(super) fn asked(&self, pod: &Pod) -> Result<Asked<'a>, String> {
        let mut asked = Asked::default();
        for one in &pod.devices {
            let Some(name) = &one.claim else {
                return Err(format!("its ResourceClaim for {} has not been made yet", one.name));
            };
            let key = format!("{}/{name}", pod.namespace);
            let Some(claim) = self.book.claims.all().get(&key) else {
                return Err(format!("ResourceClaim {key} is not there"));
            };
            if let Some(allocation) = claim.kept_allocation(self.leaving) {
                asked.terms.extend(&allocation.terms);
                asked.allocated.push(claim);
            } else if let Some(at) = self.located.get(&key) {
                if asked.at.is_some_and(|other| other != *at) {
                    return Err("its ResourceClaims get their devices on different nodes".into());
                }
                asked.at = Some(*at);
            } else if let Err(why) = &claim.wish {
                return Err(format!("ResourceClaim {key}: {why}"));
            } else {
                asked.wishes.push(claim);
            }
        }
        Ok(asked)
    }

    /// Takes devices for claims at a place, within the bounds of one pod, of its namespace and of all.
    pub(super) fn take_devices(
        &mut self,
        pod: &'a Pod,
        claims: &[&Arc<Claim>],
        place: &mut Place,
    ) -> Result<BTreeSet<String>, String> {
        let keys: Vec<String> = claims.iter().map(|claim| claim.key()).collect();
        let none = Wish::default();
        let wishes: Vec<Wanted<'_>> = claims
            .iter()
            .zip(&keys)
            .map(|(claim, key)| Wanted { claim: key, wish: claim.wish.as_ref().unwrap_or(&none) })
            .collect();
        let of_namespace = self.of_namespace.entry(&pod.namespace).or_insert(STEPS_A_NAMESPACE);
        let before = MOST_STEPS.min(*of_namespace).min(self.steps_left);
        self.search.steps = before;
        let taken = self.search.take_devices(&wishes, place);
        let spent = before - self.search.steps;
        *of_namespace -= spent;
        self.steps_left -= spent;
        let drivers = |ids: Vec<Vec<DeviceId>>| ids.into_iter().flatten().map(|id| id.driver).collect();
        taken.map(drivers)
    }

    pub(super) fn locate(&mut self, claims: &[&Arc<Claim>], at: Located) {
        self.located.extend(claims.iter().map(|claim| (claim.key(), at)));
    }

    /// The kind of a pod, by which the same search is made once; `None` for one whose place depends on others.
    pub(super) fn kind_of(&mut self, at: usize, asked: &Asked<'a>) -> Option<usize> {
        if asked.at.is_some() || !asked.terms.is_empty() {
            return None;
        }
        let pod = &self.problem.pods[at];
        let alike = |(example, _, wishes): &Kind<'a>| {
            let other = &self.problem.pods[*example];
            wishes.len() == asked.wishes.len()
                && wishes.iter().zip(&asked.wishes).all(|(a, b)| a.wish == b.wish)
                && (&pod.requests, &pod.node_selector, &pod.affinity, &pod.tolerations)
                    == (&other.requests, &other.node_selector, &other.affinity, &other.tolerations)
                && (&pod.namespace, &pod.volume_topology) == (&other.namespace, &other.volume_topology)
        };
        let known = self.kinds.iter().position(alike);
        if known.is_none() && self.kinds.len() < MOST_KINDS {
            self.kinds.push((at, None, asked.wishes.clone()));
            return Some(self.kinds.len() - 1);
        }
        known
    }

    /// Gives packing the rules of the bins.
    fn guide_packing(self, problem: &mut Problem) -> DevicePlan {
        let names: Vec<&String> = self.problem.existing_nodes.iter().map(|node| &node.name).collect();
        let mut plan = DevicePlan { originals: self.originals, pinned: self.pinned, ..DevicePlan::default() };
        for (number, bin) in self.bins.into_iter().enumerate() {
            let rules = rules_of(self.problem, &bin.types);
            plan.new_price += least_price(&bin.types);
            for at in &bin.pods {
                let pod = &mut problem.pods[*at];
                pod.refused_nodes.extend(names.iter().map(|name| (*name).clone()));
                if let Err(why) = keep_to(pod, &rules) {
                    pod.blocked = Some(why);
                }
                plan.drivers.insert(*at, bin.drivers.clone());
            }
            bind_together(&mut problem.pods, number, &bin.pods);
            plan.bins.push(bin.pods);
        }
        plan
    }
}

/// Adds lists of rules to a pod, of which its node has to meet one.
pub(super) fn keep_to(pod: &mut Pod, rules: &[Vec<NodeSelectorRequirement>]) -> Result<(), String> {
    if rules.is_empty() {
        return Err("the devices of its ResourceClaims can be used from no node".into());
    }
    let before = std::mem::take(&mut pod.volume_topology);
    pod.volume_topology = match before.as_slice() {
        [] => rules.to_vec(),
        some => some.iter().flat_map(|one| rules.iter().map(move |rule| [one.as_slice(), rule].concat())).collect(),
    };
    let count = pod.volume_topology.len();
    if count > MOST_RULES { Err(format!("there are {count} ways to be near its volumes and devices")) } else { Ok(()) }
}
