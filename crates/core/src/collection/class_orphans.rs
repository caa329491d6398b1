//! Launch templates and instance profiles that nothing uses any more: their node class is gone, or, for launch templates, has
//! changed by now (karpenter-aws 4.3, 4.9). EC2 has a quota of 5,000 templates in a region, and makes none beyond it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Minimum age of an orphan.
const GRACE: Duration = Duration::from_secs(3600);
/// Most removals in one pass: EC2 throttles changes of the account together with launches.
const MOST: usize = 50;

/// A launch template or instance profile that was made for a node class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeThing {
    /// Its name, unique among all.
    pub name: String,
    /// Name of the class that it was made for.
    pub class: String,
    /// The class's uid, where it is known.
    pub class_uid: Option<String>,
    /// Time since its creation; `None` if unknown.
    pub age: Option<Duration>,
    /// True if a claim or a class uses it, or a launch has used it of late.
    pub used: bool,
    /// True if it goes without use though its class is there: a launch that needs the template makes it anew, or the class
    /// has the profile of another role by now.
    pub made_anew: bool,
}

impl MadeThing {
    fn is_orphaned(&self, classes: &BTreeMap<String, String>) -> bool {
        let owner = classes.get(&self.class);
        let owned = owner.is_some_and(|uid| self.class_uid.as_ref().is_none_or(|own| own == uid));
        (!owned || self.made_anew) && !self.used && self.age.is_some_and(|age| age >= GRACE)
    }
}

/// Remembers the orphans of the last pass.
#[derive(Clone, Debug, Default)]
pub struct ClassOrphans(BTreeSet<String>);

impl ClassOrphans {
    /// The names to remove: orphans of the last pass and of this one, at most `MOST`. `classes` are uids by name; if there is
    /// no class at all nothing is removed, as an empty answer proves nothing.
    pub fn pass(&mut self, things: &[MadeThing], classes: &BTreeMap<String, String>) -> Vec<String> {
        if classes.is_empty() {
            self.0.clear();
            return Vec::new();
        }
        let left = things.iter().filter(|thing| thing.is_orphaned(classes)).map(|thing| thing.name.clone());
        let left: BTreeSet<String> = left.collect();
        let due = left.intersection(&self.0).take(MOST).cloned().collect();
        self.0 = left;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(class: &str, uid: Option<&str>) -> MadeThing {
        let (class, class_uid) = (class.to_owned(), uid.map(str::to_owned));
        MadeThing { name: format!("of-{class}"), class, class_uid, age: Some(GRACE), used: false, made_anew: false }
    }

    fn removed(things: &[MadeThing]) -> Vec<String> {
        let classes = BTreeMap::from([("default".to_owned(), "1".to_owned())]);
        let mut orphans = ClassOrphans::default();
        assert!(orphans.pass(things, &classes).is_empty(), "on one sighting");
        orphans.pass(things, &classes)
    }

    #[test]
    fn leftovers_of_a_gone_class_go_at_the_second_pass() {
        assert_eq!(removed(&[thing("default", None), thing("gone", None)]), ["of-gone"]);
        assert_eq!(removed(&[thing("default", Some("0")), thing("default", Some("1"))]), ["of-default"]);
    }

    #[test]
    fn what_is_used_or_young_stays() {
        let used = MadeThing { used: true, ..thing("gone", None) };
        let young = MadeThing { age: Some(GRACE / 2), ..thing("gone", None) };
        let ageless = MadeThing { age: None, ..thing("gone", None) };
        assert!(removed(&[used, young, ageless]).is_empty());
    }

    #[test]
    fn remakeable_thing_goes_unused_though_its_class_is_there() {
        let template = MadeThing { made_anew: true, ..thing("default", None) };
        let used = MadeThing { used: true, name: "used".into(), ..template.clone() };
        let young = MadeThing { age: Some(GRACE / 2), name: "young".into(), ..template.clone() };
        assert_eq!(removed(&[template.clone(), used.clone(), young]), ["of-default"]);
        let classes = BTreeMap::from([("default".to_owned(), "1".to_owned())]);
        let mut orphans = ClassOrphans::default();
        orphans.pass(std::slice::from_ref(&template), &classes);
        assert!(orphans.pass(&[MadeThing { used: true, ..template }], &classes).is_empty(), "used since the last pass");
    }

    #[test]
    fn many_go_pass_by_pass() {
        let many: Vec<_> = (0..120)
            .map(|n| MadeThing { name: format!("t-{n:03}"), made_anew: true, ..thing("default", None) })
            .collect();
        assert_eq!(removed(&many).len(), MOST);
    }

    #[test]
    fn without_any_class_nothing_is_removed() {
        let mut orphans = ClassOrphans::default();
        for _ in 0..3 {
            assert!(orphans.pass(&[thing("gone", None)], &BTreeMap::new()).is_empty());
        }
    }
}
