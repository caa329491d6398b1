//! The kinds of objects that the cluster's controllers read and write.

use crate::apiserver::{self as gvr, Gvr};

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $gvr:ident, $api_version:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Kind { $($(#[$doc])* $kind),* }

        impl Kind {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: &'static [Kind] = &[$(Kind::$kind),*];

            /// The resource that serves the kind.
            pub(crate) fn gvr(self) -> &'static Gvr {
                match self { $(Kind::$kind => { static GVR: Gvr = gvr::$gvr; &GVR }),* }
            }

            /// The name, as in `kind`.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Kind::$kind => stringify!($kind)),* }
            }

            /// The `apiVersion`.
            pub(crate) fn api_version(self) -> &'static str {
                match self { $(Kind::$kind => $api_version),* }
            }
        }
    };
}

kinds! {
    Pod = PODS, "v1";
    Node = NODES, "v1";
    Namespace = NAMESPACES, "v1";
    Service = SERVICES, "v1";
    PersistentVolumeClaim = PERSISTENT_VOLUME_CLAIMS, "v1";
    PersistentVolume = PERSISTENT_VOLUMES, "v1";
    Deployment = DEPLOYMENTS, "apps/v1";
    ReplicaSet = REPLICA_SETS, "apps/v1";
    StatefulSet = STATEFUL_SETS, "apps/v1";
    DaemonSet = DAEMON_SETS, "apps/v1";
    Job = JOBS, "batch/v1";
    PodDisruptionBudget = POD_DISRUPTION_BUDGETS, "policy/v1";
    StorageClass = STORAGE_CLASSES, "storage.k8s.io/v1";
    CSINode = CSI_NODES, "storage.k8s.io/v1";
    VolumeAttachment = VOLUME_ATTACHMENTS, "storage.k8s.io/v1";
    ResourceClaim = RESOURCE_CLAIMS, "resource.k8s.io/v1";
    ResourceClaimTemplate = RESOURCE_CLAIM_TEMPLATES, "resource.k8s.io/v1";
    DeviceClass = DEVICE_CLASSES, "resource.k8s.io/v1";
    ResourceSlice = RESOURCE_SLICES, "resource.k8s.io/v1";
    VerticalPodAutoscaler = VERTICAL_POD_AUTOSCALERS, "autoscaling.k8s.io/v1";
    PodGroup = POD_GROUPS, "scheduling.k8s.io/v1alpha2";
}

impl Kind {
    /// The kind that a resource serves, by group and plural name.
    pub(crate) fn from_gvr(gvr: &Gvr) -> Option<Self> {
        Self::ALL.iter().copied().find(|k| k.gvr().resource == gvr.resource && k.gvr().group == gvr.group)
    }
}
