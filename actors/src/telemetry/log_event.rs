//! Log events, typed: a stable name, fields, and the line that a person reads (core spec 8, and the posts' log).

use std::fmt;

use serde::Serialize;

pub use super::level::Level;
pub use super::names::Names;

macro_rules! log_events {
    ($($(#[$doc:meta])* $name:ident $event:literal $level:ident { $($field:ident: $type:ty),* $(,)? } => $line:expr;)*) => {
        /// A log event.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "event")]
        pub enum LogEvent {
            $($(#[$doc])* #[serde(rename = $event)] $name { $($field: $type),* },)*
        }

        impl LogEvent {
            /// The event's stable name.
            pub fn event(&self) -> &'static str {
                match self { $(Self::$name { .. } => $event,)* }
            }

            /// The level at which it is logged.
            pub fn level(&self) -> Level {
                match self { $(Self::$name { .. } => Level::$level,)* }
            }

            /// Names of all events.
            pub const EVENTS: &'static [&'static str] = &[$($event),*];
        }

        impl fmt::Display for LogEvent {
            #[allow(unused_variables)]
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$name { $($field),* } => f.write_str(&$line),)* }
            }
        }
    };
}

log_events! {
    /// A replica has started.
    Starting "starting" Info { identity: String, cluster: String } => format!("starting {identity} for cluster {cluster}");
    /// Another replica leads.
    Standby "standby" Info { holder: String } => if holder.is_empty() { String::from("standing by") } else { format!("standing by, {holder} leads") };
    /// This replica leads.
    Elected "elected" Info { lease: String } => format!("elected by lease {lease}");
    /// This replica no longer leads.
    Deposed "deposed" Info { why: String } => format!("deposed: {why}");
    /// The Lease has values that no leader writes, or is not renewed and has a duration of years.
    LeaseRefused "lease_refused" Error { lease: String, why: String } => format!("ignores lease {lease} as it is written: {why}");
    /// A replica's wall clock is wrong.
    ClockSkewed "clock_skewed" Error { seconds: i64, message: String } => format!("the clock of this replica is {message}");
    /// The clock is right again.
    ClockRight "clock_right" Info {} => String::from("the clock of this replica agrees with the API server's again");
    /// Only the Lease's deadline stops an old leader.
    NoFence "no_fence" Error { why: String } => format!("the API server does not reject writes of old leaders: {why}; only the Lease's deadline stops them");
    /// It is unknown whether the API server rejects an old leader's writes.
    FenceUnknown "fence_unknown" Error { why: String } => format!("cannot see whether the API server rejects writes of old leaders: {why}");
    /// Everything has been listed once.
    Synced "synced" Debug { pods: usize, nodes: usize, node_claims: usize } => format!("cluster state synced: {pods} pods, {nodes} nodes, {node_claims} nodeclaims");
    /// An object of the API server cannot be read; it counts as existing, with unknown content.
    Unreadable "unreadable" Error { resource: String, object: String, uid: String, why: String } => format!("{resource} {object} cannot be read, and counts as existing: {why}");
    /// A watch has failed for a minute or more.
    WatchFailing "watch_failing" Error { resource: String, seconds: u64, error: String } => format!("watching {resource} has failed for {seconds}s: {error}");
    /// This replica leads, and does not know the cluster yet.
    NotSynced "not_synced" Error { kinds: String, error: String } => format!("leads, and waits for the state of the cluster: not listed yet: {kinds}{}", if error.is_empty() { String::new() } else { format!("; {error}") });
    /// Ready for pods.
    Waiting "waiting" Info {} => String::from("waiting for unschedulable pods");
    /// A window has closed.
    Batched "batched" Info { pods: usize, names: Names, seconds: f64 } => format!("batched {pods} pods in {seconds:.1}s");
    /// EC2 has refused the preferences of pods for too long: they are packed without these from now on.
    Relaxed "relaxed" Info { pods: usize, names: Names } => format!("packs {pods} pod(s) without their preferences, for which EC2 has had no capacity for too long: {names}");
    /// Packing fails because of these pods: they are left out.
    PackingFailed "packing_failed" Error { pods: usize, names: Names, error: String, seconds: f64 } => format!("left {pods} pod(s) out, with which {error}{}: {names}", if *seconds > 0.0 { format!(", tried again in {seconds:.0}s") } else { String::from(", tried again at once without those that are held") });
    /// Packing by cost fails, and a simpler way does not.
    PackedByFewestNodes "packed_by_fewest_nodes" Error { pods: usize, error: String } => format!("packed {pods} pod(s) by fewest-nodes, as by cost {error}");
    /// A DaemonSet does not count on most instance types, as it would take too much of them.
    DaemonSetNotCounted "daemonset_not_counted" Warn { name: String, why: String } => why.clone();
    /// Savings Plans and Reserved Instances do not count, as the price of a node that may use them is not known.
    CommitmentsNotCounted "commitments_not_counted" Warn { why: String } => why.clone();
    /// The account has said which Savings Plans and Reserved Instances it has, and it is news.
    CommitmentsRead "commitments_read" Info { reserved_instances: usize, savings_plans: usize, gone: Names, left_out: Names } => format!("{reserved_instances} Reserved Instances and {savings_plans} Savings Plans of the account count{}{}", gone.after("; gone before their ends: "), left_out.after("; left out: "));
    /// The account does not say which Savings Plans or Reserved Instances it has, or it is not believed.
    CommitmentsUnread "commitments_unread" Warn { what: String, action: String, why: String } => format!("{what} of the account are not read ({action}): {why}");
    /// Others of the account use the same Savings Plans or Reserved Instances as this cluster, so that both pay on demand.
    CommitmentsContended "commitments_contended" Warn { instances: u32, dollars_per_hour: f64 } => format!("{instances} instances of others of the account use the same commitments: ${dollars_per_hour:.4} an hour more are paid on demand than if each had them alone; COMMITMENTS_SHARE sets a part that is this cluster's");
    /// A Savings Plan or a Reserved Instance has ended.
    CommitmentEnded "commitment_ended" Info { commitment: String, ended: String } => format!("commitment {commitment} has ended at {ended}: what it covered costs its price");
    /// The cluster is shifted away from a zone.
    ZoneShifted "zone_shifted" Warn { zone: String, zone_id: String, why: String } => format!("{why}: nothing is launched there, and no node there is disrupted");
    /// A shift away from a zone is over.
    ZoneShiftOver "zone_shift_over" Info { zone: String, zone_id: String } => format!("the shift away from zone {zone} ({zone_id}) is over: nodes are launched and disrupted there again");
    /// ARC does not say which zones the cluster is shifted away from, or it is not believed.
    ZoneShiftsUnread "zone_shifts_unread" Error { why: String } => format!("zonal shifts are not heeded (arc-zonal-shift:GetManagedResource), though ENABLE_ZONAL_SHIFT is set; what ARC has said counts for 15 minutes: {why}");
    /// Only some of a pod's soft scheduling terms count.
    SoftTermsIgnored "soft_terms_ignored" Info { pod: String, terms: usize, counted: usize } => format!("only the {counted} heaviest of the {terms} soft scheduling terms of pod {pod} count");
    /// A packing has been computed.
    PackingComputed "packing_computed" Info { nodes: usize, pods: usize, node_pool: String, price: f64, instance_types: Names } => format!("computed packing of {nodes} node(s) for {pods} pod(s) with instance type option(s) {instance_types}");
    /// Pods fit on nodes that exist or are on their way.
    FitsExisting "fits_existing" Info { pods: usize, nodes: Names } => format!("{pods} pod(s) fit on {nodes}");
    /// Pods get no node, for the same reason.
    Unschedulable "unschedulable" Error { pods: usize, names: Names, error: String } => format!("could not schedule {pods} pod(s) ({names}): {error}");
    /// A pod has no place.
    PodUnschedulable "pod_unschedulable" Debug { pod: String, error: String } => format!("could not schedule pod {pod}: {error}");
    /// A pod whose node is being removed fits nowhere else.
    NoPlace "no_place" Error { pod: String, error: String } => format!("no place elsewhere for pod {pod}: {error}");
    /// kube-scheduler refuses a node for pods that should fit there: they are planned elsewhere for a while.
    PlaceRefused "place_refused" Error { node: String, pods: usize, names: Names, why: String } => format!("{pods} pod(s) are not planned on {} for now ({names}): {why}", if node.is_empty() { "the nodes that are there".to_owned() } else { format!("node {node}") });
    /// Pods are not nominated to the nodes that are planned for them.
    PlacesNotKept "places_not_kept" Error { why: String } => format!("pods are not nominated to the nodes planned for them, as the API server forbids it; kube-scheduler may give their places to others, and more nodes are launched: {why}");
    /// EC2's refusals to an earlier leader are known.
    UnavailableKnown "unavailable_known" Info { count: usize } => format!("knows {count} refusal(s) of EC2 from an earlier leader");
    /// EC2's refusals cannot be stored for the next leader.
    UnavailableNotKept "unavailable_not_kept" Warn { why: String } => format!("cannot store EC2's refusals, so the next leader will ask EC2 again: {why}");
    /// A pool takes no part.
    PoolSkipped "pool_skipped" Error { node_pool: String, why: String } => format!("nodepool {node_pool} is left out: {why}");
    /// A pool has been taken over from Karpenter.
    PoolAdopted "pool_adopted" Warn { node_pool: String, version: String, held: String, instances: bool } => format!(
        "took nodepool {node_pool} over from Karpenter ({}), held back: {held}{}",
        if version.is_empty() { String::from("no hash version") } else { format!("hash version {version}") },
        if *instances { "" } else { "; the instances that Karpenter launched stay as they are, as ADOPT_KARPENTER_INSTANCES is off" });
    /// Less is held back in a pool that was taken over from Karpenter.
    PoolReleased "pool_released" Info { node_pool: String, held: String } => format!("released nodepool {node_pool}, which was taken over from Karpenter; still held back: {held}");
    /// A plan costs much more than the first for the same pods.
    PriceRise "price_rise" Warn { node_pool: String, price: f64, first: f64, names: Names, message: String } => format!("nodepool {node_pool}, pod(s) {names}: {message}");
    /// A claim has been created.
    ClaimCreated "nodeclaim_created" Info { node_claim: String, node_pool: String, pods: usize, requests: String, instance_types: Names } => format!("created nodeclaim {node_claim} of nodepool {node_pool} requesting {requests}, instance types {instance_types}");
    /// The cloud has made its instance.
    Launched "launched" Info { node_claim: String, instance: String, provider_id: String, instance_type: String, zone: String, capacity_type: String, hostname: String, allocatable: String } => format!("launched instance {instance}, type {instance_type}, zone {zone}, capacityType {capacity_type}, hostname {hostname}");
    /// This leader launches for a claim of an earlier one, also for one that the API server admitted after that term.
    TakenOver "taken_over" Info { node_claim: String, of_term: String } => format!("continues with nodeclaim {node_claim} of term {of_term}");
    /// An instance of an earlier call has been found and given to its claim.
    Adopted "adopted" Info { node_claim: String, instance: String } => format!("found instance {instance} of nodeclaim {node_claim} by its launch token");
    /// A launch failed.
    LaunchFailed "launch_failed" Error { node_claim: String, error: String, reason: String, retry: bool } => format!("could not launch nodeclaim {node_claim}: {error}{}", if *retry { ", will try again" } else { "" });
    /// A launch has to wait: a ceiling is reached, or nodes of its pool do not register.
    LaunchHeld "launch_held" Error { node_pool: String, reason: String, message: String } => format!("launches of nodepool {node_pool} wait: {message}");
    /// Calls wait until EC2 lets this account launch more instances.
    LaunchesPaced "launches_paced" Warn { node_pool: String, count: usize, at_once: f64, per_second: f64, seconds: u64 } => format!("launching {count} for nodepool {node_pool}: EC2 allows {per_second} a second after the first {at_once}; ask AWS for a higher limit of RunInstances resource tokens, and say it in EC2_LIMITS");
    /// The cloud has no such offerings now: one line a zone, capacity type and code.
    OfferingRefused "offering_refused" Info { zone: String, capacity_type: String, code: String, cause: String, types: usize, instance_types: Names } => {
        let place = if zone.is_empty() { String::new() } else { format!(" in {zone}") };
        let cause = if cause.is_empty() { String::new() } else { format!(": {cause}") };
        match types {
            0 => format!("{capacity_type} capacity{place} is unavailable for a while: {code}{cause}"),
            _ => format!("{types} instance type(s) are unavailable for a while, {capacity_type}{place}: {code}{cause} ({instance_types})"),
        }
    };
    /// A class's images are for other instance types than these, which are not planned.
    WithoutImage "types_without_image" Info { node_class: String, instance_types: Names } => match instance_types.named.is_empty() {
        true => format!("node class {node_class} has an image for every instance type"),
        false => format!("node class {node_class} has no image for {instance_types}: they are not planned"),
    };
    /// The cloud takes an instance away.
    Interrupted "interrupted" Info { node_claim: String, node: String, instance: String, reason: String, deadline: String } => format!("instance {instance} of nodeclaim {node_claim} is interrupted ({reason}) and runs until {deadline}");
    /// The cloud may take an instance away.
    RebalanceRecommended "rebalance_recommended" Info { node_claim: String, instance: String } => format!("instance {instance} of nodeclaim {node_claim} is at risk of interruption");
    /// An interrupted node is drained.
    ReplacementsFirst "retreating" Info { node_claim: String, node: String, cause: String, pods: usize } =>
        format!("drains interrupted node {node} with {pods} pod(s) to move: {cause}");
    /// Messages of the queue that have no effect, though they might have had one; reported once in a while.
    MessagesIgnored "messages_ignored" Info { reason: String, messages: u64, example: String } => format!("ignored {messages} message(s) of the interruption queue ({reason}), for example: {example}");
    /// The interruption queue cannot be read, or there is none and spot nodes are, or may be, in use.
    SpotUnheard "spot_unheard" Warn { nodes: usize, pools: Names, code: String, error: String } =>
        format!("interruptions are not received, {error}: {nodes} spot node(s) end without a warning to their pods{}", if pools.named.is_empty() { String::new() } else { format!(", nodepool(s) {pools}") });
    /// The interruption queue is read again.
    SpotHeard "spot_heard" Info { queue: String } => format!("interruptions are received again from the queue {queue}");
    /// A status check of an instance has failed for too long.
    StatusFailed "status_failed" Warn { node_claim: String, instance: String, status: String, check: String } =>
        format!("instance {instance} of nodeclaim {node_claim} fails its check {check} ({status})");
    /// EC2 does not let us ask for status checks.
    StatusForbidden "status_forbidden" Warn { error: String } => format!("the status of instances is no longer read until the next leader: {error}");
    /// A Node has registered.
    Registered "registered" Info { node_claim: String, node: String, provider_id: String } => format!("registered node {node} of nodeclaim {node_claim}");
    /// A node came without its guard taint.
    GuardMissing "guard_missing" Error { node_claim: String, node: String } => format!("node {node} joined without the taint karpenter.sh/unregistered");
    /// A Node is ready for pods.
    Initialized "initialized" Info { node_claim: String, node: String, allocatable: String } => format!("initialized node {node} of nodeclaim {node_claim}");
    /// The last pod of a plan is bound.
    Bound "bound" Info { pods: usize, node: String, node_claim: String } => format!("bound {pods} pod(s) to node {node}");
    /// The instance that is written on a claim is not the claim's.
    InstanceNotOwned "instance_not_owned" Warn { node_claim: String, instance: String, reason: String, error: String } =>
        format!("instance {instance} of nodeclaim {node_claim} is not its own: {error}; it is neither drained nor ended");
    /// A claim carries a launch token that is another's.
    TokenNotOwned "token_not_owned" Warn { node_claim: String, token: String } => format!("the launch token {token} of nodeclaim {node_claim} is not made of its uid, and is not believed");
    /// A node is not used by the pods that it was launched for.
    NodeNotUsed "node_not_used" Warn { node_claim: String, node: String, node_pool: String, reason: String, failures: u32, pause_seconds: u64, pods: Names, message: String } => message.clone();
    /// The pods of a new node wait for a taint that its pool does not declare.
    TaintAwaited "taint_awaited" Warn { node_claim: String, node: String, node_pool: String, taint: String, pods: Names, until: String } =>
        format!("node {node} has the taint {taint}, which nodepool {node_pool} does not declare: its pods ({pods}) wait for it until {until}");
    /// A claim has had its time.
    GaveUp "gave_up" Error { node_claim: String, reason: String } => format!("deleting nodeclaim {node_claim}: {reason}");
    /// A claim has been deleted.
    ClaimDeleted "nodeclaim_deleted" Info { node_claim: String, reason: String } => format!("deleted nodeclaim {node_claim}: {reason}");
    /// A claim has been deleted by our own decision; its node goes.
    Removing "removing" Info { node_claim: String, node: String, reason: String } => format!("removing nodeclaim {node_claim}{}: {reason}", if node.is_empty() { String::new() } else { format!(" and node {node}") });
    /// A claim's node may take until then.
    Deadline "termination_deadline" Info { node_claim: String, at: String } => format!("nodeclaim {node_claim} has until {at} to be drained");
    /// Dovetail keeps new pods off a Node.
    Cordoned "cordoned" Info { node: String, node_claim: String, reason: String } => format!("cordoned node {node}: {reason}");
    /// Its pods are to go.
    Draining "draining" Info { node: String, node_claim: String, pods: usize, reason: String } => format!("draining node {node} of {pods} pod(s): {reason}");
    /// Somebody else has deleted a node, its claim or its pool.
    DeletionAsked "deletion_asked" Info { node: String, node_claim: String, reason: String } =>
        format!("node {node}{} is being removed: {reason}", if node_claim.is_empty() { String::new() } else { format!(" with nodeclaim {node_claim}") });
    /// Pods stay until the places for their successors are ready.
    AwaitingPlaces "awaiting_places" Info { node: String, node_claim: String, pods: usize, names: Names, until: String } => format!("node {node} waits for the places of {pods} pod(s), until {until} at the latest: {names}");
    /// The pods of a drained node go without places.
    PlacesGivenUp "places_given_up" Info { node: String, pods: usize, names: Names } => format!("no longer waits for the places of {pods} pod(s) of node {node}, which are evicted: {names}");
    /// A drain has been held up for a minute, with the remedy.
    DrainBlocked "drain_blocked" Warn { node: String, node_claim: String, pods: usize, why: Names, remedy: String } => format!("node {node} cannot be drained, {pods} pod(s) hold it: {why}; to end that, {remedy}");
    /// A Deployment was restarted, as its pods ask for, so that they leave a node.
    DeploymentRestarted "deployment_restarted" Info { deployment: String, node: String, pod: String } => format!("restarted deployment {deployment}, so that pod {pod} leaves node {node}");
    /// A Deployment whose pods ask for a restart is not restarted, or its new pod did not come: they are evicted.
    NotRestarted "not_restarted" Warn { deployment: String, node: String, pod: String, why: String } =>
        format!("deployment {deployment} does not move pod {pod} from node {node}: {why}");
    /// Pods are protected, and hold the drain.
    DrainHeld "drain_held" Info { node: String, node_claim: String, pods: usize, why: Names } => format!("node {node} is not drained, {pods} pod(s) stay: {why}");
    /// Pods have been evicted.
    Evicted "evicted" Info { node: String, pods: usize, names: Names } => format!("evicted {pods} pod(s) from node {node}: {names}");
    /// A pod may not be evicted now.
    EvictionRefused "eviction_refused" Info { pod: String, node: String, error: String } => format!("pod {pod} stays on node {node} for now: {error}");
    /// Pods have been deleted, as the node's time is up.
    PodsDeleted "pods_deleted" Info { node: String, pods: usize, names: Names } =>
        format!("deleted {pods} pod(s) of node {node}, whose time is up: {names}");
    /// The pods that had to go are gone.
    Drained "drained" Info { node: String, node_claim: String } => format!("drained node {node}");
    /// Volumes are still attached.
    AwaitingVolumes "awaiting_volumes" Info { node: String, volumes: Names } => format!("node {node} waits for volumes to be detached: {volumes}");
    /// The cloud has accepted an instance's end.
    Terminated "terminated" Info { node_claim: String, node: String, instance: String } => format!("terminated instance {instance} of nodeclaim {node_claim}");
    /// A Node is gone.
    NodeDeleted "node_deleted" Info { node: String, node_claim: String } => format!("deleted node {node}");
    /// A foreign finalizer alone holds a Node that is being deleted.
    HeldByFinalizer "held_by_finalizer" Warn { node: String, node_claim: String, finalizers: String, remedy: String } =>
        format!("node {node} is let go and stays, held by its finalizers {finalizers}: {remedy}");
    /// An orphaned instance has been ended.
    Collected "collected" Info { instance: String } => format!("ended instance {instance}: no nodeclaim has it");
    /// The Nodes of more claims are gone than is believed.
    NodesGone "nodes_gone" Error { node_claims: usize, bound: usize } =>
        format!("the Nodes of {node_claims} nodeclaims are gone, more than {bound}: their instances are kept; to end them, delete the nodeclaims");
    /// The collection of orphaned instances has stopped, or leaves something alone.
    CollectionBraked "collection_braked" Error { reason: String, count: usize, message: String } => message.clone();
    /// An operator has released the brakes.
    CollectionReleased "collection_released" Info { until: String } => format!("the collection's brakes are released until {until}");
    /// A launch template or an instance profile that nothing uses any more has been removed.
    ClassOrphanRemoved "leftover_removed" Info { name: String, node_class: String } => format!("removed {name} of node class {node_class}: nothing uses it any more");
    /// A node class has become usable or ceased to be.
    NodeClass "node_class" Info { node_class: String, ready: bool, why: String } =>
        if *ready { format!("node class {node_class} is ready") } else { format!("node class {node_class} is not ready: {why}") };
    /// A node class is being deleted and still in use.
    NodeClassWaits "node_class_waits" Info { node_class: String, node_claims: Names } =>
        format!("node class {node_class} is being deleted and waits for nodeclaims {node_claims}");
    /// A node class is gone, and the resources made for it are removed.
    NodeClassDeleted "node_class_deleted" Info { node_class: String } => format!("deleted node class {node_class}, its launch templates and its instance profile");
    /// A pool has become usable or ceased to be.
    NodePool "node_pool" Info { node_pool: String, ready: bool, why: String } =>
        if *ready { format!("nodepool {node_pool} is ready") } else { format!("nodepool {node_pool} is not ready: {why}") };
    /// The v1 objects of a Provisioner or an AWSNodeTemplate are in step with it.
    Translated "translated" Info { object: String, made: Vec<String>, defaults: usize, left_out: Names } =>
        format!("{object} is translated: {}{}", made.join(", "), if left_out.named.is_empty() { String::new() } else { format!("; left out: {left_out}") });
    /// One of them is not translated: what was made from it before stays as it was.
    NotTranslated "not_translated" Error { object: String, reason: String, why: String } => format!("{object} is not translated: {why}");
    /// Something that a pool says about disruption makes no sense.
    PoolMistaken "pool_mistaken" Error { node_pool: String, error: String } => format!("nodepool {node_pool}: {error}");
    /// A node has become empty, and its pool gives such nodes a time to live.
    TtlAdded "ttl_added" Info { node: String, seconds: i64 } => format!("added TTL to empty node {node}: {seconds}s");
    /// A node with a TTL is no longer empty.
    TtlRemoved "ttl_removed" Info { node: String } => format!("removed TTL from node {node}");
    /// A node has been empty for its TTL.
    TtlReached "ttl_reached" Info { node: String, seconds: i64 } => format!("triggering termination after {seconds}s for empty node {node}");
    /// Nodes go by our own decision.
    Disrupting "disrupting" Info { command: String, decision: String, reason: String, disrupted_node_count: usize, replacement_node_count: usize, pod_count: usize, disrupted_nodes: Names } =>
        format!("disrupting {disrupted_node_count} node(s) with {pod_count} pod(s): {reason}, {disrupted_nodes}");
    /// A command is given up, and its nodes stay.
    DisruptionUndone "disruption_undone" Warn { command: String, reason: String, why: String, pause_seconds: i64, node_claims: Names } =>
        format!("no longer disrupts {node_claims} ({reason}): {why}; its pool is not disrupted for {pause_seconds}s");
    /// A command did not pass its validation.
    ConsolidationRejected "consolidation_rejected" Info { nodes: usize, node_claims: Names } =>
        format!("does not consolidate {nodes} node(s): the command is no longer valid ({node_claims})");
    /// Consolidation cannot be computed; it is tried again.
    ConsolidationFailed "consolidation_failed" Error { error: String } => format!("consolidation failed and pauses for now: {error}");
    /// A node stays, and the one thing that stands in the way.
    Unconsolidatable "unconsolidatable" Debug { node: String, node_claim: String, why: String } => format!("node {node} is not consolidated: {why}");
    /// Nodes would have gone, were their pool not only observed.
    WouldDisrupt "would_disrupt" Info { node_pool: String, reason: String, nodes: usize, node_claims: Names } =>
        format!("nodepool {node_pool} is only observed, {nodes} node(s) would have been removed: {reason}, {node_claims}");
    /// A node could go and may not.
    DisruptionBlocked "disruption_blocked" Info { node: String, node_claim: String, why: String } => format!("cannot disrupt node {node}: {why}");
    /// Nodes of a pool could go and its budgets allow none.
    BudgetBlocked "budget_blocked" Info { node_pool: String, reason: String, nodes: usize } =>
        format!("budgets of nodepool {node_pool} allow no disruptions for reason {reason}; {nodes} node(s) could go");
    /// A node is not what its pool or class asks for any more.
    Drifted "drifted" Debug { node_claim: String, node: String, reason: String, why: String } => format!("node {node} has drifted: {reason}, {why}");
    /// A node is again what its pool and class ask for.
    DriftCleared "drift_cleared" Debug { node_claim: String, node: String } => format!("node {node} no longer drifts");
    /// Places are made for the pods of drifted nodes, which go when these are ready.
    Replacing "replacing" Info { node_pool: String, nodes: Names } => format!("replacing node(s) of nodepool {node_pool}: {nodes}");
    /// A drifted node stays after all.
    ReplacementOff "replacement_off" Info { node: String, node_claim: String, why: String, pause_seconds: Option<i64> } => format!("node {node} is not replaced, {why}{}", pause_seconds.map(|pause| format!("; the next of its nodepool is tried in {} min", pause / 60)).unwrap_or_default());
    /// A node goes before its successor stands: its only place is its own instance of a full reservation.
    TerminatingFirst "terminating_first" Info { node: String, node_claim: String, reservation: String } => format!("node {node} is ended before its successor is launched: its only place is its own instance of capacity reservation {reservation}");
    /// Somebody else has the instance of a reservation that a node has given up.
    ReservedInstanceLost "reserved_instance_lost" Warn { node_pool: String, node: String, reservation: String } => format!("somebody else has the instance of capacity reservation {reservation} that node {node} of nodepool {node_pool} gave up: its pods wait");
    /// The instance of a node is in its capacity reservation no more: that has ended, was cancelled, or has fewer instances.
    ReservationEnded "reservation_ended" Warn { node: String, node_claim: String, reservation: String } => format!("node {node} is paid for on demand: capacity reservation {reservation} has ended, was cancelled or has fewer instances");
    /// Claims are launched for a static pool.
    ReplicasLaunched "replicas_launched" Info { node_pool: String, replicas: i64, nodes: usize, node_claims: Names } => format!("provisioning {nodes} nodeclaim(s) to satisfy the replica count {replicas} of nodepool {node_pool}: {node_claims}");
    /// Claims of a static pool go, as it has more than `spec.replicas`.
    ReplicasRemoved "replicas_removed" Info { node_pool: String, nodes: usize, node_claims: Names } => format!("deprovisioning {nodes} nodeclaim(s) to satisfy the replica count of nodepool {node_pool}: {node_claims}");
    /// Nodes are launched for the room of a capacity buffer.
    BufferLaunched "buffer_launched" Info { buffer: String, nodes: usize, node_claims: Names } => format!("provisioning {nodes} nodeclaim(s) for the room of capacitybuffer {buffer}: {node_claims}");
    /// A capacity buffer cannot be held, or lacks room that is not on its way.
    BufferShort "buffer_short" Warn { buffer: String, why: String } => format!("capacitybuffer {buffer} lacks room: {why}");
    /// A capacity buffer has all its room.
    BufferHeld "buffer_held" Info { buffer: String, why: String } => format!("capacitybuffer {buffer}: {why}");
    /// The API server does not serve CapacityBuffers.
    BuffersNotServed "buffers_not_served" Warn {} => "the API server serves no CapacityBuffers of autoscaling.x-k8s.io: install their CRD, or close the feature gate CapacityBuffer";
    /// All nodes that a ProvisioningRequest needs are launched.
    RequestLaunched "request_launched" Info { request: String, nodes: usize, node_claims: Names } => format!("provisioning {nodes} nodeclaim(s) for provisioningrequest {request}: {node_claims}");
    /// Nodes of a ProvisioningRequest that has come to nothing go.
    RequestGivenBack "request_given_back" Info { request: String, nodes: usize, node_claims: Names } => format!("giving back {nodes} nodeclaim(s) of provisioningrequest {request}: {node_claims}");
    /// A ProvisioningRequest has no room, or has lost it.
    RequestWithoutRoom "request_without_room" Warn { request: String, why: String } => format!("provisioningrequest {request} has no room: {why}");
    /// A ProvisioningRequest has all its room, or does not hold it any more.
    RequestSays "request_says" Info { request: String, why: String } => format!("provisioningrequest {request}: {why}");
    /// The API server does not serve ProvisioningRequests.
    RequestsNotServed "requests_not_served" Warn {} => "the API server serves no ProvisioningRequests of autoscaling.x-k8s.io: install their CRD, or close the feature gate ProvisioningRequest";
    /// Nodes of a gang of which not all can be had go.
    GangGivenBack "gang_given_back" Info { pod_group: String, nodes: usize, node_claims: Names } => format!("giving back {nodes} nodeclaim(s) of podgroup {pod_group}: {node_claims}");
    /// The API server does not serve PodGroups of an API.
    PodGroupsNotServed "pod_groups_not_served" Info { api: String } => format!("the API server serves no PodGroups of {api}: pods that name one get nodes each for itself");
    /// A NodeOverlay is left out.
    OverlayRefused "overlay_refused" Warn { overlay: String, why: String } => format!("nodeoverlay {overlay} is left out: {why}");
    /// A NodeOverlay counts.
    OverlayApplied "overlay_applied" Info { overlay: String, why: String } => format!("nodeoverlay {overlay} counts: {why}");
    /// A CapacityQuota is not held.
    QuotaNotHeld "quota_not_held" Warn { quota: String, why: String } => format!("capacityquota {quota}: {why}");
    /// Nodes have more than a CapacityQuota allows.
    QuotaExceeded "quota_exceeded" Warn { quota: String, why: String } => format!("capacityquota {quota}: {why}");
    /// A CapacityQuota is held, and nodes have no more than it allows.
    QuotaHeld "quota_held" Info { quota: String, why: String } => format!("capacityquota {quota}: {why}");
    /// The API server does not serve CapacityQuotas.
    QuotasNotServed "quotas_not_served" Warn {} => "the API server serves no CapacityQuotas of autoscaling.x-k8s.io: install their CRD, or close the feature gate CapacityQuota";
    /// The API server does not serve a kind of dynamic resource allocation.
    AutoscalersNotServed "autoscalers_not_served" Warn {} => "the API server serves no VerticalPodAutoscalers of autoscaling.k8s.io/v1: install the autoscaler, or close the feature gate VerticalPodAutoscaler";
    DevicesNotServed "devices_not_served" Warn { kind: String } => format!("the API server serves no {kind} of resource.k8s.io/v1: pods with resourceClaims wait; use Kubernetes 1.34 or later, or IGNORE_DRA_REQUESTS=true");
    /// Deletion costs of pods cannot be written; said once a minute at most.
    DeletionCostsRefused "deletion_costs_refused" Warn { refusals: usize, pod: String, error: String } => format!("{refusals} write(s) of deletion costs were refused, the last at pod {pod}: {error}");
    /// The API server does not serve NodeOverlays.
    OverlaysNotServed "overlays_not_served" Warn {} => "the API server serves no NodeOverlays of karpenter.sh/v1alpha1: install their CRD, or close the feature gate NodeOverlay";
    /// A static pool lacks nodes that are not on their way.
    ReplicasMissing "replicas_missing" Warn { node_pool: String, why: String } => format!("nodepool {node_pool} lacks nodes: {why}");
    /// A static pool has all its nodes.
    ReplicasReady "replicas_ready" Info { node_pool: String, why: String } => format!("nodepool {node_pool}: {why}");
    /// A node of a static pool goes before its successor is launched, as `limits.nodes` leaves no room for both.
    TerminatingAtLimit "terminating_at_limit" Info { node: String, node_claim: String, node_pool: String, limit: usize } => format!("node {node} is ended before its successor is launched: nodepool {node_pool} is static and at its limit of {limit} node(s)");
    /// A node of a static pool waits for its successor.
    AwaitingSuccessor "awaiting_successor" Info { node: String, node_claim: String, node_pool: String, why: String } => format!("node {node} of static nodepool {node_pool} goes when its successor is initialized: {why}");
    /// A class's images have moved on by themselves.
    UnpinnedImage "unpinned_image" Warn { node_class: String, selector: String, image: String } => format!("nodes of node class {node_class} drift as {selector} now finds image {image}: unsafe in production");
    /// A node is unhealthy for too long and is not repaired now, as others are or have been too.
    NodeRepairBlocked "node_repair_blocked" Warn { node: String, why: String } => format!("node {node} is not repaired: {why}");
    /// A node is drained and rebooted as a repair.
    NodeRebooting "node_rebooting" Info { node: String, node_claim: String, condition: String } => format!("node {node} is drained and rebooted, for its condition {condition}");
    /// A reboot has come to its end.
    NodeRebooted "node_rebooted" Info { node: String, node_claim: String, outcome: String } => format!("the reboot of node {node} is over: {outcome}");
    /// A reboot has failed, or EC2 cannot be asked for one.
    NodeRebootFailed "node_reboot_failed" Warn { node: String, node_claim: String, why: String } => format!("the reboot of node {node} has failed: {why}");
    /// The catalogue of the region has been read.
    CatalogueRead "catalogue_read" Debug { instance_types: usize, offerings: usize } => format!("read {instance_types} instance types with {offerings} offerings");
    /// The conversion webhook answers with another certificate from now on.
    WebhookServes "webhook_serves" Info { until: String, names: String } => format!("serves the conversion webhook for {names} with a certificate until {until}");
    /// The conversion webhook's Secret has been written.
    WebhookRotated "webhook_rotated" Info { step: String } => format!("the conversion webhook's certificate is {step}");
    /// A CustomResourceDefinition has been changed: v1beta1 is served, and converted by the webhook.
    WebhookDefined "webhook_defined" Info { definition: String } => format!("has v1beta1 of {definition} converted by the webhook");
    /// v1beta1 of a CustomResourceDefinition is not served, or not converted.
    WebhookNotDefined "webhook_not_defined" Error { definition: String, why: String } => format!("v1beta1 of {definition} is not converted by the webhook: {why}");
    /// All objects stored as v1beta1 are stored as v1.
    StoredAnew "stored_anew" Info { definition: String, objects: u64 } => format!("all {objects} object(s) of {definition} are stored as v1");
    /// The API server refuses to store an object as v1; it is retried later, and does not delay the others.
    NotStoredAnew "not_stored_anew" Warn { definition: String, object: String, why: String } => format!("{object} of {definition} cannot be stored as v1: {why}");
    /// Something failed and is retried; reported once until it succeeds.
    Retrying "retrying" Info { what: String, error: String } => format!("{what} failed and is tried again: {error}");
    /// The API server refuses to send lists as streams; reported once.
    ListsByPages "lists_by_pages" Info { why: String } => format!("lists are asked for by pages, as the API server makes no streams of them: {why}");
    /// A required call is refused, and is retried; reported at the first, tenth, hundredth refusal and so on.
    StillRefused "still_refused" Warn { what: String, error: String, times: u32, seconds: f64 } => format!("{what} was refused{}, tried again in {seconds:.0}s: {error}", if *times > 1 { format!(" {times} times") } else { String::new() });
    /// A retried call has succeeded.
    Recovered "recovered" Info { what: String, attempts: u32 } => format!("{what} succeeded at attempt {attempts}");
    /// The leader's actors are started again.
    Restarting "restarting" Error { why: String, seconds: f64 } => format!("{why}; starting again in {seconds:.1}s");
    /// The replica ends.
    Exiting "exiting" Error { why: String } => format!("exiting: {why}");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn twenty_types_are_named_and_the_rest_counted() {
        let names = Names::first(20, (0..35).map(|n| format!("t{n}")));
        assert_eq!((names.named.len(), names.others), (20, 15));
        assert!(names.to_string().ends_with("t19 and 15 other(s)"));
        assert_eq!(Names::first(2, ["a"]).to_string(), "a");
    }

    #[test]
    fn a_log_event_has_a_line_and_fields() {
        let log_event = LogEvent::Batched { pods: 218, names: Names::first(1, ["a", "b"]), seconds: 10.02 };
        assert_eq!(log_event.to_string(), "batched 218 pods in 10.0s");
        let fields = serde_json::to_value(&log_event).unwrap();
        assert_eq!((fields["event"].as_str(), fields["pods"].as_u64()), (Some("batched"), Some(218)));
    }

    #[test]
    fn event_names_are_unique() {
        let mut names = LogEvent::EVENTS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LogEvent::EVENTS.len());
    }
}
