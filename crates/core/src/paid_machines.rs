//! The instances that take of commitments, read from a snapshot or from the nodes of a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::labels::{CAPACITY_BLOCK, CAPACITY_RESERVATION_TYPE};

use crate::cluster_state::{JoinedNode, NodeSource, Snapshot};
use crate::commitments::{Commitments, OtherUses, Usage, Uses, is_linux};
use crate::instance_type::{InstanceType, is_marked};
use crate::labels::{CAPACITY_TYPE, COMPUTE_TYPE, INSTANCE_TYPE, ON_DEMAND, OS, RESERVED, ZONE};
use crate::lifecycle::claim::packing_requirement;
use crate::problem::Problem;
use crate::requirements::{NodeSelectorRequirement, Operator};

/// Label of EKS managed node groups, in its own spelling.
const EKS_CAPACITY_TYPE: &str = "eks.amazonaws.com/capacityType";

/// Everything that takes of commitments now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Running {
    /// Nodes that are bought on demand, by name.
    pub by_node: BTreeMap<String, Usage>,
    /// Instances of capacity reservations, those that stand empty as well: they are paid for in any case.
    pub fixed: Uses,
    /// Instances of others of the account.
    pub others: Uses,
    /// Instances that may be there, or go: nothing is promised of what they could take, and nothing is removed for it.
    pub uncertain: Uses,
    /// Names of nodes that are bought on demand at a price that is not known. While there are any, commitments do not count.
    pub unpriced: BTreeSet<String>,
}

/// The way in which an instance is paid for.
enum Payment {
    OnDemand,
    Reserved,
    /// At a price of its own, or nobody knows.
    Otherwise,
}

impl Running {
    /// Reads all machines of the cluster, those of no NodePool and those that go as well.
    #[must_use]
    pub fn from_snapshot(snapshot: &Snapshot, types: &BTreeMap<String, Arc<Vec<Arc<InstanceType>>>>) -> Self {
        let prices = OnDemandPrices::new(types.values().flat_map(|types| types.iter()));
        let mut running = Self { fixed: prices.empty_places(), ..Self::default() };
        for node in snapshot.joined() {
            running.note_machine(&node, &prices);
        }
        running
    }

    /// Reads the nodes of a problem.
    #[must_use]
    pub fn from_problem(problem: &Problem) -> Self {
        let prices = OnDemandPrices::new(problem.instance_types.iter());
        let mut running = Self { fixed: prices.empty_places(), ..Self::default() };
        for node in &problem.existing_nodes {
            running.note(&node.name, &node.labels, payment(&node.labels, true), false, &prices);
        }
        running
    }

    fn note_machine(&mut self, node: &JoinedNode, prices: &OnDemandPrices<'_>) {
        let has_type = node.labels.get(INSTANCE_TYPE).is_some_and(|name| !name.is_empty());
        match &node.source {
            NodeSource::Claim(entry) if !has_type => {
                let asked: Vec<_> = entry.claim.spec.requirements.iter().map(packing_requirement).collect();
                self.uncertain_launch(&node.name, &asked, prices);
            }
            NodeSource::Node(entry) => {
                let of_ec2 = entry.provider_id.starts_with("aws://");
                self.note(&node.name, &node.labels, payment(&node.labels, of_ec2), node.deleting, prices);
            }
            _ => self.note(&node.name, &node.labels, payment(&node.labels, true), node.deleting, prices),
        }
    }

    fn note(
        &mut self,
        name: &str,
        labels: &BTreeMap<String, String>,
        payment: Payment,
        goes: bool,
        prices: &OnDemandPrices<'_>,
    ) {
        let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
        let Some(price) = prices.price(label(INSTANCE_TYPE), label(ZONE)) else {
            if !matches!(payment, Payment::Otherwise) {
                self.unpriced.insert(name.to_owned());
            }
            return;
        };
        let usage = Usage {
            instance_type: label(INSTANCE_TYPE).to_owned(),
            zone: label(ZONE).to_owned(),
            price,
            linux: label(OS) != "windows",
        };
        match payment {
            Payment::OnDemand if goes => self.uncertain.add(usage, 1),
            Payment::OnDemand => _ = self.by_node.insert(name.to_owned(), usage),
            Payment::Reserved => self.fixed.add(usage, 1),
            Payment::Otherwise => {}
        }
    }

    /// A launch whose type is not known yet may take what the dearest of its types takes.
    fn uncertain_launch(&mut self, name: &str, asked: &[NodeSelectorRequirement], prices: &OnDemandPrices<'_>) {
        let values = |key: &str| {
            let own = asked.iter().filter(|one| one.key == key && one.operator == Operator::In);
            own.flat_map(|one| one.values.iter().map(String::as_str)).collect::<BTreeSet<_>>()
        };
        let (kinds, zones) = (values(CAPACITY_TYPE), values(ZONE));
        if !kinds.is_empty() && !kinds.contains(ON_DEMAND) && !kinds.contains(RESERVED) {
            return;
        }
        let usages = values(INSTANCE_TYPE).into_iter().filter_map(|one| {
            let zone = zones.iter().next().copied().unwrap_or_default();
            let price = prices.price(one, zone)?;
            Some(Usage { instance_type: one.to_owned(), zone: zone.to_owned(), price, linux: true })
        });
        match usages.max_by(|a, b| a.price.total_cmp(&b.price)) {
            Some(usage) => self.uncertain.add(usage, 1),
            None => _ = self.unpriced.insert(name.to_owned()),
        }
    }

    /// The same with the instances of others of the account. Those that have gone lately may come back.
    #[must_use]
    pub fn beside(mut self, others: &OtherUses) -> Self {
        self.others.add_all(&others.now);
        self.uncertain.add_all(&others.lately);
        self
    }

    /// Everything of the cluster that surely runs.
    #[must_use]
    pub fn own_uses(&self) -> Uses {
        let mut all: Uses = self.by_node.values().cloned().collect();
        all.add_all(&self.fixed);
        all
    }

    /// Everything that may take of commitments: what is left beside it is promised to launches.
    #[must_use]
    pub fn all_uses(&self) -> Uses {
        let mut all = self.own_uses();
        all.add_all(&self.others);
        all.add_all(&self.uncertain);
        all
    }

    /// The commitments if they count: every price is known.
    #[must_use]
    pub fn counted<'c>(&self, commitments: &'c Commitments) -> Option<&'c Commitments> {
        (self.unpriced.is_empty() && !commitments.is_empty()).then_some(commitments)
    }

    /// The reason that commitments do not count, in words; `None` while all prices are known.
    #[must_use]
    pub fn mistrust(&self) -> Option<String> {
        let first = self.unpriced.first()?;
        let count = self.unpriced.len();
        Some(format!(
            "commitments do not count: the on-demand price of {count} node(s) is not known, {first} among them"
        ))
    }
}

fn payment(labels: &BTreeMap<String, String>, of_ec2: bool) -> Payment {
    let label = |key: &str| labels.get(key).map(String::as_str).unwrap_or_default();
    let kind = Some(label(CAPACITY_TYPE)).filter(|kind| !kind.is_empty()).unwrap_or_else(|| label(EKS_CAPACITY_TYPE));
    match kind {
        ON_DEMAND | "ON_DEMAND" => Payment::OnDemand,
        RESERVED if label(CAPACITY_RESERVATION_TYPE) != CAPACITY_BLOCK => Payment::Reserved,
        "" if of_ec2 && label(COMPUTE_TYPE) != "fargate" => Payment::OnDemand,
        _ => Payment::Otherwise,
    }
}

/// On-demand prices by instance type and zone, and the capacity reservations.
struct OnDemandPrices<'a> {
    all: BTreeMap<&'a str, BTreeMap<&'a str, f64>>,
    /// Free instances of capacity reservations by id, with their types.
    empty: BTreeMap<&'a str, (&'a InstanceType, &'a str, u32)>,
}

impl<'a> OnDemandPrices<'a> {
    fn new(types: impl Iterator<Item = &'a Arc<InstanceType>>) -> Self {
        let mut prices = Self { all: BTreeMap::new(), empty: BTreeMap::new() };
        for one in types {
            for offering in &one.offerings {
                if offering.capacity_type == ON_DEMAND && !offering.reservation().is_some_and(is_marked) {
                    let known = prices.all.entry(&one.name).or_default();
                    let price = offering.billed_price();
                    if price.is_finite() && price > 0.0 {
                        known.entry(&offering.zone).or_insert(price);
                    }
                }
                let block = |said: &NodeSelectorRequirement| {
                    said.key == CAPACITY_RESERVATION_TYPE && said.values.iter().any(|kind| kind == CAPACITY_BLOCK)
                };
                if offering.capacity_type == RESERVED
                    && !offering.requirements.iter().any(block)
                    && let (Some(id), Some(left)) = (offering.reservation(), offering.reservation_capacity)
                {
                    prices.empty.entry(id).or_insert((one, &offering.zone, left));
                }
            }
        }
        prices
    }

    /// The price of a type in a zone, or that of another zone where none is known in this one.
    fn price(&self, instance_type: &str, zone: &str) -> Option<f64> {
        let prices = self.all.get(instance_type)?;
        prices.get(zone).or_else(|| prices.values().next()).copied()
    }

    /// The free instances of capacity reservations: commitments apply to them too.
    fn empty_places(&self) -> Uses {
        let mut uses = Uses::default();
        for (one, zone, left) in self.empty.values() {
            if let Some(price) = self.price(&one.name, zone) {
                let linux = is_linux(&one.requirements);
                let usage = Usage { instance_type: one.name.clone(), zone: (*zone).to_owned(), price, linux };
                uses.add(usage, *left);
            }
        }
        uses
    }
}
