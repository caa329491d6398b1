//! The hash by which a claim is known to be of its pool's current template, and of its class: Karpenter's own, so that a drift
//! that is outstanding when the two programs are swapped is remembered by either.
//!
//! [`structs`] has the fields that count, [`go`] how they are hashed, [`written`] what is written on pools and classes,
//! [`record`] what is remembered there.

mod go;
mod kept;
mod record;
mod structs;
#[cfg(test)]
mod tests;
mod written;

use dovetail_api::hash::{OFFSET, fnv_from};
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassSpec, Kubelet, NodePool};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

pub use kept::KeptHashes;
pub use written::{Agreement, Computed, Generations, HashKeys, OF_CLASS, OF_POOL, Standing};

/// True for a version of the hashes that Dovetail had of its own, up to 0.1.0. They are stamped anew, and nothing drifts by it.
#[must_use]
pub fn was_own(version: &str) -> bool {
    version.starts_with("dovetail-")
}

/// Hash of the fields of a pool that shape its claims: the template without its requirements, which drift by themselves (core
/// spec 5.6). A decimal number.
#[must_use]
pub fn node_pool(pool: &NodePool) -> String {
    structs::NODE_CLAIM_TEMPLATE.hash(&json!(pool.spec.template)).to_string()
}

/// Hash of the fields of a class that shape its instances, without the selectors, which drift by the objects that they
/// resolve to (aws spec 6). `authority` is the cluster's certificate authority in base64, which user data has. A decimal number.
#[must_use]
pub fn node_class(spec: &EC2NodeClassSpec, authority: &str) -> String {
    let of_spec = structs::EC2_NODE_CLASS_SPEC.hash(&json!(spec));
    go::joined([of_spec, go::text(family(spec)), go::text(authority), go::text(&kubelet(spec))]).to_string()
}

/// The hash of a pool's template, with the fields and the pool that it is of.
#[must_use]
pub fn of_pool(pool: &NodePool) -> Computed {
    let hash = node_pool(pool);
    Computed { same: hash.clone(), fresh: hash, of: subject_of(&structs::NODE_CLAIM_TEMPLATE, &pool.metadata) }
}

/// The hash of a class's spec, with the fields and the class that it is of. The authority is no part of what changes are found by: another one
/// alone makes no node drift.
#[must_use]
pub fn of_class(class: &EC2NodeClass, authority: &str) -> Computed {
    let of = subject_of(&structs::EC2_NODE_CLASS_SPEC, &class.metadata);
    Computed { same: node_class(&class.spec, ""), fresh: node_class(&class.spec, authority), of }
}

/// A short hash of the names of fields and of the object's uid: another one is of a release that hashes others, or of another
/// cluster's object.
fn subject_of(fields: &'static go::GoStruct, metadata: &ObjectMeta) -> String {
    let all = format!("{fields:?} {}", metadata.uid.as_deref().unwrap_or_default());
    format!("{:08x}", fnv_from(OFFSET, all.bytes()) & 0xffff_ffff)
}

/// Image families, as aliases have them in lower case.
const FAMILIES: [&str; 6] = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"];

/// The effective AMI family: `amiFamily`, or else the family of the alias (aws spec 1.1).
fn family(spec: &EC2NodeClassSpec) -> &str {
    let of_alias = || {
        let alias = spec.ami_selector_terms.iter().find_map(|term| term.alias.as_deref())?;
        let name = alias.split('@').next()?;
        FAMILIES.into_iter().find(|family| family.eq_ignore_ascii_case(name))
    };
    spec.ami_family.as_deref().or_else(of_alias).unwrap_or("Custom")
}

fn kubelet(spec: &EC2NodeClassSpec) -> String {
    let given = spec.kubelet.as_ref().filter(|Kubelet(fields)| !fields.is_empty());
    go::json(&given.map_or(Value::Null, |kubelet| json!(kubelet)))
}

/// Hash of a JSON value, our own: the order of its object's keys does not matter.
#[must_use]
pub fn json_hash(value: &Value) -> String {
    let mut hash = OFFSET;
    write(value, &mut |bytes| hash = fnv_from(hash, bytes.iter().copied()));
    hash.to_string()
}

fn write(value: &Value, out: &mut impl FnMut(&[u8])) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort_unstable();
            out(b"{");
            for key in keys {
                out(key.as_bytes());
                out(b"\0");
                write(&fields[key], out);
            }
            out(b"}");
        }
        Value::Array(items) => {
            out(b"[");
            items.iter().for_each(|item| write(item, out));
            out(b"]");
        }
        leaf => {
            out(leaf.to_string().as_bytes());
            out(b"\0");
        }
    }
}
