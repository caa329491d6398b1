//! Which instance families share one of EC2's vCPU quotas.

use std::fmt;

/// The instance families of one quota of EC2, on demand and as spot alike ("Amazon EC2 service quotas").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuotaGroup {
    /// A, C, D, H, I, M, R, T and Z.
    Standard,
    /// F.
    F,
    /// G and VT.
    GAndVt,
    /// P.
    P,
    /// X.
    X,
    /// Inf.
    Inf,
    /// Trn.
    Trn,
    /// DL.
    Dl,
    /// HPC.
    Hpc,
    /// U: high memory.
    HighMemory,
    /// A family that is none of these: what is known of one of them says nothing of the others by name.
    Other,
}

/// All of them with their names.
const NAMES: [(QuotaGroup, &str); 11] = [
    (QuotaGroup::Standard, "Standard"),
    (QuotaGroup::F, "F"),
    (QuotaGroup::GAndVt, "G and VT"),
    (QuotaGroup::P, "P"),
    (QuotaGroup::X, "X"),
    (QuotaGroup::Inf, "Inf"),
    (QuotaGroup::Trn, "Trn"),
    (QuotaGroup::Dl, "DL"),
    (QuotaGroup::Hpc, "HPC"),
    (QuotaGroup::HighMemory, "High Memory"),
    (QuotaGroup::Other, "other"),
];

impl QuotaGroup {
    /// The group of an instance type, `m5.large`.
    #[must_use]
    pub fn from_instance_type(instance_type: &str) -> Self {
        let end = instance_type.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(instance_type.len());
        match &instance_type[..end] {
            "inf" => Self::Inf,
            "trn" => Self::Trn,
            "dl" => Self::Dl,
            "hpc" => Self::Hpc,
            "vt" => Self::GAndVt,
            "u" => Self::HighMemory,
            "mac" => Self::Other,
            family => match family.as_bytes().first() {
                Some(b'a' | b'c' | b'd' | b'h' | b'i' | b'm' | b'r' | b't' | b'z') => Self::Standard,
                Some(b'f') => Self::F,
                Some(b'g') => Self::GAndVt,
                Some(b'p') => Self::P,
                Some(b'x') => Self::X,
                _ => Self::Other,
            },
        }
    }

    /// Its name, as EC2's quotas have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(group, _)| *group == self).map_or("other", |(_, name)| name)
    }

    /// The group of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(group, _)| *group)
    }
}

impl fmt::Display for QuotaGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_share_the_quotas_of_ec2() {
        let groups = [
            ("m5.large", QuotaGroup::Standard),
            ("c7gn.xlarge", QuotaGroup::Standard),
            ("im4gn.large", QuotaGroup::Standard),
            ("is4gen.large", QuotaGroup::Standard),
            ("i4i.metal", QuotaGroup::Standard),
            ("z1d.large", QuotaGroup::Standard),
            ("inf2.xlarge", QuotaGroup::Inf),
            ("trn1n.32xlarge", QuotaGroup::Trn),
            ("dl1.24xlarge", QuotaGroup::Dl),
            ("hpc7g.4xlarge", QuotaGroup::Hpc),
            ("g5g.xlarge", QuotaGroup::GAndVt),
            ("gr6.4xlarge", QuotaGroup::GAndVt),
            ("vt1.3xlarge", QuotaGroup::GAndVt),
            ("p4d.24xlarge", QuotaGroup::P),
            ("x2idn.16xlarge", QuotaGroup::X),
            ("u-6tb1.metal", QuotaGroup::HighMemory),
            ("u7i-12tb.224xlarge", QuotaGroup::HighMemory),
            ("f1.2xlarge", QuotaGroup::F),
            ("mac2.metal", QuotaGroup::Other),
            ("", QuotaGroup::Other),
            ("ä1.large", QuotaGroup::Other),
        ];
        for (name, group) in groups {
            assert_eq!(QuotaGroup::from_instance_type(name), group, "{name}");
        }
    }

    #[test]
    fn a_group_is_found_by_its_name() {
        for (group, name) in NAMES {
            assert_eq!((QuotaGroup::named(name), group.name()), (Some(group), name));
        }
        assert_eq!(QuotaGroup::named("standard"), None);
    }
}
