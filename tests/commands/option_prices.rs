//! Prices of a claim's options beside its cheapest, where types differ most: GPUs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{dovetail, json, write};

/// Pods with GPUs in a pool of any type, and capacity of these kinds.
fn manifests(capacity_types: &str, gpus: u32) -> String {
    format!(
        r#"
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {{name: default}}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{{alias: al2023@latest}}]
  subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
  securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: default}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements: [{{key: karpenter.sh/capacity-type, operator: In, values: [{capacity_types}]}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: train, namespace: default}}
spec:
  replicas: 24
  selector: {{matchLabels: {{app: train}}}}
  template:
    metadata: {{labels: {{app: train}}}}
    spec:
      containers:
        - name: main
          image: train
          resources:
            requests: {{cpu: "3", memory: 12Gi, nvidia.com/gpu: "{gpus}"}}
            limits: {{nvidia.com/gpu: "{gpus}"}}
"#
    )
}

#[test]
fn mean_option_of_gpu_workload_is_at_most_a_quarter_dearer() {
    for capacity_types in ["on-demand", "spot", "on-demand, spot"] {
        for gpus in [1, 4] {
            let file = write(&format!("gpu-{gpus}.yaml"), &manifests(capacity_types, gpus));
            let answer = json(&dovetail(&["plan", "--json", "-f", &file]), 0);
            assert_eq!(answer["scheduledPods"], 24);
            let price = |field: &str| answer[field].as_f64().unwrap();
            let (expected, cheapest) = (price("expectedHourlyPrice"), price("totalCheapestHourlyPrice"));
            println!(
                "{gpus} GPUs a pod on {capacity_types}: {cheapest:.2} $/h at the cheapest, {expected:.2} expected"
            );
            assert!(expected <= 1.25 * cheapest, "{capacity_types}, {gpus}: {expected} of {cheapest}");
        }
    }
}
