//! Names in a scenario's steps: objects and nodes that can be there by then.

use std::collections::BTreeSet;

use dovetail_api::manifest::Manifest;
use dovetail_input::Mistake;
use dovetail_sandbox::region::RegionConfig;
use serde_saphyr::Spanned;

use crate::scenario::{Scenario, Step, line};
use crate::world::kinds::CLUSTER_WIDE;

/// Kind, namespace (empty where the kind has none) and name.
type Key = (String, String, String);

/// Kinds that are gone at once when they are deleted.
const GONE_AT_ONCE: &[&str] =
    &["DaemonSet", "Deployment", "Job", "PodDisruptionBudget", "ReplicaSet", "Service", "StatefulSet"];
/// Kinds whose objects a controller makes pods for, named after them.
const MAKE_PODS: &[&str] = &["DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"];

/// Every name in a step of what cannot be there then: no manifest has it by that time, and no controller gives such a name.
pub fn check(
    path: &str,
    scenario: &Scenario,
    first: &[Manifest],
    read: impl Fn(&[String]) -> Result<Vec<Manifest>, Vec<Mistake>>,
) -> Result<(), Vec<Mistake>> {
    let mut names = Names {
        path,
        domain: RegionConfig::new(&scenario.region.value, &scenario.cluster_name.value).host_domain(),
        // A restore brings back objects that were deleted before.
        deletes: scenario.steps.iter().all(|step| step.restore.is_none()),
        known: BTreeSet::new(),
        alpha_as_written: scenario.alpha_as_written,
        mistakes: Vec::new(),
    };
    names.learn(first);
    for (index, step) in scenario.steps.iter().enumerate() {
        if let Some(files) = &step.apply {
            let resolved = |file: &Spanned<String>| Scenario::resolve(path, &file.value).to_string_lossy().into_owned();
            names.learn(&read(&files.iter().map(resolved).collect::<Vec<_>>())?);
        }
        names.step(index, step);
    }
    if names.mistakes.is_empty() { Ok(()) } else { Err(names.mistakes) }
}

struct Names<'a> {
    path: &'a str,
    /// Domain of the region's hosts.
    domain: String,
    deletes: bool,
    /// True if alpha objects are stored themselves, beside their meaning in v1.
    alpha_as_written: bool,
    known: BTreeSet<Key>,
    mistakes: Vec<Mistake>,
}

impl Names<'_> {
    /// Objects of manifests, as they are stored.
    fn learn(&mut self, manifests: &[Manifest]) {
        for manifest in manifests {
            if self.alpha_as_written {
                self.known.insert(key(&manifest.kind, "", &manifest.name));
            }
            let Some(v1) = &manifest.v1 else {
                let namespace = match CLUSTER_WIDE.contains(&manifest.kind.as_str()) {
                    true => "",
                    false => manifest.namespace.as_deref().unwrap_or_default(),
                };
                self.known.insert(key(&manifest.kind, namespace, &manifest.name));
                continue;
            };
            let pool = v1.node_pool.as_ref().map(|one| ("NodePool", &one.metadata));
            let class = v1.node_class.as_ref().map(|one| ("EC2NodeClass", &one.metadata));
            let claim = v1.node_claim.as_ref().map(|one| ("NodeClaim", &one.metadata));
            for (kind, metadata) in [pool, class, claim].into_iter().flatten() {
                self.known.insert(key(kind, "", metadata.name.as_deref().unwrap_or_default()));
            }
        }
    }

    fn step(&mut self, index: usize, step: &Step) {
        if let Some(scale) = &step.scale {
            self.there(&format!("steps[{index}].scale.name"), &scale.kind.value, &scale.namespace, &scale.name);
        }
        if let Some(target) = &step.delete {
            let field = format!("steps[{index}].delete.name");
            let own = self.there(&field, &target.kind.value, &target.namespace, &target.name);
            if self.deletes && GONE_AT_ONCE.contains(&target.kind.value.as_str()) {
                self.known.remove(&own);
            }
        }
        if let Some(some) = &step.delete_some {
            self.some(&format!("steps[{index}].deleteSome.kind"), &some.kind);
        }
        if let Some(some) = step.delete_some.as_ref().filter(|some| self.deletes && some.count.is_none()) {
            let kind = some.kind.value.as_str();
            self.known.retain(|(of, ..)| of != kind || !GONE_AT_ONCE.contains(&kind));
        }
        if let Some(node) = step.interrupt.as_ref().and_then(|which| which.node.as_ref()) {
            self.there(&format!("steps[{index}].interrupt.node"), "Node", "", node);
        }
    }

    /// Notes a mistake unless there can be objects of a kind: of manifests, or those that a controller or EC2 makes.
    fn some(&mut self, field: &str, kind: &Spanned<String>) {
        let made = ["Lease", "Node", "NodeClaim", "PersistentVolumeClaim", "Pod", "ReplicaSet"];
        if made.contains(&kind.value.as_str()) || self.known.iter().any(|(of, ..)| *of == kind.value) {
            return;
        }
        let kinds: BTreeSet<&str> = self.known.iter().map(|(of, ..)| of.as_str()).chain(made).collect();
        self.mistakes.push(Mistake {
            file: self.path.to_owned(),
            line: line(kind),
            field: field.to_owned(),
            what: format!("no {} is there by then", kind.value),
            allowed: kinds.into_iter().collect::<Vec<_>>().join(", "),
        });
    }

    /// Notes a mistake unless the object can be there. Answers its key.
    fn there(&mut self, field: &str, kind: &str, namespace: &str, name: &Spanned<String>) -> Key {
        let namespace = if CLUSTER_WIDE.contains(&kind) { "" } else { namespace };
        let own = key(kind, namespace, &name.value);
        if !self.known.contains(&own) && !self.is_made(kind, namespace, &name.value) {
            let full = if namespace.is_empty() { name.value.clone() } else { format!("{namespace}/{}", name.value) };
            self.mistakes.push(Mistake {
                file: self.path.to_owned(),
                line: line(name),
                field: field.to_owned(),
                what: format!("{kind} {full} is not there by then"),
                allowed: self.allowed(kind),
            });
        }
        own
    }

    /// True if a controller, or EC2, may give such a name.
    fn is_made(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let of = |kinds: &[&str], fits: &dyn Fn(&str) -> bool| {
            self.known
                .iter()
                .any(|(kind, space, own)| kinds.contains(&kind.as_str()) && space == namespace && fits(own))
        };
        let after = |own: &str| name.strip_prefix(own).is_some_and(|rest| rest.starts_with('-'));
        match kind {
            "Node" => name.starts_with("ip-") && name.ends_with(&format!(".{}", self.domain)),
            "NodeClaim" => of(&["NodePool"], &after),
            "ReplicaSet" => of(&["Deployment"], &after),
            "Pod" => of(MAKE_PODS, &after),
            // A StatefulSet's claim is named after its template, the set and the pod; an ephemeral volume's after the pod.
            "PersistentVolumeClaim" => {
                of(&["StatefulSet"], &|own| name.contains(&format!("-{own}-"))) || of(MAKE_PODS, &after)
            }
            "Lease" => true,
            _ => false,
        }
    }

    /// Names of that kind that there are, for a message.
    fn allowed(&self, kind: &str) -> String {
        if kind == "Node" {
            return format!("a node's name, such as ip-192-168-0-10.{}", self.domain);
        }
        let full = |(_, namespace, name): &Key| match namespace.as_str() {
            "" => name.clone(),
            namespace => format!("{namespace}/{name}"),
        };
        let names: Vec<String> = self.known.iter().filter(|(of, ..)| of == kind).take(8).map(full).collect();
        if names.is_empty() { format!("a {kind} of a manifest that is applied before") } else { names.join(", ") }
    }
}

fn key(kind: &str, namespace: &str, name: &str) -> Key {
    (kind.to_owned(), namespace.to_owned(), name.to_owned())
}
