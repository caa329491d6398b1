//! From a planned node to the claim that is answered.

use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::planned_node::PlannedNode;
use crate::labels;
use crate::pack::model::context::Context;
use crate::pack::model::ids::{InstanceTypeId, PoolId, SetId};
use crate::pack::model::options::{Chosen, choose, lower};
use crate::pack::model::plan::{LaunchOption, PlannedClaim};
use crate::problem::Policy;
use crate::requirements::{Requirement, Requirements};

/// Work to write a claim, in steps, beside its types.
const CLAIM: usize = 50;

/// Writes claims, and remembers what it wrote for nodes that differ only in their pods.
pub(crate) struct Finisher<'c, 'a> {
    context: &'c Context<'a>,
    /// Requirements by pool and the distinct requirement sets of its pods.
    bases: FxHashMap<(PoolId, Vec<SetId>), Rc<Requirements>>,
}

impl<'c, 'a> Finisher<'c, 'a> {
    pub fn new(context: &'c Context<'a>) -> Self {
        Self { context, bases: FxHashMap::default() }
    }

    /// The claim of a node, without its pods; `None` if nothing can be launched for it.
    pub fn claim(&mut self, planned: &PlannedNode, policy: Policy) -> Option<PlannedClaim> {
        self.claim_of(planned, policy, false)
    }

    /// The claim of a node whose types are its options, all of them; without its pods.
    pub fn claim_of_all(&mut self, planned: &PlannedNode, policy: Policy) -> Option<PlannedClaim> {
        self.claim_of(planned, policy, true)
    }

    fn claim_of(&mut self, planned: &PlannedNode, policy: Policy, whole: bool) -> Option<PlannedClaim> {
        let context = self.context;
        let view = &context.pools[planned.pool];
        if !context.work(CLAIM + planned.types.count()) {
            return None;
        }
        // The types that may be launched are decided here, and not while pods are added: until now each type was
        // worth keeping.
        let Chosen { kept, too_dear } = choose(context, planned, policy, whole);
        let first = *kept.first()?;
        let bought = context.bought(planned.offering_bits);
        let (price, offering_bit) = context.offers.cheapest(first, planned.offering_bits);
        let offering_bit = &context.offers.offering_bits[offering_bit];
        let price_of = |at: &InstanceTypeId| bought.price[*at];
        let options = kept.iter().map(|at| LaunchOption { instance_type: at.index(), price: price_of(at) });
        let mut requests = context.names.resources(&planned.requests);
        let fit = context.fit(planned.kind(context));
        if !fit.daemons.is_empty() {
            // Daemons differ by type. The claim asks for what surely runs there: the least of each amount over all
            // options.
            let least = kept.iter().map(|at| &fit.daemons[*at]);
            let least = least.fold(None, |least: Option<crate::pack::model::classes::Amounts>, one| match least {
                None => Some(one.clone()),
                Some(least) => Some(least.iter().zip(one).map(|(a, b)| *a.min(b)).collect()),
            });
            requests.add(&context.names.resources(&least.unwrap_or_default()));
        }
        let mut all = self.requirements(planned, &kept);
        let min_values_relaxed = lower(context, planned, &kept, &mut all);
        Some(PlannedClaim {
            pool: view.index,
            pods: vec![],
            requests,
            requirements: all.to_written(),
            min_values_relaxed,
            options: options.collect(),
            too_dear,
            cheapest_zone: offering_bit.zone.clone(),
            cheapest_capacity_type: offering_bit.capacity_type.clone(),
            price,
        })
    }

    fn requirements(&mut self, planned: &PlannedNode, kept: &[InstanceTypeId]) -> Requirements {
        let context = self.context;
        let mut all = Requirements::clone(&self.base(planned));
        let name = |at: &InstanceTypeId| context.problem.instance_types[*at].name.as_str();
        all.add(labels::INSTANCE_TYPE, Requirement::one_of(kept.iter().map(name)));
        let open = kept.iter().fold(0, |mask, at| mask | context.offers.available(*at)) & planned.offering_bits;
        let offering_bits = context.offers.within(open);
        let (zones, capacity_types): (BTreeSet<&str>, BTreeSet<&str>) = offering_bits
            .clone()
            .map(|(_, offering_bit)| (offering_bit.zone.as_str(), offering_bit.capacity_type.as_str()))
            .unzip();
        // Capacity types are those of the options alone: a pool may allow spot where none of these types has it.
        all.add(labels::CAPACITY_TYPE, Requirement::one_of(capacity_types));
        let held: BTreeSet<&str> =
            offering_bits.clone().filter_map(|(_, offering_bit)| offering_bit.reservation()).collect();
        if !held.is_empty() {
            all.add(labels::CAPACITY_RESERVATION_ID, Requirement::one_of(held));
        }
        // Zones are named where the node may not be in all those of its pool's.
        if planned.offering_bits != context.pools[planned.pool].offering_bits {
            all.add(labels::ZONE, Requirement::one_of(zones));
        }
        all
    }

    /// The requirements of the pool and of the pods.
    fn base(&mut self, planned: &PlannedNode) -> Rc<Requirements> {
        // Sets and not pods are the key: nodes with other pods of the same sets share their base.
        let sets: BTreeSet<SetId> = planned.shares.iter().map(|share| share.set).collect();
        let key = (planned.pool, sets.into_iter().collect::<Vec<_>>());
        let context = self.context;
        let build = |key: &(PoolId, Vec<SetId>)| {
            let mut all = context.pools[key.0].requirements.clone();
            key.1.iter().for_each(|set| all.intersect(&context.sets[*set]));
            // A new node has no name yet, so no claim can ask for one.
            all.remove(labels::HOSTNAME);
            all.remove(labels::NODE_NAME_FIELD);
            Rc::new(all)
        };
        Rc::clone(self.bases.entry(key).or_insert_with_key(build))
    }
}
