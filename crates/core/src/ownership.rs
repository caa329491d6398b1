//! Ownership of an EC2 instance, by its tags: one rule for everybody who ends, drains, adopts, registers or collects one.
//!
//! Tags are evidence, as only who may write to EC2 can write them. What stands in a NodeClaim or a Node is none: a user of the
//! cluster may have written it. So an instance is a NodeClaim's only if both of these hold:
//!
//! ```text
//! the cluster  dovetail.dev/cluster-uid is this cluster's UID
//!              or, where a setting allows it and no UID is there, Karpenter's ownership tags are for this cluster's name
//! the claim    karpenter.sh/nodeclaim is the NodeClaim's name, or, where that tag is absent,
//!              dovetail.dev/launch-token is a hash of the NodeClaim's own uid
//!              or, of a launch for several NodeClaims, the NodeClaim proves that the token is made from its uid too, and no
//!              other NodeClaim names it ([`OwnershipMarks::needs_sole_claim`])
//!              or, of what Karpenter launched and had not tagged yet, its pool and class are the NodeClaim's, and no other
//!              NodeClaim names it
//! ```
//!
//! Invariants: OWN-1 no tags, or some of them only, are never ours; OWN-2 an instance is at most one NodeClaim's; OWN-3 what
//! is written on a NodeClaim, but for its name and uid, makes no instance its own that was not launched in a call for it.

mod instances;
pub mod token;

use std::collections::BTreeMap;
use std::fmt;

use dovetail_api::names::annotations::{LAUNCH_PLACE, LAUNCH_TOKEN};
use dovetail_api::names::labels::NODE_POOL;
use dovetail_api::names::provider::Provider;
use dovetail_api::names::tags;
use dovetail_api::v1::NodeClaim;

pub use instances::{Instances, instance_of};
use token::{LaunchPart, Place, attempt_of, is_at, is_shared, launch_token};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskingCluster {
    /// Its name in EKS (`CLUSTER_NAME`).
    pub name: String,
    /// UID of its namespace kube-system; nothing is ours while it is empty.
    pub uid: String,
    /// True if instances that Karpenter has launched for a cluster of this name count as ours (`ADOPT_KARPENTER_INSTANCES`).
    pub adopts_karpenter_instances: bool,
}

/// The software that launched an instance of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// Dovetail: the cluster's UID is a tag.
    Dovetail,
    /// Karpenter: its ownership tags are there, and no UID.
    Karpenter,
}

/// Ownership of the instance that is written on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipVerdict {
    /// No instance is written on it.
    NoInstance,
    /// EC2 has not been heard yet.
    Unknown,
    /// EC2 knows no such instance, or none yet.
    Missing,
    /// The instance is the claim's.
    Ours,
    /// The instance is not the claim's.
    NotOurs(NotOwned),
}

/// The reason that an instance is not ours, or not this NodeClaim's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotOwned {
    /// The UID of this cluster is unknown, so ownership is unknown.
    ClusterUnknown,
    /// The provider ID does not name an EC2 instance.
    NotAnInstance,
    /// A tag that would prove it is absent, empty, or has another value than it needs.
    TagMissing {
        /// Key of the tag.
        tag: String,
    },
    /// The instance is another cluster's.
    OtherCluster {
        /// UID of that cluster.
        uid: String,
    },
    /// The instance is another NodeClaim's.
    OtherClaim {
        /// Key of the tag that names it.
        tag: &'static str,
        value: String,
    },
}

impl NotOwned {
    /// Its name, for counting and in the log.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ClusterUnknown => "cluster_unknown",
            Self::NotAnInstance => "not_an_instance",
            Self::TagMissing { .. } => "tag_missing",
            Self::OtherCluster { .. } => "other_cluster",
            Self::OtherClaim { .. } => "other_nodeclaim",
        }
    }
}

impl fmt::Display for NotOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterUnknown => f.write_str("the UID of this cluster is not known"),
            Self::NotAnInstance => f.write_str("the provider ID does not name an EC2 instance"),
            Self::TagMissing { tag } => write!(f, "its tag {tag} is missing or not this cluster's"),
            Self::OtherCluster { uid } => write!(f, "its tag {} is another cluster's, {uid}", tags::CLUSTER_UID),
            Self::OtherClaim { tag, value } => write!(f, "its tag {tag} is another nodeclaim's, {value}"),
        }
    }
}

/// The software that launched an instance with these tags for this cluster.
///
/// # Errors
/// The reason that it is not this cluster's.
pub fn maker(cluster: &AskingCluster, own: &BTreeMap<String, String>) -> Result<Maker, NotOwned> {
    if cluster.uid.is_empty() {
        return Err(NotOwned::ClusterUnknown);
    }
    match filled(own, tags::CLUSTER_UID) {
        Some(uid) if *uid == cluster.uid => Ok(Maker::Dovetail),
        Some(uid) => Err(NotOwned::OtherCluster { uid: uid.clone() }),
        None if cluster.adopts_karpenter_instances && !cluster.name.is_empty() => by_karpenter(&cluster.name, own),
        None => Err(missing(tags::CLUSTER_UID)),
    }
}

/// Checks that Karpenter's ownership tags are there, for a cluster of this name.
fn by_karpenter(cluster: &str, own: &BTreeMap<String, String>) -> Result<Maker, NotOwned> {
    let owned_by = tags::owned_by(cluster);
    if own.get(&owned_by).is_none_or(|value| value != tags::OWNED) {
        return Err(missing(owned_by));
    }
    // Karpenter 0.32 to 0.37 wrote the cluster's name on another tag. Where the newer one is there, it alone counts.
    let named = own.get(tags::CLUSTER_NAME).or_else(|| own.get(tags::MANAGED_BY));
    if named.is_none_or(|name| name != cluster) {
        return Err(missing(tags::CLUSTER_NAME));
    }
    filled(own, tags::NODE_POOL).map(|_| Maker::Karpenter).ok_or_else(|| missing(tags::NODE_POOL))
}

fn missing(tag: impl Into<String>) -> NotOwned {
    NotOwned::TagMissing { tag: tag.into() }
}

fn filled<'a>(own: &'a BTreeMap<String, String>, key: &str) -> Option<&'a String> {
    own.get(key).filter(|value| !value.is_empty())
}

/// The marks of an instance that prove its ownership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipMarks {
    /// The software that launched it for this cluster, or the reason that it is not this cluster's.
    pub maker: Result<Maker, NotOwned>,
    /// The token of its launch.
    token: Option<String>,
    /// The NodeClaim that it is tagged with.
    claim: Option<String>,
    /// The NodePool and the EC2NodeClass that it is tagged with.
    made_for: (Option<String>, Option<String>),
    /// Its name in the VPC's DNS, which its Node goes by as a rule; empty where it is not known.
    pub dns_name: String,
}

impl OwnershipMarks {
    /// The marks of an instance with these tags.
    #[must_use]
    pub fn new(cluster: &AskingCluster, own: &BTreeMap<String, String>, dns_name: &str) -> Self {
        Self {
            maker: maker(cluster, own),
            token: filled(own, tags::LAUNCH_TOKEN).cloned(),
            claim: filled(own, tags::NODE_CLAIM).cloned(),
            made_for: (filled(own, tags::NODE_POOL).cloned(), filled(own, tags::NODE_CLASS).cloned()),
            dns_name: dns_name.to_owned(),
        }
    }

    /// The marks of an instance that CreateFleet has just answered to a call of ours with this token: it carries the tags of
    /// that call.
    #[must_use]
    pub fn launched_with(token: &str, dns_name: &str) -> Self {
        let (token, dns_name) = (Some(token.to_owned()), dns_name.to_owned());
        Self { maker: Ok(Maker::Dovetail), token, claim: None, made_for: (None, None), dns_name }
    }

    /// The marks for a provider id that names no EC2 instance.
    #[must_use]
    pub fn of_no_instance() -> Self {
        let maker = Err(NotOwned::NotAnInstance);
        Self { maker, token: None, claim: None, made_for: (None, None), dns_name: String::new() }
    }

    /// True if no tag tells its NodeClaim from others: Karpenter tags an instance only after its Node has registered, and so do we
    /// one of a launch for several NodeClaims. Such an instance is a NodeClaim's only if no other NodeClaim names it.
    #[must_use]
    pub fn needs_sole_claim(&self) -> bool {
        let made_for_several = self.maker == Ok(Maker::Dovetail) && self.token.as_deref().is_some_and(is_shared);
        self.claim.is_none() && (self.maker == Ok(Maker::Karpenter) || made_for_several)
    }

    /// True if it was launched by the call with this token for several NodeClaims, and no tag says for which of them.
    #[must_use]
    pub fn is_unassigned(&self, token: &str) -> bool {
        self.maker == Ok(Maker::Dovetail) && self.claim.is_none() && self.token.as_deref() == Some(token)
    }

    /// True if it may be the instance of a NodeClaim with this launch token that names it; Karpenter's NodeClaims have none.
    #[must_use]
    pub fn may_be_of(&self, token: Option<&str>) -> bool {
        self.maker == Ok(Maker::Karpenter) || self.token.as_deref() == token
    }

    /// True if a tag names this NodeClaim, of this cluster.
    #[must_use]
    pub fn is_tagged_with(&self, claim: &str) -> bool {
        self.maker.is_ok() && self.claim.as_deref() == Some(claim)
    }

    /// True if it was launched for the NodePool and the EC2NodeClass of this NodeClaim.
    fn is_made_for(&self, claim: &NodeClaim) -> bool {
        let pool = claim.metadata.labels.as_ref().and_then(|own| own.get(NODE_POOL));
        let class = Some(&claim.spec.node_class_ref.name);
        pool.is_some() && (pool, class) == (self.made_for.0.as_ref(), self.made_for.1.as_ref())
    }

    /// Checks that the instance is this NodeClaim's.
    ///
    /// # Errors
    /// The reason that it is not.
    pub fn is_of(&self, claim: &NodeClaim) -> Result<Maker, NotOwned> {
        let maker = self.maker.clone()?;
        let (name, uid) = (claim.metadata.name.as_deref(), claim.metadata.uid.as_deref().unwrap_or_default());
        match (&self.claim, &self.token) {
            (Some(tagged), _) if name == Some(tagged) => Ok(maker),
            (Some(tagged), _) => Err(NotOwned::OtherClaim { tag: tags::NODE_CLAIM, value: tagged.clone() }),
            (None, _) if maker == Maker::Karpenter && self.is_made_for(claim) => Ok(maker),
            (None, _) if maker == Maker::Karpenter => Err(missing(tags::NODE_CLAIM)),
            (None, Some(token)) if is_token_of(token, uid) || is_part_of(token, claim) => Ok(maker),
            (None, Some(token)) => Err(NotOwned::OtherClaim { tag: tags::LAUNCH_TOKEN, value: token.clone() }),
            (None, None) => Err(missing(tags::LAUNCH_TOKEN)),
        }
    }
}

/// True if a launch token is one of a NodeClaim with this uid, of whatever attempt.
#[must_use]
pub fn is_token_of(token: &str, uid: &str) -> bool {
    !uid.is_empty() && attempt_of(token).is_some_and(|attempt| launch_token([uid], attempt) == token)
}

/// True if a NodeClaim proves that a launch for several was made for it too.
fn is_part_of(token: &str, claim: &NodeClaim) -> bool {
    let uid = claim.metadata.uid.as_deref().filter(|uid| !uid.is_empty());
    place_on(claim).zip(uid).is_some_and(|(place, uid)| is_at(token, &place, uid))
}

fn place_on(claim: &NodeClaim) -> Option<Place> {
    claim.metadata.annotations.as_ref()?.get(LAUNCH_PLACE)?.parse().ok()
}

/// The part that a NodeClaim has in its latest launch; `None` if nothing was called. An annotation that is not the claim's own
/// is not believed: it may hide a call, so the token of the first attempt is looked for.
#[must_use]
pub fn part_on(claim: &NodeClaim) -> Option<LaunchPart> {
    let written = claim.metadata.annotations.as_ref()?.get(LAUNCH_TOKEN)?;
    let uid = claim.metadata.uid.as_deref().filter(|uid| !uid.is_empty())?;
    if is_token_of(written, uid) {
        return Some(LaunchPart { token: written.clone(), place: None });
    }
    let place = place_on(claim).filter(|place| is_at(written, place, uid));
    Some(match place {
        Some(place) => LaunchPart { token: written.clone(), place: Some(place) },
        None => LaunchPart::alone(uid, 1),
    })
}

/// The token of [`part_on`].
#[must_use]
pub fn token_on(claim: &NodeClaim) -> Option<String> {
    part_on(claim).map(|part| part.token)
}

/// True if a NodeClaim carries a launch token that is not its own.
#[must_use]
pub fn has_foreign_token(claim: &NodeClaim) -> bool {
    let written = claim.metadata.annotations.as_ref().and_then(|own| own.get(LAUNCH_TOKEN));
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    written.is_some_and(|token| !is_token_of(token, uid) && !is_part_of(token, claim))
}

/// True if a Node's labels say that another provider of Karpenter's has made it: it has the label of a node class (group and
/// kind in small letters, such as `eks.amazonaws.com/nodeclass`) and not that of this provider's.
#[must_use]
pub fn is_another_providers(labels: &BTreeMap<String, String>, ours: Provider) -> bool {
    let of_a_class = |key: &String| key.contains('/') && key.ends_with("nodeclass");
    !labels.contains_key(ours.class().label) && labels.keys().any(of_a_class)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_api::names::labels::{EC2_NODE_CLASS, KWOK_NODE_CLASS};
    use proptest::prelude::*;

    use super::*;
    use crate::lifecycle::fixtures::claim;

    #[test]
    fn a_node_is_another_providers_by_the_label_of_its_node_class() {
        let labelled = |keys: &[&str]| {
            let own = keys.iter().map(|key| ((*key).to_owned(), "default".to_owned())).collect();
            is_another_providers(&own, Provider::Ec2)
        };
        assert!(labelled(&["karpenter.sh/nodepool", "eks.amazonaws.com/nodeclass"]));
        assert!(labelled(&["karpenter.azure.com/aksnodeclass"]) && labelled(&[KWOK_NODE_CLASS]));
        assert!(!labelled(&["karpenter.sh/nodepool", EC2_NODE_CLASS]));
        assert!(!labelled(&["karpenter.sh/nodepool"]) && !labelled(&[]), "whoever wrote that");
    }

    fn cluster(adopts: bool) -> AskingCluster {
        AskingCluster { name: "demo".into(), uid: "us".into(), adopts_karpenter_instances: adopts }
    }

    fn tagged(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn own_tags(uid: &str) -> BTreeMap<String, String> {
        tagged(&[(tags::CLUSTER_UID, "us"), (tags::LAUNCH_TOKEN, &launch_token([uid], 3))])
    }

    fn karpenters(name: &str) -> BTreeMap<String, String> {
        tagged(&[
            ("kubernetes.io/cluster/demo", "owned"),
            (tags::CLUSTER_NAME, "demo"),
            (tags::NODE_POOL, "default"),
            (tags::NODE_CLAIM, name),
        ])
    }

    fn judged(adopts: bool, own: &BTreeMap<String, String>, of: &NodeClaim) -> Result<Maker, NotOwned> {
        OwnershipMarks::new(&cluster(adopts), own, "").is_of(of)
    }

    #[test]
    fn instance_belongs_to_claim_whose_uid_made_its_token() {
        assert_eq!(judged(false, &own_tags("uid-a"), &claim("a")), Ok(Maker::Dovetail));
        let other = judged(false, &own_tags("uid-a"), &claim("b")).unwrap_err();
        assert!(matches!(other, NotOwned::OtherClaim { tag: tags::LAUNCH_TOKEN, .. }), "{other}");
    }

    #[test]
    fn a_token_that_is_copied_onto_another_claim_changes_nothing() {
        let mut thief = claim("thief");
        thief.metadata.annotations = Some([(LAUNCH_TOKEN.to_owned(), launch_token(["uid-a"], 3))].into());
        assert!(judged(false, &own_tags("uid-a"), &thief).is_err());
        assert!(has_foreign_token(&thief));
        assert_eq!(token_on(&thief), Some(launch_token(["uid-thief"], 1)));
        assert_eq!(token_on(&claim("a")), None);
    }

    fn put(claim: &mut NodeClaim, part: &LaunchPart) {
        let place = part.place.as_ref().map(|place| (LAUNCH_PLACE.to_owned(), place.to_string()));
        let token = (LAUNCH_TOKEN.to_owned(), part.token.clone());
        claim.metadata.annotations = Some(place.into_iter().chain([token]).collect());
    }

    #[test]
    fn instance_of_shared_launch_is_of_its_claims_and_no_others() {
        let parts = token::share(["uid-a", "uid-b"], 1);
        let own = tagged(&[(tags::CLUSTER_UID, "us"), (tags::LAUNCH_TOKEN, &parts[0].token)]);
        let marks = OwnershipMarks::new(&cluster(false), &own, "");
        assert!(marks.needs_sole_claim() && marks.is_unassigned(&parts[0].token));
        let (mut a, mut thief) = (claim("a"), claim("thief"));
        assert!(marks.is_of(&a).is_err(), "without the proof");
        put(&mut a, &parts[0]);
        put(&mut thief, &parts[0]);
        assert_eq!(marks.is_of(&a), Ok(Maker::Dovetail));
        assert_eq!((part_on(&a), has_foreign_token(&a)), (Some(parts[0].clone()), false));
        assert!(marks.is_of(&thief).is_err(), "both annotations copied");
        assert_eq!((token_on(&thief), has_foreign_token(&thief)), (Some(launch_token(["uid-thief"], 1)), true));
        let tagged = own.into_iter().chain([(tags::NODE_CLAIM.to_owned(), "b".to_owned())]).collect();
        let marks = OwnershipMarks::new(&cluster(false), &tagged, "");
        assert!(marks.is_of(&a).is_err() && !marks.needs_sole_claim() && marks.is_tagged_with("b"));
    }

    #[test]
    fn no_tags_and_each_part_of_them_are_never_ours() {
        for adopts in [false, true] {
            assert!(judged(adopts, &BTreeMap::new(), &claim("a")).is_err());
            for whole in [own_tags("uid-a"), karpenters("a")] {
                for key in whole.keys() {
                    let mut part = whole.clone();
                    part.remove(key);
                    assert!(judged(adopts, &part, &claim("a")).is_err(), "{adopts} without {key}");
                    part.insert(key.clone(), String::new());
                    assert!(judged(adopts, &part, &claim("a")).is_err(), "{adopts} with an empty {key}");
                }
            }
        }
    }

    #[test]
    fn other_cluster_uid_tag_outweighs_name_and_other_tags() {
        let mut own = karpenters("a");
        own.extend(own_tags("uid-a"));
        own.insert(tags::CLUSTER_UID.into(), "them".into());
        let refused = judged(true, &own, &claim("a"));
        assert_eq!(refused, Err(NotOwned::OtherCluster { uid: "them".into() }));
    }

    #[test]
    fn karpenter_instance_is_owned_only_by_setting_and_own_claim() {
        assert_eq!(judged(true, &karpenters("a"), &claim("a")), Ok(Maker::Karpenter));
        assert_eq!(judged(false, &karpenters("a"), &claim("a")), Err(missing(tags::CLUSTER_UID)));
        assert!(judged(true, &karpenters("a"), &claim("b")).is_err());
        let mut elsewhere = karpenters("a");
        elsewhere.insert(tags::CLUSTER_NAME.into(), "other".into());
        assert_eq!(judged(true, &elsewhere, &claim("a")), Err(missing(tags::CLUSTER_NAME)));
    }

    #[test]
    fn karpenter_instance_before_1_0_names_cluster_by_older_tag() {
        let mut own = karpenters("a");
        own.remove(tags::CLUSTER_NAME);
        own.insert(tags::MANAGED_BY.into(), "demo".into());
        assert_eq!(judged(true, &own, &claim("a")), Ok(Maker::Karpenter));
        own.insert(tags::MANAGED_BY.into(), "other".into());
        assert!(judged(true, &own, &claim("a")).is_err(), "another cluster's");
        own.insert(tags::MANAGED_BY.into(), "demo".into());
        own.insert(tags::CLUSTER_NAME.into(), "other".into());
        assert!(judged(true, &own, &claim("a")).is_err(), "the newer tag counts where it is there");
    }

    #[test]
    fn untagged_karpenter_instance_fits_claim_of_its_pool_and_class() {
        let mut own = karpenters("a");
        own.remove(tags::NODE_CLAIM);
        own.insert(tags::NODE_CLASS.into(), "default".into());
        let of_pool = |pool: &str| {
            let mut claim = claim("a");
            claim.metadata.labels = Some([(NODE_POOL.to_owned(), pool.to_owned())].into());
            claim
        };
        assert_eq!(judged(true, &own, &of_pool("default")), Ok(Maker::Karpenter));
        assert!(OwnershipMarks::new(&cluster(true), &own, "").needs_sole_claim());
        assert!(judged(false, &own, &of_pool("default")).is_err(), "the setting says nothing of it");
        assert_eq!(judged(true, &own, &of_pool("other")), Err(missing(tags::NODE_CLAIM)));
        assert_eq!(judged(true, &own, &claim("a")), Err(missing(tags::NODE_CLAIM)), "a claim of no pool");
        own.insert(tags::NODE_CLASS.into(), "other".into());
        assert!(judged(true, &own, &of_pool("default")).is_err());
        assert!(!OwnershipMarks::new(&cluster(true), &karpenters("a"), "").needs_sole_claim());
    }

    #[test]
    fn while_the_clusters_uid_is_not_known_nothing_is_ours() {
        let nobody = AskingCluster { uid: String::new(), ..cluster(true) };
        assert_eq!(
            OwnershipMarks::new(&nobody, &own_tags("uid-a"), "").is_of(&claim("a")),
            Err(NotOwned::ClusterUnknown)
        );
    }

    #[test]
    fn an_operator_hands_an_instance_over_by_the_nodeclaims_tag() {
        let mut own = own_tags("uid-of-before");
        own.insert(tags::NODE_CLAIM.into(), "a".into());
        assert_eq!(judged(false, &own, &claim("a")), Ok(Maker::Dovetail));
    }

    fn some_tags() -> impl Strategy<Value = BTreeMap<String, String>> {
        let keys = [
            tags::CLUSTER_UID,
            tags::LAUNCH_TOKEN,
            tags::NODE_CLAIM,
            tags::NODE_POOL,
            tags::CLUSTER_NAME,
            "kubernetes.io/cluster/demo",
            "Name",
        ];
        let tokens = ["uid-a", "uid-b"].map(|uid| launch_token([uid], 1));
        let values = ["us", "them", "demo", "owned", "a", "b", "", "default"].map(str::to_owned);
        let values: Vec<String> = values.into_iter().chain(tokens).collect();
        prop::collection::btree_map(
            prop::sample::select(keys.to_vec()).prop_map(str::to_owned),
            prop::sample::select(values),
            0..7,
        )
    }

    proptest! {
        #[test]
        fn an_instance_is_at_most_one_claims(own in some_tags(), adopts: bool) {
            let owners = ["a", "b", "c"].into_iter().filter(|name| judged(adopts, &own, &claim(name)).is_ok());
            prop_assert!(owners.count() <= 1, "{own:?}");
        }

        #[test]
        fn what_is_ours_says_which_cluster_and_which_claim(own in some_tags(), adopts: bool) {
            if let Ok(maker) = judged(adopts, &own, &claim("a")) {
                let uid = own.get(tags::CLUSTER_UID).filter(|uid| !uid.is_empty());
                match maker {
                    Maker::Dovetail => prop_assert_eq!(uid.map(String::as_str), Some("us")),
                    Maker::Karpenter => {
                        prop_assert!(adopts && uid.is_none());
                        prop_assert_eq!(own.get("kubernetes.io/cluster/demo").map(String::as_str), Some("owned"));
                    }
                }
                let token = launch_token(["uid-a"], 1);
                let says = [own.get(tags::NODE_CLAIM), own.get(tags::LAUNCH_TOKEN)];
                prop_assert!(says.into_iter().flatten().any(|said| *said == "a" || *said == token));
            }
        }

        #[test]
        fn what_is_written_on_a_claim_changes_nothing(own in some_tags(), id in "[a-z0-9-]{1,12}", token in ".{0,40}") {
            let mut written = claim("a");
            written.metadata.annotations = Some([(LAUNCH_TOKEN.to_owned(), token)].into());
            written.metadata.labels = Some([("karpenter.sh/nodepool".to_owned(), "default".to_owned())].into());
            written.status.get_or_insert_default().provider_id = format!("aws:///us-east-1a/i-{id}");
            prop_assert_eq!(judged(false, &own, &written), judged(false, &own, &claim("a")));
        }
    }
}
