//! Kinds of `resource.k8s.io/v1`, dynamic resource allocation, as far as they are read: ResourceClaim, DeviceClass and ResourceSlice.
//! Kubernetes serves them from 1.34; nothing is ever written to them. Fields that are not here are not read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version that is read.
pub const API_VERSION: &str = "resource.k8s.io/v1";
/// Driver of network interfaces, EFA's among them.
pub const DRANET: &str = "dra.net";

/// Devices that pods ask for, and those that have been given to them.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "resource.k8s.io",
    version = "v1",
    kind = "ResourceClaim",
    plural = "resourceclaims",
    namespaced,
    status = "ResourceClaimStatus",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct ResourceClaimSpec {
    /// The devices.
    #[serde(default)]
    pub devices: DeviceClaim,
}

/// The devices that a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceClaim {
    /// Requests, each for one or more devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<DeviceRequest>,
    /// Rules over devices of several requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<DeviceConstraint>,
}

/// A request: `exactly` one kind of device, or the `firstAvailable` of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRequest {
    /// Its name within the claim.
    #[serde(default)]
    pub name: String,
    /// The one kind of device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactDeviceRequest>,
    /// Alternatives, the preferred one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_available: Vec<DeviceSubRequest>,
}

/// An alternative of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSubRequest {
    /// Its name within the request.
    #[serde(default)]
    pub name: String,
    /// The devices.
    #[serde(flatten)]
    pub exactly: ExactDeviceRequest,
}

/// Devices of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExactDeviceRequest {
    /// `metadata.name` of the DeviceClass.
    #[serde(default)]
    pub device_class_name: String,
    /// Selectors that a device has to meet, beside those of its class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount`, the default, or `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation_mode: Option<String>,
    /// Number of devices with `ExactCount`, 1 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
    /// True for access beside those who have the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
    /// Taints of devices that do not matter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
    /// Part of a device that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Value>,
}

/// A selector.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceSelector {
    /// The only kind there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelDeviceSelector>,
}

/// A selector in CEL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CelDeviceSelector {
    /// The expression, true for devices that are meant.
    #[serde(default)]
    pub expression: String,
}

/// A rule over the devices of several requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceConstraint {
    /// Names of the requests, `request` or `request/alternative`; all of the claim's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    /// Attribute that has one value in all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_attribute: Option<String>,
    /// Attribute that has another value in each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_attribute: Option<String>,
}

/// Status of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    /// The devices that the claim has; unset while it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
    /// Those who may use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reserved_for: Vec<ConsumerReference>,
}

/// The devices that a claim has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocationResult {
    /// The devices.
    #[serde(default)]
    pub devices: AllocatedDevices,
    /// Nodes from which they can be used; every node if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
}

/// A list of devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocatedDevices {
    /// The devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<AllocatedDevice>,
}

/// A device that a claim has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AllocatedDevice {
    /// Name of the request.
    #[serde(default)]
    pub request: String,
    /// Name of the driver.
    #[serde(default)]
    pub driver: String,
    /// Name of its pool.
    #[serde(default)]
    pub pool: String,
    /// Its name in the pool.
    #[serde(default)]
    pub device: String,
    /// True if the device is not taken by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admin_access: Option<bool>,
}

/// A user of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerReference {
    /// API group, empty for pods.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// Plural of its kind, such as pods.
    #[serde(default)]
    pub resource: String,
    /// `metadata.name`.
    #[serde(default)]
    pub name: String,
    /// `metadata.uid`.
    #[serde(default)]
    pub uid: String,
}

/// A kind of device, by its properties.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "resource.k8s.io",
    version = "v1",
    kind = "DeviceClass",
    plural = "deviceclasses",
    derive = "PartialEq",
    schema = "disabled"
)]
pub struct DeviceClassSpec {
    /// Selectors that its devices meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
}

/// Devices that a driver publishes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "resource.k8s.io",
    version = "v1",
    kind = "ResourceSlice",
    plural = "resourceslices",
    derive = "PartialEq",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSliceSpec {
    /// Name of the driver.
    #[serde(default)]
    pub driver: String,
    /// The pool that it is a part of.
    #[serde(default)]
    pub pool: ResourcePool,
    /// Node whose devices they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Nodes from which they can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// True if they can be used from every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_nodes: Option<bool>,
    /// True if each device says from which nodes it can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_device_node_selection: Option<bool>,
    /// The devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<PublishedDevice>,
    /// Amounts that devices of the pool share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_counters: Vec<CounterSet>,
}

/// A pool, as each of its slices names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePool {
    /// Its name, unique for the driver.
    #[serde(default)]
    pub name: String,
    /// Number of its state: slices of an earlier one do not count.
    #[serde(default)]
    pub generation: i64,
    /// Number of its slices.
    #[serde(default)]
    pub resource_slice_count: i64,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedDevice {
    /// Its name in the pool.
    #[serde(default)]
    pub name: String,
    /// Its properties, by `domain/name`, or by name alone in the driver's domain.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, DeviceAttribute>,
    /// Its amounts, named likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, DeviceCapacity>,
    /// Shared amounts that it takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumes_counters: Vec<CounterSet>,
    /// Its taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Value>,
    /// Conditions that have to come true before a pod is bound.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binding_conditions: Vec<String>,
}

/// Value of an attribute: one of the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceAttribute {
    /// A number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub int: Option<i64>,
    /// A truth value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bool: Option<bool>,
    /// A text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// A semantic version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// An amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCapacity {
    /// The quantity.
    #[serde(default)]
    pub value: String,
}

/// Amounts by name, and the name of the set that they are of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CounterSet {
    /// The set's name, where it is defined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The set's name, where a device takes of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub counter_set: String,
    /// The amounts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, DeviceCapacity>,
}
