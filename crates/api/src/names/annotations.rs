//! Annotations, Karpenter's and ours.

/// Pod: `"true"` or a positive Go duration; Node and NodeClaim: only `"true"`.
pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
/// Hash of the NodePool's template, on the pool and on its claims.
pub const NODE_POOL_HASH: &str = "karpenter.sh/nodepool-hash";
/// Version of that hash.
pub const NODE_POOL_HASH_VERSION: &str = "karpenter.sh/nodepool-hash-version";
/// RFC 3339: when a terminating claim's grace ends.
pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
/// `true` when minValues were relaxed for the claim.
pub const MIN_VALUES_RELAXED: &str = "karpenter.sh/nodeclaim-min-values-relaxed";

/// Read from pods: a pod with a lower cost is evicted sooner.
pub const POD_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Hash of the EC2NodeClass, on the class and on claims.
pub const NODE_CLASS_HASH: &str = "karpenter.k8s.aws/ec2nodeclass-hash";
/// Version of that hash.
pub const NODE_CLASS_HASH_VERSION: &str = "karpenter.k8s.aws/ec2nodeclass-hash-version";
/// Instance profile that the claim was launched with.
pub const INSTANCE_PROFILE_NAME: &str = "karpenter.k8s.aws/instance-profile-name";
/// `true` when the claim's instance has the tags `Name` and `karpenter.sh/nodeclaim`.
pub const TAGGED: &str = "karpenter.k8s.aws/tagged";
/// `true` when the instance also has the tag of the cluster's name.
pub const CLUSTER_NAME_TAGGED: &str = "compatibility.karpenter.k8s.aws/cluster-name-tagged";
/// AMI version that a converted class is pinned to.
pub const ALIAS_VERSION: &str = "compatibility.karpenter.k8s.aws/v1-alias-version";
/// What a v1beta1 class with amiFamily Ubuntu said.
pub const V1BETA1_UBUNTU: &str = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu";
/// What a v1beta1 pool said about the kubelet, JSON.
pub const V1BETA1_KUBELET: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// What a v1beta1 pool said about its class, JSON.
pub const V1BETA1_NODE_CLASS_REF: &str = "compatibility.karpenter.sh/v1beta1-nodeclass-reference";

/// What the object says in its other version and cannot say in this one, JSON ([`crate::convert::webhook`]).
pub const OTHER_VERSION: &str = "dovetail.dev/other-version";

/// Alpha's [`DO_NOT_DISRUPT`] on pods.
pub const DO_NOT_EVICT: &str = "karpenter.sh/do-not-evict";
/// Alpha's [`DO_NOT_DISRUPT`] on nodes.
pub const DO_NOT_CONSOLIDATE: &str = "karpenter.sh/do-not-consolidate";
/// Alpha's [`NODE_POOL_HASH`].
pub const PROVISIONER_HASH: &str = "karpenter.sh/provisioner-hash";
/// Alpha's [`NODE_CLASS_HASH`].
pub const NODE_TEMPLATE_HASH: &str = "karpenter.k8s.aws/nodetemplate-hash";
/// Alpha's mark: when the node became empty.
pub const EMPTINESS_TIMESTAMP: &str = "karpenter.sh/emptiness-timestamp";

/// NodeClaim: the term of the leader that made it (the fence checks it).
pub const TERM: &str = "dovetail.dev/term";
/// The Lease: who began the count of its term, [`LEASE_VACANT`] or [`LEASE_LED`]; absent if other software created it.
pub const LEASE: &str = "dovetail.dev/lease";
/// Value of [`LEASE`]: created, and no replica has led with it yet.
pub const LEASE_VACANT: &str = "vacant";
/// Value of [`LEASE`]: a replica has led with it, so its count is above every earlier term.
pub const LEASE_LED: &str = "led";
/// NodeClaim: ClientToken of the launch that it belongs to.
pub const LAUNCH_TOKEN: &str = "dovetail.dev/launch-token";
/// NodeClaim: W3C trace context of the batch that it came from.
pub const TRACEPARENT: &str = "dovetail.dev/traceparent";
/// NodeClaim: W3C trace context of what caused its deletion.
pub const END_TRACEPARENT: &str = "dovetail.dev/end-traceparent";
/// NodeClaim: why and when Dovetail decided to delete it. The reason as in metrics and logs, a space, the time in RFC 3339:
/// `expired 2026-03-02T10:17:00Z`.
pub const END_REASON: &str = "dovetail.dev/end-reason";
/// NodeClaim: the cloud takes its instance back. The kind of the announcement, a space, the time in RFC 3339 until which the
/// instance lives: `spot_interrupted 2026-03-02T10:17:00Z`.
pub const INTERRUPTION: &str = "dovetail.dev/interruption";
/// NodeClaim: the workloads of the pods that it was launched for, separated by commas, each with how many nodes it left
/// unused before: `1234,5678:2`.
pub const LAUNCHED_FOR: &str = "dovetail.dev/launched-for";
/// NodePool: workloads that leave their nodes unused, and until when Dovetail launches none for them, JSON. Remove it to
/// launch at once.
pub const UNUSED_LAUNCHES: &str = "dovetail.dev/unused-launches";
/// EC2NodeClass: how much nodes of an instance type offer to pods, if that is less than Dovetail expected, JSON.
pub const OBSERVED_ALLOCATABLE: &str = "dovetail.dev/observed-allocatable";
/// Pod: how Dovetail moves it off a node if its eviction would be refused or would leave no pod of its workload.
pub const MOVE: &str = "dovetail.dev/move";
/// Value of [`MOVE`]: restart its Deployment.
pub const MOVE_ROLLOUT: &str = "rollout";
/// A Deployment's template: when it was last restarted, in the format of `kubectl rollout restart`.
pub const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// NodePool: `cost` or `fewest-nodes`.
pub const PACKING_POLICY: &str = "dovetail.dev/packing-policy";
/// Namespace `kube-system`: an operator's release of the collection brake, until a time in RFC 3339.
pub const ALLOW_COLLECTION: &str = "dovetail.dev/allow-collection";
/// NodePool: with `observe` Dovetail disrupts no node by its own decision, and reports what it would have done.
pub const DISRUPTION: &str = "dovetail.dev/disruption";
/// NodePool: when Dovetail took it over from Karpenter, in RFC 3339, a space, and the hash version that Karpenter had left on
/// it: `2026-03-02T10:17:00Z v3`.
pub const ADOPTED: &str = "dovetail.dev/adopted";
/// NodePool: the words of `ADOPT_AS` that Dovetail wrote on it when it took it over and that nobody has changed since:
/// `observe,fewest-nodes`; `as-is` when none is left.
pub const ADOPTED_AS: &str = "dovetail.dev/adopted-as";
/// NodePool converted from a Provisioner: `ttlSecondsAfterEmpty`, an exact time to live without budgets, in seconds.
pub const TTL_SECONDS_AFTER_EMPTY: &str = "dovetail.dev/ttl-seconds-after-empty";
/// Object converted from an older kind: `<apiVersion>/<kind>/<name>` of its source.
pub const CONVERTED_FROM: &str = "dovetail.dev/converted-from";
