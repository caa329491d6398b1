//! Instance types and prices: EC2's of now, or those that the program carries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::catalogue::{KEY, UNAVAILABLE_OFFERINGS, types_of_class};
use dovetail_actors::reading::LenientApi;
use dovetail_actors::settings::KubeAccess;
use dovetail_actors::{Settings, catalogue};
use dovetail_api::names::labels;
use dovetail_cloud::catalogue::{RegionCatalogue, Zone};
use dovetail_cloud::ec2::Ec2Cloud;
use dovetail_cloud::unavailable::UnavailableOfferings;
use dovetail_cloud::{CloudError, CloudIdentity as _, CloudOfferings as _, shipped};
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::disruption::OffersByClass;
use dovetail_input::{Failure, Mistake};
use futures::future::join4;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::timeout;

use super::args::OffersFrom;
use super::{ClusterArgs, Connection, Missing};
use crate::run::clock::SystemClock;
use crate::run::connect::plainly;
use crate::run::preflight::aws;

/// Longest wait for credentials and EC2's first answer.
const REACHED_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for all types and prices.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// Variables of which one says where AWS credentials are.
const CREDENTIALS: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
];

/// Instance types of each class, and where they are from.
pub struct FoundOffers {
    pub by_class: OffersByClass,
    pub from: String,
}

/// Reads what each class of the cluster may launch.
///
/// # Errors
/// EC2 alone was asked for and cannot be read, or no region is known.
pub async fn read_offers(
    connection: &Connection,
    args: &ClusterArgs,
    settings: &Settings,
    snapshot: &Snapshot,
    missing: &mut Vec<Missing>,
) -> Result<FoundOffers, Failure> {
    let (catalogue, from) = match args.offers {
        OffersFrom::Shipped => shipped_catalogue(settings, snapshot)?,
        OffersFrom::Ec2 => from_ec2(connection, settings, snapshot).await.map_err(Failure::System)?,
        OffersFrom::Auto if !has_credentials() => {
            let (catalogue, from) = shipped_catalogue(settings, snapshot)?;
            (catalogue, format!("{from}, as there are no AWS credentials here"))
        }
        OffersFrom::Auto => match from_ec2(connection, settings, snapshot).await {
            Ok(found) => found,
            Err(why) => {
                missing.push(Missing { what: "EC2's instance types and prices".to_owned(), why });
                shipped_catalogue(settings, snapshot)?
            }
        },
    };
    let unavailable = unavailable(connection, settings, missing).await.as_of(connection.moment().monotonic);
    let mut by_class = OffersByClass::new();
    for (name, class) in snapshot.classes.iter() {
        let Some(status) = &class.status else { continue };
        if !status.capacity_reservations.is_empty() {
            let why = format!("those of EC2NodeClass {name} are left out of what may be launched");
            missing.push(Missing { what: "capacity reservations".to_owned(), why });
        }
        match types_of_class(&catalogue, class, status, vec![], settings, &unavailable) {
            Ok((types, _)) => drop(by_class.insert(name.clone(), Arc::new(types))),
            Err(why) => missing.push(Missing { what: format!("instance types of EC2NodeClass {name}"), why }),
        }
    }
    Ok(FoundOffers { by_class, from })
}

fn has_credentials() -> bool {
    let set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let file = std::env::home_dir().is_some_and(|home| home.join(".aws").exists());
    CREDENTIALS.iter().any(set) || file
}

/// The region of the cluster: as it is set, else as its nodes or its classes' subnets show it.
fn region(settings: &Settings, snapshot: &Snapshot) -> Option<String> {
    let given = Some(settings.aws_region.clone()).filter(|name| !name.is_empty());
    let variable = || std::env::var("AWS_REGION").ok().filter(|name| !name.is_empty());
    let of_node = || snapshot.nodes.values().find_map(|node| node.labels.get(labels::REGION).cloned());
    let of_subnet = || {
        let subnets = snapshot.classes.values().filter_map(|class| class.status.as_ref()).flat_map(|one| &one.subnets);
        let zone = subnets.map(|subnet| subnet.zone.clone()).find(|zone| !zone.is_empty())?;
        Some(zone.trim_end_matches(|letter: char| letter.is_ascii_lowercase()).to_owned())
    };
    given.or_else(variable).or_else(of_node).or_else(of_subnet)
}

fn shipped_catalogue(settings: &Settings, snapshot: &Snapshot) -> Result<(RegionCatalogue, String), Failure> {
    let known = || shipped::regions().collect::<Vec<_>>().join(", ");
    let Some(region) = region(settings, snapshot) else {
        let what = "is not given, and neither a node nor a class of the cluster shows it";
        return Err(Mistake::of_file("AWS_REGION", what).allowing(known()).into());
    };
    if !shipped::regions().any(|one| one == region) {
        return Err(Mistake::of_file("AWS_REGION", format!("unknown region {region:?}")).allowing(known()).into());
    }
    let catalogue = shipped::catalogue(&region);
    Ok((catalogue, format!("the catalogue of {region} that is shipped, with synthetic spot prices")))
}

/// EC2's types and prices of now.
async fn from_ec2(
    connection: &Connection,
    settings: &Settings,
    snapshot: &Snapshot,
) -> Result<(RegionCatalogue, String), String> {
    let cloud = reach(connection, settings, region(settings, snapshot)).await.map_err(|failure| describe(&failure))?;
    let reading = join4(cloud.instance_types(), cloud.offerings(), cloud.on_demand_prices(), cloud.spot_prices());
    let Ok((types, offered, on_demand, spot)) = timeout(READ_WITHIN, reading).await else {
        return Err(format!("they were not read within {} s", READ_WITHIN.as_secs()));
    };
    let said = |error: CloudError| error.to_string();
    let (types, offered) = (types.map_err(said)?, offered.map_err(said)?);
    let zones: BTreeSet<String> = offered.values().flatten().cloned().collect();
    let region = cloud.region().to_owned();
    let known = shipped::catalogue(&region);
    let mut from = format!("EC2 in {region}, now");
    let on_demand = on_demand.unwrap_or_else(|_| {
        from.push_str("; on-demand prices are those shipped, as the Pricing API does not answer");
        known.on_demand.clone()
    });
    let mut catalogue = RegionCatalogue {
        region,
        zones: zones.into_iter().map(|name| Zone { name, id: String::new() }).collect(),
        types: types.into_iter().map(Arc::new).collect(),
        offered,
        on_demand,
        ..RegionCatalogue::default()
    };
    catalogue.spot = spot.unwrap_or_else(|_| catalogue::stand_in(&catalogue));
    Ok((catalogue, from))
}

/// EC2 by the credentials of the environment.
///
/// # Errors
/// No credentials, or AWS does not take them.
async fn reach(connection: &Connection, settings: &Settings, region: Option<String>) -> Result<Ec2Cloud, Failure> {
    let known = Settings {
        // Nodes are told no address here: EKS need not be asked for it.
        cluster_endpoint: connection.target.server(),
        aws_region: region.unwrap_or_default(),
        kube_access: KubeAccess { startup_timeout: REACHED_WITHIN, ..settings.kube_access.clone() },
        ..settings.clone()
    };
    let authority = connection.target.authority();
    let reached = aws::reach(&known, Arc::new(SystemClock), &connection.facts, authority, fastrand::u64(..)).await?;
    Ok(reached.0)
}

/// EC2 by the credentials and the region of the environment, within the caller's time.
///
/// # Errors
/// The reason, as a sentence.
pub async fn reach_ec2(connection: &Connection, settings: &Settings) -> Result<Ec2Cloud, String> {
    reach_ec2_of(connection, settings, &Snapshot::default()).await
}

/// The same, in the region that a snapshot shows where no other is given.
///
/// # Errors
/// The reason, as a sentence.
pub async fn reach_ec2_of(
    connection: &Connection,
    settings: &Settings,
    snapshot: &Snapshot,
) -> Result<Ec2Cloud, String> {
    if !has_credentials() {
        return Err("there are no AWS credentials here".to_owned());
    }
    reach(connection, settings, region(settings, snapshot)).await.map_err(|failure| describe(&failure))
}

/// A failure in one line.
pub fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Input(mistakes) => mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
        Failure::System(why) => why.clone(),
        Failure::Outcome => String::new(),
    }
}

/// Offerings that EC2 has lately refused, as the leader keeps them for its successor.
async fn unavailable(connection: &Connection, settings: &Settings, missing: &mut Vec<Missing>) -> UnavailableOfferings {
    let maps: LenientApi<ConfigMap> = LenientApi::namespaced(connection.client.clone(), &settings.lease_namespace);
    let mut found = UnavailableOfferings::default();
    match maps.get_opt(UNAVAILABLE_OFFERINGS).await {
        Ok(map) => {
            let text = map.and_then(|map| map.data?.remove(KEY)).unwrap_or_default();
            let now = connection.moment();
            found.take_over(&text, now.monotonic, now.wall);
        }
        Err(error) => {
            let place = format!("{}/{UNAVAILABLE_OFFERINGS}", settings.lease_namespace);
            let why = format!("ConfigMap {place}: {}", plainly(&error));
            missing.push(Missing { what: "offerings that EC2 lately refused".to_owned(), why });
        }
    }
    found
}
