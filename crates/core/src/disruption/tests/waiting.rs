//! Commands that are found and wait: when each is looked at again, and what further questions see of them.

use super::super::commands::{
    CommandAnswer, DisruptionCommand, Question, WaitingCommand, WaitingCommands, WaitingStep,
};
use super::commands::{LATER, claims, world};
use super::*;

fn moment(seconds: f64) -> Moment {
    Moment { monotonic: Duration::from_secs_f64(seconds), wall: at(seconds) }
}

impl World {
    /// A pod that is Ready.
    fn ready(&mut self, name: &str, node: &str, milli: u32) {
        self.asking(name, node, milli, |pod| {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        });
    }

    /// Applies a pod anew.
    fn again(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) {
        self.asking(name, node, 500, |pod| {
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            change(pod);
        });
    }

    fn next_of(&self, waiting: &mut WaitingCommands, seconds: f64) -> WaitingStep {
        waiting.next(&self.state.snapshot(), moment(seconds))
    }
}

/// `small` goes, and its pod fits on `large`; both have been quiet for an hour.
fn two() -> World {
    let mut world = world();
    world.sized("large", 4);
    world.sized("small", 2);
    world.ready("one", "large", 2500);
    world.ready("two", "small", 500);
    world.at(LATER);
    world
}

/// A command that was found so, and after which nothing more was.
fn waits(world: &World, found: f64) -> WaitingCommands {
    let mut waiting = WaitingCommands::default();
    let answer = world.answer(LATER);
    waiting.found(&answer.command.unwrap(), &answer.planning, moment(found));
    waiting.found_nothing();
    waiting
}

/// Seconds after which a command that was found at [`LATER`] is validated, looked at five times a second.
fn validated_after(world: &World) -> f64 {
    let mut waiting = waits(&two(), LATER);
    let ticks = (0..200).map(|tick| f64::from(tick) / 5.0);
    let mut due = ticks.filter(|after| matches!(world.next_of(&mut waiting, LATER + after), WaitingStep::Validate(_)));
    due.next().unwrap()
}

#[test]
fn where_all_is_quiet_a_command_is_validated_after_five_seconds() {
    assert_eq!(validated_after(&two()), 5.0);
    let mut waiting = waits(&two(), LATER);
    assert_eq!(two().next_of(&mut waiting, LATER + 1.0), WaitingStep::Wait(Duration::from_secs(4)));
    assert!(matches!(two().next_of(&mut waiting, LATER + 5.0), WaitingStep::Validate(_)));
    assert_eq!(two().next_of(&mut waiting, LATER + 5.0), WaitingStep::Nothing);
}

#[test]
fn going_and_taking_nodes_are_quiet_ten_seconds_after_last_pod() {
    for node in ["large", "small"] {
        let mut world = two();
        world.at(LATER - 2.0).ready("three", node, 10);
        assert_eq!(validated_after(&world), 8.0, "{node}");
        world.at(LATER + 4.0).gone("three");
        assert_eq!(validated_after(&world), 14.0, "{node}");
        world.at(LATER + 5.0).ready("four", node, 10);
        assert_eq!(validated_after(&world), 15.0, "{node}: no later than in Karpenter");
    }
    let mut world = two();
    world.sized("other", 2);
    world.at(LATER - 2.0).ready("three", "other", 1900);
    assert_eq!(validated_after(&world), 5.0, "another node's pods are its own");
}

#[test]
fn ending_unready_or_waiting_pod_takes_the_fifteen_seconds() {
    let mut ending = two();
    ending.at(1.0).again("two", "small", |pod| pod["metadata"]["deletionTimestamp"] = json!(at(LATER)));
    assert_eq!(validated_after(&ending), 15.0);
    let mut starting = two();
    starting.at(1.0).again("one", "large", |pod| pod["status"] = json!({"phase": "Running"}));
    assert_eq!(validated_after(&starting), 15.0);
    let mut pending = two();
    pending.asking("three", "", 500, |pod| {
        let unschedulable = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        pod["status"] = json!({"phase": "Pending", "conditions": unschedulable});
    });
    assert_eq!(validated_after(&pending), 15.0);
    let mut unmarked = two();
    unmarked.asking("three", "", 500, |pod| pod["status"] = json!({"phase": "Pending"}));
    assert_eq!(validated_after(&unmarked), 15.0);
    let mut daemon = two();
    daemon.daemon("agent", "large", |_| ());
    assert_eq!(validated_after(&daemon), 5.0, "a DaemonSet's pod is its node's own");
}

#[test]
fn deletes_wait_thirty_seconds_at_most_and_go_together() {
    let world = two();
    let answer = world.answer(LATER);
    let command = answer.command.unwrap();
    let mut waiting = WaitingCommands::default();
    waiting.found(&command, &answer.planning, moment(LATER));
    assert!(
        matches!(world.next_of(&mut waiting, LATER + 20.0), WaitingStep::Wait(_)),
        "the next question is not answered"
    );
    waiting.found(&command, &answer.planning, moment(LATER + 21.0));
    waiting.found_nothing();
    assert!(matches!(world.next_of(&mut waiting, LATER + 22.0), WaitingStep::Validate(_)));
    let mut waiting = WaitingCommands::default();
    (0..20).for_each(|after| waiting.found(&command, &answer.planning, moment(LATER + f64::from(after))));
    assert!(matches!(world.next_of(&mut waiting, LATER + 29.9), WaitingStep::Wait(_)));
    assert!(matches!(world.next_of(&mut waiting, LATER + 30.0), WaitingStep::Validate(_)), "however much is found");
}

#[test]
fn commands_due_together_stay_due_when_first_one_moves_pods() {
    let mut world = two();
    let answer = world.answer(LATER);
    let command = answer.command.unwrap();
    let mut waiting = WaitingCommands::default();
    (0..3).for_each(|_| waiting.found(&command, &answer.planning, moment(LATER)));
    waiting.found_nothing();
    assert!(matches!(world.next_of(&mut waiting, LATER + 6.0), WaitingStep::Validate(_)));
    waiting.found(&command, &answer.planning, moment(LATER + 6.0));
    world.at(LATER + 6.1).gone("two");
    assert!(matches!(world.next_of(&mut waiting, LATER + 6.3), WaitingStep::Validate(_)));
    assert!(matches!(world.next_of(&mut waiting, LATER + 6.5), WaitingStep::Validate(_)));
    assert!(matches!(world.next_of(&mut waiting, LATER + 6.7), WaitingStep::Wait(_)), "it was found later");
}

#[test]
fn a_replacement_waits_for_no_other_command() {
    let mut world = world();
    world.sized("large", 16);
    world.ready("one", "large", 1500);
    let answer = world.answer(LATER);
    let mut waiting = WaitingCommands::default();
    waiting.found(&answer.command.unwrap(), &answer.planning, moment(LATER));
    assert!(matches!(world.next_of(&mut waiting, LATER + 5.0), WaitingStep::Validate(_)));
}

/// Three nodes with a pod each, of which any two fit on the third's room and no more.
fn three() -> World {
    let mut world = world();
    world.sized("large", 4);
    world.ready("one", "large", 3000);
    for name in ["a", "b"] {
        world.sized(name, 2);
        world.ready(&format!("pod-{name}"), name, 600);
    }
    world.at(LATER);
    world
}

fn waiting(answer: &CommandAnswer) -> Vec<WaitingCommand> {
    let mut waiting = WaitingCommands::default();
    waiting.found(answer.command.as_ref().unwrap(), &answer.planning, moment(LATER));
    waiting.commands().to_vec()
}

#[test]
fn further_questions_skip_waiting_nodes_and_keep_their_room() {
    let world = three();
    let mut question = world.question(LATER);
    question.only = Some(["uid-claim-a".to_owned()].into());
    let first = question.answer().unwrap();
    assert_eq!(claims(first.command.as_ref().unwrap()), ["claim-a"]);
    let alone = |question: Question| {
        let question = Question { only: Some(["uid-claim-b".to_owned()].into()), ..question };
        question.answer().unwrap()
    };
    let place = |answer: &CommandAnswer| {
        let DisruptionCommand { on_existing, .. } = answer.command.as_ref()?;
        on_existing.first().map(|(node, _)| answer.planning.existing[*node].name.clone())
    };
    assert!(alone(world.question(LATER)).command.is_some(), "it could go by itself");
    let second = alone(Question { waiting: waiting(&first), ..world.question(LATER) });
    assert_eq!(place(&second), None, "1,000 milli are free on large, and a goes: {:?}", second.command);
    let both = Question { waiting: waiting(&first), ..world.question(LATER) }.answer().unwrap();
    assert_eq!(both.command, None, "large takes pods in, a waits, b has no place");
    assert!(
        first.snapshot.deleting.is_empty() && both.snapshot.deleting.is_empty(),
        "what is answered is the cluster as it is"
    );
}

#[test]
fn budgets_count_the_nodes_of_commands_that_wait() {
    let mut world = three();
    let mut pool = world.pool.clone();
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]);
    pool["metadata"]["resourceVersion"] = json!(world.next().to_string());
    world.apply_pool(pool);
    world.sized("other", 4);
    world.ready("four", "other", 2500);
    let first = world.answer(LATER);
    assert_eq!(claims(first.command.as_ref().unwrap()).len(), 1);
    let second = Question { waiting: waiting(&first), ..world.question(LATER) }.answer().unwrap();
    assert_eq!(second.command, None);
}

#[test]
fn pdb_allowance_is_used_up_by_pods_of_nodes_that_go() {
    let mut world = three();
    world.sized("other", 4);
    world.ready("four", "other", 2500);
    world.state.apply_budget(serde_json::from_value(json!({"metadata": {"name": "both", "namespace": "default", "uid": "b", "resourceVersion": "5"},
        "spec": {"maxUnavailable": 1, "selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["pod-a", "pod-b"]}]}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}})).unwrap());
    let of = |name: &str, waiting: Vec<WaitingCommand>| {
        let only = Some([format!("uid-claim-{name}")].into());
        Question { waiting, only, ..world.question(LATER) }.answer().unwrap()
    };
    let first = of("a", vec![]);
    assert!(of("b", vec![]).command.is_some());
    assert_eq!(of("b", waiting(&first)).command, None);
}
