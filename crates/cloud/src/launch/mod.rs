//! Launching instances: what is asked, what comes of it, and the pure steps between.

pub mod codes;
pub mod filters;
pub mod images;
pub mod merge;
pub mod placement;
pub mod plan;
pub mod readiness;
pub mod reason;
pub mod refusal;
pub mod reserved;
pub mod unauthorized;

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::v1::EC2NodeClass;
use dovetail_core::{InstanceType, MaxOptionPrice, NodeSelectorRequirement, Offering, Resources};
use k8s_openapi::api::core::v1::Taint;

use crate::cloud::Instance;

pub use merge::{FleetKey, LaunchedFleet};
pub use reason::{LaunchError, LaunchErrorKind};
pub use refusal::OfferingRefusal;

/// A pod that runs enclaves asks for it.
pub const ENCLAVE: &str = "eks.amazonaws.com/nitro-sandbox";

/// One instance to be launched for a NodeClaim; or several, for NodeClaims that ask for the same.
#[derive(Debug, Clone)]
pub struct LaunchRequest {
    /// Sent as ClientToken and as the tag `dovetail.dev/launch-token`: the same token is the same launch.
    pub token: String,
    /// Name of the NodePool.
    pub node_pool: String,
    /// The node class with its status: subnets, security groups, images and profile are taken from there.
    pub node_class: Arc<EC2NodeClass>,
    /// The claim's complete requirements.
    pub requirements: Vec<NodeSelectorRequirement>,
    /// Requests of the claim's pods and daemons.
    pub requests: Resources,
    /// The types that it may be, with their offerings, cheapest first.
    pub candidates: Vec<Arc<InstanceType>>,
    /// Labels of the node; they are in the user data, so none may belong to one claim alone.
    pub labels: BTreeMap<String, String>,
    /// Taints of the node.
    pub taints: Vec<Taint>,
    /// Taints of the node until someone takes them away.
    pub startup_taints: Vec<Taint>,
    /// True if `minValues` have been lowered for the claim: the class's `context` is not sent then (karpenter-aws 1.1).
    pub min_values_relaxed: bool,
    /// Highest price of an offering, in parts of the cheapest.
    pub max_option_price: MaxOptionPrice,
}

impl LaunchRequest {
    /// A launch for a pool and a class, with nothing yet to choose from.
    pub fn new(token: impl Into<String>, node_pool: impl Into<String>, node_class: Arc<EC2NodeClass>) -> Self {
        Self {
            token: token.into(),
            node_pool: node_pool.into(),
            node_class,
            requirements: Vec::new(),
            requests: Resources::new(),
            candidates: Vec::new(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            min_values_relaxed: false,
            max_option_price: MaxOptionPrice::default(),
        }
    }

    /// $/h that the cheapest that it may launch costs; 0 where it names nothing.
    pub fn cheapest_price(&self) -> f64 {
        let prices = self.candidates.iter().flat_map(|one| one.offerings.iter().map(Offering::billed_price));
        prices.min_by(f64::total_cmp).unwrap_or_default()
    }
}

/// An instance that was launched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchedInstance {
    /// `i-…`.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub capacity_type: String,
    /// The capacity reservation that it is of, if it is.
    pub reservation_id: Option<String>,
    /// Its placement group and partition, and the tenancy of its hardware.
    pub placing: placement::Placing,
    /// $/h of the offering that was taken, as the catalogue had it.
    pub price: f64,
    /// `ami-…`.
    pub image_id: String,
    /// `subnet-…`.
    pub subnet_id: String,
    /// `fleet-…`.
    pub fleet_id: String,
    /// Offerings that EC2 refused before it gave this one.
    pub refusals: Vec<OfferingRefusal>,
}

impl LaunchedInstance {
    /// `aws:///us-east-1a/i-…`.
    pub fn provider_id(&self) -> String {
        crate::cloud::provider_id(&self.zone, &self.id)
    }

    /// An instance that was found, as if it had just been launched.
    pub fn from_found(found: &Instance) -> Self {
        Self {
            id: found.id.clone(),
            instance_type: found.instance_type.clone(),
            zone: found.zone.clone(),
            capacity_type: found.capacity_type.clone(),
            reservation_id: found.reservation_id.clone(),
            placing: found.placing.clone(),
            image_id: found.image_id.clone(),
            subnet_id: found.subnet_id.clone(),
            ..Self::default()
        }
    }

    /// $/h of its offering by the prices of these types.
    pub fn price_among(&self, types: &[Arc<InstanceType>]) -> Option<f64> {
        let own = types.iter().find(|one| one.name == self.instance_type)?;
        own.offering(&self.zone, &self.capacity_type).map(Offering::billed_price)
    }
}
