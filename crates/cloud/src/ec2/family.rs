//! AMI families: what an operating system image means for disks, pods and memory (karpenter-aws 3.2, 3.3, 4.7).

use std::fmt;

/// Gibibyte, in bytes.
pub const GIB: i64 = 1 << 30;

/// Family of an image, which decides the form of its user data, its disks and its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmiFamily {
    /// Amazon Linux 2: `/etc/eks/bootstrap.sh`.
    Al2,
    /// Amazon Linux 2023: nodeadm.
    #[default]
    Al2023,
    /// Bottlerocket: TOML settings.
    Bottlerocket,
    /// The user's own image and user data.
    Custom,
    /// Windows Server 2019 Core.
    Windows2019,
    /// Windows Server 2022 Core.
    Windows2022,
    /// Windows Server 2025 Core.
    Windows2025,
}

/// A volume that the family has unless the node class says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultVolume {
    /// `/dev/xvda`.
    pub device: &'static str,
    /// Size in GiB.
    pub gib: i64,
}

impl AmiFamily {
    /// The family of `amiFamily` or of an alias (`al2023@latest`), whatever the case; `None` for an unknown one.
    pub fn parse(text: &str) -> Option<Self> {
        let name = text.split_once('@').map_or(text, |(family, _)| family);
        Self::ALL.into_iter().find(|f| f.as_str().eq_ignore_ascii_case(name))
    }

    /// All families.
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Custom,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
    ];

    /// As `amiFamily` writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Custom => "Custom",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
        }
    }

    /// Runs Windows.
    pub fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// The value of `node.kubernetes.io/windows-build`.
    pub fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    /// Pods are counted by network interfaces; otherwise 110.
    pub fn eni_limited_pods(self) -> bool {
        !self.is_windows()
    }

    /// Memory for the system follows what the interfaces could carry, even where maxPods says less.
    pub fn eni_limited_memory(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// `podsPerCore` counts.
    pub fn supports_pods_per_core(self) -> bool {
        self != Self::Bottlerocket
    }

    /// The volumes that an instance gets when the node class names none (all gp3, encrypted).
    pub fn default_volumes(self) -> &'static [DefaultVolume] {
        match self {
            Self::Al2 | Self::Al2023 => &[DefaultVolume { device: "/dev/xvda", gib: 20 }],
            Self::Bottlerocket => {
                &[DefaultVolume { device: "/dev/xvda", gib: 4 }, DefaultVolume { device: "/dev/xvdb", gib: 20 }]
            }
            Self::Custom => &[],
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => {
                &[DefaultVolume { device: "/dev/sda1", gib: 50 }]
            }
        }
    }

    /// The device on which pods' local storage lies.
    pub fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Custom => None,
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
        }
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::AmiFamily;

    #[test]
    fn an_alias_names_its_family_in_lower_case() {
        assert_eq!(AmiFamily::parse("al2023@v20240807"), Some(AmiFamily::Al2023));
        assert_eq!(AmiFamily::parse("bottlerocket@latest"), Some(AmiFamily::Bottlerocket));
        assert_eq!(AmiFamily::parse("Windows2022"), Some(AmiFamily::Windows2022));
        assert_eq!(AmiFamily::parse("ubuntu"), None);
    }
}
