//! Small manifests, made where a test needs them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

/// A class of AL2023 nodes; `more` are further members of its spec, in flow style.
pub fn class(more: &str) -> String {
    let more = if more.is_empty() { String::new() } else { format!(", {more}") };
    format!(
        "---\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {{name: default}}\nspec: {{amiSelectorTerms: [{{alias: al2023@latest}}], \
         role: KarpenterNodeRole-demo, subnetSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}], \
         securityGroupSelectorTerms: [{{tags: {{karpenter.sh/discovery: demo}}}}]{more}}}\n"
    )
}

/// A pool: further members of its spec (`limits: {…}`), of its template's metadata and spec, and requirements, in flow style.
#[derive(Clone, Copy, Default)]
pub struct Pool<'a> {
    pub name: &'a str,
    pub spec: &'a str,
    pub labels: &'a str,
    pub template: &'a str,
    pub requirements: &'a str,
}

impl Pool<'_> {
    pub fn text(self) -> String {
        let comma = |text: &str| if text.is_empty() { String::new() } else { format!(", {text}") };
        let name = if self.name.is_empty() { "default" } else { self.name };
        format!(
            "---\napiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{template: {{metadata: {{labels: {{{}}}}}, spec: {{nodeClassRef: \
             {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: [{}]{}}}}}{}}}\n",
            self.labels,
            self.requirements,
            comma(self.template),
            comma(self.spec)
        )
    }
}

/// A requirement, `key In [values]`, to be written behind others.
pub fn among(key: &str, values: &str) -> String {
    format!("{{key: {key}, operator: In, values: [{values}]}}")
}

/// A pool of on-demand instances of these types, and its class.
pub fn pool_of(types: &str) -> String {
    let requirements = format!(
        "{}, {}",
        among("node.kubernetes.io/instance-type", types),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    Pool { requirements: &requirements, ..Pool::default() }.text() + &class("")
}

/// A workload of so many pods in the namespace `default`; `pod` is their spec, in flow style, without braces.
pub fn workload(kind: &str, name: &str, count: u32, pod: &str) -> String {
    workload_in("default", kind, name, count, pod)
}

/// The same in a namespace.
pub fn workload_in(namespace: &str, kind: &str, name: &str, count: u32, pod: &str) -> String {
    let (version, own) = match kind {
        "Job" => ("batch/v1", format!("parallelism: {count}, completions: {count}")),
        "DaemonSet" => ("apps/v1", format!("selector: {{matchLabels: {{app: {name}}}}}")),
        "StatefulSet" => {
            ("apps/v1", format!("replicas: {count}, serviceName: {name}, selector: {{matchLabels: {{app: {name}}}}}"))
        }
        _ => ("apps/v1", format!("replicas: {count}, selector: {{matchLabels: {{app: {name}}}}}")),
    };
    format!(
        "---\napiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{own}, template: {{metadata: {{labels: {{app: {name}}}}}, \
         spec: {{{pod}}}}}}}\n"
    )
}

/// One container that requests so much CPU.
pub fn cpu(amount: &str) -> String {
    container("main", &format!("requests: {{cpu: {amount}}}"))
}

/// One container with these resources.
pub fn container(name: &str, resources: &str) -> String {
    format!("containers: [{{name: {name}, image: pause, resources: {{{resources}}}}}]")
}

/// Required anti-affinity by host to pods of a label.
pub fn apart(app: &str) -> String {
    format!(
        "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: kubernetes.io/hostname, \
         labelSelector: {{matchLabels: {{app: {app}}}}}}}]}}}}"
    )
}
