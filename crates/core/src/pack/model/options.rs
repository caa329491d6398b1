//! Choice of the instance types that a planned node keeps as options.

use std::collections::BTreeSet;

use smallvec::SmallVec;

use super::bits::Bits;
use super::context::Context;
use super::ids::{InstanceTypeId, PoolId, StatementId};
use super::numbers::{float_of_count, len_of};
use super::offers::Mask;
use crate::labels;
use crate::pack::place::planned_node::PlannedNode;
use crate::problem::{MinValuesPolicy, Policy};
use crate::requirements::Requirements;

/// Number of distinct values that a node's types have to offer, in the order of the pool's `minValues`.
pub(crate) type Least = SmallVec<[u32; 2]>;

/// True if the types offer as many distinct values as the pool's `minValues` demand, or need not.
pub(crate) fn enough_values(context: &Context<'_>, pool: PoolId, types: &Bits, offering_bits: Mask) -> bool {
    let view = &context.pools[pool];
    view.min_values.is_empty()
        || context.problem.min_values_policy == MinValuesPolicy::BestEffort
        || enough_of(context, pool, types, offering_bits, &written(context, pool))
}

/// True if the types offer at least as many distinct values as `least` demands.
pub(crate) fn enough_of(context: &Context<'_>, pool: PoolId, types: &Bits, offering_bits: Mask, least: &Least) -> bool {
    least.is_empty() || {
        // Each type's values are looked up by name.
        if !context.work(types.count() * least.len()) {
            return false;
        }
        let mut values = Values::new(context, pool, offering_bits, least);
        types.iter().for_each(|at| {
            values.add(at);
        });
        values.enough()
    }
}

/// Numbers of values that a node which is opened with these types has to keep: the written ones or, with the best effort, as
/// many of them as the types can offer.
pub(crate) fn least_of(context: &Context<'_>, pool: PoolId, types: &Bits, offering_bits: Mask) -> Least {
    let least = written(context, pool);
    if least.is_empty() || context.problem.min_values_policy == MinValuesPolicy::Strict {
        return least;
    }
    let mut values = Values::new(context, pool, offering_bits, &least);
    types.iter().for_each(|at| {
        values.add(at);
    });
    values.reached()
}

/// Lowers the `minValues` of a claim's requirements to the number that the types kept offer; true if any was lowered.
pub(crate) fn lower(
    context: &Context<'_>,
    planned: &PlannedNode,
    kept: &[InstanceTypeId],
    all: &mut Requirements,
) -> bool {
    let least = written(context, planned.pool);
    if least.is_empty() || context.problem.min_values_policy == MinValuesPolicy::Strict {
        return false;
    }
    let mut values = Values::new(context, planned.pool, planned.offering_bits, &least);
    kept.iter().for_each(|at| {
        values.add(*at);
    });
    let mut lowered = false;
    for ((key, written), reached) in context.pools[planned.pool].min_values.iter().zip(values.reached()) {
        // One at least, as there is a node.
        let reached = reached.max(1);
        let Some(own) = all.get(key).cloned().filter(|_| reached < *written) else { continue };
        all.remove(key);
        all.add(key, own.with_min_values(reached));
        lowered = true;
    }
    lowered
}

fn written(context: &Context<'_>, pool: PoolId) -> Least {
    context.pools[pool].min_values.iter().map(|(_, least)| *least).collect()
}

/// The options of a node, and the number of types that are none for their price alone.
pub(crate) struct Chosen {
    /// Instance types that are kept, cheapest first.
    pub kept: Vec<InstanceTypeId>,
    /// Number of types that are too dear ([`crate::pack::PlannedClaim::too_dear`]).
    pub too_dear: usize,
}

/// The options of a planned node, cheapest first: common types where there are any. Under `cost` those near the price of the
/// cheapest, and more, the next cheapest, until there are enough types in enough families; under `fewest-nodes` all. None costs
/// more than the ceiling allows, nor do all together on average, unless `minValues` need it, and there are never more than the
/// options' bound. A list that is `whole` was chosen already, and stays.
pub(crate) fn choose(context: &Context<'_>, planned: &PlannedNode, policy: Policy, whole: bool) -> Chosen {
    let (pool, offering_bits) = (planned.pool, planned.offering_bits);
    let types = if whole { planned.types.clone() } else { common(context, planned) };
    let bought = context.bought(offering_bits);
    let order: Vec<InstanceTypeId> = bought.order.iter().copied().filter(|at| types.has(*at)).collect();
    let limits = context.options;
    let Some(first) = order.first() else { return Chosen { kept: order, too_dear: 0 } };
    let cheapest = bought.price[*first];
    let most = match policy {
        Policy::NodeGroups => f64::INFINITY,
        _ if whole => f64::INFINITY,
        Policy::Cost | Policy::FewestNodes => {
            limits.max_option_price.factor_for(&context.problem.instance_types[*first])
        }
    };
    // Only the price policy cares for how near the cheapest an option is.
    let near = if policy == Policy::Cost { most.min(limits.price_spread) } else { most };
    let within = |at: InstanceTypeId, times: f64| bought.price[at] <= cheapest * times * (1.0 + 1e-12);
    let spot = offering_bits & context.spot_bits();
    let mut values = Values::new(context, pool, offering_bits, &written(context, pool));
    let mut families = Families::new(context);
    let mut kept = Vec::new();
    let mut later = Vec::new();
    let (mut varied, mut too_dear, mut sum) = (0, 0, 0.0);
    // A hair more than the setting, so that noise never makes equal prices differ.
    let mean = if whole { f64::INFINITY } else { limits.max_option_price.mean() * cheapest * (1.0 + 1e-12) };
    for at in order {
        // Variety is for spot: a type without spot here adds nothing to it.
        let may_be_spot = spot == 0 || context.offers.available(at) & spot != 0;
        let few = varied < limits.spot_types && may_be_spot;
        let alike = families.count() < limits.spot_families && may_be_spot && !families.knows(at);
        let wanted = within(at, near) || few || alike;
        let price = bought.price[at];
        // An option beyond the near ones must leave the mean of all within its bound, as any of them may be
        // launched.
        let worth = within(at, near) || within(at, most) && sum + price <= mean * float_of_count(kept.len() + 1);
        if kept.len() < limits.most_types && wanted && worth {
            kept.push(at);
            sum += price;
            values.add(at);
            if may_be_spot {
                varied += 1;
                families.add(at);
            }
        } else {
            // Counted for the reason that the claim gives: variety wanted it, and its price forbade it.
            too_dear += usize::from(wanted && !worth);
            later.push(at);
        }
    }
    if !values.enough() {
        add_missing_values(&mut values, &mut kept, later, limits.most_types);
        let price = |at: &InstanceTypeId| bought.price[*at];
        kept.sort_by(|a, b| price(a).total_cmp(&price(b)));
    }
    Chosen { kept, too_dear }
}

/// The types of a planned node without bare metal, devices and what else is uncommon, each as long as others are left. An
/// uncommon type stays where the pool or a pod names it, its family or its generation. Where a pool has `minValues`, all
/// stay: upstream counts them among the values (aws spec 4.1).
pub(crate) fn common(context: &Context<'_>, planned: &PlannedNode) -> Bits {
    let view = &context.pools[planned.pool];
    let mut types = planned.types.clone();
    types.and(&context.bought(planned.offering_bits).types);
    if view.is_group || !view.min_values.is_empty() {
        return types;
    }
    let (rare, uncommon) = (&context.rare, &context.rare.uncommon);
    for special in [&rare.bare_metal, &rare.devices] {
        leave_out(&mut types, special);
    }
    let mut unasked = uncommon.clone();
    // Uncommon types count only if they are among these.
    unasked.and(&types);
    if !unasked.is_empty() {
        for at in unasked.clone().iter().filter(|at| is_named(context, planned, *at)) {
            unasked.remove(at);
        }
        leave_out(&mut types, &unasked);
    }
    types
}

/// Takes `those` out of the types unless there are no others.
fn leave_out(types: &mut Bits, those: &Bits) {
    let mut rest = types.clone();
    rest.without(those);
    if !rest.is_empty() {
        *types = rest;
    }
}

/// True if the pool or a pod of the node lists a type by its name, its family or its generation.
fn is_named(context: &Context<'_>, planned: &PlannedNode, at: InstanceTypeId) -> bool {
    let sets = planned.shares.iter().map(|share| &context.sets[share.set]);
    let asked: Vec<_> = std::iter::once(&context.pools[planned.pool].requirements).chain(sets).collect();
    let lists = |key: &str, value: &str| {
        let all = asked.iter().filter_map(|one| one.get(key));
        all.filter(|one| !one.is_complement()).any(|one| one.has(value))
    };
    let one = &context.problem.instance_types[at];
    lists(labels::INSTANCE_TYPE, &one.name)
        || [labels::INSTANCE_FAMILY, labels::INSTANCE_GENERATION].into_iter().any(|key| {
            let own = one.requirements.iter().filter(|said| said.key == key);
            own.flat_map(|said| &said.values).any(|value| lists(key, value))
        })
}

/// The types that are used only if there are no others.
#[derive(Debug)]
pub(crate) struct Rare {
    bare_metal: Bits,
    devices: Bits,
    uncommon: Bits,
}

impl Rare {
    /// Reads the types of a problem.
    pub fn from_types(types: &[std::sync::Arc<crate::InstanceType>]) -> Self {
        let with = |is: fn(&crate::InstanceType) -> bool| {
            let mut bits = Bits::empty(types.len());
            let such = types.iter().enumerate().filter(|(_, one)| is(one));
            such.for_each(|(at, _)| bits.insert(InstanceTypeId::from(at)));
            bits
        };
        Self {
            bare_metal: with(crate::InstanceType::is_bare_metal),
            devices: with(crate::InstanceType::has_devices),
            uncommon: with(|one| one.uncommon),
        }
    }
}

/// True if enough types in enough families can be spot among `types`, or spot is out of the question.
pub(crate) fn varied_enough(context: &Context<'_>, types: &Bits, offering_bits: Mask) -> bool {
    let spot = offering_bits & context.spot_bits();
    if spot == 0 {
        return true;
    }
    let mut spot_types = types.clone();
    spot_types.and(&context.bought(spot).types);
    if spot_types.count() < context.options.spot_types {
        return false;
    }
    let mut families = Families::new(context);
    spot_types.iter().any(|at| {
        families.add(at);
        families.count() >= context.options.spot_families
    })
}

/// Adds types that offer a value still missing, cheapest first, and makes room at the dear end where there is none.
fn add_missing_values(
    values: &mut Values<'_, '_>,
    kept: &mut Vec<InstanceTypeId>,
    later: Vec<InstanceTypeId>,
    most: usize,
) {
    let mut added = Vec::new();
    for at in later {
        if values.enough() {
            break;
        }
        if values.add(at) {
            added.push(at);
        }
    }
    kept.truncate(most.saturating_sub(added.len()));
    kept.extend(added);
}

/// The distinct values seen of the keys with `minValues`.
struct Values<'c, 'a> {
    context: &'c Context<'a>,
    offering_bits: Mask,
    demands: Vec<(&'c str, u32, BTreeSet<String>)>,
}

impl<'c, 'a> Values<'c, 'a> {
    fn new(context: &'c Context<'a>, pool: PoolId, offering_bits: Mask, least: &Least) -> Self {
        let demands = context.pools[pool].min_values.iter().zip(least);
        let demands = demands.map(|((key, _), least)| (key.as_str(), *least, BTreeSet::new())).collect();
        Self { context, offering_bits, demands }
    }

    /// Adds a type; true if it brought a value that was missing.
    fn add(&mut self, at: InstanceTypeId) -> bool {
        let mut new = false;
        for (key, least, seen) in &mut self.demands {
            if seen.len() >= len_of(*least) {
                continue;
            }
            let before = seen.len();
            match self.context.columns.get(key) {
                _ if *key == labels::ZONE || *key == labels::CAPACITY_TYPE => {
                    let mask = self.context.offers.available(at) & self.offering_bits;
                    let offering_bits = self.context.offers.within(mask);
                    seen.extend(offering_bits.map(|(_, offering_bit)| offering_bit.label(key).to_owned()));
                }
                Some(column) => {
                    let statement = column.statement(at).filter(|statement| !statement.is_complement());
                    seen.extend(statement.into_iter().flat_map(|one| one.values().map(str::to_owned)));
                }
                None => {}
            }
            new |= seen.len() > before;
        }
        new
    }

    /// Number of values seen of each key, up to the demanded one; none where no type states the key.
    fn reached(&self) -> Least {
        let seen = self.demands.iter();
        seen.map(|(_, least, seen)| (*least).min(u32::try_from(seen.len()).unwrap_or(u32::MAX))).collect()
    }

    fn enough(&self) -> bool {
        self.demands.iter().all(|(_, least, seen)| seen.len() >= len_of(*least))
    }
}

/// The instance families seen: by label, or by the part of the name before the point.
struct Families<'c, 'a> {
    context: &'c Context<'a>,
    column: Option<std::rc::Rc<super::columns::Column>>,
    seen: BTreeSet<StatementId>,
    named: BTreeSet<&'c str>,
}

impl<'c, 'a> Families<'c, 'a> {
    fn new(context: &'c Context<'a>) -> Self {
        let column = context.columns.get(labels::INSTANCE_FAMILY);
        Self { context, column, seen: BTreeSet::new(), named: BTreeSet::new() }
    }

    fn name(&self, at: InstanceTypeId) -> &'c str {
        let name = &self.context.problem.instance_types[at].name;
        name.split_once('.').map_or(name.as_str(), |(family, _)| family)
    }

    fn knows(&self, at: InstanceTypeId) -> bool {
        match &self.column {
            Some(column) => self.seen.contains(&column.entry(at)),
            None => self.named.contains(self.name(at)),
        }
    }

    fn add(&mut self, at: InstanceTypeId) {
        match &self.column {
            Some(column) => self.seen.insert(column.entry(at)),
            None => self.named.insert(self.name(at)),
        };
    }

    fn count(&self) -> usize {
        self.seen.len() + self.named.len()
    }
}
