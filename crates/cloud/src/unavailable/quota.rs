//! Groups of instance families that share one of EC2's vCPU quotas.

use std::fmt;

use dovetail_api::names::labels::SPOT;

use crate::info::category;

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

/// Names of EC2's quotas of vCPUs in Service Quotas, with their codes: on demand, then as spot.
const QUOTAS: [(QuotaGroup, &str, &str); 10] = [
    (
        QuotaGroup::Standard,
        "vCPU quota of Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances, L-1216C47A, used up",
        "vCPU quota of All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests, L-34B43A08, used up",
    ),
    (
        QuotaGroup::F,
        "vCPU quota of Running On-Demand F instances, L-74FC7D96, used up",
        "vCPU quota of All F Spot Instance Requests, L-88CF9481, used up",
    ),
    (
        QuotaGroup::GAndVt,
        "vCPU quota of Running On-Demand G and VT instances, L-DB2E81BA, used up",
        "vCPU quota of All G and VT Spot Instance Requests, L-3819A6DF, used up",
    ),
    (
        QuotaGroup::P,
        "vCPU quota of Running On-Demand P instances, L-417A185B, used up",
        "vCPU quota of All P Spot Instance Requests, L-7212CCBC, used up",
    ),
    (
        QuotaGroup::X,
        "vCPU quota of Running On-Demand X instances, L-7295265B, used up",
        "vCPU quota of All X Spot Instance Requests, L-E3A00192, used up",
    ),
    (
        QuotaGroup::Inf,
        "vCPU quota of Running On-Demand Inf instances, L-1945791B, used up",
        "vCPU quota of All Inf Spot Instance Requests, L-B5D1601B, used up",
    ),
    (
        QuotaGroup::Trn,
        "vCPU quota of Running On-Demand Trn instances, L-2C3B7624, used up",
        "vCPU quota of All Trn Spot Instance Requests, L-6B0D517C, used up",
    ),
    (
        QuotaGroup::Dl,
        "vCPU quota of Running On-Demand DL instances, L-6E869C2A, used up",
        "vCPU quota of All DL Spot Instance Requests, L-85EED4F7, used up",
    ),
    (
        QuotaGroup::Hpc,
        "vCPU quota of Running On-Demand HPC instances, L-F7808C92, used up",
        "vCPU quota of spot instances of the HPC families used up",
    ),
    (
        QuotaGroup::HighMemory,
        "vCPU quota of Running On-Demand High Memory instances, L-43DA4232, used up",
        "vCPU quota of spot instances of the High Memory families used up",
    ),
];

impl QuotaGroup {
    /// That its quota of a capacity type is used up, in words that name the quota as Service Quotas does.
    #[must_use]
    pub fn used_up(self, capacity_type: &str) -> &'static str {
        let spot = capacity_type == SPOT;
        match QUOTAS.iter().find(|(group, ..)| *group == self) {
            Some((_, _, as_spot)) if spot => as_spot,
            Some((_, on_demand, _)) => on_demand,
            None if spot => "a vCPU quota of spot instances used up",
            None => "a vCPU quota of on-demand instances used up",
        }
    }

    /// The code of its quota of a capacity type in Service Quotas, `L-1216C47A`; none where it is not known.
    #[must_use]
    pub fn code(self, capacity_type: &str) -> Option<&'static str> {
        self.used_up(capacity_type).split(", ").find(|part| part.starts_with("L-"))
    }

    /// The group of an instance type, `m5.large`.
    #[must_use]
    pub fn from_instance_type(instance_type: &str) -> Self {
        match category(instance_type) {
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
    fn quota_that_is_used_up_is_named_with_its_code() {
        let g = QuotaGroup::from_instance_type("g5.xlarge");
        assert_eq!(g.used_up("on-demand"), "vCPU quota of Running On-Demand G and VT instances, L-DB2E81BA, used up");
        assert!(g.used_up("spot").contains("L-3819A6DF") && g.used_up("spot").contains("Spot"));
        assert_eq!((g.code("on-demand"), g.code("spot")), (Some("L-DB2E81BA"), Some("L-3819A6DF")));
        assert_eq!((QuotaGroup::Hpc.code("spot"), QuotaGroup::Other.code("on-demand")), (None, None));
        for (group, on_demand, spot) in QUOTAS {
            assert!(on_demand.contains("On-Demand") && on_demand.contains(", L-"), "{group}");
            assert!(spot.to_lowercase().contains("spot"), "{group}");
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
