//! Zones in which EC2 has refused so much of late that what is left costs too much for a rule that need not be kept: the
//! pods that state one go elsewhere first (docs/decisions/031).

use std::collections::{BTreeMap, BTreeSet};

use super::alternatives::Alternative;
use super::bits::Bits;
use super::classes::Class;
use super::context::Context;
use super::taints;
use crate::labels::{CAPACITY_TYPE, RESERVED, ZONE};
use crate::requirements::{NodeSelectorRequirement, Operator, Requirements};

/// So many times what a pod costs elsewhere it may cost where it had rather be, once EC2 has refused what was cheaper there.
const WORTH: f64 = 1.5;

/// For each class the zones that are asked last; nothing at all where there are none.
pub(super) fn avoided(context: &Context<'_>) -> Vec<BTreeSet<String>> {
    let types = &context.problem.instance_types;
    let mut touched = Bits::empty(types.len());
    let refused = |at: &usize| types[*at].offerings.iter().any(|way| way.refused && way.capacity_type != RESERVED);
    (0..types.len()).filter(refused).for_each(|at| touched.insert(at));
    if touched.is_empty() {
        return vec![];
    }
    // Who has to be on a node with others goes where they can be.
    let topology = &context.topology;
    let free = |at: usize| topology.of_class[at].company.is_empty() && !topology.follows(at);
    let has_a_choice = |at: usize| context.classes[at].alternatives.len() > context.volume_ways(at);
    let classes = 0..context.classes.len();
    let of =
        |at: usize| if has_a_choice(at) && free(at) { sold_out_for(context, at, &touched) } else { BTreeSet::new() };
    let found: Vec<_> = classes.map(of).collect();
    if found.iter().all(BTreeSet::is_empty) { vec![] } else { found }
}

/// The zones that are sold out for a class, by what a pod of it costs in those pools that it would get its node from.
///
/// `touched` are the types of which something is refused.
fn sold_out_for(context: &Context<'_>, at: usize, touched: &Bits) -> BTreeSet<String> {
    let class = &context.classes[at];
    let pools = || (0..context.pools.len()).map(|pool| (pool, of_pool(context, class, pool)));
    if !pools()
        .any(|(pool, sets)| sets.iter().any(|set| !refused_types(context, class, (*set, pool), touched).is_empty()))
    {
        return BTreeSet::new();
    }
    let (mut now, mut refused) = (BTreeMap::new(), BTreeMap::new());
    let mut weight = None;
    for (pool, sets) in pools() {
        if weight.is_some_and(|weight| context.weight(pool) < weight) {
            break;
        }
        for set in sets {
            price_now(context, class, (set, pool), &mut now);
            price_refused(context, class, (set, pool), touched, &mut refused);
        }
        if !now.is_empty() {
            weight = Some(context.weight(pool));
        }
    }
    let Some(most) = now.values().copied().reduce(f64::min).map(|least| least * WORTH) else { return BTreeSet::new() };
    let costs_more = |zone: &&str| now.get(zone).is_none_or(|price| *price > most);
    let cheap = refused.into_iter().filter(|(_, price)| *price <= most).map(|(zone, _)| zone);
    cheap.filter(costs_more).map(str::to_owned).collect()
}

/// The requirement sets of the alternatives by which a class may be on nodes of a pool.
fn of_pool(context: &Context<'_>, class: &Class, pool: usize) -> Vec<u32> {
    let taints = &context.problem.node_pools[context.pools[pool].index].taints;
    let tolerations = &class.example(context.problem).tolerations;
    let open = |one: &&(u32, bool)| taints::untolerated(taints, tolerations, one.1).is_none();
    class.alternatives.iter().filter(open).map(|(set, _)| *set).collect()
}

/// The types of a pool that hold one of a class's pods and of which something is refused.
fn refused_types(context: &Context<'_>, class: &Class, (set, pool): (u32, usize), touched: &Bits) -> Bits {
    let of_set = context.select_types(&context.sets[set as usize], &context.pools[pool]);
    let Some((mut types, _)) = of_set else { return Bits::empty(context.problem.instance_types.len()) };
    types.and(touched);
    context.fitting(pool, &class.first, &mut types);
    types
}

/// What a pod's share of its node costs at least in each zone, where more of its kind may be on the node.
type Shares<'a> = BTreeMap<&'a str, f64>;

fn keep<'a>(shares: &mut Shares<'a>, zone: &'a str, price: f64) {
    let known = shares.entry(zone).or_insert(price);
    *known = known.min(price);
}

/// How many of a class's pods share a node of a type.
fn sharing(context: &Context<'_>, class: &Class, (pool, at): (usize, usize)) -> f64 {
    let fit = context.room(pool, at).iter().zip(&class.requests).filter(|(_, wanted)| **wanted > 0);
    let most = fit.map(|(room, wanted)| room / wanted).min().unwrap_or(1);
    most.clamp(1, class.pods.len() as i64) as f64
}

fn price_now<'a>(context: &'a Context<'_>, class: &Class, (set, pool): (u32, usize), shares: &mut Shares<'a>) {
    let Some(selection) = context.selection(set, pool) else { return };
    let mut types = selection.types.clone();
    context.fitting(pool, &class.first, &mut types);
    for at in types.iter() {
        let sharing = sharing(context, class, (pool, at));
        let cells = context.offers.available(at) & selection.cells;
        for (cell, way) in context.offers.cells.iter().enumerate().filter(|(cell, _)| cells >> cell & 1 == 1) {
            keep(shares, &way.zone, context.offers.cheapest(at, 1 << cell).0 / sharing);
        }
    }
}

fn price_refused<'a>(
    context: &'a Context<'_>,
    class: &Class,
    (set, pool): (u32, usize),
    touched: &Bits,
    shares: &mut Shares<'a>,
) {
    let (wanted, view) = (&context.sets[set as usize], &context.pools[pool]);
    let agrees = |key: &str, value: &str| {
        [wanted, &view.requirements].iter().all(|all| all.get(key).is_none_or(|one| one.has(value)))
    };
    for at in refused_types(context, class, (set, pool), touched).iter() {
        let ways = context.problem.instance_types[at].offerings.iter();
        let refused = ways.filter(|way| way.refused && way.capacity_type != RESERVED);
        for way in refused.filter(|way| agrees(ZONE, &way.zone) && agrees(CAPACITY_TYPE, &way.capacity_type)) {
            keep(shares, &way.zone, way.price / sharing(context, class, (pool, at)));
        }
    }
}

/// A pod's alternatives, those outside of these zones first; where nothing outside will do, they are tried as before.
pub(super) fn elsewhere_first(found: Vec<Alternative>, zones: &BTreeSet<String>) -> Vec<Alternative> {
    let outside = NodeSelectorRequirement::new(ZONE, Operator::NotIn, zones.iter().cloned());
    let Some(outside) = Requirements::from_written([&outside]).ok().filter(|_| !zones.is_empty()) else { return found };
    let mut all = found.clone();
    all.iter_mut().for_each(|one| one.requirements.intersect(&outside));
    all.retain(|one| one.requirements.get(ZONE).is_none_or(|zone| !zone.is_empty()));
    all.extend(found);
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::pack::alternatives::GivenUp;

    #[test]
    fn alternatives_outside_come_first_and_all_of_them_stay() {
        let of = |zones: &[&str]| {
            let zone = NodeSelectorRequirement::one_of(ZONE, zones.iter().copied());
            let requirements = Requirements::from_written((!zones.is_empty()).then_some(&zone)).unwrap();
            Alternative { requirements, forgiving: false, given_up: GivenUp::default() }
        };
        let told = |found: Vec<Alternative>, zones: &[&str]| -> Vec<String> {
            let all = elsewhere_first(found, &zones.iter().map(|zone| (*zone).to_owned()).collect());
            all.iter().map(|one| one.requirements.to_string()).collect()
        };
        let key = ZONE;
        let found = vec![of(&["a"]), of(&["a", "b"]), of(&[])];
        let whole = [format!("{key} In [a]"), format!("{key} In [a, b]"), String::new()];
        assert_eq!(told(found.clone(), &[]), whole);
        let outside = vec![format!("{key} In [b]"), format!("{key} NotIn [a]")];
        assert_eq!(told(found, &["a"]), [outside, whole.to_vec()].concat());
    }
}
