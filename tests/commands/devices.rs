//! Devices in `plan`: pods with resourceClaims among manifests get nodes with the devices that they claim.

use serde_json::Value;

use crate::common::{dovetail, stderr, stdout, write};

const CLASS: &str = "---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: 'device.driver == \"gpu.nvidia.com\"'}}]}
";

const POOL: &str = "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: base}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, g4dn.xlarge, g4dn.12xlarge]}
";

fn request(count: &str, product: &str) -> String {
    format!(
        "{{devices: {{requests: [{{name: gpus, exactly: {{deviceClassName: gpu.nvidia.com, count: {count}, selectors: [{{cel: {{expression: 'device.attributes[\"gpu.nvidia.com\"].productName == \"{product}\"'}}}}]}}}}]}}}}"
    )
}

fn template(name: &str, count: &str, product: &str) -> String {
    let spec = request(count, product);
    format!(
        "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {{name: {name}}}\nspec: {{spec: {spec}}}\n"
    )
}

fn claim(name: &str) -> String {
    let spec = request("1", "Tesla T4");
    format!("---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

/// A Deployment whose pods have this claim.
fn deployment(name: &str, replicas: u32, claim: &str) -> String {
    format!(
        "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      resourceClaims: [{{name: gpu, {claim}}}]
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 200m}}, claims: [{{name: gpu}}]}}}}]
"
    )
}

/// The status, the answer and standard error of a plan of these manifests.
fn plan(name: &str, objects: &[String], more: &[&str]) -> (Option<i32>, Value, String) {
    let file = write(&format!("plan-devices/{name}.yaml"), &[POOL.to_owned(), objects.concat()].concat());
    let output = dovetail(&[&["plan", "-f", &file, "--json"], more].concat());
    (output.status.code(), serde_json::from_str(&stdout(&output)).unwrap_or_default(), stderr(&output))
}

fn types(answer: &Value) -> Vec<(String, usize)> {
    let nodes = answer["nodeClaims"].as_array().unwrap().iter();
    let each = nodes.map(|one| (one["cheapestType"].as_str().unwrap(), one["podNames"].as_array().unwrap().len()));
    let mut all: Vec<_> = each.map(|(name, pods)| (name.to_owned(), pods)).collect();
    all.sort();
    all
}

#[test]
fn plan_of_files_gives_claims_their_devices() {
    let objects = [
        CLASS.to_owned(),
        template("one", "1", "Tesla T4"),
        template("four", "4", "Tesla T4"),
        claim("both"),
        deployment("single", 2, "resourceClaimTemplateName: one"),
        deployment("large", 1, "resourceClaimTemplateName: four"),
        deployment("pair", 2, "resourceClaimName: both"),
    ];
    let (status, answer, said) = plan("well", &objects, &[]);
    assert_eq!(status, Some(0), "{answer:#} {said}");
    let one = |name: &str, pods| (name.to_owned(), pods);
    assert_eq!(
        types(&answer),
        [one("g4dn.12xlarge", 1), one("g4dn.xlarge", 1), one("g4dn.xlarge", 1), one("g4dn.xlarge", 2)]
    );
    assert!(!said.contains("DeviceClass"), "nothing of it is passed over: {said}");
    // Without them, and where the setting says so, nothing has changed.
    for (objects, more) in [(&objects[1..], &[][..]), (&objects[..], &["--ignore-dra-requests", "true"][..])] {
        let (status, answer, said) = plan("off", objects, more);
        assert_eq!((status, &answer["numNodeClaims"]), (Some(1), &0.into()), "{said}");
        let reasons = answer["unscheduled"].to_string();
        assert!(reasons.contains("(spec.resourceClaims) is not supported yet"), "{reasons}");
        assert!(said.contains("ResourceClaimTemplate"), "{said}");
    }
}

#[test]
fn plan_of_files_says_what_a_claim_lacks() {
    let objects = [
        CLASS.to_owned(),
        template("none", "1", "NVIDIA H100 80GB HBM3"),
        deployment("vain", 1, "resourceClaimTemplateName: none"),
        deployment("lost", 1, "resourceClaimName: nowhere"),
        deployment("early", 1, "resourceClaimTemplateName: later"),
    ];
    let (status, answer, said) = plan("lacks", &objects, &[]);
    assert_eq!(status, Some(1), "{answer:#}");
    let reasons = answer["unscheduled"].to_string();
    for part in ["needs 1 device: selector", "ResourceClaim default/nowhere is not there", "has not been made yet"] {
        assert!(reasons.contains(part), "{part} is not in {reasons}");
    }
    assert!(said.contains("ResourceClaimTemplate default/later is not among the manifests"), "{said}");
    let (_, answer, _) = plan("classless", &objects[1..], &["--ignore-dra-requests", "false"]);
    let reasons = answer["unscheduled"].to_string();
    assert!(reasons.contains("DeviceClass gpu.nvidia.com of ResourceClaim default/vain"), "{reasons}");
}

#[test]
fn devices_of_a_node_among_manifests_are_used() {
    let node = "---
apiVersion: v1
kind: Node
metadata:
  name: n1
  labels: {karpenter.sh/nodepool: base, node.kubernetes.io/instance-type: g4dn.xlarge, kubernetes.io/hostname: n1, karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true', topology.kubernetes.io/region: us-east-1, topology.kubernetes.io/zone: us-east-1a}
spec: {providerID: 'aws:///us-east-1a/i-0123456789abcdef0'}
status:
  allocatable: {cpu: 3900m, memory: 15Gi, pods: '29'}
  capacity: {cpu: '4', memory: 16Gi, pods: '29'}
  conditions: [{type: Ready, status: 'True'}]
";
    let slice = "---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpu}
spec: {driver: gpu.nvidia.com, nodeName: n1, pool: {name: n1, generation: 1, resourceSliceCount: 1}, devices: [{name: gpu-0, attributes: {productName: {string: Tesla T4}}}]}
";
    let pods = [template("one", "1", "Tesla T4"), deployment("single", 2, "resourceClaimTemplateName: one")].concat();
    let (status, answer, said) = plan("picture", &[CLASS.into(), node.into(), slice.into(), pods], &[]);
    assert_eq!(status, Some(0), "{answer:#} {said}");
    assert_eq!(types(&answer), [("g4dn.xlarge".to_owned(), 1)], "the other has the device of n1: {answer:#}");
}

#[test]
fn malformed_devices_are_bad_input_with_file_line_and_field() {
    for (name, object, field) in [
        ("count", template("bad", "many", "Tesla T4"), "ResourceClaimTemplate/bad: spec.spec.devices.requests[0].exactly"),
        ("zero", template("bad", "0", "Tesla T4"), "ResourceClaimTemplate/bad: spec.spec"),
        (
            "request",
            "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: bad}\nspec: {devices: {requests: [{name: a}]}}\n".into(),
            "ResourceClaim/bad: spec",
        ),
        (
            "nameless",
            "---\napiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {}\nspec: {}\n".into(),
            "ResourceClaim/: metadata.name",
        ),
        (
            "slice",
            "---\napiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: bad}\nspec: {driver: d, allNodes: yes please, pool: {name: p}}\n".into(),
            "ResourceSlice/bad: spec.allNodes",
        ),
    ] {
        let (status, _, said) = plan(name, &[CLASS.to_owned(), object], &[]);
        assert_eq!(status, Some(2), "{name}: {said}");
        assert!(said.contains(&format!("{name}.yaml:18")) && said.contains(field), "{name}: {said}");
    }
}
