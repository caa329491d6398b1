//! A request as it is read: its class, the shape and the number of its pods, and the bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::provisioning::{
    ATOMIC_SCALE_UP, CHECK_CAPACITY, NO_RETRY, PROCESSOR_INSTANCE, PodSet, ProvisioningRequest, VALID_UNTIL_SECONDS,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod as KubePod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::pod::{BOOKED_UID, Pod};

/// Most pods of one request: a larger one is refused, as half of a gang is none.
pub const MOST_PODS: usize = 5_000;
/// Most pods of all requests for which room is held or looked for together: later ones wait.
pub const MOST_PODS_OF_ALL: usize = 20_000;
/// Most pod sets of one request, as the CRD has it.
const MOST_SETS: usize = 32;
/// Beginning of the name of a pod that is no object; its request's name, the number of its set and its own follow.
pub(super) const GANG_POD_NAME: &str = "provisioning-request-";
/// Time after its creation for which a request without room is tried, unless it says another (Cluster Autoscaler's).
const VALIDITY: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The way in which a request is fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangClass {
    /// Room on nodes that are there.
    CheckCapacity,
    /// Room on nodes that are there and on new ones.
    Atomic,
}

/// Pods of one template.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSetShape {
    /// One of them, its name and number left out.
    pub shape: Arc<Pod>,
    /// Number of them.
    pub count: usize,
}

/// A request that can be tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Gang {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub class: GangClass,
    pub sets: Vec<PodSetShape>,
    /// Time of its creation; the oldest request comes first.
    pub created: Timestamp,
    /// Time from which it is given up where it has no room.
    pub valid_until: Timestamp,
    /// True if it is given up when there is no room at the first trial.
    pub once: bool,
}

/// The reason that a request is not tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GangFault {
    /// It may be tried later, such as when its template is there.
    Waits(String),
    /// It never will.
    Refused(String),
}

/// The reason that a PodTemplate is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateFault {
    /// There is none of that name: it may come.
    Missing,
    /// It cannot be asked for now.
    Unanswered(String),
}

/// Templates of a request's namespace, by name.
pub type Templates = BTreeMap<String, Result<PodTemplateSpec, TemplateFault>>;

impl GangClass {
    /// The class of that name, `None` for one of others.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            CHECK_CAPACITY => Some(Self::CheckCapacity),
            ATOMIC_SCALE_UP => Some(Self::Atomic),
            _ => None,
        }
    }
}

/// True if a request is left to nobody else: its class is known, and it names no Cluster Autoscaler.
#[must_use]
pub fn is_ours(request: &ProvisioningRequest) -> bool {
    let named = request.spec.parameters.get(PROCESSOR_INSTANCE).is_some_and(|name| !name.is_empty());
    GangClass::from_name(&request.spec.provisioning_class_name).is_some() && !named
}

/// Reads a request of ours.
///
/// # Errors
/// The reason that it is not tried, now or ever.
pub fn read_request(request: &ProvisioningRequest, templates: &Templates) -> Result<Gang, GangFault> {
    let class = GangClass::from_name(&request.spec.provisioning_class_name);
    let class = class.ok_or_else(|| GangFault::Refused("its class is of another provider".to_owned()))?;
    let counts = bounded(&request.spec.pod_sets)?;
    let namespace = request.metadata.namespace.clone().unwrap_or_default();
    let with_counts = request.spec.pod_sets.iter().zip(counts);
    let shaped = |(set, count): (&PodSet, usize)| -> Result<PodSetShape, GangFault> {
        let shape = shape_of(&namespace, &set.pod_template_ref.name, templates)?;
        Ok(PodSetShape { shape: Arc::new(shape), count })
    };
    let sets = with_counts.map(shaped);
    let created = request.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Ok(Gang {
        namespace: namespace.clone(),
        name: request.metadata.name.clone().unwrap_or_default(),
        uid: request.metadata.uid.clone().unwrap_or_default(),
        class,
        sets: sets.collect::<Result<_, _>>()?,
        created,
        valid_until: created.saturating_add(validity(request, class)?).unwrap_or(Timestamp::MAX),
        once: class == GangClass::CheckCapacity && request.spec.parameters.get(NO_RETRY).is_some_and(|it| it == "true"),
    })
}

/// Numbers of pods of each set, where they are within the bounds.
fn bounded(sets: &[PodSet]) -> Result<Vec<usize>, GangFault> {
    if sets.is_empty() || sets.len() > MOST_SETS {
        return Err(GangFault::Refused(format!("it has {} pod sets: 1 to {MOST_SETS} are allowed", sets.len())));
    }
    let counts: Vec<usize> = sets.iter().map(|set| usize::try_from(set.count).unwrap_or_default()).collect();
    if counts.contains(&0) {
        return Err(GangFault::Refused("the count of each pod set has to be 1 at least".to_owned()));
    }
    let all = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
    if all > MOST_PODS {
        return Err(GangFault::Refused(format!(
            "it asks for {all} pods: no request has room for more than {MOST_PODS}"
        )));
    }
    Ok(counts)
}

/// Time from its creation for which a request is tried. Cluster Autoscaler has the parameter for the atomic class alone.
fn validity(request: &ProvisioningRequest, class: GangClass) -> Result<SignedDuration, GangFault> {
    let written = request.spec.parameters.get(VALID_UNTIL_SECONDS).filter(|_| class == GangClass::Atomic);
    let Some(text) = written else { return Ok(VALIDITY) };
    let seconds: Option<u32> = text.parse().ok();
    let seconds = seconds.ok_or_else(|| {
        GangFault::Refused(format!(
            "spec.parameters.{VALID_UNTIL_SECONDS} says {text:?}: a number of seconds is allowed"
        ))
    })?;
    Ok(SignedDuration::from_secs(i64::from(seconds)))
}

/// A pod of the template, as scheduling sees it. It is without volumes of its own, and its name and uid are left out.
fn shape_of(namespace: &str, name: &str, templates: &Templates) -> Result<Pod, GangFault> {
    let refused = |why: String| GangFault::Refused(format!("PodTemplate {name}: {why}"));
    let template = match templates.get(name) {
        None => return Err(GangFault::Waits(format!("PodTemplate {name} has not been asked for yet"))),
        Some(Err(TemplateFault::Missing)) => {
            return Err(GangFault::Waits(format!("there is no PodTemplate {name} in namespace {namespace}")));
        }
        Some(Err(TemplateFault::Unanswered(why))) => return Err(GangFault::Waits(why.clone())),
        Some(Ok(template)) => template,
    };
    let mut spec = template.spec.clone().ok_or_else(|| refused("it has no spec".to_owned()))?;
    (spec.node_name, spec.volumes, spec.scheduling_gates) = (None, None, None);
    let labels = template.metadata.as_ref().and_then(|own| own.labels.clone());
    let metadata = ObjectMeta { namespace: Some(namespace.to_owned()), labels, ..ObjectMeta::default() };
    let pod = KubePod { metadata, spec: Some(spec), status: None };
    let pod = Pod::from_kube(&pod).map_err(|error| refused(error.to_string()))?;
    match &pod.blocked {
        Some(why) => Err(refused(format!("no node would do: {why}"))),
        None => Ok(pod),
    }
}

impl Gang {
    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Number of all its pods.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.sets.iter().map(|set| set.count).sum()
    }

    /// A pod of a set, both counted from 0.
    #[must_use]
    pub fn pod(&self, set: usize, number: usize) -> Option<Pod> {
        let shape = &self.sets.get(set)?.shape;
        Some(Pod {
            name: format!("{GANG_POD_NAME}{}-{set}-{}", self.name, number + 1),
            uid: format!("{BOOKED_UID}{}-{set}-{}", self.uid, number + 1),
            ..Pod::clone(shape)
        })
    }
}
