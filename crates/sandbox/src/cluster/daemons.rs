//! Parts that EKS puts into every cluster: the `kube-dns` Service, and if asked for the system's DaemonSets.

use serde_json::{Value, json};

use super::context::ClusterContext;
use super::kind::Kind;

/// Creates what is not there yet.
pub(crate) fn furnish(ctx: &mut ClusterContext) {
    let port = |name: &str, protocol: &str, port: u16| json!({"name": name, "protocol": protocol, "port": port, "targetPort": port});
    let services = [
        json!({
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {"clusterIP": "172.20.0.1", "clusterIPs": ["172.20.0.1"], "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 443}]},
        }),
        json!({
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}},
            "spec": {"clusterIP": "172.20.0.10", "clusterIPs": ["172.20.0.10"], "selector": {"k8s-app": "kube-dns"},
                "ports": [port("dns", "UDP", 53), port("dns-tcp", "TCP", 53)]},
        }),
    ];
    for service in services {
        // One that is there already stays.
        let _ = ctx.kube.create(Kind::Service, service);
    }
    if ctx.settings.system_daemons {
        for set in [
            daemon_set("aws-node", &[("aws-node", "25m"), ("aws-eks-nodeagent", "25m")]),
            daemon_set("kube-proxy", &[("kube-proxy", "100m")]),
        ] {
            let _ = ctx.kube.create(Kind::DaemonSet, set);
        }
    }
}

/// A DaemonSet of `kube-system` with the requests that EKS gives it.
fn daemon_set(name: &str, containers: &[(&str, &str)]) -> Value {
    let container = |(name, cpu): &(&str, &str)| {
        json!({"name": name, "image": format!("602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/{name}:latest"),
            "resources": {"requests": {"cpu": cpu}}})
    };
    let containers: Vec<Value> = containers.iter().map(container).collect();
    let labels = json!({"k8s-app": name});
    json!({
        "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"hostNetwork": true, "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}], "containers": containers},
            },
        },
    })
}
