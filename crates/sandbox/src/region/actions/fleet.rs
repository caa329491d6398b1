//! CreateFleet, of type `instant`: pools in the order of the allocation strategy, until the target is met.

use serde_json::Value;

use crate::region::instance::CapacityType;
use crate::region::launch::{Ready, Spec};
use crate::region::state::RegionState;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;
use crate::region::{Cx, actions::tags, ids};

/// A pool that a fleet may draw from: a template with one of its overrides.
struct Pool {
    template_id: String,
    template_name: String,
    over: FormNode,
    spec: Spec,
    /// $/h; without a price the pool comes last, and is refused when it is tried.
    price: f64,
    priority: f64,
}

/// Instances launched and errors met, by the pools that were tried.
#[derive(Default)]
struct Outcome {
    launched: Vec<(usize, Vec<String>)>,
    refused: Vec<(usize, AwsError)>,
}

/// CreateFleet.
pub(crate) fn create(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let wanted = Wanted::from_form(form)?;
    // First of all: what was answered once is answered again, even if the template is gone by now.
    if let Some(answer) = cx.answered("CreateFleet", form)? {
        cx.notes.push(("repeated", Value::from(true)));
        return Ok(answer);
    }
    let mut groups = Vec::new();
    for (capacity, count) in [(CapacityType::OnDemand, wanted.on_demand), (CapacityType::Spot, wanted.spot)] {
        if count > 0 {
            groups.push((capacity, count, pools(cx, form, capacity)?));
        }
    }
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    let token = form.text("ClientToken");
    let silence = Silence::draw(cx, token.unwrap_or_default());
    if silence == Some(Silence::Nothing) {
        groups.clear();
        cx.notes.extend([("instances", Value::Array(Vec::new())), ("errors", Value::Array(Vec::new()))]);
    }
    cx.state.refused_now = cx.faults.errors_of_fleet();
    let fleet = fleet_id(cx);
    let mut xml = Xml::new();
    xml.text("fleetId", &fleet);
    let (mut errors, mut instances) = (Xml::new(), Xml::new());
    for (capacity, count, mut pools) in groups {
        let strategy = Strategy::from_form(form, capacity)?;
        strategy.sort(cx, &mut pools);
        for pool in &mut pools {
            pool.spec.tags.extend(by_ec2(&fleet, &pool.template_id));
        }
        let least = options(form, capacity).number("MinTargetCapacity")?.unwrap_or(0);
        let outcome = fill(cx, &pools, count, usize::try_from(least).unwrap_or(0), token);
        note(cx, &pools, &outcome);
        for (index, error) in &outcome.refused {
            errors.node("item", |xml| refusal_xml(&pools[*index], error, xml));
        }
        for (index, ids) in &outcome.launched {
            instances.node("item", |xml| launched_xml(&pools[*index], ids, xml));
        }
    }
    cx.state.refused_now.clear();
    if silence.is_some() {
        (errors, instances) = (Xml::new(), Xml::new());
        cx.notes.push(("silent", Value::from(true)));
    }
    xml.node("errorSet", |xml| {
        xml.append(&errors);
    });
    xml.node("fleetInstanceSet", |xml| {
        xml.append(&instances);
    });
    cx.notes.push(("fleet", Value::from(&*fleet)));
    cx.state.tags.insert(fleet.clone(), tags::specified(form, "fleet"));
    cx.remember("CreateFleet", form, &xml);
    Ok(xml)
}

/// A fleet that is answered with neither an instance nor an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// Nothing is launched.
    Nothing,
    /// The answer names none of the launched instances.
    Untold,
}

impl Silence {
    /// By the token, so that nothing else is drawn otherwise.
    fn draw(cx: &Cx<'_>, token: &str) -> Option<Self> {
        let (nothing, untold) = cx.faults.of_ec2(|ec2| (ec2.silent_fleets, ec2.untold_fleets));
        if nothing + untold <= 0.0 {
            return None;
        }
        let share = fastrand::Rng::with_seed(cx.config.seed ^ ids::fnv(token)).f64();
        match share {
            share if share < nothing => Some(Self::Nothing),
            share if share < nothing + untold => Some(Self::Untold),
            _ => None,
        }
    }
}

/// Numbers of instances wanted, by capacity type.
struct Wanted {
    on_demand: usize,
    spot: usize,
}

impl Wanted {
    fn from_form(form: &FormNode) -> Result<Self, AwsError> {
        match form.text("Type") {
            Some("instant") => {}
            Some(other @ ("maintain" | "request")) => {
                let message = format!("fleets of type {other} are not simulated; only instant");
                return Err(AwsError::new("UnsupportedOperation", message));
            }
            // EC2's default is `maintain`.
            None => return Err(AwsError::new("UnsupportedOperation", "fleets of type maintain are not simulated")),
            Some(other) => {
                return Err(AwsError::invalid(format_args!("Value ({other}) for parameter Type is invalid")));
            }
        }
        let target = form.get("TargetCapacitySpecification");
        let number = |name: &str| -> Result<Option<usize>, AwsError> {
            let negative = |_| AwsError::invalid(format_args!("{name} must not be negative"));
            target.number(name)?.map(|n| usize::try_from(n).map_err(negative)).transpose()
        };
        let total = number("TotalTargetCapacity")?.ok_or_else(|| AwsError::missing("TotalTargetCapacity"))?;
        let (on_demand, spot) = (number("OnDemandTargetCapacity")?, number("SpotTargetCapacity")?);
        let rest = total.saturating_sub(on_demand.unwrap_or(0) + spot.unwrap_or(0));
        let (on_demand, spot) = (on_demand.unwrap_or(0), spot.unwrap_or(0));
        match target.text("DefaultTargetCapacityType") {
            Some("spot") => Ok(Self { on_demand, spot: spot + rest }),
            // The reservation decides how it is launched into.
            None | Some("on-demand" | "capacity-block" | "reserved-capacity") => {
                Ok(Self { on_demand: on_demand + rest, spot })
            }
            Some(other) => {
                Err(AwsError::new("UnsupportedOperation", format_args!("capacity of type {other} is not known")))
            }
        }
    }
}

fn pools(cx: &Cx<'_>, form: &FormNode, capacity: CapacityType) -> Result<Vec<Pool>, AwsError> {
    let mut pools = Vec::new();
    for config in form.list("LaunchTemplateConfigs") {
        let template = cx.state.template(config.get("LaunchTemplateSpecification"))?;
        let none = FormNode::default();
        let overrides: Vec<&FormNode> = config.list("Overrides").collect();
        let overrides = if overrides.is_empty() { vec![&none] } else { overrides };
        for over in overrides {
            if over.text("WeightedCapacity").is_some_and(|weight| weight.parse() != Ok(1.0)) {
                return Err(AwsError::new("UnsupportedOperation", "weighted capacity is not simulated"));
            }
            let mut spec = Spec::from_forms(&template.data, over, capacity)?;
            spec.tags.extend(tags::specified(form, "instance"));
            let zone = zone_of(cx.state, &spec).unwrap_or_default();
            pools.push(Pool {
                template_id: template.id.clone(),
                template_name: template.name.clone(),
                over: over.clone(),
                price: cx.price(&spec.instance_type, &zone, capacity).unwrap_or(f64::MAX),
                priority: over.text("Priority").and_then(|p| p.parse().ok()).unwrap_or(f64::MAX),
                spec,
            });
        }
    }
    if pools.is_empty() {
        return Err(AwsError::missing("LaunchTemplateConfigs"));
    }
    Ok(pools)
}

fn zone_of(state: &RegionState, spec: &Spec) -> Option<String> {
    let of_subnet = |id: &String| state.network.subnets.get(id).map(|subnet| subnet.zone.clone());
    spec.subnet_id.as_ref().and_then(of_subnet).or_else(|| spec.zone.clone())
}

fn options(form: &FormNode, capacity: CapacityType) -> &FormNode {
    form.get(match capacity {
        CapacityType::OnDemand => "OnDemandOptions",
        CapacityType::Spot => "SpotOptions",
    })
}

/// Strategy that decides in which order pools are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    LowestPrice,
    Prioritized,
    PriceCapacityOptimized,
    CapacityOptimized,
    CapacityOptimizedPrioritized,
    AsListed,
}

impl Strategy {
    fn from_form(form: &FormNode, capacity: CapacityType) -> Result<Self, AwsError> {
        let asked = options(form, capacity).text("AllocationStrategy");
        Ok(match (capacity, asked) {
            (_, None | Some("lowest-price" | "lowestPrice")) => Self::LowestPrice,
            (CapacityType::OnDemand, Some("prioritized")) => Self::Prioritized,
            (CapacityType::Spot, Some("price-capacity-optimized" | "priceCapacityOptimized")) => {
                Self::PriceCapacityOptimized
            }
            (CapacityType::Spot, Some("capacity-optimized" | "capacityOptimized")) => Self::CapacityOptimized,
            (CapacityType::Spot, Some("capacity-optimized-prioritized" | "capacityOptimizedPrioritized")) => {
                Self::CapacityOptimizedPrioritized
            }
            (CapacityType::Spot, Some("diversified")) => Self::AsListed,
            (_, Some(other)) => {
                return Err(AwsError::invalid(format_args!(
                    "Value ({other}) for parameter AllocationStrategy is invalid"
                )));
            }
        })
    }

    fn sort(self, cx: &Cx<'_>, pools: &mut [Pool]) {
        let depth = |pool: &Pool| depth(cx, &pool.spec, &zone_of(cx.state, &pool.spec).unwrap_or_default());
        let key = |pool: &Pool| match self {
            Self::LowestPrice => pool.price,
            Self::Prioritized => pool.priority,
            // EC2 first takes the pools with the most capacity, then the cheapest of these. How it weighs the two is
            // not published; here the shallowest pool counts as half again as dear as the deepest.
            Self::PriceCapacityOptimized => pool.price * (1.5 - 0.5 * depth(pool)),
            Self::CapacityOptimized => -depth(pool),
            // Priorities on a best-effort basis, capacity first: pools of about the same depth go by priority.
            Self::CapacityOptimizedPrioritized => -(depth(pool) * 4.0).floor() * 1e9 + pool.priority.min(1e8),
            Self::AsListed => 0.0,
        };
        pools.sort_by(|a, b| key(a).total_cmp(&key(b)));
    }
}

/// Depth of a spot pool, 0 to 1: its room as a share of the deepest pool's where depths are given, otherwise made up from the
/// seed, the type and the zone.
fn depth(cx: &Cx<'_>, spec: &Spec, zone: &str) -> f64 {
    if let Some((own, deepest)) = cx.faults.spot_depth(&spec.instance_type, zone).zip(cx.faults.deepest_spot_pool()) {
        let own = usize::try_from(own).map_or(0, |own| own.min(cx.room_in_pool(spec, zone, &[])));
        return own as f64 / f64::from(deepest.max(1));
    }
    let name = format!("{}/{}/{zone}", cx.config.seed, spec.instance_type);
    fastrand::Rng::with_seed(ids::fnv(&name)).f64()
}

/// Tries the pools in order until `count` instances are launched; with fewer than `least` in sight it launches none.
fn fill(cx: &mut Cx<'_>, pools: &[Pool], count: usize, least: usize, token: Option<&str>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut plan: Vec<(usize, Ready, usize)> = Vec::new();
    let mut left = count;
    for (index, pool) in pools.iter().enumerate() {
        if left == 0 {
            break;
        }
        match cx.check(&pool.spec) {
            Err(error) => outcome.refused.push((index, error)),
            Ok(ready) => {
                let planned: Vec<_> =
                    plan.iter().map(|(at, ready, n)| (&pools[*at].spec, ready.subnet_id.as_str(), *n)).collect();
                let (fits, error) = cx.room_for(&pool.spec, &ready.subnet_id, &planned, left);
                outcome.refused.extend(error.map(|error| (index, error)));
                left -= fits;
                plan.push((index, ready, fits));
            }
        }
    }
    if count - left >= least {
        for (index, ready, fits) in plan.into_iter().filter(|(_, _, fits)| *fits > 0) {
            let ids = cx.launch(&pools[index].spec, &ready, token, fits);
            outcome.launched.push((index, ids));
        }
    }
    outcome
}

/// The tags that EC2 itself puts on a fleet's instances.
fn by_ec2(fleet: &str, template: &str) -> [(String, String); 3] {
    [
        ("aws:ec2:fleet-id".to_owned(), fleet.to_owned()),
        ("aws:ec2launchtemplate:id".to_owned(), template.to_owned()),
        ("aws:ec2launchtemplate:version".to_owned(), "1".to_owned()),
    ]
}

fn fleet_id(cx: &mut Cx<'_>) -> String {
    format!("fleet-{}", ids::uuid(&mut cx.state.ids))
}

fn note(cx: &mut Cx<'_>, pools: &[Pool], outcome: &Outcome) {
    let launched: Vec<Value> = outcome.launched.iter().flat_map(|(_, ids)| ids).map(|id| Value::from(&**id)).collect();
    let refused = outcome.refused.iter().map(|(index, error)| {
        let spec = &pools[*index].spec;
        let zone = zone_of(cx.state, spec).unwrap_or_default();
        serde_json::json!({"code": error.code, "instanceType": spec.instance_type, "zone": zone, "capacityType": spec.capacity.name()})
    });
    let refused: Vec<Value> = refused.collect();
    cx.notes.push(("instances", Value::Array(launched)));
    cx.notes.push(("errors", Value::Array(refused)));
}

fn pool_xml(pool: &Pool, xml: &mut Xml) {
    xml.node("launchTemplateAndOverrides", |xml| {
        xml.node("launchTemplateSpecification", |xml| {
            xml.text("launchTemplateId", &pool.template_id)
                .text("launchTemplateName", &pool.template_name)
                .text("version", 1);
        });
        xml.node("overrides", |xml| {
            xml.text("instanceType", &pool.spec.instance_type)
                .opt("subnetId", pool.over.text("SubnetId"))
                .opt("availabilityZone", pool.over.text("AvailabilityZone"))
                .opt("priority", pool.over.text("Priority"))
                .opt("imageId", pool.over.text("ImageId"));
        });
    });
    xml.text("lifecycle", pool.spec.capacity.name());
}

fn refusal_xml(pool: &Pool, error: &AwsError, xml: &mut Xml) {
    pool_xml(pool, xml);
    xml.text("errorCode", &error.code).text("errorMessage", &error.message);
}

fn launched_xml(pool: &Pool, ids: &[String], xml: &mut Xml) {
    pool_xml(pool, xml);
    xml.values("instanceIds", ids).text("instanceType", &pool.spec.instance_type);
}
