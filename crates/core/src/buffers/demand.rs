//! The chunks that a buffer asks for: their number and their shape.

use std::sync::Arc;

use dovetail_api::autoscaling::{ACTIVE_CAPACITY, CapacityBuffer};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod as KubePod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::schedule::{BufferSchedule, FindZone};
use crate::lifecycle::claim::from_quantities;
use crate::pod::{Pod, ROOM_UID};
use crate::resources::Resources;

/// Most chunks of one buffer: more is cut off, and said.
pub const MOST_CHUNKS: usize = 2_000;
/// Most chunks of all buffers together: those that come later by namespace and name are cut off, and it is said.
pub const MOST_CHUNKS_OF_ALL: usize = 10_000;
/// Beginning of a chunk's name; its buffer's name and its number follow.
pub(super) const CHUNK_NAME: &str = "capacity-buffer-";
/// Priority of a chunk: every pod comes before it.
const PRIORITY: i32 = i32::MIN;

/// A buffer as it is held.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The shape of a chunk, its number and name left out.
    pub shape: Arc<Pod>,
    /// Number of chunks that are held.
    pub chunks: usize,
    /// Number of chunks that its limits leave, before it is cut to [`MOST_CHUNKS`].
    pub asked: usize,
    /// Number of chunks before `spec.limits` cut it, where they have.
    pub unlimited: Option<usize>,
    /// False while its schedule holds none of it.
    pub in_time: bool,
}

/// The template and the size of the object that a buffer refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BufferSource {
    pub template: PodTemplateSpec,
    /// Number of pods of the workload; `None` for a PodTemplate.
    pub replicas: Option<usize>,
    /// Name and generation of the PodTemplate, where it is one.
    pub template_ref: Option<(String, Option<i64>)>,
}

/// The reason that a buffer is not held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferFault {
    /// Its strategy is of another provider.
    OtherStrategy(String),
    /// Reason of the condition and message.
    NotReady(&'static str, String),
}

impl BufferFault {
    /// Something in the buffer or its template makes no sense.
    #[must_use]
    pub fn unresolved(why: impl Into<String>) -> Self {
        Self::NotReady("ResolutionFailed", why.into())
    }
}

impl Buffer {
    /// The chunk of a number, counted from 0.
    #[must_use]
    pub fn chunk(&self, number: usize) -> Pod {
        Pod {
            name: format!("{CHUNK_NAME}{}-{}", self.name, number + 1),
            uid: format!("{ROOM_UID}{}-{}", self.uid, number + 1),
            ..Pod::clone(&self.shape)
        }
    }

    /// Namespace and name.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Number of chunks that are to have a place now.
    #[must_use]
    pub fn wanted(&self) -> usize {
        if self.in_time { self.chunks } else { 0 }
    }
}

/// The chunks that a buffer asks for now.
///
/// # Errors
/// The reason that it is not held.
pub fn buffer_demand(
    buffer: &CapacityBuffer,
    source: &BufferSource,
    zones: FindZone<'_>,
    now: Timestamp,
) -> Result<Buffer, BufferFault> {
    let strategy = buffer.spec.provisioning_strategy.as_deref().unwrap_or(ACTIVE_CAPACITY);
    if strategy != ACTIVE_CAPACITY {
        return Err(BufferFault::OtherStrategy(strategy.to_owned()));
    }
    let schedule = BufferSchedule::from_annotations(&buffer.metadata, zones).map_err(BufferFault::unresolved)?;
    let shape = shape_of(buffer, &source.template).map_err(BufferFault::unresolved)?;
    let (asked, unlimited) = count(buffer, &shape.requests, source.replicas).map_err(BufferFault::unresolved)?;
    let meta = &buffer.metadata;
    Ok(Buffer {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        shape: Arc::new(shape),
        chunks: asked.min(MOST_CHUNKS),
        asked,
        unlimited,
        in_time: schedule.holds(now),
    })
}

/// Cuts buffers, in this order, to [`MOST_CHUNKS_OF_ALL`] chunks together.
pub fn cap_all<'a>(buffers: impl IntoIterator<Item = &'a mut Buffer>) {
    let mut left = MOST_CHUNKS_OF_ALL;
    for buffer in buffers {
        buffer.chunks = buffer.chunks.min(left);
        left -= buffer.wanted();
    }
}

/// A pod of the template, as scheduling sees it: without volumes of its own, and after every real one.
fn shape_of(buffer: &CapacityBuffer, template: &PodTemplateSpec) -> Result<Pod, String> {
    let mut spec = template.spec.clone().ok_or("the template has no spec")?;
    (spec.node_name, spec.volumes) = (None, None);
    let labels = template.metadata.as_ref().and_then(|own| own.labels.clone());
    let metadata = ObjectMeta { namespace: buffer.metadata.namespace.clone(), labels, ..ObjectMeta::default() };
    let pod = KubePod { metadata, spec: Some(spec), status: None };
    let pod = Pod::from_kube(&pod).map_err(|error| format!("the template: {error}"))?;
    if let Some(why) = &pod.blocked {
        return Err(format!("no node would do for the template: {why}"));
    }
    Ok(Pod { priority: PRIORITY, ..pod })
}

/// Number of chunks: the larger of `replicas` and the share of the workload, as far as `limits` allow; and the number before
/// these, where they cut it.
fn count(
    buffer: &CapacityBuffer,
    requests: &Resources,
    current: Option<usize>,
) -> Result<(usize, Option<usize>), String> {
    let spec = &buffer.spec;
    let fixed = spec.replicas.map(|number| usize::try_from(number).unwrap_or_default());
    let share = match (spec.percentage, current) {
        (Some(percent), Some(current)) => {
            let percent = usize::try_from(percent).unwrap_or_default();
            Some(current.saturating_mul(percent).div_ceil(100))
        }
        (Some(_), None) => return Err("spec.percentage needs a scalableRef".to_owned()),
        (None, _) => None,
    };
    let limits = spec.limits.as_ref().map(from_quantities);
    let bound = limits.map(|limits| {
        let both = limits.iter().filter_map(|(name, limit)| Some((limit, requests.find(name).filter(|own| *own > 0)?)));
        let bound = both.map(|(limit, own)| usize::try_from(limit / own).unwrap_or_default()).min();
        bound.ok_or("spec.limits names no resource that the template requests")
    });
    match (fixed.max(share), bound.transpose()?) {
        (Some(number), Some(bound)) if bound < number => Ok((bound, Some(number))),
        (Some(number), _) => Ok((number, None)),
        (None, Some(bound)) => Ok((bound, None)),
        (None, None) => Err("one of spec.replicas, spec.percentage and spec.limits has to be set".to_owned()),
    }
}
