//! Devices by place: those that nodes have published, and those that nodes which are not ready, or not there, will have.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::book::DeviceBook;
use super::device::DeviceId;
use super::search::{Devices, Place};
use super::selector::Selectors;
use super::slice::{Pool, Reach, Slice, gather_pools};
use super::templates::{efa_pools, has_efa, learned_pools, nvidia_pools};
use crate::instance_type::InstanceType;
use crate::labels::{INSTANCE_TYPE, NODE_NAME_FIELD};
use crate::problem::Problem;
use crate::requirements::{Requirement, Requirements};

/// Kinds of devices that nodes are launched for though no node has published any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceGates {
    /// NVIDIA's GPUs, by what the catalogue says of the instance types (gate `DRANVIDIAGPU`).
    pub nvidia: bool,
    /// EFA interfaces, likewise (gate `DRAEFA`).
    pub efa: bool,
}

/// An existing node, as far as its devices are concerned.
#[derive(Clone, Debug, Default)]
pub struct DeviceNode {
    /// Name of the Node; `None` while there is none.
    pub name: Option<String>,
    /// True once its drivers have published all that was asked for.
    pub initialized: bool,
}

/// A node that runs and leaves: another one of its type will have its devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceModel {
    /// Name of the Node.
    pub node: String,
    pub instance_type: String,
}

/// All that is known of devices: the book, existing nodes in the problem's order, and further nodes that others may be like.
pub type KnownDevices<'a> = (&'a DeviceBook, &'a [DeviceNode], &'a [DeviceModel]);

/// The devices of all places of a problem.
pub(super) struct Places<'a> {
    problem: &'a Problem,
    gates: DeviceGates,
    models: &'a [DeviceModel],
    /// Slices of each node that is ready, or a model.
    of_node: BTreeMap<&'a str, Vec<&'a Arc<Slice>>>,
    /// Slices that are of no node.
    shared: Vec<&'a Arc<Slice>>,
    /// Devices that claims have and keep.
    taken: BTreeSet<DeviceId>,
    /// Pools of nodes that run, by instance type.
    learned: OnceCell<BTreeMap<&'a str, Vec<Pool>>>,
    /// Devices of a new node, by instance type.
    new: BTreeMap<usize, Arc<Devices>>,
}

impl<'a> Places<'a> {
    /// Places of a problem; `nodes` are its existing ones. Claims are allocated unless all their users are in `leaving`.
    pub fn new(
        problem: &'a Problem,
        (book, nodes, models): KnownDevices<'a>,
        leaving: &BTreeSet<&str>,
        gates: DeviceGates,
    ) -> Self {
        let ready = nodes.iter().filter(|node| node.initialized).filter_map(|node| node.name.as_deref());
        let ready: BTreeSet<&str> = ready.chain(models.iter().map(|model| model.node.as_str())).collect();
        let (mut of_node, mut shared): (BTreeMap<&str, Vec<_>>, Vec<_>) = (BTreeMap::new(), Vec::new());
        for slice in book.slices.all().values() {
            match slice.node() {
                Some(node) if ready.contains(node) => of_node.entry(node).or_default().push(slice),
                // Its node goes, or is represented by what its type will have.
                Some(_) => {}
                None => shared.push(slice),
            }
        }
        let kept = book.claims.all().values().filter_map(|claim| claim.kept_allocation(leaving));
        let taken = kept.flat_map(|allocation| &allocation.devices).cloned().collect();
        Self { problem, gates, models, of_node, shared, taken, learned: OnceCell::new(), new: BTreeMap::new() }
    }

    /// The place of an existing node; `None` where nothing is known of its devices.
    pub fn existing(&mut self, at: usize, node: &DeviceNode, selectors: &mut Selectors) -> Option<Place> {
        let labels = &self.problem.existing_nodes[at].labels;
        if !node.initialized {
            let kind = labels.get(INSTANCE_TYPE)?;
            let kind = self.problem.instance_types.iter().position(|one| one.name == *kind)?;
            return self.of_type(kind, selectors);
        }
        let name = node.name.as_deref()?;
        let slices = self.of_node.get(name).into_iter().flatten().chain(&self.shared).copied();
        let pools = published_pools(slices, name, labels);
        (!pools.is_empty()).then(|| Place::new(Arc::new(Devices::new(pools, selectors)), &self.taken))
    }

    /// The place of a new node of an instance type; `None` if it will have no devices, as far as is known.
    pub fn of_type(&mut self, kind: usize, selectors: &mut Selectors) -> Option<Place> {
        if !self.new.contains_key(&kind) {
            let pools = self.pools_to_come(&self.problem.instance_types[kind]);
            self.new.insert(kind, Arc::new(Devices::new(pools, selectors)));
        }
        let devices = self.new.get(&kind).filter(|devices| !devices.is_empty())?;
        Some(Place::new(devices.clone(), &self.taken))
    }

    /// Pools that a new node of a type can use: as a node of the type has published them, or as the catalogue knows them, and
    /// those that every node can use. Devices for some nodes only are not counted on.
    fn pools_to_come(&self, kind: &InstanceType) -> Vec<Pool> {
        let mut pools = self.learned().get(kind.name.as_str()).cloned().unwrap_or_default();
        let known: BTreeSet<String> = pools.iter().map(|pool| pool.driver.clone()).collect();
        if self.gates.nvidia {
            pools.extend(nvidia_pools(kind).into_iter().filter(|pool| !known.contains(&pool.driver)));
        }
        if self.gates.efa && !pools.iter().any(has_efa) {
            pools.extend(efa_pools(kind));
        }
        if !pools.is_empty() {
            pools.extend(gather_pools(self.shared.iter().copied(), |slice| slice.reach == Reach::Everywhere));
        }
        pools
    }

    /// Pools of nodes that run, by type: of each type the first node, those that leave last.
    fn learned(&self) -> &BTreeMap<&'a str, Vec<Pool>> {
        self.learned.get_or_init(|| {
            let mut all: BTreeMap<&str, Vec<Pool>> = BTreeMap::new();
            let existing = self.problem.existing_nodes.iter();
            let existing = existing.filter_map(|node| Some((node.labels.get(INSTANCE_TYPE)?, &node.name)));
            let models = self.models.iter().map(|model| (&model.instance_type, &model.node));
            for (kind, name) in existing.chain(models) {
                let Some(slices) = self.of_node.get(name.as_str()) else { continue };
                let known = all.entry(kind).or_default();
                let pools = gather_pools(slices.iter().copied(), |slice| slice.reach == Reach::Node(name.clone()));
                for pool in learned_pools(&pools) {
                    // A node in its first minutes, or with a fault, has fewer of them.
                    match known.iter_mut().find(|one| one.driver == pool.driver) {
                        Some(one) if one.devices.len() < pool.devices.len() => *one = pool,
                        Some(_) => {}
                        None => known.push(pool),
                    }
                }
            }
            all
        })
    }
}

/// Pools that a node which is ready can use, of these slices.
pub(super) fn published_pools<'a>(
    slices: impl IntoIterator<Item = &'a Arc<Slice>>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Vec<Pool> {
    let mut own = Requirements::from_labels(labels);
    own.add(NODE_NAME_FIELD, Requirement::one_of([name]));
    let meets = |term: &Requirements| own.compatible(term, &BTreeSet::new()).is_ok();
    gather_pools(slices, |slice| match &slice.reach {
        Reach::Nowhere => false,
        Reach::Everywhere => true,
        Reach::Node(of) => of == name,
        Reach::Terms(terms) => terms.iter().any(meets),
    })
}
