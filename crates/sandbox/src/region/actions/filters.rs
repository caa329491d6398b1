//! Filters as EC2's describes take them: names are joined by AND, the values of one name by OR, with `*` and `?`.

use std::collections::BTreeMap;

use crate::faults::glob_matches;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;

pub(crate) type Tags = BTreeMap<String, String>;

/// Something that filters can choose.
pub(crate) trait Filterable {
    /// The values that a filter of this name looks at; `None` if the resource knows no such filter.
    fn values(&self, filter: &str) -> Option<Vec<String>>;
}

#[derive(Debug, Default)]
pub(crate) struct Filters(Vec<(String, Vec<String>)>);

impl Filters {
    /// Reads `Filter.N.Name` and `Filter.N.Value.M`.
    pub fn from_form(form: &FormNode) -> Result<Self, AwsError> {
        let one = |filter: &FormNode| Ok((filter.required("Name")?.to_owned(), filter.strings("Value")));
        form.list("Filter").map(one).collect::<Result<_, _>>().map(Self)
    }

    /// True if a resource with these tags passes them all. `tag:KEY`, `tag-key` and `tag-value` are known to all.
    pub fn pass(&self, resource: &impl Filterable, tags: Option<&Tags>) -> Result<bool, AwsError> {
        for (name, wanted) in &self.0 {
            let has = match of_tags(name, tags) {
                Some(values) => values,
                None => resource.values(name).ok_or_else(|| unknown(name))?,
            };
            if !has.iter().any(|value| wanted.iter().any(|pattern| glob_matches(pattern, value))) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn of_tags(filter: &str, tags: Option<&Tags>) -> Option<Vec<String>> {
    let tags = tags.into_iter().flatten();
    match filter {
        "tag-key" => Some(tags.map(|(key, _)| key.clone()).collect()),
        "tag-value" => Some(tags.map(|(_, value)| value.clone()).collect()),
        _ => {
            let wanted = filter.strip_prefix("tag:")?;
            Some(tags.filter(|(key, _)| *key == wanted).map(|(_, value)| value.clone()).collect())
        }
    }
}

fn unknown(name: &str) -> AwsError {
    AwsError::invalid(format_args!("The filter '{name}' is invalid"))
}

/// One value, for [`Filterable::values`].
pub(crate) fn one(value: impl ToString) -> Option<Vec<String>> {
    Some(vec![value.to_string()])
}

/// A value that may be missing, for [`Filterable::values`].
pub(crate) fn maybe(value: Option<impl ToString>) -> Option<Vec<String>> {
    Some(value.map(|v| v.to_string()).into_iter().collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Thing;
    impl Filterable for Thing {
        fn values(&self, filter: &str) -> Option<Vec<String>> {
            (filter == "colour").then(|| vec!["red".to_owned(), "green".to_owned()])
        }
    }

    fn pass(body: &str) -> Result<bool, AwsError> {
        let tags = Tags::from([("team".to_owned(), "alpha".to_owned())]);
        Filters::from_form(&FormNode::parse(body)).unwrap().pass(&Thing, Some(&tags))
    }

    #[test]
    fn names_are_joined_by_and_and_values_by_or() {
        assert!(pass("Filter.1.Name=colour&Filter.1.Value.1=blue&Filter.1.Value.2=gr*").unwrap());
        assert!(!pass("Filter.1.Name=colour&Filter.1.Value.1=red&Filter.2.Name=tag:team&Filter.2.Value.1=b").unwrap());
        assert!(
            pass("Filter.1.Name=tag-key&Filter.1.Value.1=team&Filter.2.Name=tag:team&Filter.2.Value.1=a*").unwrap()
        );
        assert!(!pass("Filter.1.Name=tag:absent&Filter.1.Value.1=*").unwrap());
    }

    #[test]
    fn an_unknown_filter_is_refused_by_name() {
        let error = pass("Filter.1.Name=size&Filter.1.Value.1=x").unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("InvalidParameterValue", "The filter 'size' is invalid")
        );
    }
}
