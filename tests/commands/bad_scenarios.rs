//! A scenario's own mistakes are found before it starts: one line each, with file, line, field, what is wrong and what is allowed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::{dovetail, stderr, write};

/// Runs a scenario over the examples; what it says of the mistake, without the file's name.
fn told(name: &str, scenario: &str) -> String {
    let examples = common::root().join("deploy/examples");
    let apply = format!("apply: [{0}/spot.yaml, {0}/inflate-10.yaml]\nreplicas: 2\n", examples.display());
    let path = write(&format!("{name}.yaml"), &format!("{apply}{scenario}"));
    let output = dovetail(&["simulate", &path]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{name}: {said}");
    assert!(output.stdout.is_empty(), "{name}");
    assert_eq!(said.lines().count(), 1, "{name}: {said}");
    said.trim().strip_prefix(&format!("{path}:")).unwrap_or_else(|| panic!("{name}: {said}")).to_owned()
}

#[test]
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn scenario_mistake_names_line_field_and_allowed_values() {
    let step = |step: &str| format!("until: 5m\nsteps:\n  - {{at: 1m, {step}}}\n");
    let node = |more: &str| format!("until: 5m\nnodes:\n  - {{instanceType: m5.large, {more}}}\n");
    for (name, scenario, place, allowed) in [
        // Misspelt keys at each level.
        ("key", "untill: 5m\n".to_owned(), "3: untill: unknown field", "until"),
        ("key-of-node", node("zones: us-east-1a"), "5: nodes[0].zones: unknown field", "zone"),
        ("key-of-step", "steps:\n  - {at: 1m, scael: {}}\n".to_owned(), "4: steps[0].scael: unknown field", "scale"),
        (
            "key-in-step",
            step("scale: {kind: Deployment, nam: inflate, replicas: 2}"),
            "5: steps[0].scale.nam: unknown field",
            "name",
        ),
        (
            "key-of-fault",
            "faults: {apiServer: {errorrate: 0.1}}\n".to_owned(),
            "3: faults.apiServer.errorrate: unknown field",
            "errorRate",
        ),
        // Values that are none of their field.
        (
            "number",
            step("scale: {kind: Deployment, name: inflate, replicas: -2}"),
            "5: steps[0].scale.replicas: ",
            "whole number",
        ),
        ("text", "until: [5m]\n".to_owned(), "3: until: is not a text", "a text"),
        ("list", step("apply: web.yaml"), "5: steps[0].apply: is not a list", "a list"),
        ("missing", "steps:\n  - {restart: {for: 5s}}\n".to_owned(), "4: steps[0].at: is missing", "at"),
        ("twice", "until: 5m\nuntil: 6m\n".to_owned(), "4: `until` is there twice", "once"),
        // Times.
        ("no-end", "until: 0s\n".to_owned(), "3: until: ", "more than 0"),
        ("far-end", "until: 99999h\n".to_owned(), "3: until: ", "a year"),
        ("negative", step("kill: {replica: 0, for: -3s}"), "5: steps[0].kill.for: ", "1m30s"),
        (
            "late",
            "until: 5m\nsteps:\n  - {at: 6m, restart: {for: 5s}}\n".to_owned(),
            "5: steps[0].at: ",
            "before `until`",
        ),
        // References to things that are not there.
        ("replica", step("kill: {replica: 2}"), "5: steps[0].kill.replica: ", "0 to 1, or leader"),
        ("object", step("delete: {kind: Deployment, name: inflat}"), "5: steps[0].delete.name: ", "default/inflate"),
        ("kind", step("deleteSome: {kind: StatefulSet, count: 1}"), "5: steps[0].deleteSome.kind: ", "Deployment"),
        ("nothing", step("apply: []"), "5: steps[0].apply: ", "manifest files"),
        ("share", step("interrupt: {spot: 25}"), "5: steps[0].interrupt.spot: ", "0% to 100%"),
        ("none", step("deleteSome: {kind: NodeClaim, count: 0}"), "5: steps[0].deleteSome.count: ", "1 or more"),
        ("nobody", step("foreignInstances: 0"), "5: steps[0].foreignInstances: ", "1 or more"),
        ("other-zone", step("zoneDown: {zone: us-east-1f}"), "5: steps[0].zoneDown.zone: ", "us-east-1a"),
        ("null", "env: {A: null}\n".to_owned(), "3: env.A: has no value", "a text"),
        (
            "label-of-fault",
            "faults: {nodes: {labelTakenOff: {key: a b}}}\n".to_owned(),
            "3: faults.nodes.labelTakenOff.key: ",
            "letters",
        ),
        (
            "taint-of-fault",
            "faults: {nodes: {taintOnJoin: {key: a, value: b c}}}\n".to_owned(),
            "3: faults.nodes.taintOnJoin.value: ",
            "63",
        ),
        ("clock", "clocks: [{}, {}, {}]\n".to_owned(), " clocks: 3 clocks", "one a replica"),
        ("gate", "featureGates: {NodeRepairs: true}\n".to_owned(), "3: featureGates.NodeRepairs: ", "NodeRepair"),
        ("setting", "settings: {CLUSTER_NAME: other}\n".to_owned(), "3: settings.CLUSTER_NAME: ", "clusterName"),
        ("cluster", "clusterName: my cluster\n".to_owned(), "3: clusterName: ", "letters"),
        // Nodes beforehand.
        ("subnet", node("zone: us-east-1f"), "5: nodes[0].zone: ", "us-east-1a, us-east-1b, us-east-1c"),
        ("label", node("labels: {team: a b}"), "5: nodes[0].labels.team: ", "digits"),
        ("taint", node("taints: [{key: a, effect: NoSchedul}]"), "5: nodes[0].taints[0].effect: ", "NoSchedule"),
        // Types that EC2 does not have.
        (
            "no-type",
            "faults: {ec2: {insufficientCapacity: ['m5.lager/*/*']}}\n".to_owned(),
            "3: faults.ec2.insufficientCapacity[0]: ",
            "m5.large",
        ),
        (
            "no-zone",
            "faults: {ec2: {insufficientCapacity: ['*/us-east-1z/*']}}\n".to_owned(),
            "3: faults.ec2.insufficientCapacity[0]: ",
            "us-east-1a",
        ),
        (
            "no-capacity",
            "faults: {ec2: {insufficientCapacity: ['*/*/on_demand']}}\n".to_owned(),
            "3: faults.ec2.insufficientCapacity[0]: ",
            "on-demand",
        ),
        // Spot pools that the region does not have.
        (
            "no-pool",
            "faults: {ec2: {spotPools: {m5.large/us-east-1z: {depth: 3}}}}\n".to_owned(),
            "3: faults.ec2.spotPools.m5.large/us-east-1z: ",
            "m5.large/us-east-1a",
        ),
        (
            "pool-for-nothing",
            "faults: {ec2: {spotPools: {m5.large/us-east-1a: {times: 0}}}}\n".to_owned(),
            "3: faults.ec2.spotPools.m5.large/us-east-1a.times: ",
            "above 0",
        ),
        ("pool", step("interrupt: {pool: m5.large}"), "5: steps[0].interrupt.pool: ", "m5.large/us-east-1a"),
        ("pool-or-share", step("interrupt: {spot: 25%, for: 1h}"), "5: steps[0].interrupt.for: ", "pool"),
        // Shares, quotas and errors that the account cannot have.
        ("share", "faults: {ec2: {soldOutShare: 90}}\n".to_owned(), "3: faults.ec2.soldOutShare: ", "0 to 1"),
        (
            "quota",
            "faults: {ec2: {vcpuQuotas: {standard/on-demand: 8}}}\n".to_owned(),
            "3: faults.ec2.vcpuQuotas.standard/on-demand: ",
            "Standard/on-demand",
        ),
        (
            "addresses",
            "faults: {ec2: {subnetAddresses: {us-east-1z: 8}}}\n".to_owned(),
            "3: faults.ec2.subnetAddresses.us-east-1z: ",
            "us-east-1a",
        ),
        (
            "unauthorized",
            "faults: {ec2: {unauthorized: ['ec2:CreateFleet']}}\n".to_owned(),
            "3: faults.ec2.unauthorized[0]: ",
            "CreateFleet",
        ),
        (
            "unauthorized-typo",
            "faults: {ec2: {unauthorized: [CreateFleets]}}\n".to_owned(),
            "3: faults.ec2.unauthorized[0]: ",
            "CreateFleet",
        ),
        (
            "unauthorized-nobody",
            "faults: {ec2: {unauthorized: [SendMessage]}}\n".to_owned(),
            "3: faults.ec2.unauthorized[0]: no replica calls SendMessage: it changes nothing",
            "ReceiveMessage",
        ),
        (
            "queue-lost-somehow",
            "faults: {sqs: {lost: {how: gone}}}\n".to_owned(),
            "3: faults.sqs.lost.how: \"gone\" is no way to lose a queue",
            "deleted, denied, keyDenied",
        ),
        (
            "queue-lost-after-the-end",
            "until: 5m\nfaults: {sqs: {lost: {how: denied, after: 5m}}}\n".to_owned(),
            "4: faults.sqs.lost.after: is not before the end: it changes nothing",
            "until",
        ),
        (
            "queue-lost-for-no-time",
            "faults: {sqs: {lost: {how: deleted, for: 0s}}}\n".to_owned(),
            "3: faults.sqs.lost.for: is no time: it changes nothing",
            "more than 0",
        ),
        (
            "queue-lost-that-is-not-there",
            "settings: {INTERRUPTION_QUEUE: absent}\nfaults: {sqs: {lost: {how: deleted}}}\n".to_owned(),
            "4: faults.sqs.lost.how: replicas read the queue \"absent\", which is not there: it changes nothing",
            "the cluster's name",
        ),
        (
            "queue-lost-that-nobody-reads",
            "settings: {INTERRUPTION_QUEUE: ''}\nfaults: {sqs: {lost: {how: deleted}}}\n".to_owned(),
            "4: faults.sqs.lost.how: no replica reads a queue, as INTERRUPTION_QUEUE is empty: it changes nothing",
            "INTERRUPTION_QUEUE",
        ),
        (
            "queue-errors-that-nobody-meets",
            "settings: {INTERRUPTION_QUEUE: ''}\nfaults: {sqs: {errorRate: 0.1}}\n".to_owned(),
            "4: faults.sqs.errorRate: no replica reads a queue",
            "INTERRUPTION_QUEUE",
        ),
        (
            "queue-unauthorized-that-nobody-reads",
            "settings: {INTERRUPTION_QUEUE: ''}\nfaults: {ec2: {unauthorized: [ReceiveMessage]}}\n".to_owned(),
            "4: faults.ec2.unauthorized[0]: no replica reads a queue",
            "INTERRUPTION_QUEUE",
        ),
        (
            "error-of-no-call",
            "faults: {ec2: {errors: [{code: InternalError, action: CreateFleet, times: 0}]}}\n".to_owned(),
            "3: faults.ec2.errors[0].times: is 0",
            "1 or more",
        ),
        (
            "error-typo",
            "faults: {ec2: {errors: [{code: InternalError, action: Createfleet}]}}\n".to_owned(),
            "3: faults.ec2.errors[0].action: ",
            "CreateFleet",
        ),
        (
            "offerings-typo",
            "faults: {ec2: {errors: [{code: Unsupported, offerings: m5.*/us-east-1z/spot}]}}\n".to_owned(),
            "3: faults.ec2.errors[0].offerings: ",
            "us-east-1a",
        ),
        (
            "partitions",
            "placementGroups: [{id: pg-1, name: a, strategy: cluster, partitions: 3}]\n".to_owned(),
            "3: placementGroups[0].partitions: ",
            "strategy: partition",
        ),
        (
            "error",
            "faults: {ec2: {errors: [{code: InternalError}]}}\n".to_owned(),
            "3: faults.ec2.errors[0]: ",
            "CreateFleet",
        ),
        (
            "offerings",
            "faults: {ec2: {errors: [{code: Unsupported, offerings: m5.large}]}}\n".to_owned(),
            "3: faults.ec2.errors[0].offerings: ",
            "m5.*/us-east-1a/spot",
        ),
    ] {
        let told = told(name, &scenario);
        let (head, tail) = told.split_once(" (allowed: ").unwrap_or_else(|| panic!("{name}: {told}"));
        assert!(head.starts_with(place) && tail.contains(allowed), "{name}: {told}");
    }
}

#[test]
fn a_setting_that_changes_nothing_in_a_simulation_is_said_once() {
    let scenario = "settings: {SHADOW: 'true', ENABLE_PROFILING: 'true', BATCH_IDLE_DURATION: 2s}\nuntil: 2s\n";
    let output = common::dovetail(&["simulate", &common::write("bad-scenarios/idle-settings.yaml", scenario)]);
    let told = common::stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("without effect: ENABLE_PROFILING=true: "), "{told}");
    assert!(lines[1].starts_with("without effect: SHADOW: "), "{told}");
}
