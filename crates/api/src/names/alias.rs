//! Old spellings of labels. Requirements and selectors are normalised before anything looks at them.

use super::labels;

/// Old spelling, stable spelling.
pub const ALIASES: &[(&str, &str)] = &[
    ("failure-domain.beta.kubernetes.io/zone", labels::ZONE),
    ("failure-domain.beta.kubernetes.io/region", labels::REGION),
    ("beta.kubernetes.io/arch", labels::ARCH),
    ("beta.kubernetes.io/os", labels::OS),
    ("beta.kubernetes.io/instance-type", labels::INSTANCE_TYPE),
    ("node.k8s.aws/instance-type", labels::INSTANCE_TYPE),
    ("topology.ebs.csi.aws.com/zone", labels::ZONE),
];

/// The stable spelling of a label.
///
/// ```
/// use dovetail_api::names::{alias::normalize, labels};
/// assert_eq!(normalize("node.k8s.aws/instance-type"), labels::INSTANCE_TYPE);
/// assert_eq!(normalize("team"), "team");
/// ```
pub fn normalize(key: &str) -> &str {
    ALIASES.iter().find(|(old, _)| *old == key).map_or(key, |(_, stable)| stable)
}
