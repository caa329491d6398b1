//! RunInstances: instances of one kind, all or (from MinCount on) as many as there are addresses for.

use serde_json::Value;

use crate::region::instance::CapacityType;
use crate::region::launch::Spec;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;
use crate::region::{Cx, actions::instances, actions::templates};

/// RunInstances.
pub(crate) fn run(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let (least, most) = counts(form)?;
    templates::check_user_data(form)?;
    if let Some(answer) = cx.answered("RunInstances", form)? {
        cx.notes.push(("repeated", Value::from(true)));
        return Ok(answer);
    }
    let none = FormNode::default();
    let specification = form.get("LaunchTemplate");
    let base = if specification.is_absent() { &none } else { &cx.state.template(specification)?.data.clone() };
    let market = [form, base].map(|form| form.get("InstanceMarketOptions").text("MarketType") == Some("spot"));
    let capacity = if market.contains(&true) { CapacityType::Spot } else { CapacityType::OnDemand };
    let spec = Spec::from_forms(base, form, capacity)?;
    let ready = cx.check(&spec)?;
    let free = cx.state.network.subnets.get(&ready.subnet_id).map_or(0, crate::region::network::VpcSubnet::free);
    if usize::try_from(free).unwrap_or(usize::MAX) < least {
        let message = format!("There are not enough free addresses in subnet '{}'", ready.subnet_id);
        return Err(AwsError::new("InsufficientFreeAddressesInSubnet", message));
    }
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    let ids = cx.launch(&spec, &ready, form.text("ClientToken"), most);
    cx.notes.push(("instances", ids.iter().map(|id| Value::from(&**id)).collect()));
    let xml = instances::reservation(cx, &ids);
    cx.remember("RunInstances", form, &xml);
    Ok(xml)
}

fn counts(form: &FormNode) -> Result<(usize, usize), AwsError> {
    let read = |name: &str| -> Result<usize, AwsError> {
        let number = form.number(name)?.ok_or_else(|| AwsError::missing(name))?;
        let wrong = || AwsError::invalid(format_args!("Value ({number}) for parameter {name} is invalid"));
        usize::try_from(number).ok().filter(|number| *number > 0).ok_or_else(wrong)
    };
    let (least, most) = (read("MinCount")?, read("MaxCount")?);
    if least > most {
        let message = "minCount must not be greater than maxCount";
        return Err(AwsError::new("InvalidParameterCombination", message));
    }
    Ok((least, most))
}
