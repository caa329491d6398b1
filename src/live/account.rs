//! Savings Plans and Reserved Instances of the account, and what others use of them: asked as `run` asks, which only reads.

use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_cloud::{CloudError, CloudOfferings};
use dovetail_core::clock::Clock as _;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::commitments::{AccountAnswer, AccountList, Commitments, OtherUses, Uses, is_marked};
use dovetail_core::disruption::OffersByClass;
use dovetail_core::labels::ON_DEMAND;
use futures::future::join3;
use tokio::time::timeout;

use super::args::OffersFrom;
use super::{ClusterArgs, Connection, Missing, offers};

/// Longest wait for all answers.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// Most commitments that are left out and named.
const MOST_NAMED: usize = 5;
const ALL: &str = "Savings Plans and Reserved Instances of the account";

/// The commitments that count: those that are declared, and those of the account where COMMITMENTS has `account`. What is not
/// known is named, and the rest counts.
pub async fn read_commitments(
    (connection, args): (&Connection, &ClusterArgs),
    (settings, snapshot): (&Settings, &Snapshot),
    types: &OffersByClass,
    missing: &mut Vec<Missing>,
) -> Arc<Commitments> {
    let own = &settings.commitments;
    if !own.account {
        return own.declared();
    }
    let cloud = match args.offers {
        OffersFrom::Shipped => Err("AWS is not asked with --offers shipped".to_owned()),
        _ => offers::reach_ec2_of(connection, settings, snapshot).await,
    };
    let cloud = match cloud {
        Ok(cloud) => cloud,
        Err(why) => {
            missing.push(Missing { what: ALL.to_owned(), why: format!("{why}; those that are declared count") });
            return own.declared();
        }
    };
    let (instances, plans, others) = join3(
        bounded(cloud.reserved_instances()),
        bounded(cloud.savings_plans()),
        bounded(others(&cloud, own.counts_others())),
    )
    .await;
    let now = connection.clock.wall();
    let mut lists = [AccountList::default(), AccountList::default()];
    let kinds = [
        ("Reserved Instances", "ec2:DescribeReservedInstances", instances),
        ("Savings Plans", "savingsplans:DescribeSavingsPlans", plans),
    ];
    for (list, (what, action, answer)) in lists.iter_mut().zip(kinds) {
        match answer {
            Ok(answer) => missing.extend(learn(list, what, answer, now)),
            Err(why) => missing.push(unread(what, action, &why)),
        }
    }
    let counted = lists.iter().flat_map(|list| list.counted(now));
    let counted = Commitments::with_account(&own.written, counted, own.share);
    let others = others.unwrap_or_else(|why| {
        missing.push(unread("instances of others", "ec2:DescribeInstances", &why));
        Uses::default()
    });
    let now = others.priced(|instance_type| price(types, instance_type));
    Arc::new(counted.beside(OtherUses { now, lately: Uses::default() }))
}

/// Instances of others, where they count.
async fn others(cloud: &dyn CloudOfferings, count: bool) -> Result<Uses, CloudError> {
    if count { cloud.others_on_demand().await } else { Ok(Uses::default()) }
}

/// An answer, or the reason that there is none.
async fn bounded<T>(call: impl Future<Output = Result<T, CloudError>>) -> Result<T, String> {
    match timeout(ANSWERED_WITHIN, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if error.is_denied() => Err(format!("the credentials may not ask: {error}")),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("there was no answer within {} s", ANSWERED_WITHIN.as_secs())),
    }
}

fn unread(what: &str, action: &str, why: &str) -> Missing {
    Missing { what: format!("{what} of the account ({action})"), why: why.to_owned() }
}

/// Takes an answer; returns what of it does not count, if anything.
fn learn(list: &mut AccountList, what: &str, answer: AccountAnswer, now: jiff::Timestamp) -> Option<Missing> {
    let rates = answer.without_rates.as_ref().map(|why| format!("usual discounts count instead of rates: {why}"));
    list.learn(answer, now);
    let left_out = list.left_out();
    let named = left_out.iter().take(MOST_NAMED).map(|(id, why)| format!("{id} is left out: {why}"));
    let more = left_out.len().checked_sub(MOST_NAMED).filter(|more| *more > 0);
    let all: Vec<String> =
        rates.into_iter().chain(named).chain(more.map(|more| format!("{more} more are left out"))).collect();
    (!all.is_empty()).then(|| Missing { what: format!("{what} of the account"), why: all.join("; ") })
}

/// On-demand price of an instance type, if a class may launch it.
fn price(types: &OffersByClass, instance_type: &str) -> Option<f64> {
    let own = types.values().flat_map(|types| types.iter()).find(|one| one.name == instance_type)?;
    let mut bought = own.offerings.iter().filter(|one| one.capacity_type == ON_DEMAND);
    bought.find(|one| !one.reservation().is_some_and(is_marked)).map(|one| one.billed_price())
}
