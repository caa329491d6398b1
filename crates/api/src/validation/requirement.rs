//! One requirement of a pool or a claim.

use super::{UNRESTRICTED, Wrong, label_key, label_value};
use crate::names::{alias, labels};
use crate::v1::NodeSelectorOperator;

/// A requirement as it is written.
#[derive(Clone, Debug)]
pub struct WrittenRequirement<'a> {
    /// Key of the label.
    pub key: &'a str,
    /// The sense in which the values are meant.
    pub operator: NodeSelectorOperator,
    /// As written, in their order.
    pub values: &'a [&'a str],
    /// `minValues`, where it is written.
    pub min_values: Option<i64>,
    /// True for a requirement of a claim, which may name its pool.
    pub of_claim: bool,
}

/// The part of a requirement that has a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequirementPart {
    /// `key`.
    Key,
    /// `values`.
    Values,
    /// One of the values.
    Value(usize),
    /// `minValues`.
    MinValues,
}

/// All that is wrong with a requirement.
pub fn requirement(written: &WrittenRequirement<'_>) -> Vec<(RequirementPart, Wrong)> {
    let mut found = Vec::new();
    let WrittenRequirement { key, operator, values, .. } = *written;
    if let Some(wrong) = key_of(written) {
        found.push((RequirementPart::Key, wrong));
    }
    for (index, value) in values.iter().enumerate() {
        found.extend(label_value(value).map(|wrong| (RequirementPart::Value(index), wrong)));
    }
    match operator {
        NodeSelectorOperator::In if values.is_empty() => {
            found.push((RequirementPart::Values, Wrong::new("operator In has no value", "one value or more")));
        }
        NodeSelectorOperator::Exists | NodeSelectorOperator::DoesNotExist if !values.is_empty() => {
            found.push((RequirementPart::Values, Wrong::new(format!("operator {operator} has values"), "no values")));
        }
        _ if operator.is_numeric() => {
            let number = values.first().is_some_and(|value| value.parse::<u32>().is_ok() && !value.starts_with('+'));
            if values.len() != 1 || !number {
                let what = format!("operator {operator} needs one integer, {values:?} is none");
                found.push((RequirementPart::Values, Wrong::new(what, "one integer, 0 or more")));
            }
        }
        _ => {}
    }
    found.extend(counts(written, alias::normalize(key)));
    found
}

fn key_of(written: &WrittenRequirement<'_>) -> Option<Wrong> {
    let key = written.key;
    if let wrong @ Some(_) = label_key(key) {
        return wrong;
    }
    let stable = alias::normalize(key);
    let exempt = matches!(stable, labels::INSTANCE_PODS | labels::INSTANCE_AMI_ID)
        || (written.of_claim && stable == labels::NODE_POOL);
    let restriction = labels::restriction(stable).filter(|_| !exempt);
    restriction.map(|why| Wrong::new(why, UNRESTRICTED))
}

fn counts(written: &WrittenRequirement<'_>, key: &str) -> Vec<(RequirementPart, Wrong)> {
    let (values, least) = (written.values, written.min_values);
    let mut found = Vec::new();
    if let Some(least) = least.filter(|least| !(1..=50).contains(least)) {
        found.push((RequirementPart::MinValues, Wrong::new(format!("is {least}"), "1 to 50")));
        return found;
    }
    if written.operator != NodeSelectorOperator::In || values.is_empty() {
        return found;
    }
    let least = least.and_then(|least| usize::try_from(least).ok()).unwrap_or(0);
    if least > values.len() {
        let what = format!("asks for {least} values of {}", values.len());
        found.push((RequirementPart::MinValues, Wrong::new(what, format!("{} at most", values.len()))));
    }
    if key == labels::CAPACITY_TYPE {
        let known = values.iter().filter(|value| labels::CAPACITY_TYPES.contains(value)).count();
        if known == 0 || known < least {
            let what = format!("{values:?} are no capacity types");
            found.push((RequirementPart::Values, Wrong::new(what, labels::CAPACITY_TYPES.join(", "))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(
        key: &str,
        operator: NodeSelectorOperator,
        values: &[&str],
        min_values: Option<i64>,
    ) -> Vec<RequirementPart> {
        let written = WrittenRequirement { key, operator, values, min_values, of_claim: false };
        requirement(&written).into_iter().map(|(part, _)| part).collect()
    }

    #[test]
    fn each_rule_has_its_part() {
        use NodeSelectorOperator::{DoesNotExist, Exists, Gt, In, Lte, NotIn};
        let long = "a".repeat(64);
        for (key, operator, values, min_values, expected) in [
            ("team", In, &["a"][..], None, None),
            ("team", Exists, &[], None, None),
            ("team", Gt, &["0"], None, None),
            ("team", NotIn, &["a", ""], None, None),
            ("karpenter.sh/capacity-type", In, &["spot", "other"], None, None),
            ("a b", In, &["a"], None, Some(RequirementPart::Key)),
            ("", Exists, &[], None, Some(RequirementPart::Key)),
            ("kubernetes.io/hostname", In, &["a"], None, Some(RequirementPart::Key)),
            ("karpenter.sh/nodepool", In, &["a"], None, Some(RequirementPart::Key)),
            ("karpenter.sh/registered", Exists, &[], None, Some(RequirementPart::Key)),
            ("team", In, &["a", "b c"], None, Some(RequirementPart::Value(1))),
            ("team", NotIn, &[&long], None, Some(RequirementPart::Value(0))),
            ("team", In, &[], None, Some(RequirementPart::Values)),
            ("team", Exists, &["a"], None, Some(RequirementPart::Values)),
            ("team", DoesNotExist, &["a"], None, Some(RequirementPart::Values)),
            ("team", Gt, &["x"], None, Some(RequirementPart::Values)),
            ("team", Lte, &["1", "2"], None, Some(RequirementPart::Values)),
            ("team", Gt, &[], None, Some(RequirementPart::Values)),
            ("team", Gt, &["99999999999999999999"], None, Some(RequirementPart::Values)),
            ("team", In, &["a", "b"], Some(3), Some(RequirementPart::MinValues)),
            ("team", Exists, &[], Some(0), Some(RequirementPart::MinValues)),
            ("team", Exists, &[], Some(51), Some(RequirementPart::MinValues)),
            ("karpenter.sh/capacity-type", In, &["other"], None, Some(RequirementPart::Values)),
            ("karpenter.sh/capacity-type", In, &["spot", "other"], Some(2), Some(RequirementPart::Values)),
        ] {
            let found = parts(key, operator, values, min_values);
            assert_eq!(found.first().copied(), expected, "{key} {operator} {values:?} {min_values:?}: {found:?}");
        }
    }

    #[test]
    fn a_claim_may_name_its_pool() {
        let written = WrittenRequirement {
            key: labels::NODE_POOL,
            operator: NodeSelectorOperator::In,
            values: &["a"],
            min_values: None,
            of_claim: true,
        };
        assert!(requirement(&written).is_empty());
    }
}
