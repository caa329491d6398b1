//! Annotations, Karpenter's and ours.

/// Pod: `"true"` or a positive Go duration; Node and NodeClaim: only `"true"`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Node and NodeClaim: `"true"` keeps the node from being repaired, and from nothing else.
pub const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
/// Hash of the NodePool's template, on the pool and on its claims.
pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of that hash.
pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// RFC 3339: when a terminating claim's grace ends.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// `true` when minValues were relaxed for the claim.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";

/// Pod: pods with a lower value are deleted sooner.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Pod: the value of [`POD_DELETION_COST`] that we have written; any other value there is its user's.
pub const DELETION_COST_WRITTEN: &str = "dovetail.dev/pod-deletion-cost";
/// Pod: a 32-bit number, the cost of its eviction to disruption; more keeps its node longer.
pub const DISRUPTION_COST: &str = "karpenter.sh/disruption-cost";

/// NodeClaim: drivers whose devices its pods are to have, by name, with commas: its node is not initialized before each of them
/// has published them.
pub const REQUESTED_DRA_DRIVERS: &str = "karpenter.sh/requested-dra-drivers";

/// Hash of the EC2NodeClass, on the class and on claims.
pub const NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of that hash.
pub const NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// NodePool and EC2NodeClass: the hash that Dovetail computes for the object, after a colon the one on it where that is another,
/// and the generation that this is of. An object whose hash is not in it has been hashed by another program.
pub const COMPUTED_HASH: &str = "dovetail.dev/computed-hash";
/// Instance profile that the claim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// `true` when the claim's instance has the tags `Name` and `karpenter.sh/nodeclaim`.
pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
/// `true` when the instance also has the tag of the cluster's name.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
/// AMI version that a converted class is pinned to.
pub const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";
/// Fields that the conversion of a v1beta1 class with amiFamily Ubuntu has set, comma separated.
pub const V1BETA1_UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
/// The kubelet block of a v1beta1 pool, JSON.
pub const V1BETA1_KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// The class reference of a v1beta1 pool, JSON.
pub const V1BETA1_NODE_CLASS_REF: &str = "compatibility.karpenter.sh/v1beta1-nodeclass-reference";

/// Fields of the object's other version that this version cannot hold, JSON ([`crate::convert::webhook`]).
pub const OTHER_VERSION: &str = "dovetail.dev/other-version";
/// Reason for which an object is shown in its other version without its spec ([`crate::convert::webhook`]).
pub const NOT_CONVERTED: &str = "dovetail.dev/not-converted";

/// Alpha's [`DO_NOT_DISRUPT`] on pods.
pub const DO_NOT_EVICT: &str = "karpenter.sh/do-not-evict";
/// Alpha's [`DO_NOT_DISRUPT`] on nodes.
pub const DO_NOT_CONSOLIDATE: &str = "karpenter.sh/do-not-consolidate";
/// Alpha's [`NODE_POOL_HASH`].
pub const PROVISIONER_HASH: &str = "karpenter.sh/provisioner-hash";
/// Alpha's [`NODE_CLASS_HASH`].
pub const NODE_TEMPLATE_HASH: &str = "karpenter.k8s.aws/nodetemplate-hash";
/// Alpha's mark of when a node became empty.
pub const EMPTINESS_TIMESTAMP: &str = "karpenter.sh/emptiness-timestamp";

/// NodeClaim: the leader's term in which it was created or last launched (checked by the fence).
pub const TERM: &str = "dovetail.dev/term";
/// Lease: [`LEASE_VACANT`] or [`LEASE_LED`]; absent if other software created it.
pub const LEASE: &str = "dovetail.dev/lease";
/// Value of [`LEASE`]: created, and not acquired yet.
pub const LEASE_VACANT: &str = "vacant";
/// Value of [`LEASE`]: acquired once; its count is above every earlier term.
pub const LEASE_LED: &str = "led";
/// NodeClaim: ClientToken of the launch that it belongs to.
pub const LAUNCH_TOKEN: &str = "dovetail.dev/launch-token";
/// NodeClaim: its number in a launch that is made for several NodeClaims, and the proof that the token is made from its uid too.
pub const LAUNCH_PLACE: &str = "dovetail.dev/launch-place";
/// NodeClaim: W3C trace context of the batch that it came from.
pub const TRACEPARENT: &str = "dovetail.dev/traceparent";
/// NodeClaim: W3C trace context of the cause of its end.
pub const END_TRACEPARENT: &str = "dovetail.dev/end-traceparent";
/// NodeClaim: why Dovetail decided to delete it, as in metrics and logs, and when (RFC 3339), separated by a space, as
/// `expired 2026-03-02T10:17:00Z`.
pub const END_REASON: &str = "dovetail.dev/end-reason";
/// Node: its boot ID before it is rebooted as a repair.
pub const REBOOT_PRE_BOOT_ID: &str = "karpenter.sh/reboot-pre-boot-id";
/// Node: time that its pods have to leave before it is rebooted, a duration; absent without a bound.
pub const REBOOT_GRACE: &str = "karpenter.sh/reboot-termination-grace-period";
/// Node: time from which EC2 is asked to reboot it, as its pods have left (RFC 3339).
pub const REBOOT_ISSUED: &str = "dovetail.dev/reboot-issued";
/// NodeClaim: the cloud has announced the end of its instance: the kind of the announcement and the time of the end (RFC
/// 3339), separated by a space, as `spot_interrupted 2026-03-02T10:17:00Z`.
pub const INTERRUPTION: &str = "dovetail.dev/interruption";
/// NodeClaim: `true` if overlays price an offering of one of its types.
pub const PRICE_OVERLAY: &str = "karpenter.sh/price-overlay-applied";
/// NodeClaim: `true` if overlays add to the resources of one of its types.
pub const CAPACITY_OVERLAY: &str = "karpenter.sh/capacity-overlay-applied";
/// NodeClaim: the workloads of the pods for which it was launched, comma separated, each with the number of nodes that it had
/// not used before, as `1234,5678:2`.
pub const LAUNCHED_FOR: &str = "dovetail.dev/launched-for";
/// NodeClaim: the room of capacity buffers for which it was launched: numbers of pods by namespace and name of the buffer, comma
/// separated, as `default/web=5`.
pub const LAUNCHED_FOR_ROOM: &str = "dovetail.dev/launched-for-room";
/// NodeClaim: the room of a ProvisioningRequest for which it was launched: numbers of pods by namespace and name of the request
/// and number of its pod set, comma separated, as `default/train/0=5`.
pub const LAUNCHED_FOR_REQUEST: &str = "dovetail.dev/launched-for-request";
/// NodeClaim: the PodGroups of gangs for whose pods it was launched, namespaces and names, comma separated, as `default/train`.
pub const LAUNCHED_FOR_POD_GROUP: &str = "dovetail.dev/launched-for-pod-group";
/// NodePool: workloads that do not use their nodes, and until when no node is launched for them, JSON. Remove it to release
/// them.
pub const UNUSED_LAUNCHES: &str = "dovetail.dev/unused-launches";
/// NodePool: the node that was ended before its successor is launched, as its instance of a capacity reservation is the
/// successor's only place, JSON. It goes when the successor serves.
pub const ENDED_FIRST: &str = "dovetail.dev/ended-first";
/// NodePool: times and failures of its repairs by which the next leader keeps their pace, JSON.
pub const REPAIR_PACE: &str = "dovetail.dev/repair-pace";
/// EC2NodeClass: the observed allocatable resources of instance types that have less than was planned, JSON. Remove it to
/// forget them.
pub const OBSERVED_ALLOCATABLE: &str = "dovetail.dev/observed-allocatable";
/// Pod: how it is moved off a node if its eviction would be refused or would leave no pod of its workload.
pub const MOVE: &str = "dovetail.dev/move";
/// Value of [`MOVE`]: its Deployment is restarted.
pub const MOVE_ROLLOUT: &str = "rollout";
/// A Deployment's template: when it was last restarted, as `kubectl rollout restart` writes it.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// NodePool: `cost` or `fewest-nodes`.
pub const PACKING_POLICY: &str = "dovetail.dev/packing-policy";
/// NodePool: dollars an hour that its nodes may cost together, at the prices that are known.
pub const MAX_COST_PER_HOUR: &str = "dovetail.dev/max-cost-per-hour";
/// Pod and NodePool: the number of a workload's replicas that are on no spot node in any case, as `2`.
pub const ON_DEMAND_BASE: &str = "dovetail.dev/on-demand-base";
/// Pod and NodePool: the largest part of a workload's replicas above [`ON_DEMAND_BASE`] that is on spot nodes, as `70%`.
pub const SPOT_SHARE: &str = "dovetail.dev/spot-share";
/// NodePool: how much dearer a node may be in a zone where the pool has fewer nodes, as `5%`.
pub const ZONE_BALANCE: &str = "dovetail.dev/zone-balance";
/// NodePool: its spot instances that EC2 has taken back lately, JSON. Remove it to forget them.
pub const INTERRUPTIONS: &str = "dovetail.dev/interruptions";
/// An operator's release of the collection brake.
pub const ALLOW_COLLECTION: &str = "dovetail.dev/allow-collection";
/// NodePool: with `observe` Dovetail disrupts none of its nodes, and reports what it would have done.
pub const DISRUPTION: &str = "dovetail.dev/disruption";
/// NodePool: when it was taken over from Karpenter (RFC 3339), and the hash version that Karpenter had written, separated by a
/// space, as `2026-03-02T10:17:00Z v3`.
pub const ADOPTED: &str = "dovetail.dev/adopted";
/// NodePool: the modes of `ADOPT_AS` that were written on it when it was taken over and are unchanged, as
/// `observe,fewest-nodes`; `as-is` if none is left.
pub const ADOPTED_AS: &str = "dovetail.dev/adopted-as";
/// NodePool converted from a Provisioner: `ttlSecondsAfterEmpty`, an exact time to live without budgets, in seconds.
pub const TTL_SECONDS_AFTER_EMPTY: &str = "dovetail.dev/ttl-seconds-after-empty";
/// Object converted from an older kind: `<apiVersion>/<kind>/<name>` of its source.
pub const CONVERTED_FROM: &str = "dovetail.dev/converted-from";
/// Pod: name of the PodGroup of its namespace that it is in, for what does not keep `spec.schedulingGroup`.
pub const POD_GROUP: &str = "dovetail.dev/pod-group";
/// ProvisioningRequest: time for which its room is held once it is there, a duration, as `30m`.
pub const BOOKING: &str = "dovetail.dev/booking";
/// CapacityBuffer: times at which its room is held, as `0 7 * * mon-fri 10h Europe/Berlin`.
pub const SCHEDULE: &str = "dovetail.dev/schedule";
