//! EC2's part on the console of the sandbox: it takes spot nodes back, zones fail or are sold out, quotas and prices change. They
//! are the faults that scenarios use.

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use dovetail_input::Failure;
use dovetail_sandbox::faults::{FaultSettings, SpotRise};
use dovetail_simulation::{Action, World};
use serde_json::{Value, json};

/// Path of the requests.
pub const PATH: &str = "/sandbox/ec2";
/// Time for which a zone is down.
const ZONE_DOWN_FOR: Duration = Duration::from_secs(600);
/// Largest quota of vCPUs that may be set.
const MOST_VCPUS: u32 = 100_000;
/// Bounds of the factor by which spot prices change.
const TIMES: std::ops::RangeInclusive<f64> = 0.1..=20.0;

/// A request of the page, read.
#[derive(Debug, PartialEq)]
enum Asked {
    Interrupt {
        node: String,
    },
    ZoneDown {
        zone: String,
    },
    SoldOut {
        zone: String,
    },
    ZoneUp {
        zone: String,
    },
    /// Most vCPUs of the standard families; `None` lifts the quota.
    Quota {
        capacity: &'static str,
        vcpus: Option<u32>,
    },
    /// Multiple of the first spot price of a type, `*` for all; `None` for the prices as they were.
    Price {
        change: Option<(String, f64)>,
    },
}

/// Does it, and says what follows.
///
/// # Errors
/// It is not understood, or the region refuses it: the reason, as a sentence.
pub fn act(world: &Rc<World>, query: &str) -> Result<String, String> {
    let zones: Vec<String> = world.region.zones().into_iter().map(|zone| zone.name).collect();
    let asked = parse_request(query, &zones)?;
    let faults = world.region.faults();
    // The page's own words for it are a step among the decisions, as in a scenario.
    let step = |text: &str| world.timeline.step(text);
    let change = |what: &str, change: &dyn Fn(&mut FaultSettings)| {
        faults.change(|all| change(all));
        step(what);
        what.to_owned()
    };
    let said = match asked {
        Asked::Interrupt { node } => {
            by_step(world, &Action::InterruptNode { node: node.clone() })?;
            format!("EC2 takes {node} back in two minutes: its pods get other places before that")
        }
        Asked::ZoneDown { zone } => {
            by_step(world, &Action::ZoneDown { zone: zone.clone(), duration: Some(ZONE_DOWN_FOR) })?;
            let minutes = ZONE_DOWN_FOR.as_secs() / 60;
            format!("{zone} is down for {minutes} minutes: its kubelets fall silent, and nothing is launched there")
        }
        Asked::SoldOut { zone } => change(&format!("{zone} is sold out"), &|all| {
            let glob = sold_out_in(&zone);
            let globs = &mut all.ec2.insufficient_capacity;
            globs.retain(|one| *one != glob);
            globs.push(glob);
        }),
        Asked::ZoneUp { zone } => {
            world.region.set_zone_down(&zone, false);
            change(&format!("{zone} is up and has everything again"), &|all| {
                let glob = sold_out_in(&zone);
                all.ec2.insufficient_capacity.retain(|one| *one != glob);
            })
        }
        Asked::Quota { capacity, vcpus: Some(vcpus) } => {
            change(&format!("the quota of {capacity} instances of the standard families is {vcpus} vCPUs"), &|all| {
                all.ec2.vcpu_quotas.insert(quota_of(capacity), vcpus);
            })
        }
        Asked::Quota { capacity, vcpus: None } => {
            change(&format!("there is no quota of {capacity} instances"), &|all| {
                all.ec2.vcpu_quotas.remove(&quota_of(capacity));
            })
        }
        Asked::Price { change: Some((name, times)) } => {
            let types = if name == "*" { vec![] } else { vec![name.clone()] };
            let rise = SpotRise { types, times, within: Duration::ZERO };
            let of = if name == "*" { "all types".to_owned() } else { name };
            change(
                &format!("spot prices of {of} are {times} times as high; Dovetail reads prices within a minute"),
                &|all| {
                    all.ec2.spot_rise = Some(rise.clone());
                },
            )
        }
        Asked::Price { change: None } => change("spot prices are as they were", &|all| all.ec2.spot_rise = None),
    };
    Ok(said)
}

fn by_step(world: &Rc<World>, action: &Action) -> Result<(), String> {
    world.act(action, &|_| Ok(Vec::new())).map_err(|failure| match failure {
        Failure::System(why) => why,
        Failure::Input(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Failure::Outcome => "it did not come out well".to_owned(),
    })
}

fn sold_out_in(zone: &str) -> String {
    format!("*/{zone}/*")
}

fn quota_of(capacity: &str) -> String {
    format!("Standard/{capacity}")
}

/// The region as far as the page may change it.
pub fn state(world: &World) -> Value {
    let faults = world.region.faults();
    let settings = faults.settings();
    let zones: Vec<(String, bool)> =
        world.region.zones().into_iter().map(|zone| (zone.name.clone(), faults.zone_is_down(&zone.name))).collect();
    let mut now: Vec<String> =
        zones.iter().filter(|(_, down)| *down).map(|(zone, _)| format!("zone {zone} is down")).collect();
    now.extend(settings.ec2.insufficient_capacity.iter().map(|glob| format!("{glob} is sold out")));
    now.extend(settings.ec2.vcpu_quotas.iter().map(|(of, vcpus)| format!("quota of {of}: {vcpus} vCPUs")));
    now.extend(settings.ec2.spot_rise.iter().map(|rise| {
        let of = if rise.types.is_empty() { "all types".to_owned() } else { rise.types.join(", ") };
        format!("spot prices of {of} are {} times as high", rise.times)
    }));
    json!({"zones": zones, "now": now})
}

fn parse_request(query: &str, zones: &[String]) -> Result<Asked, String> {
    let all: Vec<(Cow<'_, str>, Cow<'_, str>)> = form_urlencoded::parse(query.as_bytes()).collect();
    let field = |key: &str| all.iter().find(|(name, _)| name == key).map_or("", |(_, value)| &**value);
    let zone = || {
        let named = field("zone");
        zones.iter().find(|zone| *zone == named).cloned().ok_or_else(|| format!("the zones are {}", zones.join(", ")))
    };
    let capacity = || match field("capacity") {
        "on-demand" => Ok("on-demand"),
        "spot" => Ok("spot"),
        _ => Err("capacity is on-demand or spot".to_owned()),
    };
    Ok(match field("do") {
        "interrupt" if field("node").is_empty() => return Err("there is no spot node to take back".to_owned()),
        "interrupt" => Asked::Interrupt { node: field("node").to_owned() },
        "zone-down" => Asked::ZoneDown { zone: zone()? },
        "sold-out" => Asked::SoldOut { zone: zone()? },
        "zone-up" => Asked::ZoneUp { zone: zone()? },
        "quota" => {
            let vcpus = field("vcpus").parse::<u32>().ok().filter(|vcpus| *vcpus <= MOST_VCPUS);
            let vcpus = vcpus.ok_or_else(|| format!("vcpus is a number from 0 to {MOST_VCPUS}"))?;
            Asked::Quota { capacity: capacity()?, vcpus: Some(vcpus) }
        }
        "no-quota" => Asked::Quota { capacity: capacity()?, vcpus: None },
        "price" => {
            let times: Option<f64> = field("times").parse().ok().filter(|times| TIMES.contains(times));
            let times = times.ok_or_else(|| format!("times is a number from {} to {}", TIMES.start(), TIMES.end()))?;
            let name = field("type");
            let plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '.');
            if name.is_empty() || (name != "*" && !name.chars().all(plain)) {
                return Err("type is an instance type, or * for all".to_owned());
            }
            Asked::Price { change: Some((name.to_owned(), times)) }
        }
        "no-price" => Asked::Price { change: None },
        _ => return Err("do is interrupt, zone-down, sold-out, zone-up, quota, no-quota, price or no-price".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(query: &str) -> Result<Asked, String> {
        parse_request(query, &["us-east-1a".to_owned()])
    }

    #[test]
    fn requests_of_the_page_are_read_within_bounds() {
        let zone = "us-east-1a".to_owned();
        assert_eq!(asked("do=zone-down&zone=us-east-1a"), Ok(Asked::ZoneDown { zone }));
        let quota = Asked::Quota { capacity: "spot", vcpus: Some(64) };
        assert_eq!(asked("do=quota&capacity=spot&vcpus=64"), Ok(quota));
        assert_eq!(asked("do=price&type=*&times=2.5"), Ok(Asked::Price { change: Some(("*".to_owned(), 2.5)) }));
        let refused = [
            "",
            "do=reboot",
            "do=zone-down&zone=mars",
            "do=interrupt",
            "do=quota&capacity=spot&vcpus=-1",
            "do=quota&capacity=spot&vcpus=100001",
            "do=quota&capacity=gold&vcpus=1",
            "do=price&type=m5.large&times=NaN",
            "do=price&type=m5.large&times=1e9",
            "do=price&type=%3Cb%3E&times=2",
        ];
        for query in refused {
            assert!(asked(query).is_err(), "{query}");
        }
    }
}
