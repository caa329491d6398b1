//! Meaning of a scenario's `faults.ec2` for the account: quotas, addresses, permissions, and errors by their codes.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::unavailable::QuotaGroup;
use dovetail_sandbox::faults::{Ec2Faults, InjectedError};
use dovetail_sandbox::region::ACTIONS;
use serde_saphyr::Spanned;

use super::check::Checker;
use crate::scenario::{duration, faults};

/// Actions that the region carries out for others: no replica calls them, so that a fault of theirs would befall nobody.
const NEVER_CALLED: [&str; 15] = [
    "AssumeRoleWithWebIdentity",
    "ChangeMessageVisibility",
    "CreateQueue",
    "CreateServiceLinkedRole",
    "DeleteMessage",
    "DescribeAvailabilityZones",
    "DescribeLaunchTemplateVersions",
    "DescribeVpcs",
    "GetCallerIdentity",
    "GetParameters",
    "GetQueueAttributes",
    "GetRole",
    "ListClusters",
    "SendMessage",
    "TagInstanceProfile",
];

impl Checker<'_> {
    pub(super) fn account_faults(
        &mut self,
        written: &faults::ScenarioEc2Faults,
        catalogue: Option<&RegionCatalogue>,
    ) -> Ec2Faults {
        Ec2Faults {
            sold_out_share: self.rate("faults.ec2.soldOutShare", written.sold_out_share.as_ref()),
            vcpu_quotas: self.quotas(&written.vcpu_quotas),
            subnet_addresses: self.addresses(&written.subnet_addresses, catalogue),
            unauthorized: self.actions(&written.unauthorized),
            no_spot_role: written.no_spot_role,
            request_limits: written.request_limits,
            silent_fleets: self.rate("faults.ec2.silentFleets", written.silent_fleets.as_ref()),
            untold_fleets: self.rate("faults.ec2.untoldFleets", written.untold_fleets.as_ref()),
            errors: written.errors.iter().enumerate().map(|(at, one)| self.error(at, one, catalogue)).collect(),
            ..Ec2Faults::default()
        }
    }

    /// Time for which requests are throttled; of no effect where none are.
    pub(super) fn throttle_for(&mut self, written: &faults::ScenarioEc2Faults) -> Option<Duration> {
        let text = written.throttle_for.as_ref()?;
        if written.throttle_rate.as_ref().is_none_or(|rate| rate.value == 0.0) {
            let what = "no request is throttled: it changes nothing";
            self.mistake("faults.ec2.throttleFor", text, what, "a throttleRate above 0, or no throttleFor");
        }
        self.collect(duration(self.path, "faults.ec2.throttleFor", text))
    }

    fn quotas(&mut self, written: &BTreeMap<String, Spanned<u32>>) -> BTreeMap<String, u32> {
        for (key, vcpus) in written {
            let (group, market) = key.rsplit_once('/').unwrap_or((key, ""));
            if QuotaGroup::named(group).is_none() || !["on-demand", "spot"].contains(&market) {
                let allowed = "a family group and a capacity type, such as Standard/on-demand or G and VT/spot";
                self.mistake(format!("faults.ec2.vcpuQuotas.{key}"), vcpus, "is no quota of EC2", allowed);
            }
        }
        written.iter().map(|(key, vcpus)| (key.clone(), vcpus.value)).collect()
    }

    fn addresses(
        &mut self,
        written: &BTreeMap<String, Spanned<u32>>,
        catalogue: Option<&RegionCatalogue>,
    ) -> BTreeMap<String, u32> {
        let zones: Vec<&str> = catalogue.iter().flat_map(|one| &one.zones).map(|zone| zone.name.as_str()).collect();
        for (zone, count) in written.iter().filter(|(zone, _)| !zones.is_empty() && !zones.contains(&zone.as_str())) {
            let field = format!("faults.ec2.subnetAddresses.{zone}");
            self.mistake(field, count, "is no zone of the region", zones.join(", "));
        }
        written.iter().map(|(zone, count)| (zone.clone(), count.value)).collect()
    }

    fn actions(&mut self, written: &[Spanned<String>]) -> Vec<String> {
        for (at, action) in written.iter().enumerate() {
            self.action_of_ec2(&format!("faults.ec2.unauthorized[{at}]"), action);
        }
        written.iter().map(|action| action.value.clone()).collect()
    }

    fn action_of_ec2(&mut self, field: &str, action: &Spanned<String>) {
        let name = action.value.as_str();
        let called: Vec<&str> = ACTIONS.into_iter().filter(|one| !NEVER_CALLED.contains(one)).collect();
        if NEVER_CALLED.contains(&name) {
            self.mistake(field, action, format!("no replica calls {name}: it changes nothing"), called.join(", "));
        } else if !called.contains(&name) {
            let what = format!("{name:?} is no action that the region carries out");
            self.mistake(field, action, what, called.join(", "));
        } else {
            self.calls_for_queue(field, action);
        }
    }

    fn error(
        &mut self,
        at: usize,
        written: &faults::ScenarioInjectedError,
        catalogue: Option<&RegionCatalogue>,
    ) -> InjectedError {
        let field = format!("faults.ec2.errors[{at}]");
        match (&written.action, &written.offerings) {
            (Some(action), None) => self.action_of_ec2(&format!("{field}.action"), action),
            (None, Some(glob)) => self.offering(&format!("{field}.offerings"), glob, catalogue),
            (Some(_), Some(_)) | (None, None) => {
                let allowed = "either action, such as CreateFleet, or offerings, such as */*/spot";
                self.mistake(field.clone(), &written.code, "does not say what is refused", allowed);
            }
        }
        if written.times == Some(0) {
            self.mistake(format!("{field}.times"), &written.code, "is 0: it befalls no call", "1 or more, or nothing");
        }
        let text = |text: &Option<Spanned<String>>| text.as_ref().map(|text| text.value.clone()).unwrap_or_default();
        InjectedError {
            code: written.code.value.clone(),
            message: written.message.clone(),
            action: text(&written.action),
            offerings: text(&written.offerings),
            times: written.times,
        }
    }
}
