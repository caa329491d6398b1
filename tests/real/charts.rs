//! The charts, installed by helm on a real control plane: upgraded under load, taken away in the order of the docs.

use std::process::{Command, Output};

use super::common::real::{POOL, Real};
use super::common::{python, root, stderr, stdout};

/// helm, as the cluster's administrator.
struct Helm {
    program: String,
    config: String,
}

impl Helm {
    fn new(real: &Real) -> Self {
        let built = python(&["tests/real/build.py", "helm"]);
        assert!(built.status.success(), "{}", stderr(&built));
        Self { program: stdout(&built).trim().to_owned(), config: real.file("admin.kubeconfig") }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.program);
        command.args(args).args(["--namespace", "kube-system", "--kubeconfig", &self.config]);
        command.current_dir(root()).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "helm {args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Installs or upgrades the main chart. The binary runs beside the cluster, so that its Deployment has no pods.
    fn chart(&self, more: &[&str]) -> Output {
        let own = ["upgrade", "--install", "dovetail", "deploy/helm/dovetail", "--take-ownership", "--set"];
        self.run(&[&own[..], &["settings.clusterName=demo,replicas=0"], more].concat())
    }
}

/// Objects that releases have made and that are still there, by kind and name.
fn left(real: &Real) -> Vec<String> {
    let kinds = "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,deployments,services,poddisruptionbudgets,\
                 networkpolicies,flowschemas,validatingadmissionpolicies,validatingadmissionpolicybindings,secrets";
    let mine = "app.kubernetes.io/instance=dovetail";
    let there = real.ok(&["get", kinds, "-A", "-l", mine, "-o", "name"]);
    there.lines().map(str::to_owned).collect()
}

/// Definitions that `dovetail-crd` brings.
const CRDS: [&str; 6] = [
    "nodepools.karpenter.sh",
    "nodeclaims.karpenter.sh",
    "ec2nodeclasses.karpenter.k8s.aws",
    "provisioners.karpenter.sh",
    "machines.karpenter.sh",
    "awsnodetemplates.karpenter.k8s.aws",
];

#[test]
fn charts_install_upgrade_under_load_and_leave_nothing_behind() {
    let mut real = Real::start("charts", &[]);
    let helm = Helm::new(&real);
    // Objects that the test's cluster has beforehand came by `kubectl apply`, as by hand.
    let crds = ["upgrade", "--install", "dovetail-crd", "deploy/helm/dovetail-crd"];
    let refused = helm.run(&crds);
    assert!(stderr(&refused).contains("cannot be imported into the current release"), "{}", stderr(&refused));
    helm.ok(&[&crds[..], &["--take-ownership"]].concat());

    // A Karpenter runs: helm says what to do, and nothing is installed.
    real.ok(&["create", "namespace", "karpenter"]);
    let image = "--image=public.ecr.aws/karpenter/controller:1.14.0";
    real.ok(&["-n", "karpenter", "create", "deployment", "karpenter", image]);
    let refused = helm.chart(&[]);
    assert!(stderr(&refused).contains("kubectl -n karpenter scale deployment karpenter --replicas 0"), "{refused:?}");
    assert!(!helm.run(&["status", "dovetail"]).status.success());
    real.ok(&["-n", "karpenter", "scale", "deployment", "karpenter", "--replicas=0"]);
    let installed = helm.chart(&[]);
    assert!(installed.status.success(), "{}", stderr(&installed));
    assert!(stdout(&installed).contains("helm test dovetail --namespace kube-system"), "{}", stdout(&installed));
    assert!(left(&real).len() > 12, "{:?}", left(&real));

    real.ok(&["apply", "-f", POOL]);
    real.order("start dovetail-0");
    real.ok(&["create", "deployment", "web", "--image=web:1", "--replicas=3"]);
    real.ok(&["set", "resources", "deployment/web", "--requests=cpu=1500m,memory=1Gi"]);
    real.until("three pods are Ready", |real| real.ready() == 3);
    // An upgrade while pods wait: roles and fence are written anew beneath a leader.
    real.ok(&["scale", "deployment/web", "--replicas=7"]);
    let upgraded = helm.chart(&["--set", "podAnnotations.version=next", "--set", "fence.exclusive=true"]);
    assert!(upgraded.status.success(), "{}", stderr(&upgraded));
    real.until("all pods are Ready", |real| real.ready() == 7);
    let claims = real.names("nodeclaims");

    // The wrong order: the CRDs' release goes first. They stay, and with them the claims; helm names what it keeps.
    let said = helm.ok(&["uninstall", "dovetail-crd"]);
    assert!(said.contains("kept due to the resource policy") && said.contains("nodeclaims.karpenter.sh"), "{said}");
    assert_eq!(real.names("nodeclaims"), claims);

    // The order of docs/guide/uninstalling.md.
    real.ok(&["delete", "provisioners,awsnodetemplates,machines", "--all", "--timeout=600s"]);
    real.ok(&["delete", "nodepools", "--all", "--timeout=600s"]);
    real.until_nothing_is_left();
    real.ok(&["delete", "ec2nodeclasses", "--all", "--timeout=600s"]);
    real.nothing_was_forbidden();
    // It gives its Lease back.
    real.order("term dovetail-0");
    while real.runs("dovetail-0") {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    helm.ok(&["uninstall", "dovetail"]);
    assert_eq!(left(&real), Vec::<String>::new());
    real.ok(&[&["get", "crd"], &CRDS[..]].concat());
    real.ok(&[&["delete", "crd", "--timeout=60s"], &CRDS[..]].concat());

    // CRDs of before v1: helm would leave them as they are, and nothing could run.
    let older = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "nodepools.karpenter.sh"}, "spec": {"group": "karpenter.sh", "scope": "Cluster",
        "names": {"kind": "NodePool", "listKind": "NodePoolList", "plural": "nodepools", "singular": "nodepool"},
        "versions": [{"name": "v1beta1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;
    real.ok(&["create", "-f", &super::common::write("older-crd.json", older)]);
    let refused = helm.chart(&[]);
    assert!(
        stderr(&refused).contains("nodepools.karpenter.sh in the cluster serves v1beta1 and not v1"),
        "{refused:?}"
    );
}
