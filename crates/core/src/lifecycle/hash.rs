//! The hash by which a claim is known to be of its pool's current template, and of its class. Karpenter hashes Go structs,
//! which no other language can repeat: ours has a version of its own, so that taking over from Karpenter marks nothing as
//! drifted. The hashed fields are in [`super::canonical`].

use dovetail_api::hash::{OFFSET, fnv_from};
use dovetail_api::v1::{EC2NodeClassSpec, NodePool};
use serde_json::Value;
#[cfg(test)]
use serde_json::json;

use super::canonical;

/// Value of `karpenter.sh/nodepool-hash-version` and of the class's for hashes made here. It is raised whenever the same object
/// would get another hash than before: claims of another version are stamped anew, and do not drift by it.
pub const VERSION: &str = "dovetail-v2";

/// True if a hash of this version was made here, by this release or by another one of ours.
#[must_use]
pub fn is_own(version: &str) -> bool {
    version.starts_with("dovetail-")
}

/// Hash of the fields of a pool that shape its claims: the template without its requirements, which drift by themselves (core
/// spec 5.6). A decimal number.
#[must_use]
pub fn node_pool(pool: &NodePool) -> String {
    json_hash(&canonical::template(&pool.spec.template))
}

/// Hash of the fields of a class that shape its instances, without the selectors, which drift by the objects that they
/// resolve to (aws spec 6). A decimal number.
#[must_use]
pub fn node_class(spec: &EC2NodeClassSpec) -> String {
    json_hash(&canonical::class(spec))
}

/// Hash of a JSON value: the order of its object's keys does not matter.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter_and_the_values_do() {
        let one: Value = json!({"a": 1, "b": [1, 2]});
        assert_eq!(json_hash(&one), json_hash(&json!({"b": [1, 2], "a": 1})));
        assert_ne!(json_hash(&one), json_hash(&json!({"a": 1, "b": [2, 1]})));
        assert_ne!(json_hash(&json!(["ab", "c"])), json_hash(&json!(["a", "bc"])));
    }
}
