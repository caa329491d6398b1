//! Commands of consolidation: carried on, given up, and found again by a successor.

use std::collections::BTreeSet;

use super::super::commands::{CommandStep, Ended, HeldClaim, Queue, held_by_commands};
use super::commands::{LATER, of_policy, world};
use super::*;
use crate::cluster_state::Snapshot;

/// A command that replaces `large`, begun at [`LATER`] with a replacement of that name.
fn replacing(world: &World, replacement: &str) -> (Queue, u64) {
    let answer = world.answer(LATER);
    let mut queue = Queue::default();
    let id = queue.begin(&answer.command.unwrap(), vec![replacement.to_owned()], &answer.snapshot, at(LATER));
    (queue, id)
}

fn too_large() -> World {
    let mut world = world();
    world.sized("large", 16);
    world.asking("one", "large", 1500, |_| ());
    world
}

fn next(queue: &mut Queue, snapshot: &Snapshot, seconds: f64) -> Vec<CommandStep> {
    queue.next(snapshot, &BTreeSet::new(), at(seconds))
}

#[test]
fn node_is_removed_only_when_its_replacement_is_initialized() {
    let mut world = too_large();
    let (mut queue, id) = replacing(&world, "claim-new");
    assert_eq!(next(&mut queue, &world.state.snapshot(), LATER + 1.0), [], "it is being written");
    queue.marked(id).unwrap();
    world.machine("new", |claim, _| claim["status"]["conditions"].as_array_mut().unwrap().truncate(0));
    assert_eq!(next(&mut queue, &world.state.snapshot(), LATER + 60.0), []);
    world.initialize("new");
    let steps = next(&mut queue, &world.state.snapshot(), LATER + 61.0);
    assert!(
        matches!(&steps[..], [CommandStep::Remove(command, true)] if command.wanted.claims[0].claim == "claim-large")
    );
    let again = next(&mut queue, &world.state.snapshot(), LATER + 75.0);
    assert!(matches!(&again[..], [CommandStep::Remove(_, false)]), "the API server has not shown it");
}

#[test]
fn command_with_gone_or_late_replacement_is_undone_and_pauses() {
    let mut world = too_large();
    let (mut queue, id) = replacing(&world, "claim-new");
    queue.marked(id).unwrap();
    let steps = next(&mut queue, &world.state.snapshot(), LATER + 5.0);
    let pause = |steps: &[CommandStep]| match steps {
        [CommandStep::End(_, Ended::Undone(_, pause))] => pause.as_secs(),
        other => panic!("{other:?}"),
    };
    assert_eq!(pause(&steps), 300);
    let refused = queue.refused(&world.state.snapshot(), at(LATER + 10.0));
    assert!(refused["uid-claim-large"].contains("has failed"));
    assert!(queue.refused(&world.state.snapshot(), at(LATER + 306.0)).is_empty());
    world.machine("new", |claim, _| claim["status"]["conditions"].as_array_mut().unwrap().truncate(0));
    let answer = world.answer(LATER);
    let id = queue.begin(&answer.command.unwrap(), vec!["claim-new".into()], &answer.snapshot, at(LATER + 306.0));
    queue.marked(id).unwrap();
    assert_eq!(next(&mut queue, &world.state.snapshot(), LATER + 900.0), []);
    assert_eq!(pause(&next(&mut queue, &world.state.snapshot(), LATER + 907.0)), 600);
}

/// More is recommended for a pod than when its place was found: the node stays if the place does not do any more.
#[test]
fn command_whose_pod_outgrows_its_place_is_undone() {
    for (cpu, outgrows) in [("1600m", false), ("3", true)] {
        let mut world = world();
        world.state.follow_recommendations(true);
        world.sized("large", 16);
        world.asking("one", "large", 1500, |_| ());
        let (mut queue, id) = replacing(&world, "claim-new");
        queue.marked(id).unwrap();
        world.initialize("new");
        world.state.nominate(["uid-one"], &NominationTarget::Claim("claim-new".into()), Duration::from_secs(60));
        let autoscaler = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"targetRef": {"kind": "ReplicaSet", "name": "web"}},
            "status": {"recommendation": {"containerRecommendations": [{"containerName": "a", "target": {"cpu": cpu}}]}},
        });
        world.state.recommendations_mut().apply(&serde_json::from_value(autoscaler).unwrap());
        let steps = next(&mut queue, &world.state.snapshot(), LATER + 61.0);
        match &steps[..] {
            [CommandStep::End(_, Ended::Undone(why, _))] => {
                assert!(outgrows && why.contains("pod default/one"), "{why}")
            }
            [CommandStep::Remove(_, true)] => assert!(!outgrows, "{cpu}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn finished_command_takes_the_pause_of_its_pool_back() {
    let mut world = too_large();
    let answer = world.answer(LATER);
    let mut queue = Queue::default();
    let begin = |queue: &mut Queue, seconds: f64| {
        let command = answer.command.as_ref().unwrap();
        let id = queue.begin(command, vec!["claim-new".to_owned()], &answer.snapshot, at(seconds));
        queue.marked(id).unwrap();
    };
    let pause = |steps: &[CommandStep]| match steps {
        [CommandStep::End(_, Ended::Undone(_, pause))] => pause.as_secs(),
        other => panic!("{other:?}"),
    };
    begin(&mut queue, LATER);
    assert_eq!(pause(&next(&mut queue, &world.state.snapshot(), LATER + 5.0)), 300);
    let without = world.state.snapshot();
    world.initialize("new");
    begin(&mut queue, LATER + 400.0);
    let steps = next(&mut queue, &world.state.snapshot(), LATER + 401.0);
    assert!(matches!(&steps[..], [CommandStep::Remove(_, true)]), "{steps:?}");
    world.state.delete_claim("claim-large", None);
    assert!(matches!(
        &next(&mut queue, &world.state.snapshot(), LATER + 402.0)[..],
        [CommandStep::End(_, Ended::Done)]
    ));
    begin(&mut queue, LATER + 500.0);
    assert_eq!(pause(&next(&mut queue, &without, LATER + 505.0)), 300, "as after the first");
}

#[test]
fn node_going_otherwise_is_left_out_and_counts_in_the_budget() {
    let world = too_large();
    let mut question = world.question(LATER);
    let wanted = question.clone().answer().unwrap().command.unwrap().wanted;
    question.asked.insert("uid-claim-large".to_owned());
    assert_eq!(question.answer().unwrap().command, None);
    let mut world = of_policy("WhenEmptyOrUnderutilized");
    world.apply_pool({
        let mut pool = world.pool.clone();
        pool["metadata"]["resourceVersion"] = json!("1000");
        pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1"}]);
        pool
    });
    world.sized("large", 16);
    world.sized("other", 2);
    let going = |uid: &str| BTreeSet::from([uid.to_owned()]);
    let snapshot = world.state.snapshot();
    assert!(wanted.within_budgets(&snapshot, &BTreeSet::new(), at(LATER)));
    assert!(wanted.within_budgets(&snapshot, &going("uid-claim-large"), at(LATER)), "its own going is its own");
    assert!(!wanted.within_budgets(&snapshot, &going("uid-claim-other"), at(LATER)));
}

#[test]
fn what_goes_for_another_reason_meanwhile_ends_the_command() {
    let mut world = too_large();
    let (mut queue, id) = replacing(&world, "claim-new");
    queue.marked(id).unwrap();
    world.state.delete_claim("claim-large", None);
    let steps = next(&mut queue, &world.state.snapshot(), LATER + 5.0);
    assert!(matches!(&steps[..], [CommandStep::End(_, Ended::Done)]));
}

#[test]
fn a_successor_finds_the_command_on_its_claims() {
    let mut world = too_large();
    let held = HeldClaim {
        claim: "claim-large".into(),
        uid: "uid-claim-large".into(),
        reason: RemovalReason::Underutilized,
        replacements: vec!["claim-new".into()],
    };
    let mut claim = held.on(&world.claim("large"), at(LATER));
    claim.metadata.resource_version = Some(world.next().to_string());
    world.state.apply_claim(Arc::new(claim));
    world.initialize("new");
    let mut queue = Queue::default();
    queue.restore(held_by_commands(&world.state.snapshot()));
    world.memory.hold(queue.held());
    let decision = world.look(LATER + 1.0);
    assert!(decision.marks.iter().all(|mark| mark.claim != "claim-large"), "what is held is not taken off");
    let steps = next(&mut queue, &world.state.snapshot(), LATER + 1.0);
    assert!(
        matches!(&steps[..], [CommandStep::Remove(command, true)] if command.wanted.reason == RemovalReason::Underutilized)
    );
}

#[test]
fn command_of_several_waits_for_all_and_is_undone_as_a_whole() {
    let mut world = too_large();
    let held = HeldClaim {
        claim: "claim-large".into(),
        uid: "uid-claim-large".into(),
        reason: RemovalReason::Underutilized,
        replacements: vec!["claim-one".into(), "claim-two".into()],
    };
    let mut claim = held.on(&world.claim("large"), at(LATER));
    claim.metadata.resource_version = Some(world.next().to_string());
    world.state.apply_claim(Arc::new(claim));
    world.initialize("one");
    world.machine("two", |claim, _| claim["status"]["conditions"].as_array_mut().unwrap().truncate(0));
    let restored = |world: &World| {
        let mut queue = Queue::default();
        queue.restore(held_by_commands(&world.state.snapshot()));
        assert_eq!(queue.running().len(), 1);
        queue
    };
    let mut queue = restored(&world);
    assert_eq!(next(&mut queue, &world.state.snapshot(), LATER + 1.0), [], "one of two stands");
    let mut without = restored(&world);
    world.initialize("two");
    let steps = next(&mut queue, &world.state.snapshot(), LATER + 2.0);
    assert!(matches!(&steps[..], [CommandStep::Remove(command, true)] if command.replacements.len() == 2), "{steps:?}");
    world.state.delete_claim("claim-one", None);
    let steps = next(&mut without, &world.state.snapshot(), LATER + 3.0);
    assert!(
        matches!(&steps[..], [CommandStep::End(_, Ended::Undone(why, _))] if why.contains("claim-one")),
        "{steps:?}"
    );
    assert!(without.running().is_empty());
}
