//! Checks EC2's list of types: it is not believed if it is empty, if most of it makes no sense, or if none of its types is
//! offered in any zone. The known list stays then, or at the start the shipped one; EC2 is asked again before long.

use std::collections::BTreeSet;
use std::time::Duration;

use dovetail_cloud::catalogue::RegionCatalogue as Offers;
use dovetail_cloud::info::InstanceTypeInfo;
use dovetail_cloud::shipped;
use dovetail_core::pause::DoublingPause;

/// Pause before EC2's lists are read again after an answer that is not believed.
const DOUBTED_AGAIN: DoublingPause =
    DoublingPause { first: Duration::from_secs(60), longest: Duration::from_secs(600) };
/// No machine has more vCPUs, nor more memory in MiB (256 TiB): ten times what EC2 has.
const MOST_VCPUS: u32 = 1 << 14;
const MOST_MEMORY: u64 = 1 << 28;

/// Pause after this many answers in a row that are not believed.
pub(super) fn pause_after(doubts: u32) -> Duration {
    DOUBTED_AGAIN.length_of_nth(doubts)
}

/// True if the values of an instance type are possible ones.
fn is_plausible(info: &InstanceTypeInfo) -> bool {
    let named = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-';
    !info.name.is_empty()
        && info.name.chars().all(named)
        && (1..=MOST_VCPUS).contains(&info.vcpus)
        && (1..=MOST_MEMORY).contains(&info.memory_mib)
        && !info.architectures.is_empty()
}

/// Takes out what makes no sense; answers what is wrong with the rest, if it is not to be believed.
pub(super) fn sift(offers: &mut Offers) -> Option<&'static str> {
    let all = offers.types.len();
    let mut names = BTreeSet::new();
    offers.types.retain(|info| is_plausible(info) && names.insert(info.name.clone()));
    let absurd = all - offers.types.len();
    offers.offered.values_mut().for_each(|zones| zones.retain(|zone| !zone.is_empty()));
    offers.offered.retain(|_, zones| !zones.is_empty());
    offers.zones.retain(|zone| !zone.name.is_empty());
    if all == 0 {
        Some("it is empty")
    } else if absurd > offers.types.len() {
        Some("most of it makes no sense (no name, no vCPU, no memory)")
    } else if offers.offered.is_empty() {
        Some("none of it is offered in any zone")
    } else if !offers.types.iter().any(|info| offers.offered.contains_key(&info.name)) {
        Some("what it has and what is offered in zones have nothing in common")
    } else {
        None
    }
}

/// Puts what is known in the place of what is not believed; where nothing is known, what is shipped.
pub(super) fn fill(offers: &mut Offers, known: Option<&Offers>) {
    let shipped = known.is_none().then(|| shipped::catalogue_once(&offers.region));
    let Some(known) = known.or(shipped.as_deref()) else { return };
    offers.types.clone_from(&known.types);
    offers.offered.clone_from(&known.offered);
    offers.zones.clone_from(&known.zones);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use super::*;

    fn info(name: &str, vcpus: u32, memory_mib: u64) -> InstanceTypeInfo {
        let architectures = vec!["x86_64".to_owned()];
        InstanceTypeInfo { name: name.into(), vcpus, memory_mib, architectures, ..InstanceTypeInfo::default() }
    }

    fn judged(types: Vec<InstanceTypeInfo>, offered: &[&str]) -> (Option<&'static str>, usize) {
        let zones = |name: &&str| ((*name).to_owned(), ["us-east-1a".to_owned()].into());
        let offered = offered.iter().map(zones).collect();
        let mut offers = Offers { types: types.into_iter().map(Arc::new).collect(), offered, ..Offers::default() };
        (sift(&mut offers), offers.types.len())
    }

    #[test]
    fn empty_or_absurd_lists_are_doubted_and_odd_types_left_out() {
        let good = || info("m5.large", 2, 8192);
        assert_eq!(judged(vec![good()], &["m5.large"]), (None, 1));
        assert_eq!(judged(vec![good(), info("c5.large", 2, 4096), good()], &["m5.large"]), (None, 2), "twice");
        let odd = [
            info("", 2, 8192),
            info("m5.large", 0, 8192),
            info("m5.large", 2, 0),
            info("m5.large", u32::MAX, 8192),
            info("m5.large", 2, u64::MAX),
            info("a b\n", 2, 8192),
            InstanceTypeInfo { architectures: vec![], ..good() },
        ];
        for one in odd {
            assert_eq!(judged(vec![good(), one.clone()], &["m5.large"]), (None, 1), "{one:?}");
            assert!(judged(vec![one.clone()], &["m5.large"]).0.is_some(), "{one:?}");
            assert!(judged(vec![good(), one.clone(), one.clone()], &["m5.large"]).0.is_some(), "{one:?}");
        }
        assert!(judged(vec![], &["m5.large"]).0.is_some());
        assert!(judged(vec![good()], &[]).0.is_some());
        assert!(judged(vec![good()], &["c5.large"]).0.is_some());
    }

    #[test]
    fn doubted_list_is_asked_for_after_a_minute_then_more_seldom() {
        let pauses: Vec<u64> = (1..=6).map(|doubts| pause_after(doubts).as_secs()).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 600, 600]);
        assert_eq!(pause_after(u32::MAX).as_secs(), 600);
    }

    #[test]
    fn shipped_data_stand_in_where_nothing_is_known() {
        let mut offers = Offers { region: "us-east-1".into(), ..Offers::default() };
        fill(&mut offers, None);
        assert!(offers.types.len() > 500 && offers.offered.contains_key("m5.large"));
        assert_eq!(sift(&mut offers), None);
        assert!(offers.types.len() > 500, "what is shipped is plausible");
    }
}
