//! The annotations that ask for a split, as they are written.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::{ON_DEMAND_BASE, SPOT_SHARE};
use dovetail_api::validation::own::{ALLOWED_BASE, ALLOWED_SHARE, on_demand_base, percent};

use super::SpotShare;

/// Most characters of an annotation's value that are repeated to its user.
const LONGEST_VALUE: usize = 60;

/// The split that an object's annotations ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WrittenShare {
    /// None is asked for.
    #[default]
    Unset,
    Share(SpotShare),
    /// A value cannot be read: it counts as if no annotation were there. The sentence names the annotation and what is allowed.
    Wrong(String),
}

impl WrittenShare {
    /// Reads the annotations of a pod or a NodePool. Without a base it is 0, without a share 100%.
    #[must_use]
    pub fn from_annotations(own: &BTreeMap<String, String>) -> Self {
        let (base, share) = (own.get(ON_DEMAND_BASE), own.get(SPOT_SHARE));
        if base.is_none() && share.is_none() {
            return Self::Unset;
        }
        let Some(base_read) = base.map_or(Some(0), |text| on_demand_base(text)) else {
            return Self::refused(ON_DEMAND_BASE, base, ALLOWED_BASE);
        };
        match share.map_or(Some(100), |text| percent(text)) {
            Some(percent) => Self::Share(SpotShare { base: base_read, percent }),
            None => Self::refused(SPOT_SHARE, share, ALLOWED_SHARE),
        }
    }

    fn refused(key: &str, value: Option<&String>, allowed: &str) -> Self {
        let said: String = value.map(String::as_str).unwrap_or_default().chars().take(LONGEST_VALUE).collect();
        Self::Wrong(format!("annotation {key} is {said:?} and counts as nothing (allowed: {allowed})"))
    }

    /// True if an annotation is there, whether or not it can be read.
    #[must_use]
    pub fn is_written(&self) -> bool {
        *self != Self::Unset
    }

    /// The mistake in it, as a sentence without its end.
    #[must_use]
    pub fn wrong(&self) -> Option<&str> {
        match self {
            Self::Wrong(why) => Some(why),
            Self::Unset | Self::Share(_) => None,
        }
    }

    /// The split, where it can be read.
    #[must_use]
    pub fn share(&self) -> Option<SpotShare> {
        match self {
            Self::Share(share) => Some(*share),
            Self::Unset | Self::Wrong(_) => None,
        }
    }
}
