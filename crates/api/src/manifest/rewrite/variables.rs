//! Variables of files that have no value: they stay variables in what is written.

use std::collections::{BTreeMap, BTreeSet};

use super::emit::STAND_IN;
use crate::manifest::InputError;
use crate::manifest::fill::name_at;

/// Prefixes that a stand-in for a variable without a value may need, where it is an id of EC2's.
const PREFIXES: [&str; 4] = ["", "ami-", "subnet-", "sg-"];

/// Variables without a value, each with what stands in for it while the file is read: it stays a variable in what is written.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(BTreeMap<String, usize>);

impl Variables {
    /// Those of the files that `given` has no values of.
    pub fn from_files<N, T: AsRef<str>>(files: &[(N, T)], given: &BTreeMap<String, String>) -> Self {
        let names = files.iter().flat_map(|(_, text)| variables(text.as_ref()));
        Self(names.filter(|name| !given.contains_key(name)).map(|name| (name, 0)).collect())
    }

    /// The stand-in for a variable: letters and digits that are a name, a label's value and a part of either.
    fn stand_in(index: usize) -> String {
        format!("xq{index}{STAND_IN}")
    }

    /// The values to read with.
    pub fn values(&self) -> impl Iterator<Item = (String, String)> {
        let one = |(index, (name, prefix)): (usize, (&String, &usize))| {
            (name.clone(), format!("{}{}", PREFIXES[*prefix], Self::stand_in(index)))
        };
        self.0.iter().enumerate().map(one)
    }

    /// Tries the next prefix of those that a mistake is about. Answers whether there is one.
    pub fn try_next(&mut self, errors: &[InputError]) -> bool {
        let mut tried = false;
        for (index, prefix) in self.0.values_mut().enumerate() {
            let about = errors.iter().any(|error| error.what.contains(&Self::stand_in(index)));
            if about && *prefix + 1 < PREFIXES.len() {
                *prefix += 1;
                tried = true;
            }
        }
        tried
    }

    /// A text with variables where something stands in for them.
    pub fn put_back(&self, text: &str) -> String {
        let filled =
            self.values().fold(text.to_owned(), |text, (name, value)| text.replace(&value, &format!("${{{name}}}")));
        // A mistake may quote a part of a value.
        self.0
            .keys()
            .enumerate()
            .fold(filled, |text, (index, name)| text.replace(&Self::stand_in(index), &format!("${{{name}}}")))
    }

    /// The same of a line that is written: what only looks like a variable is escaped.
    pub fn written(&self, text: &str) -> String {
        let names: BTreeSet<String> = variables(text).into_iter().collect();
        let escaped = names
            .iter()
            .fold(text.to_owned(), |text, name| text.replace(&format!("${{{name}}}"), &format!("$${{{name}}}")));
        self.put_back(&escaped)
    }

    /// A mistake about a variable that has no value: it stands in the text as a variable.
    pub fn shown(&self, mut error: InputError) -> InputError {
        let what = self.put_back(&error.what);
        if what != error.what {
            error.what = what;
            error.allowed = format!("{}; or give the variable's value with --env", error.allowed);
        }
        error
    }
}

/// Names in `${NAME}`.
fn variables(text: &str) -> Vec<String> {
    text.match_indices("${").filter_map(|(at, _)| name_at(&text[at..])).map(str::to_owned).collect()
}
