//! Sets of fields, as `fieldsV1` writes them, and what differs between two objects.
use crate::apiserver::writing::shape::{ListType, SchemaPosition, item_key};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A set of fields: a tree of path elements (`f:name`, `k:{…}`, `v:…`; `.` is the item itself) whose leaves are members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(BTreeMap<String, Fields>);

/// Maps, and lists by key, of built-in kinds that are not there until something is in them.
const MAPS: [&str; 12] = [
    "annotations",
    "labels",
    "finalizers",
    "ownerReferences",
    "data",
    "matchLabels",
    "nodeSelector",
    "requests",
    "limits",
    "capacity",
    "allocatable",
    "conditions",
];

impl Fields {
    pub fn from_value(value: &Value, shape: SchemaPosition<'_>) -> Self {
        let mut set = Fields::default();
        match value {
            Value::Object(map) if !shape.atomic_map() => {
                for (name, value) in map.iter().filter(|(_, value)| !value.is_null()) {
                    set.0.insert(format!("f:{name}"), Fields::from_value(value, shape.field(name)));
                }
            }
            Value::Array(items) => match shape.list() {
                ListType::Atomic => {}
                ListType::Set => set.0.extend(items.iter().map(|item| (format!("v:{item}"), Fields::default()))),
                ListType::Map(keys) => {
                    for item in items {
                        let mut inner = Fields::from_value(item, shape.item());
                        inner.0.insert(".".to_owned(), Fields::default());
                        set.0.insert(format!("k:{}", item_key(item, &keys)), inner);
                    }
                }
            },
            _ => {}
        }
        set
    }

    /// Notes of every map and list that `old` did not have that it is there (`.`): of a custom kind's, and of the maps and
    /// lists of built-in kinds, whose other members are structs that are always there.
    pub fn mark_new(&mut self, old: &Value, new: &Value, custom: bool) {
        for (element, inner) in self.0.iter_mut().filter(|(_, inner)| !inner.is_empty()) {
            let Some(name) = element.strip_prefix("f:") else { continue };
            let (before, after) = (&old[name], &new[name]);
            let always = name == "metadata" || (!custom && !MAPS.contains(&name));
            if before.is_null() && !always {
                inner.0.insert(".".to_owned(), Fields::default());
            }
            if after.is_object() {
                inner.mark_new(before, after, custom);
            }
        }
    }

    /// Makes leaves of the items of a list: each is owned as a whole.
    pub fn whole_items(&mut self) {
        self.0.values_mut().for_each(|inner| *inner = Fields::default());
    }

    /// Reads `fieldsV1`.
    pub fn from_fields_v1(value: &Value) -> Self {
        Fields(members(value).map(|(name, inner)| (name.clone(), Fields::from_fields_v1(inner))).collect())
    }

    /// True if written fields (`fieldsV1`) have every member of this.
    pub fn lies_in(&self, written: &Value) -> bool {
        let has = |name: &str, inner: &Fields| member(written, name).is_some_and(|theirs| inner.lies_in(theirs));
        self.0.iter().all(|(name, inner)| has(name, inner))
    }

    /// True if this has members in common with written fields, as [`Fields::common`] has with what is read of them.
    pub fn touches(&self, written: &Value) -> bool {
        self.0.iter().any(|(name, inner)| match member(written, name) {
            Some(theirs) if !inner.is_empty() && members(theirs).next().is_some() => inner.touches(theirs),
            Some(_) => true,
            None => false,
        })
    }

    /// Writes `fieldsV1`.
    pub fn write(&self) -> Value {
        Value::Object(self.0.iter().map(|(name, inner)| (name.clone(), inner.write())).collect::<Map<_, _>>())
    }

    /// True if it has no member. (A leaf is an empty tree too, but is met only below a name.)
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A part of the set.
    pub fn get(&self, element: &str) -> Option<&Fields> {
        self.0.get(element)
    }

    pub fn parts(&self) -> impl Iterator<Item = (&String, &Fields)> {
        self.0.iter()
    }

    /// Takes a part out.
    pub fn remove(&mut self, element: &str) {
        self.0.remove(element);
    }

    /// A part to change, made when it is missing.
    pub fn part(&mut self, element: &str) -> Option<&mut Fields> {
        self.0.get_mut(element)
    }

    /// Members of either.
    pub fn union(&mut self, other: &Fields) {
        for (name, inner) in &other.0 {
            self.0.entry(name.clone()).or_default().union(inner);
        }
    }

    /// Members of this that are not in the other.
    #[must_use]
    pub fn without(&self, other: &Fields) -> Fields {
        let mut rest = BTreeMap::new();
        for (name, inner) in &self.0 {
            match other.0.get(name) {
                None => drop(rest.insert(name.clone(), inner.clone())),
                // A leaf there is an empty map: it says nothing about what is in the map here.
                Some(theirs) if !inner.is_empty() => {
                    let inner = inner.without(theirs);
                    if !inner.is_empty() {
                        rest.insert(name.clone(), inner);
                    }
                }
                Some(_) => {}
            }
        }
        Fields(rest)
    }

    /// Members of both.
    #[must_use]
    pub fn common(&self, other: &Fields) -> Fields {
        let mut both = BTreeMap::new();
        for (name, inner) in &self.0 {
            match other.0.get(name) {
                Some(theirs) if !inner.is_empty() && !theirs.is_empty() => {
                    let inner = inner.common(theirs);
                    if !inner.is_empty() {
                        both.insert(name.clone(), inner);
                    }
                }
                Some(theirs) => {
                    drop(both.insert(name.clone(), if inner.is_empty() { theirs.clone() } else { inner.clone() }))
                }
                None => {}
            }
        }
        Fields(both)
    }

    /// The members' paths, as in a conflict's causes: `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        if !self.is_empty() {
            self.collect(String::new(), &mut paths);
        }
        paths
    }

    fn collect(&self, path: String, paths: &mut Vec<String>) {
        if self.is_empty() {
            paths.push(path);
            return;
        }
        for (element, inner) in &self.0 {
            let next = match element.split_once(':') {
                Some(("f", name)) => format!("{path}.{name}"),
                Some(("k", key)) => format!(
                    "{path}[{}]",
                    key.trim_matches(['{', '}']).replace("\":", "=").replace('"', "").replace('=', "=\"") + "\""
                ),
                Some((_, value)) => format!("{path}[={value}]"),
                None => path.clone(),
            };
            inner.collect(next, paths);
        }
    }
}

/// True for the elements that are known; a later version may have others.
fn is_known(element: &str) -> bool {
    element == "." || ["f:", "k:", "v:", "i:"].iter().any(|kind| element.starts_with(kind))
}

/// The members of written fields that are known.
fn members(written: &Value) -> impl Iterator<Item = (&String, &Value)> {
    written.as_object().into_iter().flatten().filter(|(name, _)| is_known(name))
}

fn member<'a>(written: &'a Value, name: &str) -> Option<&'a Value> {
    written.as_object()?.get(name).filter(|_| is_known(name))
}

/// Fields that are new or have another value in `new`, and fields of `old` that are no longer there. That two objects are the
/// same is found by their members, each of which is looked at in any case.
pub fn compare(old: &Value, new: &Value, shape: SchemaPosition<'_>) -> (Fields, Fields) {
    let (mut changed, mut removed) = (Fields::default(), Fields::default());
    match (old, new) {
        (Value::Object(a), Value::Object(b)) if !shape.atomic_map() => {
            for (name, before) in a {
                let element = format!("f:{name}");
                match b.get(name) {
                    Some(after) => differ(before, after, shape.field(name), element, &mut changed, &mut removed),
                    None => drop(removed.0.insert(element, Fields::from_value(before, shape.field(name)))),
                }
            }
            for (name, after) in b.iter().filter(|(name, after)| !a.contains_key(*name) && !after.is_null()) {
                changed.0.insert(format!("f:{name}"), Fields::from_value(after, shape.field(name)));
            }
        }
        (Value::Array(a), Value::Array(b)) => compare_lists(a, b, shape, &mut changed, &mut removed),
        _ => {}
    }
    (changed, removed)
}

fn compare_lists(old: &[Value], new: &[Value], shape: SchemaPosition<'_>, changed: &mut Fields, removed: &mut Fields) {
    match shape.list() {
        ListType::Atomic => {}
        ListType::Set => {
            changed.0.extend(new.iter().filter(|v| !old.contains(v)).map(|v| (format!("v:{v}"), Fields::default())));
            removed.0.extend(old.iter().filter(|v| !new.contains(v)).map(|v| (format!("v:{v}"), Fields::default())));
        }
        ListType::Map(keys) => {
            let find = |list: &[Value], key: &Value| list.iter().find(|item| item_key(item, &keys) == *key).cloned();
            let whole = |item: &Value| {
                let mut inner = Fields::from_value(item, shape.item());
                inner.0.insert(".".to_owned(), Fields::default());
                inner
            };
            for before in old {
                let key = item_key(before, &keys);
                match find(new, &key) {
                    Some(after) => differ(before, &after, shape.item(), format!("k:{key}"), changed, removed),
                    None => drop(removed.0.insert(format!("k:{key}"), whole(before))),
                }
            }
            for after in new {
                let key = item_key(after, &keys);
                if find(old, &key).is_none() {
                    changed.0.insert(format!("k:{key}"), whole(after));
                }
            }
        }
    }
}

/// Notes the difference of one member of a map or list.
fn differ(
    before: &Value,
    after: &Value,
    shape: SchemaPosition<'_>,
    element: String,
    changed: &mut Fields,
    removed: &mut Fields,
) {
    if before == after {
        return;
    }
    let (inner, gone) = compare(before, after, shape);
    if inner.is_empty() && gone.is_empty() {
        // No part differs, so the member differs as a whole.
        changed.0.insert(element, Fields::default());
        return;
    }
    if !inner.is_empty() {
        changed.0.insert(element.clone(), inner);
    }
    if !gone.is_empty() {
        removed.0.insert(element, gone);
    }
}
