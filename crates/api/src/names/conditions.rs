//! Condition types of NodePool, NodeClaim and EC2NodeClass.

/// Root of every kind.
pub const READY: &str = "Ready";
/// NodePool, EC2NodeClass and NodeOverlay: the spec passes the runtime check.
pub const VALIDATION_SUCCEEDED: &str = "ValidationSucceeded";
/// NodePool: its class exists and is ready.
pub const NODE_CLASS_READY: &str = "NodeClassReady";
/// NodePool: False if the leading replica's clock is more than 30 s away from the API server's. Absent otherwise.
pub const CLOCK_IN_SYNC: &str = "dovetail.dev/ClockInSync";
/// NodePool: False if a budget cannot be parsed, so that no node of the pool is disrupted. Absent otherwise.
pub const BUDGETS_VALID: &str = "dovetail.dev/BudgetsValid";
/// NodePool and EC2NodeClass: False if an annotation of Dovetail's is misspelt. Absent otherwise.
pub const ANNOTATIONS_KNOWN: &str = "dovetail.dev/AnnotationsKnown";
/// NodePool: False while it uses spot and the interruption queue cannot be read. Absent otherwise.
pub const INTERRUPTIONS_HEARD: &str = "dovetail.dev/InterruptionsHeard";
/// NodePool: it was taken over from Karpenter, and the message names what is held back until an operator releases it. Absent
/// if nothing is held back.
pub const ADOPTED: &str = "dovetail.dev/Adopted";
/// NodePool with `spec.replicas`: True if as many nodes are ready; the message has the number, and the reason for those that are
/// missing.
pub const REPLICAS_READY: &str = "dovetail.dev/ReplicasReady";
/// NodePool and EC2NodeClass: True if the object asks for something that is not implemented, which the message names. Absent
/// otherwise.
pub const NOT_IMPLEMENTED: &str = "dovetail.dev/NotImplemented";

/// NodeClaim: the cloud has launched the instance.
pub const LAUNCHED: &str = "Launched";
/// NodeClaim: one Node is matched.
pub const REGISTERED: &str = "Registered";
/// NodeClaim: the Node is usable.
pub const INITIALIZED: &str = "Initialized";
/// NodeClaim: consolidateAfter has passed.
pub const CONSOLIDATABLE: &str = "Consolidatable";
/// NodeClaim: a command holds it.
pub const DISRUPTION_REASON: &str = "DisruptionReason";
/// NodeClaim: it is no longer what its pool or its class asks for.
pub const DRIFTED: &str = "Drifted";
/// NodeClaim: its instance is rebooted as a repair: True until that has come to an end.
pub const REBOOTING: &str = "Rebooting";
/// Reason of [`REBOOTING`]: its node is drained first.
pub const REBOOT_REQUESTED: &str = "RebootRequested";
/// Reason of [`REBOOTING`]: EC2 has been asked to reboot the instance.
pub const REBOOT_ISSUED: &str = "RebootIssued";
/// Reason of [`REBOOTING`]: it came back with another boot ID, and Ready.
pub const REBOOT_SUCCEEDED: &str = "RebootSucceeded";
/// Reason of [`REBOOTING`]: it did not come back in time.
pub const REBOOT_FAILED: &str = "RebootFailed";
/// NodeClaim: its last reboot was begun within a day of the one before.
pub const REBOOTED_AGAIN: &str = "RebootedAgain";
/// NodeClaim: pods are gone.
pub const DRAINED: &str = "Drained";
/// NodeClaim: volumes are gone.
pub const VOLUMES_DETACHED: &str = "VolumesDetached";
/// NodeClaim: the cloud has accepted its end.
pub const INSTANCE_TERMINATING: &str = "InstanceTerminating";

/// EC2NodeClass.
pub const AMIS_READY: &str = "AMIsReady";
/// EC2NodeClass.
pub const SUBNETS_READY: &str = "SubnetsReady";
/// EC2NodeClass.
pub const SECURITY_GROUPS_READY: &str = "SecurityGroupsReady";
/// EC2NodeClass.
pub const INSTANCE_PROFILE_READY: &str = "InstanceProfileReady";
/// EC2NodeClass.
pub const CAPACITY_RESERVATIONS_READY: &str = "CapacityReservationsReady";

/// Reason of [`CAPACITY_RESERVATIONS_READY`] where EC2 does not let us ask for open reservations, which are not used then.
pub const OPEN_RESERVATIONS_UNKNOWN: &str = "OpenReservationsUnknown";
/// EC2NodeClass; True if the class selects no placement group.
pub const PLACEMENT_GROUP_READY: &str = "PlacementGroupReady";

/// Status of a condition.
pub const TRUE: &str = "True";
/// Status of a condition.
pub const FALSE: &str = "False";
/// Status of a condition.
pub const UNKNOWN: &str = "Unknown";
/// Reason of a dependent that has not been checked.
pub const AWAITING_RECONCILIATION: &str = "AwaitingReconciliation";
/// Reason of a root with an unhealthy dependent.
pub const UNHEALTHY_DEPENDENTS: &str = "UnhealthyDependents";
/// Reason of a root with an unknown dependent.
pub const RECONCILING_DEPENDENTS: &str = "ReconcilingDependents";

/// Provisioner, AWSNodeTemplate and Machine: its v1 objects are in step with it.
pub const TRANSLATED: &str = "dovetail.dev/Translated";
/// Provisioner and AWSNodeTemplate: what it does not specify, and the defaults for that. Absent if there is nothing.
pub const DEFAULTS_TAKEN: &str = "dovetail.dev/DefaultsTaken";
/// Provisioner and AWSNodeTemplate: fields without a counterpart in v1. Absent if there are none.
pub const FIELDS_LEFT_OUT: &str = "dovetail.dev/FieldsLeftOut";
