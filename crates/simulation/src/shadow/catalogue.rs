//! The real cloud's offer, read once: types, zones, prices. Four calls that describe, and none that changes anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_actors::context::backoff::Backoff;
use dovetail_cloud::catalogue::{RegionCatalogue, Zone};
use dovetail_cloud::{CloudError, CloudOfferings, shipped};

use super::{FIRST_PAUSE, LONGEST_PAUSE, ShadowEvent, ShadowListener};

/// Asks until all is answered. On-demand prices change once in months: where they may not be asked for those shipped stand in, as
/// in a control plane that leads.
pub async fn read_catalogue(cloud: &dyn CloudOfferings, seed: u64, listener: &ShadowListener) -> RegionCatalogue {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, fastrand::Rng::with_seed(seed ^ 0x0070_7269_6365));
    let mut stands_in = false;
    loop {
        match once(cloud, listener, &mut stands_in).await {
            Ok(catalogue) => return catalogue,
            Err(error) => {
                let pause = backoff.pause();
                if backoff.failures() == 1 {
                    let note = format!("instance types and prices cannot be read yet, they are waited for: {error}");
                    listener(&ShadowEvent::Note(note));
                }
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn once(
    cloud: &dyn CloudOfferings,
    listener: &ShadowListener,
    stands_in: &mut bool,
) -> Result<RegionCatalogue, CloudError> {
    let mut types: Vec<_> = cloud.instance_types().await?.into_iter().map(Arc::new).collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    let offered = cloud.offerings().await?;
    let spot = cloud.spot_prices().await?;
    let on_demand = cloud.on_demand_prices().await.unwrap_or_else(|error| {
        if !std::mem::replace(stands_in, true) {
            listener(&ShadowEvent::Note(format!("on-demand prices are those shipped, they cannot be read: {error}")));
        }
        shipped::catalogue(cloud.region()).on_demand
    });
    let zones: BTreeSet<&String> = offered.values().flatten().collect();
    // The ids of zones are told by node classes, where they are needed.
    let zones = zones.into_iter().map(|name| Zone { name: name.clone(), id: String::new() }).collect();
    Ok(RegionCatalogue { region: cloud.region().to_owned(), zones, types, offered, on_demand, spot })
}
