//! The body of a query request as a tree: `Filter.1.Value.2=x` is the second value of the first filter.

use std::collections::BTreeMap;

use crate::percent::decode_form;
use crate::region::wire::error::AwsError;

/// One step of a name: list members are counted from 1 and stand in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FormStep {
    Index(u32),
    Name(String),
}

/// A node of the tree: a value, or members, or list items.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FormNode {
    value: Option<String>,
    children: BTreeMap<FormStep, FormNode>,
}

static NOTHING: FormNode = FormNode { value: None, children: BTreeMap::new() };

impl FormNode {
    /// Reads `application/x-www-form-urlencoded` text.
    pub fn parse(body: &str) -> Self {
        let mut root = Self::default();
        for pair in body.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            root.insert(&decode_form(name), decode_form(value).into_owned());
        }
        root
    }

    /// Sets the value at a dotted path.
    pub fn insert(&mut self, path: &str, value: String) {
        let mut node = self;
        for step in path.split('.') {
            let step = step.parse().map_or_else(|_| FormStep::Name(step.to_owned()), FormStep::Index);
            node = node.children.entry(step).or_default();
        }
        node.value = Some(value);
    }

    /// The member of that name; an empty node if there is none.
    pub fn get(&self, name: &str) -> &Self {
        self.children.get(&FormStep::Name(name.to_owned())).unwrap_or(&NOTHING)
    }

    /// The node without one of its members.
    pub fn without(&self, name: &str) -> Self {
        let mut copy = self.clone();
        copy.children.remove(&FormStep::Name(name.to_owned()));
        copy
    }

    /// True if nothing is there.
    pub fn is_absent(&self) -> bool {
        self.value.is_none() && self.children.is_empty()
    }

    /// The text of this node.
    pub fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// The text of a member. An empty value is as good as none, as in EC2.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).value().filter(|text| !text.is_empty())
    }

    /// The text of a member that has to be there.
    pub fn required(&self, name: &str) -> Result<&str, AwsError> {
        self.text(name).ok_or_else(|| AwsError::missing(name))
    }

    /// True if a member is `true`.
    pub fn flag(&self, name: &str) -> bool {
        self.text(name).is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// A member that is a whole number.
    pub fn number(&self, name: &str) -> Result<Option<i64>, AwsError> {
        let read = |text: &str| {
            text.parse().map_err(|_| AwsError::invalid(format!("Value ({text}) for parameter {name} is invalid")))
        };
        self.text(name).map(read).transpose()
    }

    /// The items of a list member, in order. `member.N`, as IAM and STS write it, is understood too.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &Self> {
        let list = self.get(name);
        let list = if list.get("member").is_absent() { list } else { list.get("member") };
        list.children.iter().filter(|(step, _)| matches!(step, FormStep::Index(_))).map(|(_, item)| item)
    }

    /// The texts of a list member, in order.
    pub fn strings(&self, name: &str) -> Vec<String> {
        self.list(name).filter_map(Self::value).map(str::to_owned).collect()
    }

    /// Members and items with their names.
    pub fn children(&self) -> impl Iterator<Item = (&FormStep, &Self)> {
        self.children.iter()
    }

    /// All leaves as `path=value` lines, sorted: equal forms have equal texts.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.write_leaves("", &mut text);
        text
    }

    fn write_leaves(&self, path: &str, text: &mut String) {
        if let Some(value) = &self.value {
            text.extend([path, "=", value, "\n"]);
        }
        for (step, child) in &self.children {
            let step = match step {
                FormStep::Index(number) => number.to_string(),
                FormStep::Name(name) => name.clone(),
            };
            let path = if path.is_empty() { step } else { format!("{path}.{step}") };
            child.write_leaves(&path, text);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn nested_names_become_a_tree_with_lists_in_number_order() {
        let form = FormNode::parse(
            "Action=X&Filter.1.Name=tag%3Aa%2Fb&Filter.1.Value.10=ten&Filter.1.Value.2=two+words&Data.Ebs.Size=20",
        );
        assert_eq!(form.text("Action"), Some("X"));
        let filter = form.list("Filter").next().unwrap();
        assert_eq!(filter.text("Name"), Some("tag:a/b"));
        assert_eq!(filter.strings("Value"), ["two words", "ten"]);
        assert_eq!(form.get("Data").get("Ebs").number("Size").unwrap(), Some(20));
        assert!(form.get("Absent").get("Deeper").is_absent());
    }

    #[test]
    fn iam_s_member_lists_read_the_same() {
        let form = FormNode::parse("Tags.member.1.Key=a&Tags.member.2.Key=b");
        assert_eq!(form.list("Tags").filter_map(|t| t.text("Key")).collect::<Vec<_>>(), ["a", "b"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*") {
            let _ = FormNode::parse(&text).canonical();
        }
    }
}
