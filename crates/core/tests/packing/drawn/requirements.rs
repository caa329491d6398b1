//! The requirement algebra against a model that tries every value.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use dovetail_core::requirements::likely_typo;
use dovetail_core::{NodeSelectorRequirement, Operator, Requirement, Requirements};
use proptest::prelude::*;

/// Every value a label can take in the model: integers around the bounds used, words, and one nobody mentions.
const UNIVERSE: [&str; 12] = ["0", "1", "2", "3", "4", "5", "6", "a", "b", "c", "d", "nobody-mentions-this"];

fn written() -> impl Strategy<Value = NodeSelectorRequirement> {
    let values = prop::collection::btree_set(prop::sample::select(&UNIVERSE[..11]), 1..4);
    (prop::sample::select(&Operator::ALL[..]), values, -1i64..6).prop_map(|(operator, values, bound)| {
        let values: Vec<String> = match operator {
            Operator::In | Operator::NotIn => values.into_iter().map(str::to_owned).collect(),
            Operator::Exists | Operator::DoesNotExist => vec![],
            _ => vec![bound.to_string()],
        };
        NodeSelectorRequirement::new("key", operator, values)
    })
}

/// The rule of the Kubernetes documentation for a label that is there.
fn satisfied(written: &NodeSelectorRequirement, value: &str) -> bool {
    let listed = written.values.iter().any(|one| one == value);
    let compare = |holds: fn(i64, i64) -> bool| {
        value.parse().is_ok_and(|value: i64| holds(value, written.values[0].parse().unwrap()))
    };
    match written.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => true,
        Operator::DoesNotExist => false,
        Operator::Gt => compare(|a, b| a > b),
        Operator::Lt => compare(|a, b| a < b),
        Operator::Gte => compare(|a, b| a >= b),
        Operator::Lte => compare(|a, b| a <= b),
    }
}

fn allowed(requirement: &Requirement) -> BTreeSet<&'static str> {
    UNIVERSE.into_iter().filter(|value| requirement.has(value)).collect()
}

proptest! {
    #[test]
    fn a_requirement_allows_what_it_says(one in written()) {
        let requirement = Requirement::from_written(&one).unwrap();
        for value in UNIVERSE {
            prop_assert_eq!(requirement.has(value), satisfied(&one, value), "{} {}", one, value);
        }
    }

    #[test]
    fn an_intersection_allows_what_all_allow(all in prop::collection::vec(written(), 1..5)) {
        let requirements = Requirements::from_written(&all).unwrap();
        for value in UNIVERSE {
            let every = all.iter().all(|one| satisfied(one, value));
            prop_assert_eq!(requirements.get("key").unwrap().has(value), every, "{:?} {}", all, value);
        }
    }

    #[test]
    fn absent_label_is_allowed_exactly_if_every_requirement_allows(all in prop::collection::vec(written(), 1..5)) {
        let without = |one: &NodeSelectorRequirement| matches!(one.operator, Operator::NotIn | Operator::DoesNotExist);
        let requirements = Requirements::from_written(&all).unwrap();
        prop_assert_eq!(requirements.get("key").unwrap().allows_absence(), all.iter().all(without), "{:?}", all);
    }

    #[test]
    fn intersection_is_commutative_and_associative(a in written(), b in written(), c in written()) {
        let [a, b, c] = [a, b, c].map(|one| Requirement::from_written(&one).unwrap());
        prop_assert_eq!(allowed(&a.intersect(&b)), allowed(&b.intersect(&a)));
        prop_assert_eq!(allowed(&a.intersect(&b).intersect(&c)), allowed(&a.intersect(&b.intersect(&c))));
    }

    #[test]
    fn two_intersect_exactly_when_a_value_satisfies_both(a in written(), b in written()) {
        let [a, b] = [a, b].map(|one| Requirement::from_written(&one).unwrap());
        let common = !allowed(&a.intersect(&b)).is_empty();
        // Complements without an upper bound reach beyond the model's universe.
        if common { prop_assert!(a.intersects(&b)); }
        if !a.is_complement() || !b.is_complement() { prop_assert_eq!(a.intersects(&b), common); }
        prop_assert_eq!(a.intersects(&b), b.intersects(&a));
    }

    #[test]
    fn what_is_written_back_allows_the_same(all in prop::collection::vec(written(), 1..5)) {
        let first = Requirements::from_written(&all).unwrap();
        let again = Requirements::from_written(&first.to_written()).unwrap();
        prop_assert_eq!(allowed(first.get("key").unwrap()), allowed(again.get("key").unwrap()));
    }
}

fn one(key: &str, operator: Operator, values: &[&str]) -> Requirements {
    Requirements::from_written(&[NodeSelectorRequirement::new(key, operator, values.iter().copied())]).unwrap()
}

#[test]
fn undefined_key_is_compatible_only_if_optional_or_well_known() {
    let node = one("team", Operator::In, &["a"]);
    let zone = one("topology.kubernetes.io/zone", Operator::In, &["us-east-1a"]);
    let known = BTreeSet::from(["topology.kubernetes.io/zone".to_owned()]);
    assert!(node.compatible(&zone, &BTreeSet::new()).is_err());
    assert!(node.compatible(&zone, &known).is_ok());
    assert!(node.compatible(&one("other", Operator::NotIn, &["x"]), &known).is_ok());
    assert!(node.compatible(&one("other", Operator::DoesNotExist, &[]), &known).is_ok());
    let error = node.compatible(&one("taem", Operator::Exists, &[]), &known).unwrap_err().to_string();
    assert_eq!(error, "label taem is not defined");
    let error = node.compatible(&one("topology.kubernetes.io/zon", Operator::Exists, &[]), &known).unwrap_err();
    assert!(error.to_string().contains("did you mean topology.kubernetes.io/zone?"), "{error}");
}

#[test]
fn two_that_may_both_be_absent_never_conflict() {
    let absent = one("team", Operator::DoesNotExist, &[]);
    assert!(absent.intersects(&one("team", Operator::NotIn, &["a"])).is_ok());
    assert!(absent.intersects(&one("team", Operator::Exists, &[])).is_err());
}

#[test]
fn old_keys_mean_the_stable_ones() {
    let labels = BTreeMap::from([("beta.kubernetes.io/arch".to_owned(), "arm64".to_owned())]);
    assert!(Requirements::from_labels(&labels).get("kubernetes.io/arch").unwrap().has("arm64"));
}

#[test]
fn min_values_survive_and_the_larger_one_counts() {
    let mut two = NodeSelectorRequirement::new("family", Operator::Exists, Vec::<String>::new());
    two.min_values = Some(2);
    let three = NodeSelectorRequirement { min_values: Some(3), ..two.clone() };
    let both = Requirements::from_written(&[two, three]).unwrap();
    assert_eq!(both.to_written()[0].min_values, Some(3));
}

#[test]
fn values_that_do_not_suit_the_operator_are_refused() {
    for (operator, values) in [
        (Operator::In, vec![]),
        (Operator::Exists, vec!["x"]),
        (Operator::Gt, vec!["x"]),
        (Operator::Lt, vec!["1", "2"]),
    ] {
        assert!(Requirement::from_written(&NodeSelectorRequirement::new("key", operator, values)).is_err());
    }
    let top = NodeSelectorRequirement::new("key", Operator::Gt, [i64::MAX.to_string()]);
    assert!(Requirement::from_written(&top).unwrap().is_empty());
}

#[test]
fn a_typo_is_recognised_and_a_stranger_is_not() {
    let known = ["karpenter.k8s.aws/instance-family", "kubernetes.io/arch"];
    assert_eq!(likely_typo("karpenter.k8s.aws/instance-famly", known).as_deref(), Some(known[0]));
    assert_eq!(likely_typo("beta.io/arch", known).as_deref(), Some(known[1]));
    assert_eq!(likely_typo("example.com/colour", known), None);
}
