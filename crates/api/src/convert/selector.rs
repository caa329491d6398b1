//! Alpha's selector maps to terms: keys are tags or `aws-ids`, `aws::ids`, `aws::name`, `aws::owners`; values are lists
//! separated by commas, and a map is the cross product of its values (aws spec 10.2).

use std::collections::BTreeMap;

use crate::v1::{AmiSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm};

/// More terms than this make no class that v1 accepts (30), so expansion stops there.
const MAX_TERMS: usize = 31;

type Selector = BTreeMap<String, String>;

fn list(value: &str) -> impl Iterator<Item = String> + '_ {
    value.split(',').map(str::trim).filter(|part| !part.is_empty()).map(String::from)
}

fn ids(selector: &Selector) -> Option<Vec<String>> {
    let ids: Vec<String> =
        ["aws-ids", "aws::ids"].iter().filter_map(|key| selector.get(*key)).flat_map(|ids| list(ids)).collect();
    (!ids.is_empty()).then_some(ids)
}

/// Every combination of one value for each of the keys.
fn product<'a>(keys: impl Iterator<Item = (&'a String, &'a String)>) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for (key, value) in keys {
        let values: Vec<String> = list(value).collect();
        all = all
            .iter()
            .flat_map(|map| {
                values.iter().map(|value| {
                    let mut map = map.clone();
                    map.insert(key.clone(), value.clone());
                    map
                })
            })
            .take(MAX_TERMS)
            .collect();
    }
    all
}

fn is_tag(key: &str) -> bool {
    !matches!(key, "aws-ids" | "aws::ids" | "aws::name" | "aws::owners")
}

/// Terms of a subnet selector.
pub(super) fn subnets(selector: &Selector) -> Vec<SubnetSelectorTerm> {
    if let Some(ids) = ids(selector) {
        return ids.into_iter().map(|id| SubnetSelectorTerm { id: Some(id), ..Default::default() }).collect();
    }
    let tags = product(selector.iter().filter(|(key, _)| is_tag(key)));
    tags.into_iter().map(|tags| SubnetSelectorTerm { tags, id: None }).collect()
}

/// Terms of a security group selector.
pub(super) fn security_groups(selector: &Selector) -> Vec<SecurityGroupSelectorTerm> {
    if let Some(ids) = ids(selector) {
        return ids.into_iter().map(|id| SecurityGroupSelectorTerm { id: Some(id), ..Default::default() }).collect();
    }
    let tags = product(selector.iter().filter(|(key, _)| is_tag(key)));
    tags.into_iter().map(|tags| SecurityGroupSelectorTerm { tags, ..Default::default() }).collect()
}

/// Terms of an image selector: owners x names x values of tags, or ids.
pub(super) fn images(selector: &Selector) -> Vec<AmiSelectorTerm> {
    if let Some(ids) = ids(selector) {
        return ids.into_iter().map(|id| AmiSelectorTerm { id: Some(id), ..Default::default() }).collect();
    }
    product(selector.iter())
        .into_iter()
        .map(|mut tags| AmiSelectorTerm {
            owner: tags.remove("aws::owners"),
            name: tags.remove("aws::name"),
            tags,
            ..Default::default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(pairs: &[(&str, &str)]) -> Selector {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn names_and_owners_make_their_cross_product() {
        let terms = images(&selector(&[("aws::name", "a,b"), ("aws::owners", "1, amazon")]));
        let pairs: Vec<_> = terms.iter().map(|term| (term.owner.as_deref(), term.name.as_deref())).collect();
        assert_eq!(
            pairs,
            [(Some("1"), Some("a")), (Some("amazon"), Some("a")), (Some("1"), Some("b")), (Some("amazon"), Some("b"))]
        );
    }

    #[test]
    fn ids_stand_alone_and_tags_are_anded() {
        let terms = subnets(&selector(&[("aws-ids", "subnet-1,subnet-2")]));
        assert_eq!(terms.iter().filter_map(|term| term.id.as_deref()).collect::<Vec<_>>(), ["subnet-1", "subnet-2"]);
        let terms = subnets(&selector(&[("a", "1,2"), ("b", "*")]));
        assert_eq!(terms.len(), 2);
        assert_eq!(terms[1].tags, selector(&[("a", "2"), ("b", "*")]));
    }

    #[test]
    fn a_product_does_not_explode() {
        let many = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
        let keys: Vec<(String, String)> = (0..20).map(|n| (format!("k{n}"), many.clone())).collect();
        assert_eq!(subnets(&keys.into_iter().collect()).len(), MAX_TERMS);
    }
}
