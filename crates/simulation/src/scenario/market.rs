//! Spot prices and spot pools of a scenario.

use std::collections::BTreeMap;

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_sandbox::faults::{SpotPool, SpotRise, glob_matches};
use serde_saphyr::Spanned;

use super::check::Checker;
use super::{Interrupt, Step, faults};
use crate::scenario::duration;
use crate::world::Action;

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

    /// Spot pools that differ from the model, with what is wrong about them said.
    pub(super) fn spot_pools(
        &mut self,
        written: &BTreeMap<String, Spanned<faults::ScenarioSpotPool>>,
        catalogue: Option<&RegionCatalogue>,
    ) -> BTreeMap<String, SpotPool> {
        for (name, pool) in written {
            let field = format!("faults.ec2.spotPools.{name}");
            self.spot_pool(&field, name, pool, catalogue);
            let times = pool.value.times;
            if !(times.is_finite() && times > 0.0) {
                self.mistake(format!("{field}.times"), pool, format!("{times} is no price"), "a number above 0");
            }
        }
        let pool = |one: &faults::ScenarioSpotPool| SpotPool { times: one.times, depth: one.depth };
        written.iter().map(|(name, one)| (name.clone(), pool(&one.value))).collect()
    }

    /// A step that interrupts a pool, with what is wrong about it said.
    pub(super) fn interrupt_pool(
        &mut self,
        field: &str,
        step: &Step,
        which: &Interrupt,
        catalogue: Option<&RegionCatalogue>,
    ) -> Option<Action> {
        let name = which.pool.as_ref()?;
        self.spot_pool(&format!("{field}.interrupt.pool"), &name.value, &step.at, catalogue);
        let duration = self.time(&format!("{field}.interrupt.for"), which.duration.as_ref())?;
        Some(Action::InterruptPool { pool: name.value.clone(), duration: duration.unwrap_or_default() })
    }

    /// The name of a spot pool, `type/zone`; it has to be one of the region's.
    fn spot_pool<T>(&mut self, field: &str, name: &str, place: &Spanned<T>, catalogue: Option<&RegionCatalogue>) {
        let key = name.split_once('/').map(|(of_type, zone)| (of_type.to_owned(), zone.to_owned()));
        if catalogue.is_none_or(|catalogue| key.is_some_and(|key| catalogue.spot.contains_key(&key))) {
            return;
        }
        let what = format!("{name:?} is no spot pool of the region");
        self.mistake(field, place, what, "an instance type that can be spot in a zone, such as m5.large/us-east-1a");
    }
}
