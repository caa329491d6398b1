//! Paths of fields in an object.

use std::fmt;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathStep {
    /// Into a field of an object or a key of a map.
    Key(String),
    /// Into an item of a list.
    Index(usize),
}

/// A path from the object's root; shown as `spec.template.spec.requirements[2].operator`, keys that are no plain words
/// in brackets (`metadata.labels[example.com/team]`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(pub Vec<PathStep>);

impl FieldPath {
    /// The path of the whole object, which has no step.
    pub fn root() -> Self {
        Self::default()
    }

    /// A path of field names.
    pub fn from_fields(fields: &[&str]) -> Self {
        Self(fields.iter().map(|field| PathStep::Key((*field).into())).collect())
    }

    /// The path of a field.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        let mut path = self.clone();
        path.0.push(PathStep::Key(key.into()));
        path
    }

    /// The path of an item.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        let mut path = self.clone();
        path.0.push(PathStep::Index(index));
        path
    }

    /// The last field's name, if the path ends in one.
    pub fn last_key(&self) -> Option<&str> {
        match self.0.last() {
            Some(PathStep::Key(key)) => Some(key),
            _ => None,
        }
    }

    /// True if one of the two lies on the way to the other.
    pub fn is_related(&self, other: &Self) -> bool {
        let common = self.0.len().min(other.0.len());
        self.0[..common] == other.0[..common]
    }

    /// Reads the shown form of a path without brackets around keys: `spec.items[0].name`.
    pub fn parse(text: &str) -> Self {
        let mut steps = Vec::new();
        for part in text.split('.').filter(|part| !part.is_empty()) {
            let (name, mut rest) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
            if !name.is_empty() {
                steps.push(PathStep::Key(name.into()));
            }
            while let Some((inside, after)) = rest.split_once(']') {
                steps.push(inside.parse().map_or_else(|_| PathStep::Key(inside.into()), PathStep::Index));
                rest = after.trim_start_matches('[');
            }
        }
        Self(steps)
    }
}

/// A path while it is being walked: a step, and the trail that led there. Nothing is copied before somebody asks for the
/// path, and mostly nobody does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trail<'a>(Option<(&'a Trail<'a>, Turn<'a>)>);

/// One step of a trail.
#[derive(Clone, Copy, Debug)]
enum Turn<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Trail<'a> {
    /// The trail to a field.
    pub fn key(&'a self, key: &'a str) -> Self {
        Self(Some((self, Turn::Key(key))))
    }

    /// The trail to an item.
    pub fn index(&'a self, index: usize) -> Self {
        Self(Some((self, Turn::Index(index))))
    }

    /// The path of the field that it has led to.
    pub fn path(&self) -> FieldPath {
        let (mut steps, mut at) = (Vec::new(), self);
        while let Some((before, turn)) = &at.0 {
            steps.push(match turn {
                Turn::Key(key) => PathStep::Key((*key).into()),
                Turn::Index(index) => PathStep::Index(*index),
            });
            at = before;
        }
        steps.reverse();
        FieldPath(steps)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain =
            |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        for (at, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if plain(key) && at == 0 => f.write_str(key)?,
                PathStep::Key(key) if plain(key) => write!(f, ".{key}")?,
                PathStep::Key(key) if at == 0 => write!(f, "{key:?}")?,
                PathStep::Key(key) => write!(f, "[{key}]")?,
                PathStep::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_kubernetes_shows_it() {
        let path = FieldPath::from_fields(&["spec", "requirements"]).index(2).key("operator");
        assert_eq!(path.to_string(), "spec.requirements[2].operator");
        assert_eq!(FieldPath::parse("spec.requirements[2].operator"), path);
        assert_eq!(FieldPath::from_fields(&["metadata", "labels"]).key("a.b/c").to_string(), "metadata.labels[a.b/c]");
    }

    #[test]
    fn related_paths_lie_on_one_way() {
        let list = FieldPath::from_fields(&["spec", "requirements"]);
        assert!(list.is_related(&list.index(1)) && list.index(1).is_related(&list));
        assert!(!list.index(0).is_related(&list.index(1)));
    }
}
