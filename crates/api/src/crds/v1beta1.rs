//! The schemas of v1beta1 (aws spec 10.4).

use serde_json::{Value, json};

use super::{
    alpha::{OPERATORS, kubelet},
    claim, class,
    parts::{self, object, rule, text, with},
    pool, root,
};

/// NodePool.
pub fn pool() -> Value {
    let template = object(
        json!({
            "metadata": object(json!({"labels": parts::template_labels(), "annotations": parts::text_map()}), &[]),
            "spec": object(template_spec(), &["nodeClassRef", "requirements"]),
        }),
        &["spec"],
    );
    let disruption = object(
        json!({
            "consolidateAfter": text(parts::DURATION_OR_NEVER),
            "consolidationPolicy": {"type": "string", "enum": ["WhenEmpty", "WhenUnderutilized"], "default": "WhenUnderutilized"},
            "expireAfter": with(text(parts::DURATION_OR_NEVER), json!({"default": "720h"})),
            "budgets": pool::budgets(false),
        }),
        &[],
    );
    let disruption = with(
        disruption,
        json!({
            "default": {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "720h"},
            "x-kubernetes-validations": [
                rule(
                    "!has(self.consolidateAfter) || self.consolidationPolicy != 'WhenUnderutilized' || self.consolidateAfter == 'Never'",
                    "consolidateAfter cannot be combined with consolidationPolicy=WhenUnderutilized",
                ),
                rule(
                    "self.consolidationPolicy != 'WhenEmpty' || has(self.consolidateAfter)",
                    "consolidateAfter must be specified with consolidationPolicy=WhenEmpty",
                ),
            ],
        }),
    );
    let spec = object(
        json!({
            "template": template,
            "disruption": disruption,
            "limits": parts::resource_list(),
            "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100},
        }),
        &["template"],
    );
    root("NodePool of v1beta1", spec, pool::status(false))
}

fn template_spec() -> Value {
    json!({
        "requirements": parts::requirements(&OPERATORS, true, true, &[]),
        "taints": parts::taints(),
        "startupTaints": parts::taints(),
        "kubelet": kubelet(false),
        "nodeClassRef": object(
            json!({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "name": {"type": "string", "minLength": 1}}),
            &["name"],
        ),
    })
}

/// NodeClaim.
pub fn claim() -> Value {
    let mut spec = template_spec();
    spec["requirements"] = parts::requirements(&OPERATORS, false, true, &[]);
    spec["resources"] = object(json!({"requests": parts::resource_list()}), &[]);
    root("NodeClaim of v1beta1", object(spec, &["nodeClassRef", "requirements"]), claim::status())
}

/// EC2NodeClass.
pub fn class() -> Value {
    let ami_term = object(
        json!({
            "tags": class::selector_tags(),
            "id": text("^ami-[0-9a-z]+$"),
            "name": {"type": "string", "maxLength": 255},
            "owner": {"type": "string", "maxLength": 255},
        }),
        &[],
    );
    let ami_rules = json!({"x-kubernetes-validations": [
        rule("has(self.tags) || has(self.id) || has(self.name)", "expected at least one of ['tags', 'id', 'name']"),
        rule(
            "!has(self.id) || (!has(self.tags) && !has(self.name) && !has(self.owner))",
            "'id' excludes all other fields",
        ),
    ]});
    let mut properties = class::shared();
    class::merge(
        &mut properties,
        json!({
            "amiFamily": {"type": "string", "enum": ["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2019", "Windows2022"]},
            "amiSelectorTerms": {"type": "array", "maxItems": 30, "items": with(ami_term, ami_rules)},
            "metadataOptions": class::metadata_options(2),
        }),
    );
    let rules = json!({"x-kubernetes-validations": [
        rule("has(self.role) != has(self.instanceProfile)", "must specify exactly one of ['role', 'instanceProfile']"),
        rule(
            "self.amiFamily != 'Custom' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() != 0)",
            "amiSelectorTerms is required when amiFamily == 'Custom'",
        ),
    ]});
    let required = ["amiFamily", "securityGroupSelectorTerms", "subnetSelectorTerms"];
    root("EC2NodeClass of v1beta1", with(object(properties, &required), rules), class::status())
}
