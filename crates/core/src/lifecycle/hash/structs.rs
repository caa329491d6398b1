//! Karpenter's structs whose fields shape nodes, as Karpenter 1.15 declares them: the order and the names of fields are part of
//! the hash. Left out are the fields that Karpenter leaves out, because nodes are held against them in another way
//! (core spec 5.6, aws spec 1.1 column H).

use super::go::GoType::{
    Bool, Int32, Int64, List, Pointer, Quantity, Span, SpanOrNever, Struct, Text, Time as Moment, Words,
};
use super::go::{GoField as F, GoStruct};

const DURATION: GoStruct = GoStruct { name: "Duration", fields: &[F("Duration", "", Span)] };
const TIME: GoStruct = GoStruct { name: "Time", fields: &[F("Time", "", Moment)] };

const OBJECT_META: GoStruct =
    GoStruct { name: "ObjectMeta", fields: &[F("Labels", "labels", Words), F("Annotations", "annotations", Words)] };

const TAINT: GoStruct = GoStruct {
    name: "Taint",
    fields: &[
        F("Key", "key", Text),
        F("Value", "value", Text),
        F("Effect", "effect", Text),
        F("TimeAdded", "timeAdded", Pointer(&Struct(&TIME))),
    ],
};

const NODE_CLASS_REFERENCE: GoStruct = GoStruct {
    name: "NodeClassReference",
    fields: &[F("Kind", "kind", Text), F("Name", "name", Text), F("Group", "group", Text)],
};

const NILLABLE_DURATION: GoStruct = GoStruct { name: "NillableDuration", fields: &[F("Duration", "", SpanOrNever)] };

/// `spec.template.spec` of a NodePool; the requirements are left out.
const NODE_CLAIM_TEMPLATE_SPEC: GoStruct = GoStruct {
    name: "NodeClaimTemplateSpec",
    fields: &[
        F("Taints", "taints", List(&TAINT)),
        F("StartupTaints", "startupTaints", List(&TAINT)),
        F("NodeClassRef", "nodeClassRef", Pointer(&Struct(&NODE_CLASS_REFERENCE))),
        F("TerminationGracePeriod", "terminationGracePeriod", Pointer(&Struct(&DURATION))),
        F("ExpireAfter", "expireAfter", Struct(&NILLABLE_DURATION)),
    ],
};

/// `spec.template` of a NodePool.
pub(super) static NODE_CLAIM_TEMPLATE: GoStruct = GoStruct {
    name: "NodeClaimTemplate",
    fields: &[F("ObjectMeta", "metadata", Struct(&OBJECT_META)), F("Spec", "spec", Struct(&NODE_CLAIM_TEMPLATE_SPEC))],
};

const PLACEMENT_GROUP_SELECTOR: GoStruct = GoStruct {
    name: "PlacementGroupSelector",
    fields: &[F("Name", "name", Pointer(&Text)), F("ID", "id", Pointer(&Text))],
};

const BLOCK_DEVICE: GoStruct = GoStruct {
    name: "BlockDevice",
    fields: &[
        F("DeleteOnTermination", "deleteOnTermination", Pointer(&Bool)),
        F("Encrypted", "encrypted", Pointer(&Bool)),
        F("IOPS", "iops", Pointer(&Int64)),
        F("KMSKeyID", "kmsKeyID", Pointer(&Text)),
        F("SnapshotID", "snapshotID", Pointer(&Text)),
        F("Throughput", "throughput", Pointer(&Int64)),
        F("VolumeInitializationRate", "volumeInitializationRate", Pointer(&Int32)),
        F("VolumeSize", "volumeSize", Quantity),
        F("VolumeType", "volumeType", Pointer(&Text)),
    ],
};

const BLOCK_DEVICE_MAPPING: GoStruct = GoStruct {
    name: "BlockDeviceMapping",
    fields: &[
        F("DeviceName", "deviceName", Pointer(&Text)),
        F("EBS", "ebs", Pointer(&Struct(&BLOCK_DEVICE))),
        F("RootVolume", "rootVolume", Bool),
    ],
};

const NETWORK_INTERFACE: GoStruct = GoStruct {
    name: "NetworkInterface",
    fields: &[
        F("NetworkCardIndex", "networkCardIndex", Int32),
        F("DeviceIndex", "deviceIndex", Int32),
        F("InterfaceType", "interfaceType", Text),
    ],
};

const METADATA_OPTIONS: GoStruct = GoStruct {
    name: "MetadataOptions",
    fields: &[
        F("HTTPEndpoint", "httpEndpoint", Pointer(&Text)),
        F("HTTPProtocolIPv6", "httpProtocolIPv6", Pointer(&Text)),
        F("HTTPPutResponseHopLimit", "httpPutResponseHopLimit", Pointer(&Int64)),
        F("HTTPTokens", "httpTokens", Pointer(&Text)),
    ],
};

const ENCLAVE_OPTIONS: GoStruct = GoStruct { name: "EnclaveOptions", fields: &[F("Enabled", "enabled", Bool)] };

const CONNECTION_TRACKING: GoStruct = GoStruct {
    name: "ConnectionTracking",
    fields: &[
        F("TCPEstablishedTimeout", "tcpEstablishedTimeout", Pointer(&Int32)),
        F("UDPStreamTimeout", "udpStreamTimeout", Pointer(&Int32)),
        F("UDPTimeout", "udpTimeout", Pointer(&Int32)),
    ],
};

const CPU_OPTIONS: GoStruct =
    GoStruct { name: "CPUOptions", fields: &[F("NestedVirtualization", "nestedVirtualization", Pointer(&Text))] };

/// `spec` of an EC2NodeClass. Left out are its selectors, `ipPrefixCount`, and what is hashed beside it: the image family and the
/// kubelet's configuration.
pub(super) static EC2_NODE_CLASS_SPEC: GoStruct = GoStruct {
    name: "EC2NodeClassSpec",
    fields: &[
        F("PlacementGroupSelector", "placementGroupSelector", Pointer(&Struct(&PLACEMENT_GROUP_SELECTOR))),
        F("AssociatePublicIPAddress", "associatePublicIPAddress", Pointer(&Bool)),
        F("UserData", "userData", Pointer(&Text)),
        F("Role", "role", Text),
        F("InstanceProfile", "instanceProfile", Pointer(&Text)),
        F("Tags", "tags", Words),
        F("BlockDeviceMappings", "blockDeviceMappings", List(&BLOCK_DEVICE_MAPPING)),
        F("InstanceStorePolicy", "instanceStorePolicy", Pointer(&Text)),
        F("NetworkInterfaces", "networkInterfaces", List(&NETWORK_INTERFACE)),
        F("DetailedMonitoring", "detailedMonitoring", Pointer(&Bool)),
        F("MetadataOptions", "metadataOptions", Pointer(&Struct(&METADATA_OPTIONS))),
        F("EnclaveOptions", "enclaveOptions", Pointer(&Struct(&ENCLAVE_OPTIONS))),
        F("ConnectionTracking", "connectionTracking", Pointer(&Struct(&CONNECTION_TRACKING))),
        F("Context", "context", Pointer(&Text)),
        F("CPUOptions", "cpuOptions", Pointer(&Struct(&CPU_OPTIONS))),
    ],
};
