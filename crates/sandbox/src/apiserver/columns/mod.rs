//! Tables for kubectl: the columns of each kind, and one object's cells, as kube-apiserver prints them.
mod age;
mod cluster;
mod custom;
mod pods;
mod storage;
mod words;
mod workloads;

pub use age::since;
pub use custom::{CustomColumn, of_definition};

use super::registry::FoundResource;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Name, type, and whether it is shown with `-o wide` only.
type Column = (&'static str, &'static str, bool);

/// The columns of a built-in kind and how an object fills them.
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// Columns of every kind without columns of its own.
const PLAIN: Printer = Printer {
    columns: &[("Name", "string", false), ("Age", "string", false)],
    cells: |object, now| vec![words::name(object), words::age(object, now)],
};

fn printer(found: &FoundResource) -> Printer {
    let (group, kind) = (found.def.group.as_str(), found.def.kind.as_str());
    let of = pods::printer(group, kind)
        .or_else(|| workloads::printer(group, kind))
        .or_else(|| cluster::printer(group, kind))
        .or_else(|| storage::printer(group, kind));
    of.unwrap_or(PLAIN)
}

/// `columnDefinitions` of a table.
pub fn definitions(found: &FoundResource) -> Value {
    if found.def.custom {
        return custom::definitions(&found.version.columns);
    }
    let column = |(name, kind, wide): &Column| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": "", "priority": i32::from(*wide)})
    };
    printer(found).columns.iter().map(column).collect()
}

pub fn cells(found: &FoundResource, object: &Value, now: Timestamp) -> Vec<Value> {
    if found.def.custom {
        return custom::cells(&found.version.columns, object, now);
    }
    (printer(found).cells)(object, now)
}

#[cfg(test)]
mod tests;
