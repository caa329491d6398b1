//! What the real cloud offers, read once: types, zones, prices. Four calls that describe, and none that changes anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_cloud::catalogue::{Catalogue, Zone};
use dovetail_cloud::{Cloud, CloudError};

use super::{ShadowEvent, Told, pause};

/// Asks until all is answered.
pub async fn read(cloud: &dyn Cloud, seed: u64, told: &Told) -> Catalogue {
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x0070_7269_6365);
    let mut failures = 0;
    loop {
        match once(cloud).await {
            Ok(catalogue) => return catalogue,
            Err(error) => {
                failures += 1;
                if failures == 1 {
                    let note = format!("instance types and prices cannot be read yet, they are waited for: {error}");
                    told(&ShadowEvent::Note(note));
                }
                tokio::time::sleep(pause(failures, &mut rng)).await;
            }
        }
    }
}

async fn once(cloud: &dyn Cloud) -> Result<Catalogue, CloudError> {
    let mut types: Vec<_> = cloud.instance_types().await?.into_iter().map(Arc::new).collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    let offered = cloud.offerings().await?;
    let on_demand = cloud.on_demand_prices().await?;
    let spot = cloud.spot_prices().await?;
    let zones: BTreeSet<&String> = offered.values().flatten().collect();
    // The ids of zones are told by node classes, where they are needed.
    let zones = zones.into_iter().map(|name| Zone { name: name.clone(), id: String::new() }).collect();
    Ok(Catalogue { region: cloud.region().to_owned(), zones, types, offered, on_demand, spot })
}
