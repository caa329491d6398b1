//! The control plane's own pods: one a replica in `kube-system`, with the replica's log. To delete one is to
//! restart its replica.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dovetail_input::Failure;
use dovetail_sandbox::apiserver::{ApiServer, ChangeKind, LogBook, PODS};
use dovetail_simulation::{Action, ReplicaRef, World};
use serde_json::{Value, json};

use crate::cli::SandboxArgs;

/// Namespace of the replicas' pods.
const NAMESPACE: &str = "kube-system";
/// Time until a replica comes back: longer than its Lease lasts, so that another one leads meanwhile.
const RESTART: Duration = Duration::from_secs(30);

/// The pods of all replicas.
pub struct ControlPlanePods {
    books: Arc<Vec<Arc<LogBook>>>,
}

impl ControlPlanePods {
    /// The pods, with empty logs.
    pub fn new(args: &SandboxArgs) -> Self {
        Self { books: Arc::new((0..args.replicas).map(|_| Arc::default()).collect()) }
    }

    /// The logs, by the number of the replica.
    pub fn books(&self) -> Arc<Vec<Arc<LogBook>>> {
        self.books.clone()
    }

    /// Creates the pods, and restarts a replica whose pod is deleted.
    pub fn start(&self, world: &Rc<World>) -> Result<(), Failure> {
        let mut changes = world.api.subscribe(&[PODS]);
        for (number, book) in self.books.iter().enumerate() {
            world.api.keep_log(NAMESPACE, &name(number), book.clone());
            create(&world.api, number, &world.wall().to_string())
                .map_err(|why| Failure::System(format!("the sandbox refuses the control plane's own pod: {why}")))?;
        }
        let (world, count) = (world.clone(), self.books.len());
        tokio::task::spawn_local(async move {
            while let Some(change) = changes.recv().await {
                let ours =
                    (0..count).find(|number| change.key.namespace == NAMESPACE && change.key.name == name(*number));
                if let Some(number) = ours.filter(|_| change.kind == ChangeKind::Deleted) {
                    restart(&world, number);
                }
            }
        });
        Ok(())
    }
}

/// The name of a replica's pod, which is its identity in the Lease.
fn name(number: usize) -> String {
    format!("dovetail-{number}")
}

fn restart(world: &Rc<World>, number: usize) {
    let replica = ReplicaRef::Number(u32::try_from(number).unwrap_or_default());
    let kill = Action::Kill { replica, duration: Some(RESTART) };
    // A replica of that number exists, and nothing else can be refused.
    let _ = world.act(&kill, &|_| Ok(Vec::new()));
    let world = world.clone();
    tokio::task::spawn_local(async move {
        tokio::time::sleep(RESTART).await;
        // Somebody may have taken the name meanwhile.
        let _ = create(&world.api, number, &world.wall().to_string());
    });
}

/// Creates a pod that runs. It is on no node of the cluster, and nobody is asked to find it one.
fn create(api: &ApiServer, number: usize, now: &str) -> Result<(), String> {
    let labels = json!({"karpenter": "controller", "app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "dovetail"});
    let container = json!({"name": "controller", "image": "dovetail", "args": ["run"], "resources": {}});
    let pod = json!({"metadata": {"name": name(number), "labels": labels},
        "spec": {"schedulerName": "dovetail.dev/outside", "priorityClassName": "system-cluster-critical", "containers": [container]}});
    api.create(&PODS, NAMESPACE, pod).map_err(|why| why.to_string())?;
    api.patch_status(&PODS, NAMESPACE, &name(number), &status(now)).map(drop).map_err(|why| why.to_string())
}

fn status(now: &str) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    json!({"status": {
        "phase": "Running",
        "startTime": now,
        "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
        "containerStatuses": [{"name": "controller", "image": "dovetail", "imageID": "dovetail", "ready": true, "started": true,
            "restartCount": 0, "state": {"running": {"startedAt": now}}}],
    }})
}
