//! Changes of spot prices in a scenario.

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_sandbox::faults::{SpotRise, glob_matches};

use super::check::Checker;
use super::faults;
use crate::scenario::duration;

impl Checker<'_> {
    /// Spot prices that rise, with what is wrong about them said.
    pub(super) fn spot_rise(
        &mut self,
        written: &faults::ScenarioSpotRise,
        catalogue: Option<&RegionCatalogue>,
    ) -> SpotRise {
        for (number, glob) in written.types.iter().enumerate() {
            let known =
                |catalogue: &RegionCatalogue| catalogue.types.iter().any(|one| glob_matches(&glob.value, &one.name));
            if catalogue.is_some_and(|catalogue| !known(catalogue)) {
                let what = format!("{:?} is none of the region's instance types", glob.value);
                let field = format!("faults.ec2.spotRise.types[{number}]");
                self.mistake(field, glob, what, "globs of EC2 types of the region, such as m5.*");
            }
        }
        let times = written.times.value;
        if !(times.is_finite() && times > 0.0) {
            let what = format!("{times} is no price");
            self.mistake("faults.ec2.spotRise.times", &written.times, what, "a number above 0, such as 2");
        }
        let within = duration(self.path, "faults.ec2.spotRise.within", &written.within);
        SpotRise {
            types: written.types.iter().map(|glob| glob.value.clone()).collect(),
            times,
            within: self.collect(within).unwrap_or_default(),
        }
    }
}
