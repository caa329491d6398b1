//! Demands of a pod's PersistentVolumeClaims on its node (spec core 3.8): the places of its volumes, and the number that a
//! node attaches. Claims, volumes and storage classes are read once into small facts.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, Pod as KubePod, TopologySelectorTerm,
};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};

use crate::labels;
use crate::requirements::{NodeSelectorRequirement, Operator, Requirements};
use crate::resources::Resources;

/// The resource that counts attachments of a CSI driver, as kube-scheduler names it, without the driver.
const ATTACHABLE: &str = "attachable-volumes-csi-";
/// The EBS CSI driver.
pub const EBS: &str = "ebs.csi.aws.com";
/// The in-tree provisioner that it replaces.
const EBS_IN_TREE: &str = "kubernetes.io/aws-ebs";
/// Most combinations of the places of a pod's volumes; more make no sense.
const MOST_COMBINATIONS: usize = 64;

/// The resource that counts a CSI driver's attachments. A node that does not name it has no bound.
#[must_use]
pub fn attachable(driver: &str) -> String {
    format!("{ATTACHABLE}{driver}")
}

/// True if a resource counts attachments.
#[must_use]
pub fn is_attachable(resource: &str) -> bool {
    resource.starts_with(ATTACHABLE)
}

/// Requirements, all of which a node has to meet.
type Place = Vec<NodeSelectorRequirement>;

/// Facts about a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeClaimFacts {
    /// Its storage class; `None` if it asks for none.
    pub class: Option<String>,
    /// The PersistentVolume that it names, empty while it names none.
    pub volume: String,
    /// True if both sides know of each other.
    pub bound: bool,
    /// True if its volume is lost.
    pub lost: bool,
    pub deleting: bool,
    /// True if it is there and cannot be read.
    pub unreadable: bool,
    /// True if one pod alone may use it (access mode ReadWriteOncePod).
    pub one_pod: bool,
}

impl VolumeClaimFacts {
    /// Reads a PersistentVolumeClaim of the API.
    #[must_use]
    pub fn from_claim(claim: &PersistentVolumeClaim) -> Self {
        const DONE: &str = "pv.kubernetes.io/bind-completed";
        let spec = claim.spec.clone().unwrap_or_default();
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        Self {
            class: spec.storage_class_name.filter(|name| !name.is_empty()),
            volume: spec.volume_name.unwrap_or_default(),
            bound: claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DONE)),
            lost: phase == Some("Lost"),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            unreadable: false,
            one_pod: spec.access_modes.iter().flatten().any(|mode| mode == "ReadWriteOncePod"),
        }
    }
}

/// Facts about a PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Places where it can be used: nodes that meet one of these; anywhere when empty.
    pub places: Vec<Place>,
    /// The CSI driver that attaches it, that of the in-tree plugin included.
    pub driver: Option<String>,
    pub deleting: bool,
    /// True if it is there and cannot be read.
    pub unreadable: bool,
}

impl VolumeFacts {
    /// Reads a PersistentVolume of the API.
    #[must_use]
    pub fn from_volume(volume: &PersistentVolume) -> Self {
        let spec = volume.spec.clone().unwrap_or_default();
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        let terms = required.map(|required| required.node_selector_terms).unwrap_or_default();
        let driver = spec.csi.map(|csi| csi.driver);
        let mut places: Vec<Place> = terms.iter().map(place_of).collect();
        let labelled = labelled(volume);
        if !labelled.is_empty() {
            places.resize_with(places.len().max(1), Place::new);
            places.iter_mut().for_each(|place| place.extend(labelled.iter().cloned()));
        }
        Self {
            places,
            driver: driver.or_else(|| spec.aws_elastic_block_store.map(|_| EBS.to_owned())),
            deleting: volume.metadata.deletion_timestamp.is_some(),
            unreadable: false,
        }
    }
}

/// Facts about a StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassFacts {
    /// Provisioner of its volumes, the in-tree EBS plugin under its CSI driver's name.
    pub provisioner: String,
    /// True if a volume is made only when a pod's node is chosen.
    pub waits: bool,
    /// Places where its volumes are made: nodes that meet one of these; anywhere when empty.
    pub places: Vec<Place>,
    /// True if it is there and cannot be read.
    pub unreadable: bool,
}

impl ClassFacts {
    /// Reads a StorageClass of the API.
    #[must_use]
    pub fn from_class(class: &StorageClass) -> Self {
        let provisioner = if class.provisioner == EBS_IN_TREE { EBS } else { &class.provisioner };
        Self {
            provisioner: provisioner.to_owned(),
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            places: class.allowed_topologies.iter().flatten().map(allowed).collect(),
            unreadable: false,
        }
    }
}

fn allowed(term: &TopologySelectorTerm) -> Place {
    let expressions = term.match_label_expressions.iter().flatten();
    expressions.map(|one| NodeSelectorRequirement::one_of(one.key.clone(), one.values.clone())).collect()
}

/// Requirements by a volume's own labels, beside its node affinity: zone and region under each of their names, several values
/// parted by `__` (kube-scheduler's `VolumeZone`). An empty value says nothing.
fn labelled(volume: &PersistentVolume) -> Place {
    let mut place = Place::new();
    for (key, value) in volume.metadata.labels.iter().flatten() {
        let key = labels::stable(key);
        let values: Vec<&str> = value.split("__").map(str::trim).collect();
        if matches!(key, labels::ZONE | labels::REGION) && values.iter().all(|one| !one.is_empty()) {
            let one = NodeSelectorRequirement::one_of(key, values);
            if !place.contains(&one) {
                place.push(one);
            }
        }
    }
    place
}

fn place_of(term: &NodeSelectorTerm) -> Place {
    let mut place = Place::new();
    for one in term.match_expressions.iter().flatten() {
        match NodeSelectorRequirement::from_kube(one) {
            Ok(read) if Requirements::from_written([&read]).is_ok() => place.push(read),
            // A requirement that makes no sense is met by no node.
            _ => place.extend(
                [Operator::Exists, Operator::DoesNotExist]
                    .map(|operator| NodeSelectorRequirement::new(one.key.clone(), operator, Vec::<String>::new())),
            ),
        }
    }
    place
}

/// Number of volumes that the CSI drivers of a node attach, as they say.
#[must_use]
pub fn attachments_of(node: &CSINode) -> Resources {
    let mut all = Resources::new();
    for driver in &node.spec.drivers {
        if let Some(count) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) {
            all.set(attachable(&driver.name), i64::from(count.max(0)));
        }
    }
    all
}

/// Names of the claims that a pod uses; those of its generic ephemeral volumes go by the pod's name.
#[must_use]
pub fn claims_of(pod: &KubePod) -> Vec<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let used = volumes.iter().filter_map(|volume| match &volume.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name.clone()),
        None => volume.ephemeral.as_ref().map(|_| format!("{name}-{}", volume.name)),
    });
    used.collect::<BTreeSet<_>>().into_iter().collect()
}

fn claim_text(namespace: &str, claim: &str) -> String {
    format!("PersistentVolumeClaim {namespace}/{claim}")
}

/// Known claims, volumes and storage classes.
#[derive(Clone, Copy, Debug)]
pub struct VolumeLookup<'a, C, V, S> {
    /// Claims by `namespace/name`.
    pub claims: &'a BTreeMap<String, C>,
    pub volumes: &'a BTreeMap<String, V>,
    /// Storage classes by name.
    pub classes: &'a BTreeMap<String, S>,
}

/// Demands of a pod's claims on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The node has to meet one of these; anything when empty.
    pub places: Vec<Place>,
    /// Volumes to attach: the driver, and a name that no other volume has.
    pub attachments: BTreeSet<(String, String)>,
}

impl<C: AsRef<VolumeClaimFacts>, V: AsRef<VolumeFacts>, S: AsRef<ClassFacts>> VolumeLookup<'_, C, V, S> {
    /// Demands of a namespace's claims on a node.
    ///
    /// # Errors
    /// The reason that no node would do, as a sentence.
    pub fn needs(&self, namespace: &str, claims: &[String]) -> Result<Needs, String> {
        let mut needs = Needs::default();
        let mut all: Vec<Vec<Place>> = Vec::new();
        for name in claims {
            let (places, attachment) = self.of_claim(namespace, name)?;
            needs.attachments.extend(attachment);
            all.push(places);
        }
        needs.places = combined(all)?;
        Ok(needs)
    }

    /// Volumes that a bound pod attaches; unknown claims are skipped.
    #[must_use]
    pub fn attached(&self, namespace: &str, claims: &[String]) -> BTreeSet<(String, String)> {
        claims.iter().filter_map(|name| self.of_claim(namespace, name).ok()?.1).collect()
    }

    fn of_claim(&self, namespace: &str, name: &str) -> Result<(Vec<Place>, Option<(String, String)>), String> {
        let who = || claim_text(namespace, name);
        let key = format!("{namespace}/{name}");
        let claim = self.claims.get(&key).ok_or_else(|| format!("{} is not there", who()))?.as_ref();
        if claim.unreadable {
            return Err(format!("{} cannot be read", who()));
        }
        if claim.deleting {
            return Err(format!("{} is being deleted", who()));
        }
        if claim.lost {
            return Err(format!("{} has lost its volume", who()));
        }
        if !claim.volume.is_empty() {
            if !claim.bound {
                return Err(format!("{} is not bound yet to volume {}", who(), claim.volume));
            }
            let volume = self.volumes.get(&claim.volume).map(AsRef::as_ref).filter(|volume| !volume.deleting);
            let volume = volume.ok_or_else(|| format!("volume {} of {} is gone", claim.volume, who()))?;
            if volume.unreadable {
                return Err(format!("volume {} of {} cannot be read", claim.volume, who()));
            }
            let attachment = volume.driver.clone().map(|driver| (driver, claim.volume.clone()));
            return Ok((volume.places.clone(), attachment));
        }
        let named = claim.class.as_deref().ok_or_else(|| format!("{} is unbound and has no StorageClass", who()))?;
        let class = self.classes.get(named).map(AsRef::as_ref);
        let class = class.ok_or_else(|| format!("StorageClass {named} of {} is not there", who()))?;
        if class.unreadable {
            return Err(format!("StorageClass {named} of {} cannot be read", who()));
        }
        if !class.waits {
            return Err(format!("{} is unbound, and its StorageClass {named} does not wait for a pod's node", who()));
        }
        Ok((class.places.clone(), Some((class.provisioner.clone(), key))))
    }
}

/// One place of each volume together: the ways that do not contradict themselves, or all where every one does, so that
/// the reason can be told.
fn combined(all: Vec<Vec<Place>>) -> Result<Vec<Place>, String> {
    let mut ways: Vec<Place> = vec![vec![]];
    for places in all.into_iter().filter(|places| !places.is_empty()) {
        let mut next: Vec<Place> = Vec::new();
        for way in &ways {
            for place in &places {
                let mut both = way.clone();
                both.extend(place.iter().filter(|one| !way.contains(one)).cloned());
                if !next.contains(&both) {
                    next.push(both);
                }
                if next.len() > MOST_COMBINATIONS {
                    return Err(format!("its volumes can be in more than {MOST_COMBINATIONS} combinations of places"));
                }
            }
        }
        if next.iter().any(can_be) {
            next.retain(can_be);
        }
        ways = next;
    }
    ways.retain(|way| !way.is_empty());
    Ok(ways)
}

/// True if some node could meet all of it.
fn can_be(way: &Place) -> bool {
    Requirements::from_written(way)
        .is_ok_and(|all| all.iter().all(|(_, left)| !left.is_empty() || left.allows_absence()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[derive(Default)]
    struct Store {
        claims: BTreeMap<String, Arc<VolumeClaimFacts>>,
        volumes: BTreeMap<String, Arc<VolumeFacts>>,
        classes: BTreeMap<String, Arc<ClassFacts>>,
    }

    impl Store {
        fn new() -> Self {
            let mut store = Self::default();
            store.class("gp2", "kubernetes.io/aws-ebs", "WaitForFirstConsumer", json!(null));
            store
        }

        fn class(&mut self, name: &str, provisioner: &str, mode: &str, topologies: Value) {
            let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode,
                "allowedTopologies": topologies});
            self.classes.insert(name.into(), Arc::new(ClassFacts::from_class(&serde_json::from_value(class).unwrap())));
        }

        fn claim(&mut self, name: &str, claim: Value) {
            let facts = VolumeClaimFacts::from_claim(&serde_json::from_value(claim).unwrap());
            self.claims.insert(format!("default/{name}"), Arc::new(facts));
        }

        fn bound(&mut self, name: &str, volume: Value) {
            let done = json!({"pv.kubernetes.io/bind-completed": "yes"});
            let claim = json!({"metadata": {"annotations": done}, "spec": {"volumeName": format!("pv-{name}")}});
            self.claim(name, claim);
            let facts = VolumeFacts::from_volume(&serde_json::from_value(json!({"spec": volume})).unwrap());
            self.volumes.insert(format!("pv-{name}"), Arc::new(facts));
        }

        fn needs(&self, claims: &[&str]) -> Result<Needs, String> {
            let known = VolumeLookup { claims: &self.claims, volumes: &self.volumes, classes: &self.classes };
            known.needs("default", &claims.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        }

        fn places(&self, claims: &[&str]) -> Vec<String> {
            let told = |way: &Place| Requirements::from_written(way).unwrap().to_string();
            self.needs(claims).unwrap().places.iter().map(told).collect()
        }
    }

    /// Places of a volume with these labels.
    fn labelled(labels: &Value, spec: &Value) -> Vec<String> {
        let volume = json!({"metadata": {"labels": labels}, "spec": spec});
        let facts = VolumeFacts::from_volume(&serde_json::from_value(volume).unwrap());
        facts.places.iter().map(|place| Requirements::from_written(place).unwrap().to_string()).collect()
    }

    fn affinity(key: &str, zones: &[&[&str]]) -> Value {
        let term = |values: &&[&str]| json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]});
        json!({"required": {"nodeSelectorTerms": zones.iter().map(term).collect::<Vec<_>>()}})
    }

    const EBS_ZONE: &str = "topology.ebs.csi.aws.com/zone";
    const ZONE: &str = "topology.kubernetes.io/zone";

    #[test]
    fn bound_pvc_follows_volume_affinity_by_csi_or_in_tree_zone_key() {
        let mut store = Store::new();
        store.bound(
            "a",
            json!({"nodeAffinity": affinity(EBS_ZONE, &[&["z1"]]), "csi": {"driver": EBS, "volumeHandle": "v"}}),
        );
        store.bound(
            "b",
            json!({"nodeAffinity": affinity(ZONE, &[&["z1", "z2"]]), "awsElasticBlockStore": {"volumeID": "v"}}),
        );
        let needs = store.needs(&["a", "b"]).unwrap();
        assert_eq!(store.places(&["a", "b"]), [format!("{ZONE} In [z1]")]);
        let named = |volume: &str| (EBS.to_owned(), volume.to_owned());
        assert_eq!(needs.attachments, BTreeSet::from([named("pv-a"), named("pv-b")]));
    }

    #[test]
    fn the_zone_labels_of_a_volume_bind_beside_its_node_affinity() {
        for key in [ZONE, EBS_ZONE, "failure-domain.beta.kubernetes.io/zone"] {
            assert_eq!(labelled(&json!({key: "z1"}), &json!({})), [format!("{ZONE} In [z1]")], "{key}");
        }
        assert_eq!(labelled(&json!({ZONE: "z1__z2"}), &json!({})), [format!("{ZONE} In [z1, z2]")]);
        let region = json!({"failure-domain.beta.kubernetes.io/region": "r", "app": "db"});
        assert_eq!(labelled(&region, &json!({})), ["topology.kubernetes.io/region In [r]"]);
        let either = json!({"nodeAffinity": affinity(EBS_ZONE, &[&["z1", "z2"], &["z2", "z3"]])});
        let both = format!("{ZONE} In [z2]");
        assert_eq!(labelled(&json!({ZONE: "z2"}), &either), [both.clone(), both]);
        assert!(labelled(&json!({ZONE: ""}), &json!({})).is_empty(), "an empty value says nothing");
    }

    #[test]
    fn unbound_pvc_may_be_in_each_term_of_its_storage_class() {
        let mut store = Store::new();
        let terms = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]},
                           {"matchLabelExpressions": [{"key": ZONE, "values": ["z2", "z3"]}]}]);
        store.class("zonal", EBS, "WaitForFirstConsumer", terms);
        store.claim("a", json!({"spec": {"storageClassName": "zonal"}}));
        store.claim("free", json!({"spec": {"storageClassName": "gp2"}}));
        assert_eq!(store.places(&["a", "free"]), [format!("{ZONE} In [z1]"), format!("{ZONE} In [z2, z3]")]);
        assert!(store.places(&["free"]).is_empty());
        let named = |volume: &str| (EBS.to_owned(), volume.to_owned());
        let both = BTreeSet::from([named("default/a"), named("default/free")]);
        assert_eq!(store.needs(&["a", "free"]).unwrap().attachments, both, "in-tree EBS is the CSI driver's");
    }

    #[test]
    fn ways_that_contradict_themselves_are_left_out_unless_all_do() {
        let mut store = Store::new();
        store.bound("a", json!({"nodeAffinity": affinity(ZONE, &[&["z1"], &["z2"]])}));
        store.bound("b", json!({"nodeAffinity": affinity(ZONE, &[&["z2"], &["z3"]])}));
        assert_eq!(store.places(&["a", "b"]), [format!("{ZONE} In [z2]")]);
        store.bound("c", json!({"nodeAffinity": affinity(ZONE, &[&["z9"]])}));
        assert_eq!(store.needs(&["a", "c"]).unwrap().places.len(), 2);
    }

    #[test]
    fn too_many_combinations_are_refused_and_not_counted_out() {
        let mut store = Store::new();
        let zones: Vec<String> = (0..40).map(|at| format!("z{at}")).collect();
        let terms: Vec<Vec<&str>> = zones.iter().map(|zone| vec![zone.as_str(), "all"]).collect();
        let terms: Vec<&[&str]> = terms.iter().map(Vec::as_slice).collect();
        for name in ["a", "b", "c", "d"] {
            store.bound(name, json!({"nodeAffinity": affinity(ZONE, &terms)}));
        }
        assert!(store.needs(&["a", "b", "c", "d"]).unwrap_err().contains("combinations"));
    }

    #[test]
    fn a_local_volume_is_on_its_host_until_its_pod_moves() {
        let mut store = Store::new();
        let mut local = affinity("kubernetes.io/hostname", &[&["n1"]]);
        let zone = json!({"key": ZONE, "operator": "In", "values": ["z1"]});
        local["required"]["nodeSelectorTerms"][0]["matchExpressions"].as_array_mut().unwrap().push(zone);
        store.bound("a", json!({"nodeAffinity": local, "local": {"path": "/d"}}));
        assert_eq!(store.places(&["a"]), [format!("kubernetes.io/hostname In [n1], {ZONE} In [z1]")]);
        let host = NodeSelectorRequirement::one_of("kubernetes.io/hostname", ["n1"]);
        let zone = NodeSelectorRequirement::one_of(ZONE, ["z1"]);
        let mut pod =
            crate::pod::Pod { volume_topology: vec![vec![host.clone(), zone.clone()]], ..crate::pod::Pod::default() };
        pod.forget_host();
        assert_eq!(pod.volume_topology, [vec![zone]]);
        pod.volume_topology = vec![vec![host]];
        pod.forget_host();
        assert!(pod.volume_topology.is_empty());
    }

    #[test]
    fn a_claim_that_no_node_can_serve_is_refused_with_the_reason() {
        let mut store = Store::new();
        store.class("now", EBS, "Immediate", json!(null));
        store.claim("immediate", json!({"spec": {"storageClassName": "now"}}));
        store.claim("classless", json!({"spec": {}}));
        store.claim("unknown", json!({"spec": {"storageClassName": "who"}}));
        store.claim("half", json!({"spec": {"volumeName": "pv-x"}}));
        store.claim("lost", json!({"spec": {}, "status": {"phase": "Lost"}}));
        store.claim("going", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        store.bound("gone", json!({}));
        store.volumes.clear();
        for (claim, why) in [
            ("none", "is not there"),
            ("immediate", "does not wait for a pod's node"),
            ("classless", "has no StorageClass"),
            ("unknown", "StorageClass who of PersistentVolumeClaim default/unknown is not there"),
            ("half", "is not bound yet to volume pv-x"),
            ("lost", "has lost its volume"),
            ("going", "is being deleted"),
            ("gone", "volume pv-gone of PersistentVolumeClaim default/gone is gone"),
        ] {
            let told = store.needs(&[claim]).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn ephemeral_volumes_have_claims_by_the_pods_name() {
        let pod = json!({"metadata": {"name": "web-0"}, "spec": {"containers": [], "volumes": [
            {"name": "scratch", "ephemeral": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "own"}},
            {"name": "again", "persistentVolumeClaim": {"claimName": "own"}}, {"name": "tmp", "emptyDir": {}}]}});
        assert_eq!(claims_of(&serde_json::from_value(pod).unwrap()), ["own", "web-0-scratch"]);
    }
}
