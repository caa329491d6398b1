//! Whole numbers that are written with a point: `5.0` in a file is 5 to `kubectl`, which hands floats on as JSON writes them.

use serde_json::{Number, Value};

use super::{
    Schema,
    compile::{SchemaNode, Type},
};

/// Below this every whole number is one of JSON's integers (2^63).
const LARGEST: f64 = 9_223_372_036_854_775_808.0;

impl Schema {
    /// Writes a whole number as an integer where the schema wants one, or a quantity, or says nothing. Elsewhere it stays, so
    /// that a mistake is told as it was written.
    pub fn whole_numbers(&self, object: &mut Value) {
        settle(Some(&self.root), object);
    }
}

fn settle(node: Option<&SchemaNode>, value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() && node.is_none_or(wants_integer) => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        Value::Array(items) => {
            let inner = node.and_then(|node| node.items.as_deref());
            if node.is_none() || inner.is_some() {
                items.iter_mut().for_each(|item| settle(inner, item));
            }
        }
        Value::Object(object) => {
            for (name, value) in object {
                let inner = node.and_then(|node| node.properties.get(name).or(node.additional.as_deref()));
                if inner.is_some() || node.is_none_or(|node| node.preserve_unknown) {
                    settle(inner, value);
                }
            }
        }
        _ => {}
    }
}

fn wants_integer(node: &SchemaNode) -> bool {
    node.quantity || node.int_or_string || node.type_ == Some(Type::Integer)
}

#[allow(clippy::cast_possible_truncation)] // bounded, and whole
fn whole(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < LARGEST)?;
    Some(Number::from(float as i64))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::super::schema_for;

    #[test]
    fn whole_number_with_point_is_integer_only_where_one_is_wanted() {
        let schema = schema_for("apps/v1", "Deployment").unwrap();
        let mut object = json!({"metadata": {"labels": {"version": 1.0}}, "spec": {"replicas": 5.0, "template": {"spec": {"containers":
            [{"ports": [{"containerPort": 80.0}], "resources": {"requests": {"cpu": 1.0, "memory": 1.5e9, "example.com/x": 0.5}}}]}}}});
        schema.whole_numbers(&mut object);
        assert_eq!(object["spec"]["replicas"], json!(5));
        let container = &object["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["containerPort"], json!(80));
        let requests = json!({"cpu": 1, "memory": 1_500_000_000, "example.com/x": 0.5});
        assert_eq!(container["resources"]["requests"], requests);
        assert_eq!(object["metadata"]["labels"]["version"], json!(1.0), "a mistake is told as it was written");
    }

    #[test]
    fn open_fields_are_settled_and_fractions_and_huge_numbers_stay() {
        let schema = schema_for("karpenter.k8s.aws/v1", "EC2NodeClass").unwrap();
        let mut object = json!({"spec": {"kubelet": {"maxPods": 110.0, "cpuCFSQuotaPeriod": 0.5, "x": [-0.0, 1e30]}}});
        schema.whole_numbers(&mut object);
        assert_eq!(object["spec"]["kubelet"], json!({"maxPods": 110, "cpuCFSQuotaPeriod": 0.5, "x": [0, 1e30]}));
    }
}
