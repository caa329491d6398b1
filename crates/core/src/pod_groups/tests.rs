//! Gangs in packings of drawn problems: enough places or none, and nobody else is worse off.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::scheduling::{CoschedulingGroup, PodGroup};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::pack::{Options, Packing, solve};
use crate::problem::Problem;

/// A problem of pods of these sizes in thousandths of a CPU, by name and priority, whose nodes have two CPUs; a limit of CPUs.
fn problem(pods: &[(String, u32, i32)], cpus: u32) -> Arc<Problem> {
    let pods: Vec<Value> = pods
        .iter()
        .map(|(name, size, priority)| {
            json!({"name": name, "uid": name, "priority": priority, "requests": {"cpu": format!("{size}m"), "memory": "1Gi"}})
        })
        .collect();
    let value = json!({
        "nodePools": [{"name": "default", "limits": {"cpu": cpus.to_string()}}],
        "instanceTypes": [{"name": "t", "capacity": {"cpu": "2", "memory": "16Gi", "pods": "20"},
            "offerings": [{"zone": "z", "capacityType": "on-demand", "price": 0.1, "available": true}]}],
        "pods": pods});
    Arc::new(serde_json::from_value(value).unwrap())
}

/// A gang that needs so many of its members, which are all that wait.
fn gang(key: &str, min_count: usize, held: usize, waiting: Vec<usize>) -> WaitingGang {
    let (key, members) = (key.to_owned(), held + waiting.len());
    WaitingGang { key, min_count, members, held, waiting, ..WaitingGang::default() }
}

/// Gangs of pods that each need a node of their own, one behind the other, and ordinary pods behind them.
fn crowd(gangs: &[(usize, usize)], others: usize, nodes: u32) -> (GangTable, Arc<Problem>) {
    let (mut pods, mut table) = (Vec::new(), GangTable::default());
    for (at, (members, min_count)) in gangs.iter().enumerate() {
        let first = pods.len();
        pods.extend((0..*members).map(|pod| (format!("g{at}-{pod}"), 1500, 0)));
        table.gangs.push(gang(&format!("ml/g{at}"), *min_count, 0, (first..pods.len()).collect()));
    }
    pods.extend((0..others).map(|pod| (format!("other-{pod}"), 1500, 0)));
    (table, problem(&pods, nodes * 2))
}

fn packed(table: &GangTable, problem: &Arc<Problem>) -> (Arc<Problem>, Packing) {
    pack_gangs(table, problem, |problem| (problem.clone(), solve(problem, &Options::default())))
}

/// Number of a gang's waiting members that a packing has places for.
fn placed(gang: &WaitingGang, packing: &Packing) -> usize {
    let all = packing.claims.iter().flat_map(|claim| &claim.pods);
    all.filter(|pod| gang.waiting.contains(pod)).count()
}

fn reason(packing: &Packing, pod: usize) -> String {
    packing.unscheduled.iter().find(|(at, _)| *at == pod).unwrap().1.to_string()
}

/// The nodes of a packing: names of the pods of each, and its price.
fn nodes(problem: &Problem, packing: &Packing) -> BTreeSet<(Vec<String>, String)> {
    let names = |pods: &[usize]| pods.iter().map(|pod| problem.pods[*pod].name.clone()).collect::<BTreeSet<_>>();
    let each =
        packing.claims.iter().map(|claim| (names(&claim.pods).into_iter().collect(), format!("{}", claim.price)));
    each.collect()
}

#[test]
fn gang_gets_all_its_places_or_none_and_says_why() {
    let (table, problem) = crowd(&[(5, 5)], 2, 7);
    let (_, packing) = packed(&table, &problem);
    assert_eq!((packing.claims.len(), packing.unscheduled.len()), (7, 0), "there is room for all");
    let (table, problem) = crowd(&[(5, 5)], 2, 4);
    let (_, packing) = packed(&table, &problem);
    assert_eq!((placed(&table.gangs[0], &packing), packing.claims.len()), (0, 2), "the others have theirs");
    let why = reason(&packing, 0);
    assert!(why.starts_with("PodGroup ml/g0: ") && why.contains(" of 5 members have a place: pool default: "), "{why}");
    let (table, problem) = crowd(&[(5, 3)], 0, 4);
    let (_, packing) = packed(&table, &problem);
    assert_eq!(placed(&table.gangs[0], &packing), 4, "minCount have places, and one more");
    let (table, problem) = crowd(&[(5, 5)], 0, 3);
    let table = GangTable { gangs: vec![WaitingGang { held: 2, members: 7, ..table.gangs[0].clone() }] };
    assert_eq!(placed(&table.gangs[0], &packed(&table, &problem).1), 3, "members that run count");
}

/// Both lack places together; the first of them gets all, whichever of the two could be had.
#[test]
fn gangs_that_share_what_is_scarce_are_tried_one_at_a_time() {
    let (mut table, problem) = crowd(&[(4, 4), (4, 4)], 1, 6);
    for first in [0, 1] {
        for (at, gang) in table.gangs.iter_mut().enumerate() {
            gang.created = Some(jiff::Timestamp::from_second(if at == first { 1 } else { 2 }).unwrap());
        }
        let (_, packing) = packed(&table, &problem);
        let places: Vec<usize> = table.gangs.iter().map(|gang| placed(gang, &packing)).collect();
        assert_eq!((places[first], places[1 - first]), (4, 0), "the oldest comes first");
    }
    table.gangs[0].priority = 5;
    assert_eq!(placed(&table.gangs[0], &packed(&table, &problem).1), 4, "but for the priority");
    let (mut table, problem) = crowd(&[(9, 9), (4, 4)], 1, 6);
    table.gangs[0].created = Some(jiff::Timestamp::UNIX_EPOCH);
    table.gangs[1].created = Some(jiff::Timestamp::MAX);
    let (_, packing) = packed(&table, &problem);
    assert_eq!(placed(&table.gangs[1], &packing), 4, "one that can never be had stands in nobody's way");
}

/// Four are tried in a packing. The one behind them has its turn in the next.
#[test]
fn gangs_that_always_lack_places_do_not_starve_the_others() {
    let (table, problem) = crowd(&[(9, 9), (9, 9), (9, 9), (9, 9), (9, 9), (4, 4)], 0, 6);
    let mut trials = GangTrials::default();
    let waiting = table.gangs.iter().map(|gang| gang.key.as_str()).collect();
    let mut turns = Vec::new();
    for _ in 0..2 {
        let packings = Cell::new(0);
        let mut rounds = GangRounds::new(table.clone(), problem.clone(), &BTreeMap::new());
        let packing = loop {
            packings.set(packings.get() + 1);
            let packing = solve(&rounds.problem(), &Options::default());
            if rounds.judge(&packing, &trials) {
                break packing;
            }
        };
        assert!(packings.get() <= 7, "{}", packings.get());
        turns.push(placed(&table.gangs[5], &packing));
        trials.note_packing(&waiting, rounds.failed(), Duration::ZERO);
    }
    assert_eq!(turns, [0, 4]);
}

#[test]
fn gang_whose_nodes_were_given_back_waits_for_its_pause() {
    let (table, problem) = crowd(&[(3, 3)], 1, 9);
    let mut trials = GangTrials::default();
    let at = Duration::from_secs;
    let pauses: Vec<u64> = (0..6).map(|_| trials.give_back("ml/g0", at(0)).as_secs()).collect();
    assert_eq!(pauses, [60, 120, 240, 480, 600, 600]);
    let plan = |now| {
        let mut rounds = GangRounds::new(table.clone(), problem.clone(), &trials.paused(now));
        let packing = solve(&rounds.problem(), &Options::default());
        assert!(rounds.judge(&packing, &trials), "it is made once");
        packing
    };
    let packing = plan(at(599));
    assert_eq!((placed(&table.gangs[0], &packing), packing.claims.len()), (0, 1));
    assert!(reason(&packing, 0).contains("they were given back"), "{}", reason(&packing, 0));
    assert_eq!(plan(at(600)).claims.len(), 4);
    trials.note_packing(&BTreeSet::new(), [], at(600));
    assert_eq!(trials.give_back("ml/g0", at(600)).as_secs(), 60, "it has gone meanwhile");
}

#[test]
fn nodes_taken_out_later_take_the_rest_of_the_gang_along() {
    let (table, problem) = crowd(&[(4, 4)], 2, 9);
    let mut held = BTreeMap::new();
    let (_, mut packing) = packed(&table, &problem);
    let whole = packing.clone();
    take_out_short(&table, &problem, &mut held, &mut packing);
    assert_eq!(packing.claims.len(), whole.claims.len(), "nothing lacks");
    packing.claims.remove(packing.claims.iter().position(|claim| claim.pods.contains(&1)).unwrap());
    take_out_short(&table, &problem, &mut held, &mut packing);
    assert_eq!((placed(&table.gangs[0], &packing), packing.claims.len()), (0, 2), "the others stay");
    assert_eq!((packing.unscheduled.len(), held.len()), (3, 3));
    assert_eq!(held["g0-0"], "PodGroup ml/g0: 3 of 4 members have a place");
    assert!((packing.total_price - 0.2).abs() < 1e-9);
}

#[test]
fn groups_are_read_and_what_makes_no_sense_is_refused() {
    let native = |spec: Value| {
        let group: PodGroup = serde_json::from_value(json!({"apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup", "metadata": {"name": "a"}, "spec": spec}))
        .unwrap();
        read_group(&group.spec)
    };
    assert_eq!(native(json!({"schedulingPolicy": {"gang": {"minCount": 4}}})), Ok(Some(4)));
    assert_eq!(native(json!({"schedulingPolicy": {"basic": {}}})), Ok(None));
    for spec in [json!({}), json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}})] {
        assert!(native(spec).unwrap_err().contains("one of basic and gang has to be set"));
    }
    for count in [0, -1, MOST_MEMBERS + 1] {
        let why = native(json!({"schedulingPolicy": {"gang": {"minCount": count}}})).unwrap_err();
        assert_eq!(why, format!("spec.schedulingPolicy.gang.minCount is {count}: 1 to 5000 is allowed"));
    }
    let other = |spec: Value| {
        let group: CoschedulingGroup = serde_json::from_value(json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup", "metadata": {"name": "a"}, "spec": spec}))
        .unwrap();
        read_coscheduling_group(&group.spec)
    };
    assert_eq!(other(json!({"minMember": 3, "scheduleTimeoutSeconds": 10})), Ok(Some(3)));
    assert!(other(json!({})).unwrap_err().starts_with("spec.minMember is 0"));
}

#[test]
fn pod_names_its_group_and_unfollowed_apis_count_as_none() {
    let one = |key: &str| Some(BTreeMap::from([(key.to_owned(), "train".to_owned())]));
    let (field, label) = ("dovetail.dev/pod-group", "scheduling.x-k8s.io/pod-group");
    let native = PodGroupRef::from_metadata(one(label).as_ref(), one(field).as_ref()).unwrap();
    assert_eq!((native.api, &*native.name), (PodGroupApi::Native, "train"), "the field stands above the label");
    let other = PodGroupRef::from_metadata(one(label).as_ref(), None).unwrap();
    assert_eq!(other.api, PodGroupApi::Coscheduling);
    assert_eq!(PodGroupRef::from_metadata(one("app").as_ref(), None), None);
    let mut book = PodGroupBook::default();
    assert!(book.insert(PodGroupApi::Native, "ml/train", Ok(Some(4))) && book.is_empty());
    assert_eq!(book.find_rule("ml", &native), None);
    assert!(book.follow(PodGroupApi::Native, true) && !book.follow(PodGroupApi::Native, true));
    assert_eq!(book.find_rule("ml", &native), Some(Ok(Some(4))));
    assert_eq!(book.find_rule("ml", &other), None, "the other API is not served");
    assert!(book.find_rule("web", &native).unwrap().unwrap_err().contains("there is no such object"));
    assert!(!book.insert(PodGroupApi::Native, "ml/train", Ok(Some(4))), "nothing is new");
    assert!(book.retain(PodGroupApi::Native, |_| false) && !book.remove(PodGroupApi::Native, "ml/train"));
}

/// Gangs and other pods that were drawn: sizes, how many of a gang run, and how many it needs.
fn drawn() -> impl Strategy<Value = (GangTable, Arc<Problem>)> {
    let gang_of = (1..8_usize, 0..3_usize, 1..9_usize, 200..1900_u32, 0..3_i32);
    let all = (prop::collection::vec(gang_of, 0..5), prop::collection::vec((200..1900_u32, 0..3_i32), 0..8), 0..24_u32);
    all.prop_map(|(gangs, others, cpus)| {
        let (mut pods, mut table) = (Vec::new(), GangTable::default());
        for (at, (waiting, held, least, size, priority)) in gangs.into_iter().enumerate() {
            let first = pods.len();
            pods.extend((0..waiting).map(|pod| (format!("g{at}-{pod}"), size, priority)));
            let own = gang(&format!("ml/g{at}"), least.min(held + waiting), held, (first..pods.len()).collect());
            table.gangs.push(WaitingGang { priority, ..own });
        }
        pods.extend(others.iter().enumerate().map(|(at, (size, priority))| (format!("other-{at}"), *size, *priority)));
        (table, problem(&pods, cpus))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// PGR-1 and PGR-2: never a node for less than `minCount`, and others are planned as if the gangs without places were not there.
    #[test]
    fn drawn_gangs_have_places_or_none_and_cost_others_nothing((table, problem) in drawn()) {
        let (as_packed, packing) = packed(&table, &problem);
        let mut out = BTreeSet::new();
        for gang in &table.gangs {
            let new = placed(gang, &packing);
            prop_assert!(new == 0 || gang.held + new >= gang.min_count, "{gang:?}: {new}");
            if gang.held + new < gang.min_count {
                out.extend(gang.waiting.iter().copied());
                let why = reason(&packing, gang.waiting[0]);
                prop_assert!(why.starts_with(&format!("PodGroup {}: ", gang.key)), "{why}");
            }
        }
        prop_assert_eq!(packing.claims.iter().map(|claim| claim.pods.len()).sum::<usize>() + packing.unscheduled.len(), problem.pods.len());
        let mut without = Problem::clone(&problem);
        let mut at = 0;
        without.pods.retain(|_| { at += 1; !out.contains(&(at - 1)) });
        let plain = solve(&without, &Options::default());
        prop_assert_eq!(nodes(&as_packed, &packing), nodes(&without, &plain));
    }
}
