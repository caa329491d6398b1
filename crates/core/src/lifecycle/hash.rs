//! The hash by which a claim is known to be of its pool's current template. Karpenter hashes Go structs, which no other
//! language can repeat: ours has a version of its own, so that taking over from Karpenter marks nothing as drifted.

use dovetail_api::v1::NodePool;
use serde_json::{Value, json};

/// Value of `karpenter.sh/nodepool-hash-version` and of the class's for hashes made here.
pub const VERSION: &str = "dovetail-v1";

/// Hash of what makes a pool's claims what they are: the template without its requirements, which drift by themselves
/// (core spec 5.6).
#[must_use]
pub fn node_pool(pool: &NodePool) -> String {
    let mut template = json!(pool.spec.template);
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("requirements");
        spec.remove("resources");
    }
    of(&template)
}

/// Hash of a JSON value: the order of its object's keys does not matter.
#[must_use]
pub fn of(value: &Value) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    write(value, &mut |bytes| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    });
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
        assert_eq!(of(&one), of(&json!({"b": [1, 2], "a": 1})));
        assert_ne!(of(&one), of(&json!({"a": 1, "b": [2, 1]})));
        assert_ne!(of(&json!(["ab", "c"])), of(&json!(["a", "bc"])));
    }
}
