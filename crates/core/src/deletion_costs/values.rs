//! Values of ranked nodes: ascending, and as many of them as before as the order allows. Karpenter numbers all nodes anew where
//! one comes or goes, which writes every pod.

/// Distance of two values that are given anew: room for nodes that come between them later.
const STEP: i64 = 1 << 10;
/// The values that ranked nodes may have: below that of a pod without one, above [`super::LEAVING`].
const RANGE: std::ops::RangeInclusive<i64> = i32::MIN as i64 + 1..=-1;

/// A value for each node, strictly ascending; `current` has what the nodes have, in their order.
pub(super) fn ascending(current: &[Option<i32>]) -> Vec<i32> {
    let kept = longest_ascending(current);
    let values = filled(&kept).or_else(|| filled(&vec![None; current.len()])).unwrap_or_default();
    values.into_iter().filter_map(|value| i32::try_from(value).ok()).collect()
}

/// The values that may stay: those of a longest ascending run.
fn longest_ascending(current: &[Option<i32>]) -> Vec<Option<i64>> {
    let known = |at: usize| current[at].map(i64::from).filter(|value| RANGE.contains(value));
    // For each length the run of it that ends lowest, by the place of its end; and each place's predecessor in its run.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), vec![None; current.len()]);
    for at in (0..current.len()).filter(|at| known(*at).is_some()) {
        let length = ends.partition_point(|end| known(*end) < known(at));
        before[at] = length.checked_sub(1).map(|shorter| ends[shorter]);
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut kept = vec![None; current.len()];
    let mut next = ends.last().copied();
    while let Some(at) = next {
        (kept[at], next) = (known(at), before[at]);
    }
    kept
}

/// The values with those that are missing put evenly between their neighbours; `None` where there is no room.
fn filled(kept: &[Option<i64>]) -> Option<Vec<i64>> {
    let mut values: Vec<i64> = Vec::with_capacity(kept.len());
    let mut at = 0;
    while at < kept.len() {
        if let Some(value) = kept[at] {
            values.push(value);
            at += 1;
            continue;
        }
        let missing = kept[at..].iter().take_while(|value| value.is_none()).count();
        let gaps = i64::try_from(missing).ok()? + 1;
        let (below, above) = (values.last().copied(), kept.get(at + missing).copied().flatten());
        let first = match (below, above) {
            (None, above) => above.unwrap_or(0).checked_sub(gaps.checked_mul(STEP)?)?.max(*RANGE.start() - 1),
            (Some(below), _) => below,
        };
        let last = above.unwrap_or(0);
        let distance = ((last - first) / gaps).min(STEP);
        if distance < 1 {
            return None;
        }
        // Those that come last lie close to what follows them: there is the most room before them.
        values.extend((1..gaps).map(|step| last - (gaps - step) * distance));
        at += missing;
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fresh_values_ascend_to_just_below_that_of_other_pods() {
        assert_eq!(ascending(&[None, None, None]), [-3072, -2048, -1024]);
        assert!(ascending(&[]).is_empty());
    }

    #[test]
    fn node_that_comes_between_gets_a_value_between() {
        for (current, expected) in [
            (vec![Some(-3072), None, Some(-1024)], vec![-3072, -2048, -1024]),
            (vec![None, Some(-3072)], vec![-4096, -3072]),
            (vec![Some(-3072), None], vec![-3072, -1024]),
            (vec![Some(-1024), Some(-2048), Some(-512)], vec![-3072, -2048, -512]),
            (vec![Some(-5), None, Some(-4)], vec![-3072, -2048, -1024]),
            (vec![Some(i32::MIN + 1), None], vec![i32::MIN + 1, -1024]),
            (vec![None, Some(i32::MIN + 1)], vec![-2048, -1024]),
            (vec![Some(7), Some(0), Some(i32::MIN)], vec![-3072, -2048, -1024]),
        ] {
            assert_eq!(ascending(&current), expected, "{current:?}");
        }
    }

    fn any_value() -> impl Strategy<Value = Option<i32>> {
        prop_oneof![2 => Just(None), 3 => (-40i32..5).prop_map(Some), 3 => (-9000i32..0).prop_map(Some), 1 => any::<i32>().prop_map(Some)]
    }

    proptest! {
        #[test]
        fn values_ascend_in_range_and_stay_once_given(current in proptest::collection::vec(any_value(), 0..60)) {
            let given = ascending(&current);
            prop_assert_eq!(given.len(), current.len());
            prop_assert!(given.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", given);
            prop_assert!(given.iter().all(|value| RANGE.contains(&i64::from(*value))), "{:?}", given);
            let again: Vec<_> = given.iter().copied().map(Some).collect();
            prop_assert_eq!(ascending(&again), given);
        }

        #[test]
        fn nodes_that_go_and_one_that_comes_change_no_other(
            count in 1usize..60, gone in proptest::collection::vec(any::<bool>(), 60), at in 0usize..60,
        ) {
            let mut left: Vec<_> = ascending(&vec![None; count]).into_iter().map(Some).collect();
            let mut gone = gone.into_iter();
            left.retain(|_| !gone.next().unwrap_or_default());
            left.insert(at.min(left.len()), None);
            let given = ascending(&left);
            let changed = given.iter().zip(&left).filter(|(given, before)| Some(**given) != **before).count();
            prop_assert_eq!(changed, 1);
        }
    }
}
