//! Zones in which EC2 has refused so much of late that it need not be asked for the rest: pods go elsewhere first, where
//! they may (docs/decisions/031).

use std::collections::{BTreeMap, BTreeSet};

use super::alternatives::Alternative;
use crate::labels::{RESERVED, ZONE};
use crate::problem::Problem;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirements};

/// So many refused offerings make a zone sold out: more than one launch names.
const MANY: usize = 20;
/// And so many times what was refused in the zone with the least: what is scarce everywhere is no zone's fault.
const TIMES: usize = 4;

/// The zones that are sold out. One in which a capacity reservation has instances left is not.
#[must_use]
pub fn sold_out_zones(problem: &Problem) -> BTreeSet<&str> {
    let offerings = || problem.instance_types.iter().flat_map(|one| one.offerings.iter().map(move |way| (one, way)));
    if !offerings().any(|(_, way)| way.refused) {
        return BTreeSet::new();
    }
    let mut refused: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    let mut reserved: BTreeSet<&str> = BTreeSet::new();
    for (one, way) in offerings() {
        let there = refused.entry(&way.zone).or_default();
        if way.capacity_type == RESERVED {
            if way.available && way.reservation_capacity.is_none_or(|left| left > 0) {
                reserved.insert(&way.zone);
            }
        } else if way.refused {
            there.insert((&one.name, &way.capacity_type));
        }
    }
    let least = refused.values().map(BTreeSet::len).min().unwrap_or(0);
    let most = MANY.max(least.saturating_mul(TIMES));
    refused.retain(|zone, there| there.len() >= most && !reserved.contains(zone));
    refused.into_keys().collect()
}

/// A pod's alternatives, those outside of these zones first: what a pod would rather have is worth less than a node, and
/// where it has to be in one of them it is asked for as before.
pub(super) fn elsewhere_first(found: Vec<Alternative>, zones: &BTreeSet<&str>) -> Vec<Alternative> {
    let outside = NodeSelectorRequirement::new(ZONE, Operator::NotIn, zones.iter().copied());
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
    use serde_json::{Value, json};

    use super::*;
    use crate::pack::alternatives::GivenUp;

    /// So many types, each offered in three zones as spot and on demand, of which the first so many are refused in `a` and
    /// in `b`.
    fn problem(types: usize, refused: [usize; 2]) -> Problem {
        let offering = |zone: &str, kind: &str, refused: bool| json!({"zone": zone, "capacityType": kind, "price": 1.0, "available": !refused, "refused": refused});
        let one = |at: usize| {
            let kinds = ["spot", "on-demand"].into_iter().enumerate();
            let offerings: Vec<Value> = kinds
                .flat_map(|(kind, name)| {
                    let nth = 2 * at + kind;
                    [("a", nth < refused[0]), ("b", nth < refused[1]), ("c", false)]
                        .map(|(zone, gone)| offering(zone, name, gone))
                })
                .collect();
            json!({"name": format!("t{at}"), "capacity": {"cpu": "2"}, "offerings": offerings})
        };
        let all: Vec<Value> = (0..types).map(one).collect();
        serde_json::from_value(json!({"nodePools": [], "instanceTypes": all, "pods": []})).unwrap()
    }

    fn sold_out(problem: &Problem) -> Vec<&str> {
        sold_out_zones(problem).into_iter().collect()
    }

    #[test]
    fn a_zone_is_sold_out_from_the_twentieth_refused_offering_on() {
        assert!(sold_out(&problem(30, [0, 0])).is_empty());
        assert!(sold_out(&problem(30, [19, 0])).is_empty());
        assert_eq!(sold_out(&problem(30, [20, 0])), ["a"]);
        assert_eq!(sold_out(&problem(30, [60, 20])), ["a", "b"]);
    }

    #[test]
    fn what_is_refused_everywhere_is_no_zone_s_fault() {
        let mut all = problem(30, [40, 10]);
        assert_eq!(sold_out(&all), ["a"]);
        // Ten in the third as well, and then eleven.
        let refuse = |problem: &mut Problem, types: usize| {
            for one in &mut problem.instance_types[..types] {
                let one = std::sync::Arc::make_mut(one);
                one.offerings.iter_mut().filter(|way| way.zone == "c").for_each(|way| way.refused = true);
            }
        };
        refuse(&mut all, 5);
        assert_eq!(sold_out(&all), ["a"], "four times as many");
        refuse(&mut all, 6);
        assert_eq!(sold_out(&all), ["a"], "of the second there are ten still");
        let mut all = problem(30, [43, 12]);
        refuse(&mut all, 6);
        assert!(sold_out(&all).is_empty());
    }

    #[test]
    fn a_type_that_several_classes_have_counts_once() {
        let mut all = problem(30, [19, 0]);
        let again = all.instance_types.clone();
        all.instance_types.extend(again);
        assert!(sold_out(&all).is_empty());
    }

    #[test]
    fn a_zone_with_reserved_capacity_is_not_sold_out() {
        let reserve = |available: bool, left: u32| {
            let mut all = problem(30, [20, 0]);
            let one = std::sync::Arc::make_mut(&mut all.instance_types[29]);
            let mut way = one.offerings[0].clone();
            (way.capacity_type, way.available, way.reservation_capacity) = ("reserved".into(), available, Some(left));
            one.offerings.push(way);
            sold_out_zones(&all).len()
        };
        assert_eq!([reserve(true, 1), reserve(true, 0), reserve(false, 1)], [0, 1, 1]);
    }

    #[test]
    fn alternatives_outside_come_first_and_all_of_them_stay() {
        let of = |zones: &[&str]| {
            let zone = NodeSelectorRequirement::one_of(ZONE, zones.iter().copied());
            let requirements = Requirements::from_written((!zones.is_empty()).then_some(&zone)).unwrap();
            Alternative { requirements, forgiving: false, given_up: GivenUp::default() }
        };
        let told = |found: Vec<Alternative>, zones: &[&str]| -> Vec<String> {
            let all = elsewhere_first(found, &zones.iter().copied().collect());
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
