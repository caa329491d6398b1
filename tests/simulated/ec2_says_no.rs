//! Refusals of EC2: each of its errors once, quotas, addresses, permissions, bursts, and regions that have little or nothing. The
//! table of docs/ec2-errors.md is what these runs come to.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use crate::played;
use crate::writes;

use std::collections::{BTreeMap, BTreeSet};

use played::{Played, at, manifests, play, play_over};
use serde_json::Value;

/// Pods that each need a node of their own, of a pool that has spot and on-demand.
fn both_markets(pods: u32) -> String {
    manifests(pods).replace("values: [on-demand]", "values: [spot, on-demand]")
}

/// The same of all types of three categories.
fn many_types(pods: u32) -> String {
    both_markets(pods).replace(
        "{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m6i.large]}",
        "{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}",
    )
}

/// Every CreateFleet of a replica, whatever came of it.
fn fleets(played: &Played) -> Vec<&Value> {
    played.seen("aws", &[("action", "CreateFleet")])
}

/// Most AWS calls of replicas within a minute, from then on.
fn most_in_a_minute(times: &[f64], from: f64) -> usize {
    let times: Vec<f64> = times.iter().copied().filter(|time| *time >= from).collect();
    times.iter().map(|first| times.iter().filter(|t| (*first..first + 60.0).contains(*t)).count()).max().unwrap_or(0)
}

/// Refusals kept last for the next leader, counted by what they cover.
fn kept(played: &Played) -> BTreeMap<String, usize> {
    let writes = played.seen("api", &[("resource", "configmaps"), ("name", "dovetail-unavailable-offerings")]);
    let text = writes.last().map(|write| write["sent"]["data"]["unavailable"].as_str().unwrap().to_owned());
    let mut counts = BTreeMap::new();
    for line in text.unwrap_or_default().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let mut words = line["what"].as_str().unwrap().split(' ');
        let (kind, market) = (words.next().unwrap(), words.next().unwrap());
        let what = match kind {
            "offering" => format!("offerings of {market}"),
            "quota" => format!("{} at {market}, in the region", words.collect::<Vec<_>>().join(" ")),
            "capacity-type" => format!("all of {market}"),
            _ => "the subnet".to_owned(),
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// An error, where it is answered, and what is said with it.
struct Case {
    code: &'static str,
    /// `offerings: …` or `action: …`.
    to: &'static str,
    message: &'static str,
}

const fn case(code: &'static str, to: &'static str, message: &'static str) -> Case {
    Case { code, to, message }
}

const DENIED: &str = "You are not authorized to perform this operation. User: x is not authorized to perform: ec2:RunInstances on resource: y because no identity-based policy allows the ec2:RunInstances action. Encoded authorization failure message: abc";

/// The errors of section 3.6 of the AWS specification, and those that it takes the reasons of conditions from.
const CASES: [Case; 35] = [
    case("InsufficientInstanceCapacity", "offerings: '*/*/spot'", ""),
    case("UnfulfillableCapacity", "offerings: '*/*/spot'", ""),
    case("Unsupported", "offerings: '*/*/spot'", ""),
    case("ReservationCapacityExceeded", "offerings: '*/*/spot'", ""),
    case("MaxSpotInstanceCountExceeded", "offerings: '*/*/spot'", ""),
    case("VcpuLimitExceeded", "offerings: '*/*/*'", ""),
    case("VcpuLimitExceeded", "action: CreateFleet", ""),
    case("MaxFleetCountExceeded", "offerings: '*/*/*'", ""),
    case("MaxFleetCountExceeded", "action: CreateFleet", ""),
    case("InsufficientFreeAddressesInSubnet", "offerings: '*/ca-west-1a/*'", ""),
    case("InsufficientFreeAddressesInSubnet", "offerings: '*/*/*'", ""),
    case("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "offerings: '*/*/spot'", ""),
    case("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "action: CreateFleet", ""),
    case("UnauthorizedOperation", "action: CreateFleet", DENIED),
    case("UnauthorizedOperation", "offerings: '*/*/*'", DENIED),
    case(
        "UnauthorizedOperation",
        "offerings: '*/*/*'",
        "You are not authorized for images: [ami-1]: not authorized for images",
    ),
    case("PendingVerification", "action: CreateFleet", ""),
    case("InvalidParameterValue", "offerings: '*/*/*'", "Value (x) for parameter iamInstanceProfile.name is invalid."),
    case(
        "InvalidParameter",
        "offerings: '*/*/*'",
        "Security group sg-1 and subnet subnet-1 belong to different networks.",
    ),
    case(
        "InvalidParameterCombination",
        "offerings: '*/*/*'",
        "The specified instance type is not eligible for Free Tier.",
    ),
    case("InvalidUserData.Malformed", "offerings: '*/*/*'", "User data is limited to 16384 bytes"),
    case("InvalidAMIID.NotFound", "offerings: '*/*/*'", ""),
    case("InvalidAMIID.Malformed", "offerings: '*/*/*'", ""),
    case("InvalidLaunchTemplateName.NotFoundException", "action: CreateFleet", ""),
    case("InvalidLaunchTemplateId.NotFound", "action: CreateFleet", ""),
    case("RequestLimitExceeded", "action: CreateFleet", ""),
    case("RequestLimitExceeded", "action: DescribeSubnets", ""),
    case("InternalError", "action: CreateFleet", ""),
    case("SomethingNew", "action: CreateFleet", ""),
    case("InvalidInstanceID.NotFound", "action: DescribeInstances", ""),
    case("EntityAlreadyExists", "action: CreateInstanceProfile", ""),
    case("NoSuchEntity", "action: AddRoleToInstanceProfile", ""),
    case("ParameterNotFound", "action: GetParameter", ""),
    case("QueueDoesNotExist", "action: GetQueueUrl", ""),
    case("AccessDenied", "action: GetInstanceProfile", ""),
];

/// A class is not tried before it is launched for: a launch is to be the first that finds out. So it is in a simulation unless its
/// scenario asks for trials; here it is said, as the table depends on it.
const NO_TRIALS: &str = "settings: {DISABLE_DRY_RUN: 'true'}\n";

/// The outcome of one error, as a row of the table.
fn row(number: usize, case: &Case) -> String {
    let Case { code, to, message } = case;
    let error = format!("{{code: {code}, {to}, times: 1, message: \"{message}\"}}");
    let name = format!("says-no-{number}");
    let scenario = format!("{NO_TRIALS}faults: {{ec2: {{errors: [{error}]}}}}\nuntil: 4m\n");
    let played = play_over(&name, &both_markets(1), &scenario);
    played.violates_nothing();
    let answered = match to.split_once(": ").unwrap() {
        ("action", action) => format!("`{action}`"),
        (_, glob) => format!("a fleet's `{}`", glob.trim_matches('\'')),
    };
    let out: Vec<String> = kept(&played)
        .into_iter()
        .map(|(what, count)| if what.starts_with("offerings") { format!("{count} {what}") } else { what })
        .collect();
    let out = if out.is_empty() { "nothing".to_owned() } else { out.join(", ") };
    let claims = match played.log_events("nodeclaim_created").len() {
        1 if fleets(&played).len() == 1 => "is launched",
        1 => "is tried again",
        _ => "is given up, another is planned",
    };
    let reasons: BTreeSet<&str> =
        played.log_events("launch_failed").iter().map(|line| line["reason"].as_str().unwrap()).collect();
    let events = ["InsufficientCapacityError", "SpotSLRCreationFailed"];
    let said =
        events.into_iter().filter(|reason| played.events_of(reason) > 0).map(|reason| format!("event `{reason}`"));
    let said: Vec<String> = reasons.iter().map(|reason| format!("`{reason}`")).chain(said).collect();
    let said = if said.is_empty() { "nothing".to_owned() } else { said.join(", ") };
    let launched = played.log_events("launched");
    assert!(launched.len() < 2, "{code} {to}: one pod, one node");
    let then = launched.first().map_or("nothing within 240 s".to_owned(), |line| {
        let within = [5, 15, 60, 120, 240].into_iter().find(|bound| at(line) < f64::from(*bound)).unwrap();
        format!("{} within {within} s", line["capacity_type"].as_str().unwrap())
    });
    format!("| `{code}` | {answered} | {out} | {claims} | {said} | {then} |")
}

/// True if a line of the docs is a row of the table.
fn is_row(line: &&str) -> bool {
    line.starts_with("| `") && line.ends_with(" s |")
}

/// With EC2_ERRORS_TABLE=write in the environment the table is made anew.
#[test]
fn each_error_of_ec2_comes_to_what_the_docs_say() {
    let rows: Vec<String> = CASES.iter().enumerate().map(|(number, case)| row(number, case)).collect();
    let page = common::root().join("docs/ec2-errors.md");
    let docs = std::fs::read_to_string(&page).unwrap();
    if std::env::var("EC2_ERRORS_TABLE").is_ok_and(|value| value == "write") {
        let others: Vec<&str> = docs.lines().filter(|line| !is_row(line)).collect();
        std::fs::write(&page, format!("{}\n{}\n", others.join("\n"), rows.join("\n"))).unwrap();
        return;
    }
    let stated: Vec<&str> = docs.lines().filter(is_row).collect();
    assert_eq!(stated, rows, "docs/ec2-errors.md has another table than this:\n{}", rows.join("\n"));
}

/// As docs/ec2-errors.md says it: of a thousand NodeClaims at once.
const SECONDS_FOR_A_THOUSAND: f64 = 15.0;
const CALLS_FOR_A_THOUSAND: usize = 20;

/// EC2's own buckets are in force: fifty calls that change something, then five a second; a thousand instances, then two a second.
#[test]
fn a_thousand_nodeclaims_at_once_stay_within_ec2s_token_buckets() {
    let played = play("a-thousand", 1000, "faults: {ec2: {requestLimits: true}}\nsettled: 1m\nuntil: 15m\n");
    assert_eq!((&played.report["launched"], &played.report["pods"]["bound"]), (&1000.into(), &1000.into()));
    let throttled = played.seen("aws", &[("code", "RequestLimitExceeded")]);
    assert!(throttled.is_empty(), "{} calls are throttled, such as {}", throttled.len(), throttled[0]);
    assert_eq!(played.log_events("nodeclaim_created").len(), 1000);
    let calls: Vec<f64> = fleets(&played).into_iter().map(at).collect();
    let last = played.times("launched").into_iter().fold(0.0, f64::max);
    let sent = calls.iter().copied().fold(0.0, f64::max);
    println!("1,000 NodeClaims: {} calls, the last after {sent:.1} s, all launched after {last:.1} s", calls.len());
    assert!(calls.len() <= CALLS_FOR_A_THOUSAND && sent <= SECONDS_FOR_A_THOUSAND, "{} calls, {sent} s", calls.len());
    let docs = std::fs::read_to_string(common::root().join("docs/ec2-errors.md")).unwrap();
    assert!(docs.contains(&format!("at most {CALLS_FOR_A_THOUSAND} calls within {SECONDS_FOR_A_THOUSAND:.0} seconds")));
    played.came_out_well();
    writes::are_few(&played);
}

/// The same workload, and so many pods more, scaled from nothing: each asks for a label's value of its own, so that no call is for two.
fn unequal_shapes(pods: u32, shapes: u32) -> String {
    let types = "        - {key: node.kubernetes.io/instance-type";
    let one = |shape: u32| {
        format!(
            "---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: s{shape}, namespace: default}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: s{shape}}}}}
  template:
    metadata: {{labels: {{app: s{shape}}}}}
    spec:
      nodeSelector: {{shape: s{shape}}}
      containers: [{{name: main, image: pause, resources: {{requests: {{cpu: 500m, memory: 256Mi}}}}}}]
"
        )
    };
    let all = manifests(pods).replace(types, &format!("        - {{key: shape, operator: Exists}}\n{types}"));
    (0..shapes).map(one).fold(all, |all, one| all + &one)
}

/// Others of the account use up EC2's buckets for an hour. A quarter of an hour later sixty calls are due: at an eighth of the pace, those
/// beyond the bucket would take half a minute.
#[test]
fn throttled_for_an_hour_loses_no_claim_and_the_pace_comes_back() {
    let faults = "faults: {ec2: {requestLimits: true, throttleRate: 0.98, throttleFor: 1h}}\n";
    let scale = |shape| format!("  - {{at: 75m, scale: {{kind: Deployment, name: s{shape}, replicas: 1}}}}\n");
    let steps: String = (0..60).map(scale).collect();
    let scenario = format!("{faults}steps:\n{steps}until: 80m\n");
    let played = play_over("throttled-hour", &unequal_shapes(100, 60), &scenario);
    assert_eq!((&played.report["launched"], &played.report["pods"]["bound"]), (&160.into(), &160.into()));
    let (claims, terminated) = (played.log_events("nodeclaim_created").len(), played.terminated_by_replicas());
    assert_eq!(terminated, 0, "no claim has two instances");
    let (calls, late): (Vec<f64>, Vec<f64>) = fleets(&played).into_iter().map(at).partition(|at| *at < 4500.0);
    let most = most_in_a_minute(&calls, 60.0);
    println!("throttled for an hour: {claims} claims for 160 nodes, {} calls, {most} a minute at most", calls.len());
    assert!(most <= 60, "{most} calls in a minute: an eighth of EC2's 300, and what comes back");
    assert!(late.len() >= 60, "a call for each shape: {}", late.len());
    let later: Vec<f64> = played.times("launched").into_iter().filter(|at| *at > 4500.0).collect();
    let last = later.iter().copied().fold(0.0, f64::max);
    assert!(later.len() == 60 && last < 4530.0, "{} launches, the last at {last} s", later.len());
    played.came_out_well();
}

#[test]
fn hundred_nodes_launch_within_three_seconds_and_one_at_once() {
    let sent = |pods: u32| {
        let name = format!("burst-{pods}");
        let played = play(&name, pods, "faults: {ec2: {requestLimits: true}}\nuntil: 5m\n");
        assert_eq!(played.report["launched"], pods);
        played.came_out_well();
        writes::are_few(&played);
        let calls: Vec<f64> = fleets(&played).into_iter().map(at).collect();
        let created = played.times("nodeclaim_created");
        (calls.len(), calls.iter().copied().fold(0.0, f64::max) - created.iter().copied().fold(f64::MAX, f64::min))
    };
    let (calls, seconds) = sent(100);
    assert!(calls <= 6 && seconds <= 3.0, "{calls} calls within {seconds} s");
    let (calls, seconds) = sent(1);
    assert!(calls == 1 && seconds < 0.5, "{calls} calls, {seconds} s");
}

#[test]
fn leader_killed_in_a_burst_leaves_no_instance_behind() {
    for (number, at) in ["2.0s", "2.4s", "2.8s", "3.2s", "4s"].into_iter().enumerate() {
        let steps = format!(
            "replicas: 2\nsteps:\n  - {{at: {at}, kill: {{replica: leader, for: 1m}}}}\nsettled: 5m\nuntil: 25m\n"
        );
        let played = play(&format!("burst-killed-{number}"), 60, &steps);
        assert_eq!(
            (&played.report["pods"]["bound"], played.report["nodes"].as_array().unwrap().len()),
            (&60.into(), 60)
        );
        played.came_out_well();
    }
}

/// Pods of a second pool, each a node: their nodes are of a type that EC2 refuses for what is asked with it.
fn refused_beside(pods: u32) -> String {
    let all = manifests(pods).replace("app: web", "app: refused").replace("name: web", "name: refused");
    let (_, own) = all.split_once("---\n").unwrap();
    let own = own.replace("metadata: {name: default}", "metadata: {name: refused}");
    let own = own.replace("      expireAfter", "      taints: [{key: refused, effect: NoSchedule}]\n      expireAfter");
    let pod = "      tolerations: [{key: refused, operator: Exists}]\n      nodeSelector: {node.kubernetes.io/instance-type: m6i.large}\n";
    own.replace("      affinity:\n", &format!("{pod}      affinity:\n"))
}

#[test]
fn merged_call_holds_a_limit_and_is_refused_for_its_own_alone() {
    let limited = manifests(40).replacen("  template:\n", "  limits: {nodes: 30}\n  template:\n", 1);
    let message = "The parameter Tags has a value that is too long";
    let error = format!("{{code: InvalidParameterValue, offerings: 'm6i.large/*/*', message: {message}}}");
    let scenario = format!("{NO_TRIALS}faults: {{ec2: {{errors: [{error}]}}}}\nuntil: 100s\n");
    let played = play_over("limit-and-refusal", &format!("{limited}---\n{}", refused_beside(3)), &scenario);
    played.violates_nothing();
    assert_eq!((&played.report["launched"], &played.report["pods"]["bound"]), (&30.into(), &30.into()));
    let pools: Vec<&Value> = played.report["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["labels"]["karpenter.sh/nodepool"])
        .collect();
    assert!(pools.iter().all(|pool| *pool == "default"));
    let created = played.log_events("nodeclaim_created").iter().filter(|line| line["node_pool"] == "default").count();
    assert_eq!(created, 30, "none beyond the limit");
    let failed = played.log_events("launch_failed");
    assert!(
        !failed.is_empty() && failed.iter().all(|line| line["node_claim"].as_str().unwrap().starts_with("refused-"))
    );
    // Those of the refused type alone name three offerings.
    let both: Vec<&Value> = fleets(&played).into_iter().filter(|fleet| fleet["parameters"]["overrides"] == 6).collect();
    assert!(both.len() <= 4, "{both:?}");
}

#[test]
fn nine_of_ten_offerings_sold_out_still_give_all_pods_nodes() {
    let played = play_over("nine-of-ten", &many_types(100), "faults: {ec2: {soldOutShare: 0.9}}\nuntil: 10m\n");
    assert_eq!(played.report["pods"]["bound"], 100);
    let (claims, launched) = (played.log_events("nodeclaim_created").len(), played.times("launched"));
    let rounds: BTreeSet<String> = played.times("packing_computed").iter().map(|time| format!("{time:.3}")).collect();
    let last = launched.iter().copied().fold(0.0, f64::max);
    println!("nine of ten: {} rounds, {claims} NodeClaims for 100 nodes, {last:.0} s", rounds.len());
    assert!(rounds.len() <= 20 && claims <= 130 && last < 60.0, "{} rounds, {claims} claims, {last} s", rounds.len());
    played.came_out_well();
}

/// As docs/ec2-errors.md says it.
const CALLS_A_MINUTE: usize = 70;

#[test]
fn sold_out_region_leaves_pods_a_reason_and_takes_few_calls() {
    let faults = "faults: {ec2: {insufficientCapacity: ['*/*/*']}}\nuntil: 60m\n";
    let played = play_over("nothing-at-all", &many_types(100), faults);
    assert_eq!(played.report["launched"], 0);
    let pending = played.report["pods"]["pending"].as_object().unwrap();
    assert_eq!(pending.len(), 100);
    for (pod, reason) in pending {
        assert!(reason.as_str().unwrap().contains("available"), "{pod}: {reason}");
    }
    let times: Vec<f64> = fleets(&played).into_iter().map(at).collect();
    let (first, later) = (most_in_a_minute(&times, 0.0), most_in_a_minute(&times, 600.0));
    println!("nothing: {first} calls in a minute at most, {later} after ten minutes, {} in an hour", times.len());
    assert!(first <= CALLS_A_MINUTE && later <= CALLS_A_MINUTE, "{first}, {later}");
    assert!(times.len() < 1300, "{} calls in an hour: what is refused again and again is asked for less", times.len());
    let docs = std::fs::read_to_string(common::root().join("docs/ec2-errors.md")).unwrap();
    let docs = docs.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(docs.contains(&format!("at most {CALLS_A_MINUTE} CreateFleet calls a minute")));
    let all: Vec<f64> =
        played.events.iter().filter(|e| e["kind"] == "aws" && !e["replica"].is_null()).map(at).collect();
    let of_any_kind = most_in_a_minute(&all, 60.0);
    assert!(of_any_kind <= 2 * CALLS_A_MINUTE, "{of_any_kind} calls of any kind");
}

#[test]
fn a_quota_is_used_up_and_no_more_is_asked_for_what_it_covers() {
    let faults = "faults: {ec2: {vcpuQuotas: {Standard/on-demand: 8}}}\nuntil: 10m\n";
    let played = play("quota", 10, faults);
    assert_eq!(played.report["launched"], 4, "two vCPUs each");
    assert_eq!(played.report["pods"]["bound"], 4);
    let refused = fleets(&played).len() - 4;
    assert!((1..=20).contains(&refused), "{refused} calls for nothing in ten minutes");
    assert_eq!(kept(&played).keys().collect::<Vec<_>>(), ["Standard at on-demand, in the region"]);
    let spot = "faults: {ec2: {vcpuQuotas: {Standard/spot: 4}}}\nuntil: 10m\n";
    let played = play_over("spot-quota", &both_markets(6), spot);
    let launched = played.log_events("launched");
    let on_spot = launched.iter().filter(|line| line["capacity_type"] == "spot").count();
    assert_eq!((on_spot, launched.len()), (2, 6), "the others are on demand");
    played.came_out_well();
}

#[test]
fn subnet_without_addresses_is_skipped_and_others_are_used() {
    let faults = "faults: {ec2: {subnetAddresses: {ca-west-1a: 2}}}\nuntil: 10m\n";
    let spread = manifests(9).replace("      affinity:\n", "      topologySpreadConstraints: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}]\n      affinity:\n");
    let played = play_over("full-subnet", &spread, faults);
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for line in played.log_events("launched") {
        *zones.entry(line["zone"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(zones.get("ca-west-1a").copied().unwrap_or(0), 2, "{zones:?}");
    assert_eq!(zones.values().sum::<usize>(), 9);
    assert_eq!(kept(&played).keys().collect::<Vec<_>>(), ["the subnet"]);
    played.came_out_well();
}

#[test]
fn denied_action_is_named_with_the_decoding_command() {
    let played =
        play("denied", 2, &format!("{NO_TRIALS}faults: {{ec2: {{unauthorized: [RunInstances]}}}}\nuntil: 5m\n"));
    assert_eq!(played.report["launched"], 0);
    let pending = &played.report["pods"]["pending"];
    assert_eq!(pending.as_object().unwrap().len(), 2);
    let told: Vec<String> = played.log_events("launch_failed").iter().map(|line| line["error"].to_string()).collect();
    assert!(!told.is_empty() && told.iter().all(|error| error.contains("may not ec2:RunInstances")), "{told:?}");
    assert!(told.iter().all(|error| error.contains("aws sts decode-authorization-message")), "{told:?}");
    assert!((1..=40).contains(&fleets(&played).len()), "{} calls", fleets(&played).len());
    let played =
        play("denied-fleet", 1, &format!("{NO_TRIALS}faults: {{ec2: {{unauthorized: [CreateFleet]}}}}\nuntil: 3m\n"));
    let told = played.log_events("launch_failed");
    assert!(told[0]["reason"] == "Unauthorized" && told[0]["error"].as_str().unwrap().contains("ec2:CreateFleet"));
}

#[test]
fn missing_spot_role_launches_on_demand_and_names_the_command() {
    let command = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
    let played = play_over("no-spot-role", &both_markets(3), "faults: {ec2: {noSpotRole: true}}\nuntil: 5m\n");
    let launched = played.log_events("launched");
    assert!(launched.len() == 3 && launched.iter().all(|line| line["capacity_type"] == "on-demand" && at(line) < 15.0));
    let events = played.seen("api", &[("resource", "events"), ("verb", "create")]);
    let said = |kind: &str| {
        let of = |event: &&&Value| event["sent"]["involvedObject"]["kind"] == kind;
        events.iter().filter(of).any(|event| event["sent"]["message"].as_str().unwrap().contains(command))
    };
    assert!(said("NodePool") && said("NodeClaim"));
    assert_eq!(kept(&played).keys().collect::<Vec<_>>(), ["all of spot"]);
    played.came_out_well();
    let only_spot = manifests(2).replace("values: [on-demand]", "values: [spot]");
    let played = play_over("only-spot-no-role", &only_spot, "faults: {ec2: {noSpotRole: true}}\nuntil: 10m\n");
    assert_eq!(played.report["launched"], 0);
    assert_eq!(played.report["pods"]["pending"].as_object().unwrap().len(), 2);
    assert!(fleets(&played).len() <= 10, "{} calls", fleets(&played).len());
}

/// A second leader knows without a call what the first learnt in its first seconds.
#[test]
fn successor_does_not_ask_for_what_its_predecessor_was_refused() {
    let scale = "  - {at: 80s, scale: {kind: Deployment, name: web, namespace: default, replicas: 4}}\n";
    let steps = format!("steps:\n  - {{at: 40s, kill: {{replica: leader}}}}\n{scale}");
    let faults = "faults: {ec2: {insufficientCapacity: ['*/*/spot']}}\n";
    let played =
        play_over("kept-for-a-successor", &both_markets(2), &format!("replicas: 2\n{faults}{steps}until: 5m\n"));
    let (elected, known) = (played.times("elected"), played.times("unavailable_known"));
    assert!(elected.len() == 2 && known.len() == 1 && known[0] >= elected[1], "{elected:?} {known:?}");
    let spot = |fleet: &&&Value| fleet["parameters"]["capacityType"] == "spot";
    let all = fleets(&played);
    assert!(all.iter().any(|fleet| at(fleet) < 20.0 && fleet["parameters"]["capacityType"] == "spot"));
    assert_eq!(all.iter().filter(spot).filter(|fleet| (20.0..170.0).contains(&at(fleet))).count(), 0);
    assert_eq!(played.log_events("launched").len(), 4);
    played.came_out_well();
}

/// The bound of writes: one every ten seconds, however much is refused.
#[test]
fn what_is_unavailable_is_written_every_ten_seconds_at_most() {
    let faults = "faults: {ec2: {soldOutShare: 0.95}}\nuntil: 5m\n";
    let played = play_over("kept-seldom", &many_types(60), faults);
    let writes = played.seen("api", &[("resource", "configmaps"), ("name", "dovetail-unavailable-offerings")]);
    let times: Vec<f64> =
        writes.iter().filter(|write| write["code"] == 200 || write["code"] == 201).map(|one| at(one)).collect();
    assert!(!times.is_empty() && times.windows(2).all(|pair| pair[1] - pair[0] > 9.0), "{times:?}");
}
