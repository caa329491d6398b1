//! The image of a node class that an instance type takes (aws spec 1.2).

use dovetail_api::v1::Ami;

use crate::instance_type::InstanceType;
use crate::requirements::{NodeSelectorRequirement, Requirements};

/// The images that a node class has resolved to, each with its requirements on the instance type.
#[derive(Debug)]
pub struct ResolvedImages<'a>(Vec<(&'a Ami, Requirements)>);

impl<'a> ResolvedImages<'a> {
    /// Reads the images' requirements. An image whose requirements make no sense is for no type.
    #[must_use]
    pub fn from_amis(amis: &'a [Ami]) -> Self {
        let read = |ami: &'a Ami| {
            let wanted: Result<Vec<_>, _> = ami.requirements.iter().map(NodeSelectorRequirement::from_kube).collect();
            Some((ami, Requirements::from_written(&wanted.ok()?).ok()?))
        };
        Self(amis.iter().filter_map(read).collect())
    }

    /// The first whose requirements agree with the type.
    #[must_use]
    pub fn fitting(&self, instance_type: &InstanceType) -> Option<&'a Ami> {
        let spoken_of = |key: &str| self.0.iter().any(|(_, wanted)| wanted.get(key).is_some());
        let own = instance_type.requirements.iter().filter(|one| spoken_of(&one.key));
        let own = Requirements::from_written(own).ok()?;
        self.0.iter().find(|(_, wanted)| own.intersects(wanted).is_ok()).map(|(ami, _)| *ami)
    }
}
