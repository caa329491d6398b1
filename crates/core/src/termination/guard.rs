//! Guard of ownership: nothing is drained, deleted or ended for a claim whose instance is not the claim's, nor is a Node whose
//! instance is not this cluster's. Two total functions of what is known decide.

use crate::ownership::{NotOwned, OwnershipVerdict};

/// Verdict on a claim that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MayEnd {
    /// It may take its Nodes and its instance with it.
    Yes,
    /// The ownership of the instance is not known: `owner` is asked.
    Ask,
    /// Its instance is missing, and a Node of it is at work: EC2 is asked again without us.
    NotYet,
    /// Its instance is not its own: the claim goes alone.
    Never(NotOwned),
}

/// Decides about a claim; `ready` if the kubelet of one of its Nodes is at work.
#[must_use]
pub fn may_end(verdict: OwnershipVerdict, ready: bool) -> MayEnd {
    match verdict {
        // Nothing was launched for it, so nothing can be somebody else's.
        OwnershipVerdict::NoInstance | OwnershipVerdict::Ours => MayEnd::Yes,
        OwnershipVerdict::Unknown => MayEnd::Ask,
        // Nothing shows that a Node is ours whose kubelet is at work. One that is silent goes with it.
        OwnershipVerdict::Missing if ready => MayEnd::NotYet,
        OwnershipVerdict::Missing => MayEnd::Yes,
        OwnershipVerdict::NotOurs(why) => MayEnd::Never(why),
    }
}

/// The tags of the instance that a Node names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceTags {
    /// It names none.
    NoInstance,
    /// EC2 has not been heard yet.
    Unknown,
    /// EC2 knows no such instance.
    Missing,
    /// It was launched for this cluster.
    ThisCluster,
    /// It is another cluster's, or was joined by hand.
    Others,
}

/// Verdict on a Node that is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayDrain {
    /// It is drained for those of its claims whose instance it is.
    ForOwners,
    /// Its claim is gone and its instance is this cluster's: it is drained for its own sake.
    ForItself,
    /// EC2 does not know its instance and its kubelet is silent: it goes as soon as that is certain.
    AsSilent,
    /// The ownership of its instance is not known: `owner` is asked.
    Ask,
    /// Its instance is not this cluster's, or another Node is that instance's: it goes as it is.
    Never,
}

/// Decides about a Node, from the surest to the least: a claim of ours, one that may be, the instance's own tags, a silent Node
/// of none. `own` are the verdicts on the claims whose Node it is, `naming` on all that name its instance.
#[must_use]
pub fn may_drain(own: &[OwnershipVerdict], naming: &[OwnershipVerdict], tags: InstanceTags, ready: bool) -> MayDrain {
    if own.contains(&OwnershipVerdict::Ours) {
        return MayDrain::ForOwners;
    }
    if own.contains(&OwnershipVerdict::Unknown) {
        return MayDrain::Ask;
    }
    // The instance is a claim's, and its Node is another.
    if naming.contains(&OwnershipVerdict::Ours) {
        return MayDrain::Never;
    }
    match tags {
        InstanceTags::NoInstance | InstanceTags::Others => MayDrain::Never,
        InstanceTags::ThisCluster => MayDrain::ForItself,
        InstanceTags::Missing if !ready => MayDrain::AsSilent,
        InstanceTags::Missing | InstanceTags::Unknown => MayDrain::Ask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OwnershipVerdict::{Missing, NoInstance, Ours, Unknown};

    #[test]
    fn claim_takes_only_an_instance_that_is_its_own_or_gone() {
        for ready in [false, true] {
            assert_eq!([may_end(NoInstance, ready), may_end(Ours, ready)], [MayEnd::Yes, MayEnd::Yes]);
            assert_eq!(may_end(Unknown, ready), MayEnd::Ask);
            let not_ours = OwnershipVerdict::NotOurs(NotOwned::ClusterUnknown);
            assert_eq!(may_end(not_ours, ready), MayEnd::Never(NotOwned::ClusterUnknown));
        }
        assert_eq!([may_end(Missing, true), may_end(Missing, false)], [MayEnd::NotYet, MayEnd::Yes]);
    }

    #[test]
    fn node_is_drained_for_the_surest_thing_that_is_known() {
        let tags = InstanceTags::ThisCluster;
        assert_eq!(may_drain(&[Missing, Ours, Unknown], &[], tags, true), MayDrain::ForOwners);
        assert_eq!(may_drain(&[Missing, Unknown], &[Ours], tags, true), MayDrain::Ask);
        assert_eq!(
            may_drain(&[Missing], &[Missing, Ours], tags, true),
            MayDrain::Never,
            "another Node is the instance's"
        );
        assert_eq!(may_drain(&[Missing], &[Missing], tags, true), MayDrain::ForItself);
    }

    #[test]
    fn node_that_no_claim_speaks_for_goes_by_its_instances_tags() {
        let verdict = |tags, ready| may_drain(&[], &[], tags, ready);
        for ready in [false, true] {
            assert_eq!(verdict(InstanceTags::ThisCluster, ready), MayDrain::ForItself);
            assert_eq!(
                [InstanceTags::Others, InstanceTags::NoInstance].map(|one| verdict(one, ready)),
                [MayDrain::Never; 2]
            );
            assert_eq!(verdict(InstanceTags::Unknown, ready), MayDrain::Ask);
        }
        assert_eq!(
            [verdict(InstanceTags::Missing, true), verdict(InstanceTags::Missing, false)],
            [MayDrain::Ask, MayDrain::AsSilent]
        );
    }
}
