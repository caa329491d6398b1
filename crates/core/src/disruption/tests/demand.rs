//! Consolidation while pods ask for more than an hour ago.

use super::super::commands::{CommandAnswer, Demand, Question, WaitingCommands};
use super::commands::world;
use super::*;
use crate::disruption::methods::ConsolidationSettings;

fn moment(seconds: f64) -> Moment {
    Moment { monotonic: Duration::from_secs_f64(seconds), wall: at(seconds) }
}

/// A small node with one pod of half a cpu, and a large one with room for it.
fn two() -> World {
    let mut world = world();
    world.sized("a", 2);
    world.sized("b", 16);
    world.asking("small", "a", 500, |_| ());
    (0..14).for_each(|pod| world.asking(&format!("large-{pod}"), "b", 1000, |_| ()));
    world
}

fn rules() -> ConsolidationSettings {
    ConsolidationSettings {
        least_per_pod: 1.5,
        payback: SignedDuration::from_mins(30),
        ..ConsolidationSettings::default()
    }
}

/// Minutes for which moves have to pay after pods ask, `seconds` after the beginning, for `more` thousandths of a cpu more, or
/// less, than then.
fn payback(more: i32, seconds: f64, change: impl FnOnce(&mut Value)) -> i64 {
    let (mut world, mut demand) = (two(), Demand::default());
    world.asking("web", "b", 1000, |_| ());
    demand.observe(&world.state.snapshot(), moment(0.0));
    world.asking("web", "b", 1000_u32.saturating_add_signed(more), change);
    demand.observe(&world.state.snapshot(), moment(seconds));
    minutes(&demand)
}

fn minutes(demand: &Demand) -> i64 {
    let adapted = demand.adapted(rules());
    assert_eq!(adapted, ConsolidationSettings { payback: adapted.payback, ..rules() });
    adapted.payback.as_mins()
}

#[test]
fn moves_pay_longer_while_demand_rises_not_where_unknown() {
    assert_eq!(payback(100, 3600.0, |_| ()), 90);
    assert_eq!(payback(0, 3600.0, |_| ()), 30);
    assert_eq!(payback(-100, 3600.0, |_| ()), 30);
    // Memory alone: nobody asked for any.
    let memory = |pod: &mut Value| pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("1Gi");
    assert_eq!(payback(0, 3600.0, memory), 90);
    assert_eq!(payback(100, 3599.0, |_| ()), 0);
    assert_eq!(minutes(&Demand::default()), 0);
}

#[test]
fn nothing_waits_within_an_hour_of_a_scale_in_by_a_quarter() {
    let after = |end: u32| {
        let (mut world, mut demand) = (two(), Demand::default());
        for (minute, milli) in [(0, 1000), (30, 10_000), (60, end)] {
            world.asking("web", "b", milli, |_| ());
            demand.observe(&world.state.snapshot(), moment(60.0 * f64::from(minute)));
        }
        minutes(&demand)
    };
    // 14,500 beside them: three quarters of the peak are 18,375.
    assert_eq!(after(3800), 0);
    assert_eq!(after(4000), 90);
}

#[test]
fn pods_that_run_to_their_end_are_no_trend() {
    let (mut world, mut demand) = (two(), Demand::default());
    demand.observe(&world.state.snapshot(), moment(0.0));
    world.asking("batch", "b", 1000, |pod| pod["spec"]["restartPolicy"] = json!("Never"));
    demand.observe(&world.state.snapshot(), moment(3600.0));
    assert_eq!(minutes(&demand), 30);
}

#[test]
fn it_is_held_against_an_hour_ago_and_nothing_older() {
    let (mut world, mut demand) = (two(), Demand::default());
    demand.observe(&world.state.snapshot(), moment(0.0));
    world.asking("web", "b", 1000, |_| ());
    (1..=120).for_each(|minute| demand.observe(&world.state.snapshot(), moment(60.0 * f64::from(minute))));
    assert_eq!(minutes(&demand), 30);
}

/// The answer while demand rises, where nodes could have gone since then.
fn rising(world: &World, demand: &Demand, seconds: f64) -> CommandAnswer {
    let settings = ConsolidationSettings { payback: SignedDuration::from_hours(1), ..rules() };
    Question { settings, spare: demand.spare(), ..world.question(seconds) }.answer().unwrap()
}

#[test]
fn node_goes_once_its_savings_have_paid_for_the_move() {
    let (world, mut demand, none) = (two(), Demand::default(), WaitingCommands::default());
    // The node costs 10 cents an hour, the mean pod about 5: half an hour.
    let first = rising(&world, &demand, 3600.0);
    assert_eq!((first.command.is_none(), first.spare.as_slice()), (true, ["uid-claim-a".to_owned()].as_slice()));
    let why = first.stays.iter().find(|one| one.node.node == "a").map(|one| one.why.as_str());
    assert!(why.is_some_and(|why| why.contains("not been to spare for long enough")), "{why:?}");
    demand.answered(&first, &none, moment(3600.0));
    for (hours, goes) in [(0.2, false), (0.4, false), (0.6, true)] {
        let answer = rising(&world, &demand, 3600.0 * (1.0 + hours));
        assert_eq!(answer.command.is_some(), goes, "{hours}");
        demand.answered(&answer, &none, moment(3600.0 * (1.0 + hours)));
    }
    // A saving that is expected to last lets the node go at once.
    let at_once = ConsolidationSettings { payback: SignedDuration::ZERO, ..rules() };
    let at_once = Question { settings: at_once, ..world.question(3600.0) }.answer().unwrap();
    assert_eq!(at_once.command.unwrap().wanted.claims[0].uid, "uid-claim-a");
}

#[test]
fn a_node_that_could_not_go_meanwhile_begins_anew() {
    let (mut world, mut demand, none) = (two(), Demand::default(), WaitingCommands::default());
    demand.answered(&rising(&world, &demand, 3600.0), &none, moment(3600.0));
    world.asking("more", "b", 1_900, |_| ());
    let full = rising(&world, &demand, 7200.0);
    assert!(full.command.is_none() && full.spare.is_empty());
    demand.answered(&full, &none, moment(7200.0));
    assert!(demand.spare().is_empty());
}

#[test]
fn nodes_of_a_command_that_waits_keep_their_time() {
    let (world, mut demand, mut waiting) = (two(), Demand::default(), WaitingCommands::default());
    let first = rising(&world, &demand, 3600.0);
    demand.answered(&first, &waiting, moment(3600.0));
    let later = rising(&world, &demand, 3600.0 * 6.0);
    demand.answered(&later, &waiting, moment(3600.0 * 6.0));
    waiting.found(later.command.as_ref().unwrap(), &later.planning, moment(3600.0 * 6.0));
    // The next question leaves them out, and finds nothing.
    let settings = ConsolidationSettings { payback: SignedDuration::from_hours(1), ..rules() };
    let held = waiting.commands().to_vec();
    let next = Question { settings, waiting: held, ..world.question(3600.0 * 6.0 + 2.0) }.answer().unwrap();
    assert!(next.command.is_none());
    demand.answered(&next, &waiting, moment(3600.0 * 6.0 + 2.0));
    assert_eq!(demand.spare().get("uid-claim-a"), Some(&Duration::from_secs(3600)));
    // It is known of no other.
    demand.answered(&next, &WaitingCommands::default(), moment(3600.0 * 6.0 + 4.0));
    assert!(demand.spare().is_empty());
}
