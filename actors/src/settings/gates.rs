//! Karpenter's feature gates, as `FEATURE_GATES` has them.

use std::collections::BTreeMap;

use dovetail_core::dra::DeviceGates;

use super::Settings;

/// The gate of drift, on unless switched off.
pub(super) const DRIFT: &str = "Drift";
/// The gate of capacity reservations, on unless switched off.
pub(super) const RESERVED_CAPACITY: &str = "ReservedCapacity";
/// The gate of node repair.
pub(super) const NODE_REPAIR: &str = "NodeRepair";
/// The gate of static pools.
pub(super) const STATIC_CAPACITY: &str = "StaticCapacity";
/// The gate of capacity buffers.
pub(super) const CAPACITY_BUFFER: &str = "CapacityBuffer";
/// The gate of room for all pods of a group or none. Karpenter has none of this name.
pub(super) const PROVISIONING_REQUEST: &str = "ProvisioningRequest";
/// The gate of gangs by PodGroups, called as Kubernetes' own. Karpenter has none of this name.
pub(super) const GANG_SCHEDULING: &str = "GangScheduling";
/// The gate of quotas on capacity. Karpenter has none of this name.
pub(super) const CAPACITY_QUOTA: &str = "CapacityQuota";
/// The gate of prices and resources by NodeOverlays.
pub(super) const NODE_OVERLAY: &str = "NodeOverlay";
/// The gates by which a node of a static pool at its limit goes before its successor.
pub(super) const TERMINATE_FIRST_DRIFT: &str = "TerminateFirstDrift";
pub(super) const TERMINATE_FIRST_REPAIR: &str = "TerminateFirstRepair";
/// The gate by which unhealthy nodes are rebooted where a restart may mend them.
pub(super) const REBOOT_FOR_REPAIR: &str = "RebootForRepair";
/// The gate by which spot nodes are replaced by cheaper spot nodes.
pub(super) const SPOT_TO_SPOT: &str = "SpotToSpotConsolidation";
/// The gate by which pods get deletion costs.
pub(super) const POD_DELETION_COST_MANAGEMENT: &str = "PodDeletionCostManagement";
/// The gate by which pods that move count with what VerticalPodAutoscalers recommend. Karpenter has none of this name.
pub(super) const VERTICAL_POD_AUTOSCALER: &str = "VerticalPodAutoscaler";
/// The gate of the AWS provider by which nodes are launched for claims on NVIDIA's GPUs.
pub(super) const DRA_NVIDIA_GPU: &str = "DRANVIDIAGPU";
/// The gate of the AWS provider by which nodes are launched for claims on EFA interfaces.
pub(super) const DRA_EFA: &str = "DRAEFA";
/// The gate by which nodes are replaced by several. Karpenter has none of this name.
pub(super) const MANY_TO_MANY: &str = "ManyToManyConsolidation";

impl Settings {
    /// True if the gate `ReservedCapacity` is open.
    pub fn reserved_capacity(&self) -> bool {
        self.gates.contains(RESERVED_CAPACITY)
    }

    pub fn drift(&self) -> bool {
        self.gates.contains(DRIFT)
    }

    /// True if nodes that are unhealthy for too long are replaced.
    pub fn node_repair(&self) -> bool {
        self.gates.contains(NODE_REPAIR)
    }

    /// True if static pools are held.
    pub fn static_capacity(&self) -> bool {
        self.gates.contains(STATIC_CAPACITY)
    }

    /// True if the room of capacity buffers is held.
    pub fn capacity_buffers(&self) -> bool {
        self.gates.contains(CAPACITY_BUFFER)
    }

    /// True if ProvisioningRequests are fulfilled.
    pub fn provisioning_requests(&self) -> bool {
        self.gates.contains(PROVISIONING_REQUEST)
    }

    /// True if pods of a PodGroup's gang get nodes together or not at all.
    pub fn gang_scheduling(&self) -> bool {
        self.gates.contains(GANG_SCHEDULING)
    }

    /// True if CapacityQuotas are held.
    pub fn capacity_quotas(&self) -> bool {
        self.gates.contains(CAPACITY_QUOTA)
    }

    /// True if NodeOverlays count.
    pub fn node_overlays(&self) -> bool {
        self.gates.contains(NODE_OVERLAY)
    }

    /// True if a drifted node of a static pool at its limit goes before its successor.
    pub fn terminate_first_drift(&self) -> bool {
        self.gates.contains(TERMINATE_FIRST_DRIFT)
    }

    /// True if an unwell node of a static pool at its limit goes before its successor.
    pub fn terminate_first_repair(&self) -> bool {
        self.gates.contains(TERMINATE_FIRST_REPAIR)
    }

    /// True if unhealthy nodes are rebooted where a restart may mend them.
    pub fn reboot_for_repair(&self) -> bool {
        self.gates.contains(REBOOT_FOR_REPAIR)
    }

    /// True if pods get deletion costs.
    pub fn pod_deletion_costs(&self) -> bool {
        self.gates.contains(POD_DELETION_COST_MANAGEMENT)
    }

    /// True if the gate `SpotToSpotConsolidation` is open.
    pub fn spot_to_spot(&self) -> bool {
        self.gates.contains(SPOT_TO_SPOT)
    }

    /// True if pods that move count with what VerticalPodAutoscalers recommend.
    pub fn recommendations(&self) -> bool {
        self.gates.contains(VERTICAL_POD_AUTOSCALER)
    }

    /// Kinds of devices that nodes are launched for; `None` if pods with claims get no node.
    pub fn devices(&self) -> Option<DeviceGates> {
        let is_open = |gate| self.aws_gates.contains(gate);
        (!self.ignore_devices).then(|| DeviceGates { nvidia: is_open(DRA_NVIDIA_GPU), efa: is_open(DRA_EFA) })
    }

    /// True if the gate `ManyToManyConsolidation` is open.
    pub fn many_to_many(&self) -> bool {
        self.gates.contains(MANY_TO_MANY)
    }

    pub(super) fn set_gates(&mut self, written: BTreeMap<String, bool>) {
        for (gate, on) in written {
            if on {
                self.gates.insert(gate);
            } else {
                self.gates.remove(&gate);
            }
        }
    }
}
