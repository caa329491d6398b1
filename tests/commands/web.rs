//! Manifests of one pool and one Deployment, for what `plan` does with a further kind of objects.

/// A pool `base` on demand and a Deployment `web`.
pub struct Web {
    /// Further lines of the pool's spec, each with its end.
    pub pool: String,
    /// Instance types of the pool, with commas between.
    pub types: &'static str,
    pub replicas: u32,
    pub cpu: &'static str,
}

impl Web {
    /// The manifests, and others after them.
    pub fn with(&self, others: &str) -> String {
        let Self { pool, types, replicas, cpu } = self;
        format!(
            "apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: base}}
spec:
{pool}  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}}
        - {{key: node.kubernetes.io/instance-type, operator: In, values: [{types}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: main, image: pause, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
{others}"
        )
    }
}
