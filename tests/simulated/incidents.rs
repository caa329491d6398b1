//! The usual incidents, each played against the control plane. Within a minute the event of the pod, or of the object itself, names the
//! cause and what can be done about it. docs/guide/run-books.md has the texts; `UPDATE=1` writes them there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;

use crate::common;
use crate::played;

use common::{root, write};
use played::{Played, at, manifests, play_over};
use serde_json::Value;

/// Page with the texts.
const BOOK: &str = "docs/guide/run-books.md";
/// Between these headings.
const SECTION: (&str, &str) = ("## The usual incidents\n", "\n## The control plane itself");
/// An event comes within so many seconds of its cause: a minute, and what a look takes.
const SOON: f64 = 62.0;

/// An incident, and the event that says so.
struct Incident {
    /// In the run-book.
    title: &'static str,
    name: &'static str,
    manifests: String,
    scenario: String,
    /// Seconds at which the cause is there.
    cause: fn(&Played) -> f64,
    /// The kind of the object whose event it is, and the event's reason.
    at: (&'static str, &'static str),
    /// Words of the cause and of the remedy.
    words: &'static [&'static str],
}

/// The cause is there from the beginning.
fn from_the_start(_: &Played) -> f64 {
    0.0
}

fn changed(from: &str, to: &str) -> String {
    let all = manifests(1);
    assert!(all.contains(from), "{from}");
    all.replace(from, to)
}

/// Incidents of a class or a pool that asks for something that cannot be had.
fn of_objects() -> Vec<Incident> {
    let unschedulable = |title, name, manifests, words| Incident {
        title,
        name,
        manifests,
        scenario: String::new(),
        cause: from_the_start,
        at: ("Pod", "FailedScheduling"),
        words,
    };
    let no_subnet = changed(
        "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]",
        "subnetSelectorTerms: [{tags: {team: nobody}}]",
    );
    let no_image = changed(
        "amiSelectorTerms: [{alias: al2023@latest}]",
        "amiFamily: AL2023\n  amiSelectorTerms: [{id: ami-0123456789abcdef0}]",
    );
    let limited = changed("spec:\n  disruption:", "spec:\n  limits: {cpu: '1'}\n  disruption:");
    vec![
        unschedulable("The class finds no subnet", "subnets", no_subnet, &["ubnet", "default", "kubectl describe"]),
        unschedulable("The class finds no image", "ami", no_image, &["AMI", "default", "kubectl describe"]),
        unschedulable("The NodePool's limits are reached", "limits", limited, &["limit", "cpu", "raise spec.limits"]),
        unschedulable(
            "A volume is in a zone that the pool does not use",
            "volume-zone",
            with_volume(),
            &["volumes", "ca-west-1c", "subnet"],
        ),
    ]
}

/// Incidents of EC2's refusals.
fn of_ec2() -> Vec<Incident> {
    let refused = |title, name, manifests, faults: &str, words| Incident {
        title,
        name,
        manifests,
        scenario: format!("faults: {{ec2: {{{faults}}}}}\n"),
        cause: from_the_start,
        at: ("Pod", "LaunchRefused"),
        words,
    };
    let spot = changed("values: [on-demand]", "values: [spot]");
    vec![
        refused(
            "A quota is used up",
            "quota",
            manifests(1),
            "vcpuQuotas: {Standard/on-demand: 1}",
            &["L-1216C47A", "Service Quotas"],
        ),
        refused(
            "The account has no role for spot",
            "spot-role",
            spot,
            "noSpotRole: true",
            &["service-linked role", "create-service-linked-role"],
        ),
        refused(
            "The controller's role lacks a permission",
            "iam",
            manifests(1),
            "unauthorized: [RunInstances]",
            &["may not ec2:RunInstances", "policy"],
        ),
    ]
}

/// Incidents that keep nodes from being used, or from going.
fn of_nodes() -> Vec<Incident> {
    let budget = "---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web, namespace: default}\nspec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}\n";
    let taint = "faults: {nodes: {taintOnJoin: {key: agent.example.com/not-ready, effect: NoSchedule}}}\n";
    vec![
        Incident {
            title: "A taint that the pool does not declare",
            name: "taint",
            manifests: manifests(1),
            scenario: taint.to_owned(),
            cause: |played| played.times("initialized")[0],
            at: ("Pod", "AwaitingTaint"),
            words: &["agent.example.com/not-ready:NoSchedule", "startupTaints"],
        },
        Incident {
            title: "A PodDisruptionBudget holds a drain",
            name: "budget",
            manifests: format!("{}{budget}", manifests(1)),
            scenario: "steps: [{at: 3m, delete: {kind: NodePool, name: default}}]\n".to_owned(),
            cause: |_| 180.0,
            at: ("Node", "FailedDraining"),
            words: &["default/web", "add replicas or lower the pdb"],
        },
        Incident {
            title: "A finalizer of somebody else keeps a Node",
            name: "finalizer",
            manifests: manifests(1),
            scenario: String::new(),
            cause: when_released,
            at: ("Node", "HeldByFinalizer"),
            words: &["example.com/inventory", "kubectl patch node"],
        },
    ]
}

/// Seconds at which our finalizer was taken off the Node.
fn when_released(played: &Played) -> f64 {
    let writes = played.seen("api", &[("resource", "nodes")]);
    let last =
        writes.into_iter().rfind(|one| !one["replica"].is_null() && one["sent"].to_string().contains("finalizers"));
    at(last.expect("our finalizer is taken off"))
}

/// A pod with a volume of one zone, and a pool of another.
fn with_volume() -> String {
    let pool = "        - {key: karpenter.sh/capacity-type";
    let zoned = format!("        - {{key: topology.kubernetes.io/zone, operator: In, values: [ca-west-1a]}}\n{pool}");
    let main = "      containers: [{name: main, image: pause,";
    let mounted = format!("      volumes: [{{name: data, persistentVolumeClaim: {{claimName: data}}}}]\n{main}");
    let all = manifests(1).replace(pool, &zoned).replace(main, &mounted);
    format!(
        "{all}---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: data}}
spec:
  capacity: {{storage: 10Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: ''
  claimRef: {{namespace: default, name: data}}
  csi: {{driver: ebs.csi.aws.com, volumeHandle: vol-0123456789abcdef0}}
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: topology.kubernetes.io/zone, operator: In, values: [ca-west-1c]}}]}}]}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, namespace: default}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: '', volumeName: data, resources: {{requests: {{storage: 10Gi}}}}}}
"
    )
}

/// The Pod that the leader runs in, and its place on a node that is there from the beginning.
const OWN_POD: &str = "---
apiVersion: v1
kind: Pod
metadata: {name: dovetail-0, namespace: kube-system}
spec:
  nodeSelector: {role: system}
  tolerations: [{key: role, operator: Exists}]
  containers: [{name: controller, image: dovetail, resources: {requests: {cpu: 100m, memory: 128Mi}}}]
";
const OWN_NODE: &str = "nodes:
  - instanceType: m5.large
    zone: ca-west-1a
    labels: {role: system}
    taints: [{key: role, value: system, effect: NoSchedule}]
";

/// Losses of the leader's queue, and of its time.
fn of_the_leader() -> Vec<Incident> {
    let spot = changed("values: [on-demand]", "values: [spot]");
    let lost = |title, name, how: &str, kind: &'static str, words: &'static [&'static str]| Incident {
        title,
        name,
        manifests: format!("{spot}{OWN_POD}"),
        scenario: format!("{OWN_NODE}faults: {{sqs: {{lost: {{how: {how}, after: 3m}}}}}}\n"),
        cause: |_| 180.0,
        at: (kind, "InterruptionsNotHeard"),
        words,
    };
    vec![
        lost(
            "The controller may not read the interruption queue (at its own Pod)",
            "queue-denied",
            "denied",
            "Pod",
            &["AccessDenied", "allow sqs:GetQueueUrl, sqs:ReceiveMessage"],
        ),
        lost(
            "The interruption queue is deleted",
            "queue-deleted",
            "deleted",
            "NodePool",
            &["NonExistentQueue", "queue demo", "deploy the stack again"],
        ),
        Incident {
            title: "The leader's clock is wrong",
            name: "clock",
            manifests: manifests(1),
            scenario: "clocks: [{jumps: [{at: 3m, by: 10m}]}]\n".to_owned(),
            cause: |_| 180.0,
            at: ("NodePool", "ClockSkewed"),
            words: &["dovetail-0", "more than 5 min ahead of the API server's clock", "chrony"],
        },
    ]
}

impl Incident {
    fn play(&self) -> Played {
        let name = format!("incident-{}", self.name);
        if self.name == "finalizer" {
            return self.play_finalizer(&name);
        }
        play_over(&name, &self.manifests, &format!("{}until: 5m\n", self.scenario))
    }

    /// The name of the Node is known once it has been played without the finalizer.
    fn play_finalizer(&self, name: &str) -> Played {
        let first = play_over(&format!("{name}-first"), &self.manifests, "until: 3m\n");
        let node = first.report["nodes"][0]["name"].as_str().unwrap();
        let held = format!(
            "apiVersion: v1\nkind: Node\nmetadata: {{name: {node}, finalizers: [karpenter.sh/termination, example.com/inventory]}}\n"
        );
        write(&format!("{name}/held.yaml"), &held);
        let steps =
            "steps: [{at: 3m, apply: [held.yaml]}, {at: 4m, delete: {kind: NodePool, name: default}}]\nuntil: 10m\n";
        play_over(name, &self.manifests, steps)
    }

    /// The first event, and that it came soon and says enough.
    fn reported(&self, played: &Played) -> String {
        let (kind, reason) = self.at;
        let events = played.seen("api", &[("resource", "events"), ("verb", "create")]);
        let is_it =
            |event: &&Value| event["sent"]["involvedObject"]["kind"] == kind && event["sent"]["reason"] == reason;
        let cause = (self.cause)(played);
        let says = |event: &&Value| {
            let message = event["sent"]["message"].as_str().unwrap();
            self.words.iter().all(|word| message.contains(word))
        };
        let all: Vec<&Value> = events.into_iter().filter(is_it).collect();
        let found = all.iter().copied().find(says);
        let found =
            found.unwrap_or_else(|| panic!("{}: no {reason} at a {kind} has {:?}: {all:#?}", self.name, self.words));
        let after = at(found) - cause;
        assert!((0.0..=SOON).contains(&after), "{}: said {after:.0} s after its cause", self.name);
        plain(found["sent"]["message"].as_str().unwrap())
    }
}

/// A message without what is another name in another run.
fn plain(message: &str) -> String {
    let name_of = |word: &str| {
        let core = word.trim_matches(|letter: char| ",.;:()'\"".contains(letter));
        let plain = match core {
            _ if core.starts_with("ip-") => "NODE",
            _ if core.starts_with("default-") && core.len() == 13 => "NODECLAIM",
            _ if core.starts_with("default/web-") => "default/POD",
            _ if core.starts_with("arn:") => "ARN",
            _ if core.len() == 20 && core.ends_with('Z') && core.starts_with("20") => "TIME",
            _ if core.len() > 60 => "TEXT",
            _ => return word.to_owned(),
        };
        word.replacen(core, plain, 1)
    };
    message.split(' ').map(name_of).collect::<Vec<_>>().join(" ")
}

#[test]
fn usual_incidents_name_cause_and_remedy_within_a_minute() {
    let incidents: Vec<Incident> =
        [of_objects(), of_ec2(), of_nodes(), of_the_leader()].into_iter().flatten().collect();
    // The runs do not know each other.
    let played: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = incidents.iter().map(|one| scope.spawn(|| one.reported(&one.play()))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut text = String::from(
        "\nEach row is played by a test against the control plane: within a minute of the cause the event says\nwhat is the matter and what can be done.\n\n| incident | event at | it says |\n|---|---|---|\n",
    );
    for (incident, message) in incidents.iter().zip(&played) {
        let (kind, reason) = incident.at;
        writeln!(text, "| {} | {kind}, `{reason}` | {} |", incident.title, message.replace('|', "\\|")).unwrap();
    }
    let path = root().join(BOOK);
    let book = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = book.split_once(SECTION.0).expect("the section is there");
    let (written, after) = rest.split_once(SECTION.1).expect("the next section is there");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{}{text}{}{after}", SECTION.0, SECTION.1)).unwrap();
        return;
    }
    assert_eq!(written, text, "{BOOK} says something else; UPDATE=1 writes it anew");
}
