//! A NodePool compiled: the requirements of its nodes, the instance types that they may be, and the room of these for pods.

use std::collections::BTreeSet;

use super::bits::Bits;
use super::classes::{Amounts, UNBOUNDED};
use super::columns::{self, Columns};
use super::daemons::counted::PoolDaemons;
use super::daemons::reach::{DaemonLeftOut, DaemonReach};
use super::ids::{IndexVec, InstanceTypeId, PoolId};
use super::names::ResourceNames;
use super::offers::{Mask, Offers};
use super::ranks::Ranks;
use crate::labels;
use crate::pack::limits::LimitsLeft;
use crate::pack::limits::shared::PoolTypes;
use crate::problem::{Policy, Pool, Problem};
use crate::requirements::{Requirement, Requirements};
use crate::volumes::is_attachable;

#[derive(Debug)]
pub(crate) struct PoolView {
    /// Its index in the problem.
    pub index: usize,
    /// Its requirements and labels, its name and that of its node class among them.
    pub requirements: Requirements,
    /// Keys that its labels define on every node.
    pub labels: BTreeSet<String>,
    /// The instance types that its nodes may be.
    pub types: Bits,
    /// The offerings by which they can be bought.
    pub offering_bits: Mask,
    /// The DaemonSets on its nodes.
    pub daemons: PoolDaemons,
    /// Room of each type for pods and DaemonSets, by type, then by resource.
    whole: Vec<i64>,
    /// Keys of `minValues`, each with the number of values that the types kept must offer.
    pub min_values: Vec<(String, u32)>,
    pub limits: LimitsLeft,
    /// True if each of its nodes has to be all its types at once ([`Policy::NodeGroups`]).
    pub is_group: bool,
    /// The reason why it can have no node at all.
    pub broken: Option<String>,
}

/// Reads the pools in the order in which they are tried: weight descending, then name descending (spec core 3.4).
pub(crate) fn pools_in_order(problem: &Problem) -> IndexVec<PoolId, PoolView> {
    let mut order: Vec<usize> = (0..problem.node_pools.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&problem.node_pools[*a], &problem.node_pools[*b]);
        b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name))
    });
    order.into_iter().map(|index| PoolView::from_problem(problem, index)).collect()
}

/// Requirements of a pool, its labels, its name and its node class among them.
pub(crate) fn requirements_of(pool: &Pool) -> Result<Requirements, crate::requirements::RequirementError> {
    let mut all = Requirements::from_written(&pool.requirements)?;
    all.intersect(&Requirements::from_labels(&pool.labels));
    all.add(labels::NODE_POOL, Requirement::one_of([pool.name.as_str()]));
    if let Some(class) = &pool.node_class {
        all.add("karpenter.k8s.aws/ec2nodeclass", Requirement::one_of([class.as_str()]));
    }
    Ok(all)
}

impl PoolView {
    fn from_problem(problem: &Problem, index: usize) -> Self {
        let pool = &problem.node_pools[index];
        let count = problem.instance_types.len();
        let (requirements, broken) = match requirements_of(pool) {
            Ok(all) => (all, None),
            Err(error) => (Requirements::new(), Some(error.to_string())),
        };
        let mut types = match &pool.instance_types {
            None => Bits::full(count),
            Some(listed) => {
                let mut types = Bits::empty(count);
                listed.iter().filter(|at| **at < count).for_each(|at| types.insert(InstanceTypeId::from(*at)));
                types
            }
        };
        if broken.is_some() {
            types = Bits::empty(count);
        }
        let labels: BTreeSet<String> = pool.labels.keys().map(|key| labels::stable(key).to_owned()).collect();
        // Labels are requirements as well: what an instance type says of their keys has to agree.
        let of_types = |key: &str| !matches!(key, labels::ZONE | labels::CAPACITY_TYPE | labels::NODE_POOL);
        let wanted: Vec<_> = requirements.iter().filter(|(key, _)| of_types(key)).collect();
        columns::keep_satisfying(&problem.instance_types, &wanted, &mut types);
        let min_values = requirements.iter().filter_map(|(key, one)| Some((key.to_owned(), one.min_values()?)));
        Self {
            index,
            labels,
            types,
            offering_bits: 0,
            daemons: PoolDaemons::default(),
            whole: vec![],
            min_values: min_values.collect(),
            limits: LimitsLeft::new(&pool.limits, &pool.usage),
            is_group: pool.policy == Policy::NodeGroups,
            requirements,
            broken,
        }
    }

    /// The second half of reading, when offerings and resources are known.
    pub fn finish(
        &mut self,
        (problem, at): (&Problem, PoolId),
        names: &ResourceNames,
        reach: &DaemonReach,
        found: (&Columns<'_>, &Offers),
    ) -> Vec<DaemonLeftOut> {
        let width = names.0.len();
        self.whole = vec![0; width * problem.instance_types.len()];
        for at in self.types.iter() {
            let slot = &mut self.whole[at.index() * width..(at.index() + 1) * width];
            allocatable(&problem.instance_types[at], names, slot);
        }
        let left_out;
        (self.daemons, left_out) = PoolDaemons::new((problem, at, self), reach, names, found, &self.whole);
        let own = PoolTypes { types: &self.types, requirements: &self.requirements, offering_bits: self.offering_bits };
        self.limits.know_types(problem, own, found);
        left_out
    }

    /// Room for pods on nodes from which some of the DaemonSets, as bits, are absent.
    pub fn fit(&self, absent: u64, nothing: &Amounts) -> Fit {
        let count = self.whole.len() / nothing.len().max(1);
        let daemons = self.daemons.taken(absent, &self.types, count, nothing);
        Fit::new(&self.types, nothing.len(), self.whole.clone(), daemons)
    }

    /// The most of each resource that any type has; `None` if there are no types.
    pub fn most(&self, width: usize) -> Option<Amounts> {
        let all = self.types.iter().map(|at| Amounts::from_slice(self.whole(at, width)));
        all.reduce(|mut most, own| {
            most.iter_mut().zip(own).for_each(|(most, own)| *most = (*most).max(own));
            most
        })
    }

    /// Room of a type for pods and DaemonSets.
    pub fn whole(&self, at: InstanceTypeId, width: usize) -> &[i64] {
        &self.whole[at.index() * width..(at.index() + 1) * width]
    }
}

/// Room of a pool's nodes for pods, daemons taken off.
#[derive(Debug)]
pub(crate) struct Fit {
    width: usize,
    room: Vec<i64>,
    /// Requests of daemons, by type; empty when there are none.
    pub daemons: IndexVec<InstanceTypeId, Amounts>,
    ranks: Vec<Ranks>,
    /// Types on which something is below zero already.
    never: Option<Bits>,
}

impl Fit {
    fn new(types: &Bits, width: usize, mut room: Vec<i64>, daemons: IndexVec<InstanceTypeId, Amounts>) -> Self {
        let count = room.len() / width.max(1);
        let mut never = Bits::empty(count);
        for at in types.iter() {
            let slot = &mut room[at.index() * width..(at.index() + 1) * width];
            if let Some(taken) = daemons.get(at) {
                slot.iter_mut().zip(taken).for_each(|(have, taken)| *have = have.saturating_sub(*taken));
            }
            if slot.iter().any(|amount| *amount < 0) {
                never.insert(at);
            }
        }
        let ranks =
            (0..width).map(|resource| Ranks::new(types, count, |at| room[at.index() * width + resource])).collect();
        Self { width, room, daemons, ranks, never: (!never.is_empty()).then_some(never) }
    }

    /// Keeps the types that hold these requests.
    pub fn retain_fitting(&self, requests: &[i64], types: &mut Bits) {
        for (ranks, amount) in self.ranks.iter().zip(requests) {
            if *amount > 0 {
                ranks.retain_at_least(*amount, types);
            }
        }
        if let Some(never) = &self.never {
            types.without(never);
        }
    }

    pub fn room(&self, at: InstanceTypeId) -> &[i64] {
        let first = at.index() * self.width;
        &self.room[first..first + self.width]
    }
}

/// [`crate::InstanceType::allocatable`] for the resources that count, without building maps.
fn allocatable(one: &crate::InstanceType, names: &ResourceNames, out: &mut [i64]) {
    out[names.named().len()..].fill(UNBOUNDED);
    if let Some(lacking) = names.lacking() {
        out[lacking] = 0;
    }
    for (name, slot) in names.named().iter().zip(out.iter_mut()) {
        if is_attachable(name) {
            *slot = one.attachments.find(name).unwrap_or(UNBOUNDED);
            continue;
        }
        *slot = one.capacity.get(name);
        for part in [&one.overhead.kube_reserved, &one.overhead.system_reserved, &one.overhead.eviction_threshold] {
            if !part.is_empty() {
                *slot = slot.saturating_sub(part.get(name));
            }
        }
    }
    let huge = one.capacity.uncommon().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, bytes)| bytes);
    let huge = huge.fold(0, i64::saturating_add);
    out[1] = out[1].saturating_sub(huge);
}
