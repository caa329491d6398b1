//! One requirement of a pool or a claim.

use super::{UNRESTRICTED, Wrong, label_key, label_value};
use crate::names::{alias, labels};
use crate::v1::Operator;

/// A requirement as it is written.
#[derive(Clone, Debug)]
pub struct Written<'a> {
    /// Key of the label.
    pub key: &'a str,
    /// How the values are meant.
    pub operator: Operator,
    /// As written, in their order.
    pub values: &'a [&'a str],
    /// `minValues`, where it is written.
    pub min_values: Option<i64>,
    /// Whether it is a claim's, which may name its pool.
    pub of_claim: bool,
}

/// Where in a requirement something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
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
pub fn requirement(written: &Written<'_>) -> Vec<(Part, Wrong)> {
    let mut found = Vec::new();
    let Written { key, operator, values, .. } = *written;
    if let Some(wrong) = key_of(written) {
        found.push((Part::Key, wrong));
    }
    for (index, value) in values.iter().enumerate() {
        found.extend(label_value(value).map(|wrong| (Part::Value(index), wrong)));
    }
    match operator {
        Operator::In if values.is_empty() => {
            found.push((Part::Values, Wrong::new("operator In has no value", "one value or more")));
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            found.push((Part::Values, Wrong::new(format!("operator {operator} has values"), "no values")));
        }
        _ if operator.is_numeric() => {
            let number = values.first().is_some_and(|value| value.parse::<u32>().is_ok() && !value.starts_with('+'));
            if values.len() != 1 || !number {
                let what = format!("operator {operator} needs one integer, {values:?} is none");
                found.push((Part::Values, Wrong::new(what, "one integer, 0 or more")));
            }
        }
        _ => {}
    }
    found.extend(counts(written, alias::normalize(key)));
    found
}

fn key_of(written: &Written<'_>) -> Option<Wrong> {
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

fn counts(written: &Written<'_>, key: &str) -> Vec<(Part, Wrong)> {
    let (values, least) = (written.values, written.min_values);
    let mut found = Vec::new();
    if let Some(least) = least.filter(|least| !(1..=50).contains(least)) {
        found.push((Part::MinValues, Wrong::new(format!("is {least}"), "1 to 50")));
        return found;
    }
    if written.operator != Operator::In || values.is_empty() {
        return found;
    }
    let least = least.and_then(|least| usize::try_from(least).ok()).unwrap_or(0);
    if least > values.len() {
        let what = format!("asks for {least} values of {}", values.len());
        found.push((Part::MinValues, Wrong::new(what, format!("{} at most", values.len()))));
    }
    if key == labels::CAPACITY_TYPE {
        let known = values.iter().filter(|value| labels::CAPACITY_TYPES.contains(value)).count();
        if known == 0 || known < least {
            let what = format!("{values:?} are no capacity types");
            found.push((Part::Values, Wrong::new(what, labels::CAPACITY_TYPES.join(", "))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(key: &str, operator: Operator, values: &[&str], min_values: Option<i64>) -> Vec<Part> {
        let written = Written { key, operator, values, min_values, of_claim: false };
        requirement(&written).into_iter().map(|(part, _)| part).collect()
    }

    #[test]
    fn each_rule_has_its_part() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lte, NotIn};
        let long = "a".repeat(64);
        for (key, operator, values, min_values, expected) in [
            ("team", In, &["a"][..], None, None),
            ("team", Exists, &[], None, None),
            ("team", Gt, &["0"], None, None),
            ("team", NotIn, &["a", ""], None, None),
            ("karpenter.sh/capacity-type", In, &["spot", "other"], None, None),
            ("a b", In, &["a"], None, Some(Part::Key)),
            ("", Exists, &[], None, Some(Part::Key)),
            ("kubernetes.io/hostname", In, &["a"], None, Some(Part::Key)),
            ("karpenter.sh/nodepool", In, &["a"], None, Some(Part::Key)),
            ("karpenter.sh/registered", Exists, &[], None, Some(Part::Key)),
            ("team", In, &["a", "b c"], None, Some(Part::Value(1))),
            ("team", NotIn, &[&long], None, Some(Part::Value(0))),
            ("team", In, &[], None, Some(Part::Values)),
            ("team", Exists, &["a"], None, Some(Part::Values)),
            ("team", DoesNotExist, &["a"], None, Some(Part::Values)),
            ("team", Gt, &["x"], None, Some(Part::Values)),
            ("team", Lte, &["1", "2"], None, Some(Part::Values)),
            ("team", Gt, &[], None, Some(Part::Values)),
            ("team", Gt, &["99999999999999999999"], None, Some(Part::Values)),
            ("team", In, &["a", "b"], Some(3), Some(Part::MinValues)),
            ("team", Exists, &[], Some(0), Some(Part::MinValues)),
            ("team", Exists, &[], Some(51), Some(Part::MinValues)),
            ("karpenter.sh/capacity-type", In, &["other"], None, Some(Part::Values)),
            ("karpenter.sh/capacity-type", In, &["spot", "other"], Some(2), Some(Part::Values)),
        ] {
            let found = parts(key, operator, values, min_values);
            assert_eq!(found.first().copied(), expected, "{key} {operator} {values:?} {min_values:?}: {found:?}");
        }
    }

    #[test]
    fn a_claim_may_name_its_pool() {
        let written = Written {
            key: labels::NODE_POOL,
            operator: Operator::In,
            values: &["a"],
            min_values: None,
            of_claim: true,
        };
        assert!(requirement(&written).is_empty());
    }
}
