//! The problem compiled for packing: everything that is decided once and looked up afterwards.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::classes::{self, Amounts, Class, RequirementSets};
use super::columns::Columns;
use super::daemons::reach::{DaemonLeftOut, DaemonReach};
use super::ids::{ClassId, IndexVec, InstanceTypeId, JointId, PoolId, SetId, TierId};
use super::kinds::{Fits, NodeKind};
use super::names::ResourceNames;
use super::offers::{Bought, Mask, Offers};
use super::options::Rare;
use super::plan::{DaemonNotCounted, Options};
use super::pools::{self, Fit, PoolView};
use crate::labels;
use crate::pack::filter::joint::Joints;
use crate::pack::filter::shared::SharedVolumes;
use crate::pack::filter::topology::Topology;
use crate::pack::filter::topology::bins::{BinSources, Bins};
use crate::pack::filter::topology::node_rules::NodeRules;
use crate::pack::rounds::failure::PackingError;
use crate::pack::rounds::steps::{self, Steps};
use crate::problem::Problem;
use crate::requirements::Requirements;

/// The compiled problem.
pub(crate) struct Context<'a> {
    pub problem: &'a Problem,
    pub options: &'a Options,
    pub names: ResourceNames,
    pub volumes: SharedVolumes,
    pub columns: Columns<'a>,
    pub offers: Offers,
    pub rare: Rare,
    /// Pools in the order in which they are tried: weight descending, then name descending.
    pub pools: IndexVec<PoolId, PoolView>,
    /// DaemonSets that do not count on nodes that they are meant for.
    pub daemons_left_out: Vec<DaemonLeftOut>,
    pub classes: IndexVec<ClassId, Class>,
    pub topology: Topology,
    pub bins: Bins,
    pub sets: RequirementSets,
    /// Keys that a pod may ask for although a pool does not define them.
    pub allowed_undefined: BTreeSet<String>,
    /// The bound on the work.
    pub steps: Steps,
    /// The empty requirement set.
    anything: Requirements,
    joints: RefCell<Joints>,
    selections: Vec<OnceCell<Option<Selection>>>,
    fits: Fits,
    /// DaemonSets, as bits, that have no pod on a pool's nodes bought by some offerings.
    absent_by_offerings: RefCell<FxHashMap<(PoolId, Mask), u64>>,
}

/// The part of a pool that a requirement set leaves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    pub types: Bits,
    pub offering_bits: Mask,
    pub joint: JointId,
    /// The pool's DaemonSets, as bits, that have no pod on such a node.
    pub absent: u64,
}

/// Marks the classes whose pods ask for more of something than any instance type and any node has.
fn find_hopeless(
    problem: &Problem,
    pools: &IndexVec<PoolId, PoolView>,
    names: &ResourceNames,
    classes: &mut IndexVec<ClassId, Class>,
) {
    let mut most: Vec<Amounts> = pools.iter().filter_map(|view| view.most(names.0.len())).collect();
    let rooms = problem.existing_nodes.iter().map(|node| names.room(&node.allocatable));
    most.extend(rooms.reduce(|mut most, room| {
        most.iter_mut().zip(&room).for_each(|(most, have)| *most = (*most).max(*have));
        most
    }));
    for class in classes {
        let holds = |most: &Amounts| class.first.iter().zip(most).all(|(asked, most)| asked <= most);
        class.hopeless = !most.iter().any(holds);
    }
}

impl<'a> Context<'a> {
    /// Compiles a problem.
    ///
    /// # Errors
    /// [`PackingError::Bound`] where that takes more steps than there are.
    pub fn new(problem: &'a Problem, options: &'a Options) -> Result<Self, PackingError> {
        let steps = Steps::for_problem(problem, options);
        // Before anything is read: pods are compared with each other by all that they state.
        steps.spend(problem.pods.iter().map(|pod| steps::size_of(problem, pod)).sum());
        steps.bound_met()?;
        let volumes = SharedVolumes::from_problem(problem);
        let mut pools = pools::pools_in_order(problem);
        let mut universe = Bits::empty(problem.instance_types.len());
        pools.iter().for_each(|pool| universe.or(&pool.types));
        let offers = Offers::from_problem(problem, &universe);
        let columns = Columns::new(&problem.instance_types, universe);
        pools.iter_mut().for_each(|pool| pool.offering_bits = offers.select(&pool.requirements));
        let reach = DaemonReach::from_problem(problem, &pools, &columns, &offers, &steps);
        let names = ResourceNames::from_problem(problem, &pools, &reach, (&columns, &offers), &steps);
        let mut allowed_undefined: BTreeSet<String> = labels::WELL_KNOWN.into_iter().map(str::to_owned).collect();
        allowed_undefined.extend(problem.well_known_labels.iter().cloned());
        steps.spend(pools.len() * problem.instance_types.len() * names.0.len());
        steps.bound_met()?;
        let mut daemons_left_out = reach.left_out.clone();
        for at in pools.ids() {
            daemons_left_out.extend(pools[at].finish((problem, at), &names, &reach, (&columns, &offers)));
        }
        let fits = Fits::new(pools.len(), Amounts::from_elem(0, names.0.len()));
        let mut sets = RequirementSets::default();
        let (classes, topology) =
            classes::compile(problem, options.soft_spread_on_new_nodes, &names, &volumes, &mut sets, &steps);
        steps.bound_met()?;
        let mut classes = classes;
        find_hopeless(problem, &pools, &names, &mut classes);
        let found = BinSources { problem, pools: &pools, columns: &columns, offers: &offers };
        let bins = Bins::find(&found, &topology, &classes, &mut sets, &steps);
        steps.spend(sets.len() * pools.len());
        steps.bound_met()?;
        let selections = std::iter::repeat_with(OnceCell::new).take(sets.len() * pools.len()).collect();
        let joints = RefCell::new(Joints::new(problem.instance_types.len()));
        Ok(Self {
            problem,
            options,
            names,
            volumes,
            columns,
            offers,
            rare: Rare::from_types(&problem.instance_types),
            pools,
            daemons_left_out,
            classes,
            topology,
            bins,
            sets,
            allowed_undefined,
            steps,
            anything: Requirements::new(),
            joints,
            selections,
            fits,
            absent_by_offerings: RefCell::default(),
        })
    }

    /// DaemonSets that do not count, each with the pools for which that is for the same reason.
    pub fn daemons_not_counted(&self) -> Vec<DaemonNotCounted> {
        let mut all: BTreeMap<(usize, &str), Vec<usize>> = BTreeMap::new();
        for one in &self.daemons_left_out {
            let pools = all.entry((one.daemon, &one.why)).or_default();
            pools.extend(one.pool.map(|pool| self.pools[pool].index));
        }
        let one = |((daemon, why), pools): ((usize, &str), _)| DaemonNotCounted { daemon, pools, why: why.to_owned() };
        all.into_iter().map(one).collect()
    }

    /// Spends steps for work that is about to be done; false once none are left.
    pub fn work(&self, steps: usize) -> bool {
        self.steps.spend(steps)
    }

    /// The part of pool `pool` that requirement set `set` leaves, resources and limits apart; `None` if nothing.
    pub fn selection(&self, set: SetId, pool: PoolId) -> Option<&Selection> {
        let slot = &self.selections[set.index() * self.pools.len() + pool.index()];
        slot.get_or_init(|| self.select(&self.sets[set], &self.pools[pool])).as_ref()
    }

    /// The part of a pool that is left by a requirement set which is none of a class's.
    pub fn select(&self, wanted: &Requirements, pool: &PoolView) -> Option<Selection> {
        if !self.work(8 + wanted.len())
            || pool.types.is_empty()
            || pool.requirements.compatible(wanted, &self.allowed_undefined).is_err()
        {
            return None;
        }
        let offering_bits = pool.offering_bits & self.offers.select(wanted);
        let mut types = pool.types.clone();
        let mut together = Requirements::new();
        for (key, requirement) in wanted.iter() {
            if self.offers.keys.contains(key) || pool.labels.contains(key) {
                continue;
            }
            let own = pool.requirements.get(key);
            let both = own.map_or_else(|| requirement.clone(), |own| own.intersect(requirement));
            match self.columns.get(key) {
                Some(column) => {
                    if !self.work(column.len()) {
                        return None;
                    }
                    types.and(&column.select(&both));
                    if column.open {
                        together.add(key, both);
                    }
                }
                // Well known, and nothing that a pool could launch has it.
                None if own.is_none() && !requirement.allows_absence() => types.clear(),
                None if own.is_some_and(|own| own.single().is_none()) => together.add(key, both),
                None => {}
            }
        }
        types.and(&self.bought(offering_bits).types);
        let joint = self.joints.borrow_mut().id_of(together, &self.columns);
        types.and(self.joints.borrow().types(joint));
        let absent = pool.daemons.absent(pool, wanted, offering_bits);
        (!types.is_empty()).then_some(Selection { types, offering_bits, joint, absent })
    }

    /// The intersection of both, for one node; `None` when they exclude each other.
    pub fn meet(&self, a: JointId, b: JointId) -> Option<JointId> {
        if a == b || b == JointId::NONE {
            return Some(a);
        }
        if a == JointId::NONE {
            return Some(b);
        }
        self.joints.borrow_mut().meet(a, b, &self.columns)
    }

    /// Keeps the types that satisfy a joint requirement.
    pub fn keep_joint(&self, joint: JointId, types: &mut Bits) {
        if joint != JointId::NONE {
            types.and(self.joints.borrow().types(joint));
        }
    }

    /// Types and prices that a set of offering bits makes available.
    pub fn bought(&self, mask: Mask) -> Rc<Bought> {
        self.offers.bought(mask, self.problem)
    }

    /// The offering bits of spot capacity.
    pub fn spot_bits(&self) -> Mask {
        self.offers.with(|offering_bit| offering_bit.capacity_type == labels::SPOT)
    }

    /// The pool's DaemonSets, as bits, that have no pod on a node with some of them absent that is bought in these ways.
    pub fn absent(&self, pool: PoolId, absent: u64, offering_bits: Mask) -> u64 {
        let view = &self.pools[pool];
        if offering_bits == view.offering_bits || !view.daemons.are_partial() {
            return absent;
        }
        // Asked for each pod that is tried on a node: the DaemonSets are looked at once for each way of buying one.
        let mut known = self.absent_by_offerings.borrow_mut();
        let by_offerings = known.entry((pool, offering_bits));
        absent | *by_offerings.or_insert_with(|| view.daemons.absent(view, &self.anything, offering_bits))
    }

    /// The kind of a pool's nodes on which some of its DaemonSets are absent, and which are bought in these ways.
    pub fn kind(&self, pool: PoolId, absent: u64, offering_bits: Mask) -> NodeKind {
        self.fits.kind(pool, &self.pools[pool], self.absent(pool, absent, offering_bits))
    }

    /// Room for pods on nodes of a kind, by type.
    pub fn fit(&self, kind: NodeKind) -> &Fit {
        self.fits.fit(kind, &self.pools[kind.pool])
    }

    /// Keeps the types of a pool whose nodes hold these requests beside the daemons there; of a node group all or none.
    pub fn fitting(&self, kind: NodeKind, requests: &[i64], types: &mut Bits) {
        let view = &self.pools[kind.pool];
        self.fit(kind).retain_fitting(requests, types);
        if view.is_group && types.count() < view.types.count() {
            types.clear();
        }
    }

    /// Room for pods on a node of a type.
    pub fn room(&self, kind: NodeKind, at: InstanceTypeId) -> &[i64] {
        self.fit(kind).room(at)
    }

    /// The weight of a pool, by its place here.
    pub fn weight(&self, pool: PoolId) -> i32 {
        self.problem.node_pools[self.pools[pool].index].weight
    }

    /// True if another pool has the same weight: they come one after the other.
    pub fn has_equals(&self, pool: PoolId) -> bool {
        let same = |other: usize| other < self.pools.len() && self.weight(PoolId::from(other)) == self.weight(pool);
        same(pool.index() + 1) || pool.index().checked_sub(1).is_some_and(same)
    }

    /// Number of ways in which a class's volumes can be had: as many of its alternatives differ in that alone.
    pub fn volume_ways(&self, class: ClassId) -> usize {
        self.classes[class].example(self.problem).volume_topology.len().max(1)
    }

    /// Node rules of a class on new nodes.
    pub fn node_rules(&self, class: ClassId) -> &NodeRules {
        &self.topology.node_rules[self.topology.of_class[class].new_node_rules]
    }

    /// True if a class's pods have to be on a node with others, and are such themselves.
    pub fn is_own_pod_affinity(&self, class: ClassId) -> bool {
        let pod_affinity = &self.topology.of_class[class].pod_affinity;
        !pod_affinity.is_empty() && pod_affinity.iter().all(|group| self.node_rules(class).is_member(*group))
    }

    /// Node rules of a class on existing nodes: soft rules bind nobody else.
    pub fn hard_node_rules(&self, class: ClassId) -> &NodeRules {
        &self.topology.node_rules[self.topology.of_class[class].node_rules]
    }

    /// Node rules of a class by one of its alternatives on existing nodes, soft rules kept.
    pub fn node_rules_there(&self, class: ClassId, alternative: TierId) -> &NodeRules {
        let tier = self.topology.of_class[class].tier(alternative);
        &self.topology.node_rules[tier.node_rules]
    }

    /// A zero amount of every resource.
    pub fn nothing(&self) -> Amounts {
        Amounts::from_elem(0, self.names.0.len())
    }
}
