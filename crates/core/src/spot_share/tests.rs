#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Replicas, SpotShare, WrittenShare, turn};

fn share(base: u32, percent: u8) -> SpotShare {
    SpotShare { base, percent }
}

fn written(own: &[(&str, &str)]) -> WrittenShare {
    let own = own.iter().map(|(key, value)| (format!("dovetail.dev/{key}"), (*value).to_owned()));
    WrittenShare::from_annotations(&own.collect::<BTreeMap<_, _>>())
}

#[test]
fn part_of_replicas_above_the_base_is_rounded_down() {
    let most = |base, percent, replicas| share(base, percent).most_on_spot(replicas);
    assert_eq!([0, 1, 2, 3, 4, 10].map(|replicas| most(2, 70, replicas)), [0, 0, 0, 0, 1, 5]);
    assert_eq!([most(0, 100, 7), most(0, 0, 7), most(7, 100, 7), most(9, 100, 7)], [7, 0, 0, 0]);
    assert_eq!(most(0, 33, usize::MAX), usize::MAX / 100 * 33 + usize::MAX % 100 * 33 / 100, "no overflow");
}

#[test]
fn annotations_are_read_and_one_alone_is_enough() {
    assert_eq!(written(&[]), WrittenShare::Unset);
    assert_eq!(written(&[("on-demand-base", "2"), ("spot-share", "70%")]), WrittenShare::Share(share(2, 70)));
    assert_eq!(written(&[("on-demand-base", "2")]), WrittenShare::Share(share(2, 100)));
    assert_eq!(written(&[("spot-share", "0%")]), WrittenShare::Share(share(0, 0)));
}

#[test]
fn unreadable_value_counts_as_nothing_and_says_what_is_allowed() {
    let long = "9".repeat(100_000);
    for (own, key) in [
        ([("on-demand-base", "two"), ("spot-share", "70%")], "on-demand-base"),
        ([("on-demand-base", "2"), ("spot-share", "70")], "spot-share"),
        ([("on-demand-base", long.as_str()), ("spot-share", "70%")], "on-demand-base"),
    ] {
        let WrittenShare::Wrong(why) = written(&own) else { panic!("{key} is read") };
        assert!(why.starts_with(&format!("annotation dovetail.dev/{key} is ")) && why.contains("(allowed: "), "{why}");
        assert!(why.len() < 250 && written(&own).share().is_none() && written(&own).is_written(), "{why}");
    }
}

#[test]
fn split_holds_for_the_workload_and_for_each_template() {
    let mut replicas = Replicas::of_share(share(2, 70));
    (0..10).for_each(|at| replicas.count_placed("old", at < 5));
    assert_eq!((replicas.room("old"), replicas.surplus()), (0, 0));
    (0..5).for_each(|_| replicas.count_awaiting("new"));
    // Nine of 15 replicas may be on spot, and two of the five new ones.
    let taken = (0..5).filter(|_| replicas.take_room("new")).count();
    assert_eq!((taken, replicas.surplus()), (2, 0));
    assert_eq!(replicas.sentence(), "7 of 15 are on spot and 9 may be");
}

#[test]
fn replicas_beyond_the_split_are_counted_after_a_scale_down() {
    let mut replicas = Replicas::of_share(share(2, 50));
    (0..4).for_each(|at| replicas.count_placed("one", at < 3));
    assert_eq!((replicas.surplus(), replicas.room("one"), replicas.take_room("one")), (2, 0, false));
}

#[test]
fn turn_passes_from_node_to_node() {
    let at = |second| turn(3, jiff::Timestamp::from_second(second).unwrap());
    assert_eq!([at(0), at(599), at(600), at(1200), at(1800)], [0, 0, 1, 2, 0]);
    assert_eq!((turn(0, jiff::Timestamp::UNIX_EPOCH), turn(2, jiff::Timestamp::MIN)), (0, 0));
}

proptest! {
    #[test]
    fn room_that_is_taken_never_exceeds_the_split(
        base in 0_u32..6, percent in 0_u8..=100, placed in prop::collection::vec((0_usize..3, any::<bool>()), 0..30),
        awaiting in prop::collection::vec(0_usize..3, 0..30),
    ) {
        let names = ["a", "b", "c"];
        let wanted = share(base, percent);
        let mut replicas = Replicas::of_share(wanted);
        placed.iter().for_each(|(template, on_spot)| replicas.count_placed(names[*template], *on_spot));
        let before = placed.iter().filter(|(_, on_spot)| *on_spot).count();
        awaiting.iter().for_each(|template| replicas.count_awaiting(names[*template]));
        let taken: Vec<bool> = awaiting.iter().map(|template| replicas.take_room(names[*template])).collect();
        let new = taken.iter().filter(|taken| **taken).count();
        let all = placed.len() + awaiting.len();
        prop_assert!(new == 0 || before + new <= wanted.most_on_spot(all), "{before} and {new} of {all}");
        prop_assert!(new == 0 || all - before - new >= usize::try_from(base).unwrap().min(all));
        for (at, template) in names.iter().enumerate() {
            let own = placed.iter().filter(|(one, _)| *one == at).count() + awaiting.iter().filter(|one| **one == at).count();
            let put = awaiting.iter().zip(&taken).filter(|(one, taken)| **one == at && **taken).count();
            prop_assert!(put <= wanted.most_on_spot(own), "{template}");
        }
    }

    #[test]
    fn any_text_of_an_annotation_is_read_or_refused(base in ".{0,20}", percent in ".{0,20}") {
        let read = written(&[("on-demand-base", &base), ("spot-share", &percent)]);
        prop_assert!(read.share().is_none_or(|share| share.base <= 1_000_000 && share.percent <= 100));
        prop_assert!(read.is_written());
    }
}
