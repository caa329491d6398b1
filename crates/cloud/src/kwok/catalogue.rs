//! Instance types of kwok's nodes: a JSON file as Karpenter's kwok provider reads it, or the generic ones that are built in.
//! The file is a list; a field's name counts in whatever case, as Go reads it.
//!
//! ```json
//! [{"name": "c-1x-amd64-linux", "architecture": "amd64", "operatingSystems": ["linux"],
//!   "resources": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "20Gi", "pods": "16"},
//!   "offerings": [{"Price": 0.027, "Available": true, "Requirements": [
//!     {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
//!     {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]
//! ```
//!
//! An older form of an offering has `Zone` and `CapacityType` in the place of `Requirements`.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::labels as l;
use dovetail_api::names::syntax;
use dovetail_core::resources::{CPU, MEMORY, PODS, parse_amount};
use dovetail_core::{InstanceType, NodeSelectorRequirement, Offering, Operator, Overhead, Resources};
use serde_json::{Map, Value};

/// Most bytes of a catalogue.
pub const MOST_BYTES: u64 = 32 << 20;
/// Most instance types of a catalogue: packing has to go through all of them.
const MOST_TYPES: usize = 5_000;
/// Most offerings of one type.
const MOST_OFFERINGS: usize = 200;
/// Pods that a node takes where its type does not say: the kubelet's default.
const PODS_PER_NODE: i64 = 110;
/// Resources that a node keeps for itself: 100m of a CPU, 10Mi of memory.
const RESERVED: [(&str, i64); 2] = [(CPU, 100), (MEMORY, 10 << 20)];
/// Highest price in dollars an hour that is believed.
const MOST_DOLLARS: f64 = 1e6;

/// The instance types of a catalogue's text.
///
/// # Errors
/// The first mistake, with the type that it is in.
pub fn read_catalogue(text: &str) -> Result<Vec<Arc<InstanceType>>, String> {
    let all: Vec<Map<String, Value>> =
        serde_json::from_str(text).map_err(|why| format!("is no list of types: {why}"))?;
    if all.is_empty() || all.len() > MOST_TYPES {
        return Err(format!("has {} instance types (allowed: 1 to {MOST_TYPES})", all.len()));
    }
    let mut names = BTreeSet::new();
    let mut types = Vec::with_capacity(all.len());
    for (index, written) in all.iter().enumerate() {
        let written = Fields(written);
        let name = written.text("name").unwrap_or_default();
        let one = read_type(&written).map_err(|why| format!("instance type {index} ({name:?}): {why}"))?;
        if !names.insert(one.name.clone()) {
            return Err(format!("instance type {index} ({name:?}): the name is there twice"));
        }
        types.push(Arc::new(one));
    }
    Ok(types)
}

/// An object whose fields are found in whatever case.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn find(&self, name: &str) -> Option<&'a Value> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.find(name)?.as_str()
    }
}

fn read_type(written: &Fields<'_>) -> Result<InstanceType, String> {
    let name = label_value(written.text("name").unwrap_or_default(), "name")?;
    let architecture = label_value(written.text("architecture").unwrap_or("amd64"), "architecture")?;
    let systems = operating_systems(written)?;
    let (capacity, cpu, memory) = capacity(written)?;
    let offerings = written.find("offerings").and_then(Value::as_array).ok_or("offerings are missing")?;
    if offerings.is_empty() || offerings.len() > MOST_OFFERINGS {
        return Err(format!("it has {} offerings (allowed: 1 to {MOST_OFFERINGS})", offerings.len()));
    }
    let offerings = offerings.iter().enumerate().map(|(index, one)| {
        let fields = one.as_object().ok_or_else(|| format!("offering {index} is no object"))?;
        read_offering(&Fields(fields)).map_err(|why| format!("offering {index}: {why}"))
    });
    let offerings = offerings.collect::<Result<Vec<_>, _>>()?;
    let one = |key: &str, value: &str| NodeSelectorRequirement::one_of(key, [value]);
    let of = |part: fn(&Offering) -> &str| offerings.iter().map(part).collect::<BTreeSet<_>>();
    let requirements = vec![
        one(l::INSTANCE_TYPE, name),
        one(l::ARCH, architecture),
        NodeSelectorRequirement::one_of(l::OS, systems),
        NodeSelectorRequirement::one_of(l::ZONE, of(|one| &one.zone)),
        NodeSelectorRequirement::one_of(l::CAPACITY_TYPE, of(|one| &one.capacity_type)),
        one(l::KWOK_INSTANCE_TYPE, name),
        one(l::KWOK_INSTANCE_SIZE, size_in(name).unwrap_or(&cpu)),
        one(l::KWOK_INSTANCE_FAMILY, family_in(name)),
        one(l::KWOK_INSTANCE_CPU, &cpu),
        one(l::KWOK_INSTANCE_MEMORY, &memory),
    ];
    let mut kube_reserved = Resources::new();
    RESERVED.iter().for_each(|(resource, amount)| kube_reserved.set(*resource, *amount));
    Ok(InstanceType {
        name: name.to_owned(),
        capacity,
        overhead: Overhead { kube_reserved, ..Overhead::default() },
        requirements,
        offerings,
        attachments: Resources::new(),
        uncommon: false,
        overlaid_resources: BTreeSet::new(),
    })
}

/// The operating systems: a list, or in older files an object by name.
fn operating_systems(written: &Fields<'_>) -> Result<BTreeSet<String>, String> {
    let systems: BTreeSet<String> = match written.find("operatingSystems") {
        None => ["linux".to_owned()].into(),
        Some(Value::Object(by_name)) => by_name.keys().cloned().collect(),
        Some(list) => serde_json::from_value(list.clone()).map_err(|why| format!("operatingSystems: {why}"))?,
    };
    if systems.is_empty() {
        return Err("operatingSystems are empty".to_owned());
    }
    systems.iter().try_for_each(|one| label_value(one, "operatingSystems").map(drop))?;
    Ok(systems)
}

/// The capacity, and the texts of its CPU and memory.
fn capacity(written: &Fields<'_>) -> Result<(Resources, String, String), String> {
    let resources = written.find("resources").and_then(Value::as_object).ok_or("resources are missing")?;
    let mut capacity = Resources::new();
    capacity.set(PODS, PODS_PER_NODE);
    let (mut cpu, mut memory) = (String::new(), String::new());
    for (name, amount) in resources {
        let text = match amount {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err(format!("resources.{name} is no amount")),
        };
        let amount = parse_amount(name, &text).map_err(|why| format!("resources.{name}: {why}"))?;
        if amount < 0 || !syntax::is_key(name) {
            return Err(format!("resources.{name} is {text:?} (allowed: a resource's name, and an amount from 0)"));
        }
        capacity.set(name.clone(), amount);
        match name.as_str() {
            CPU => cpu = text,
            MEMORY => memory = text,
            _ => {}
        }
    }
    if capacity.get(CPU) == 0 || capacity.get(MEMORY) == 0 {
        return Err("resources have no cpu or no memory".to_owned());
    }
    label_value(&cpu, "resources.cpu")?;
    label_value(&memory, "resources.memory")?;
    Ok((capacity, cpu, memory))
}

fn read_offering(written: &Fields<'_>) -> Result<Offering, String> {
    let price = written.find("price").and_then(Value::as_f64).ok_or("the price is missing")?;
    if !(0.0..=MOST_DOLLARS).contains(&price) {
        return Err(format!("the price is {price} (allowed: 0 to {MOST_DOLLARS} $ an hour)"));
    }
    let mut requirements = Vec::new();
    for (key, name) in [(l::ZONE, "zone"), (l::CAPACITY_TYPE, "capacityType")] {
        requirements.extend(written.text(name).map(|value| NodeSelectorRequirement::one_of(key, [value])));
    }
    let listed = written.find("requirements").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for one in listed {
        requirements.push(read_requirement(one)?);
    }
    requirements.sort_by(|one, other| one.key.cmp(&other.key));
    let only = |key: &str| -> Result<String, String> {
        let found = requirements.iter().find(|one| one.key == key).map(|one| (one.operator, one.values.as_slice()));
        match found {
            Some((Operator::In, [value])) => label_value(value, key).map(ToOwned::to_owned),
            _ => Err(format!("it does not say one {key}")),
        }
    };
    let (zone, capacity_type) = (only(l::ZONE)?, only(l::CAPACITY_TYPE)?);
    if capacity_type != l::SPOT && capacity_type != l::ON_DEMAND {
        return Err(format!("{} is {capacity_type:?} (allowed: spot, on-demand)", l::CAPACITY_TYPE));
    }
    let available = written.find("available").and_then(Value::as_bool).unwrap_or(true);
    let (reservation_capacity, refused, list_price) = (None, None, None);
    Ok(Offering { zone, capacity_type, price, available, reservation_capacity, refused, list_price, requirements })
}

fn read_requirement(written: &Value) -> Result<NodeSelectorRequirement, String> {
    let fields = Fields(written.as_object().ok_or("a requirement is no object")?);
    let key = fields.text("key").filter(|key| syntax::is_key(key)).ok_or("a requirement has no label's key")?;
    let operator = fields.find("operator").cloned().ok_or_else(|| format!("{key} has no operator"))?;
    let operator: Operator = serde_json::from_value(operator).map_err(|why| format!("{key}: {why}"))?;
    let values = fields.find("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let values = values.iter().map(|one| label_value(one.as_str().unwrap_or_default(), key));
    Ok(NodeSelectorRequirement::new(key, operator, values.collect::<Result<Vec<_>, _>>()?))
}

/// A text that can be a label's value, and is not empty.
fn label_value<'t>(text: &'t str, field: &str) -> Result<&'t str, String> {
    let good = !text.is_empty() && syntax::is_label_value(text);
    if good { Ok(text) } else { Err(format!("{field} is {text:?}, which is no label's value")) }
}

/// The size in a name of AWS's form, `large` of `m5.large`.
fn size_in(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let extra = size.strip_suffix("xlarge").is_some_and(|times| times.bytes().all(|byte| byte.is_ascii_digit()));
    let known = extra || ["nano", "micro", "small", "medium", "large", "metal"].contains(&size);
    let word = family.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (known && word).then_some(size)
}

/// The family: what stands before the first dot or dash, else the first character.
fn family_in(name: &str) -> &str {
    match name.split_once(['.', '-']) {
        Some((family, _)) => family,
        None => name.get(..1).unwrap_or(name),
    }
}

/// Zones of the built-in types.
const ZONES: [&str; 4] = ["test-zone-a", "test-zone-b", "test-zone-c", "test-zone-d"];
/// CPUs of the built-in types.
const CPUS: [i64; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256];
/// Families of the built-in types, with the memory in GiB for each CPU.
const FAMILIES: [(&str, i64); 3] = [("c", 2), ("s", 4), ("m", 8)];
/// Dollars an hour for a CPU, and for 10^9 bytes of memory.
const DOLLARS: (f64, f64) = (0.025, 0.001);
/// Price of spot, in parts of that on demand.
const SPOT_SHARE: f64 = 0.7;

/// The generic instance types, by the names, sizes and prices that Karpenter's kwok provider has built in: `c-4x-amd64-linux`.
///
/// # Errors
/// A type cannot be read, which would be a mistake of ours.
pub fn generic_types() -> Result<Vec<Arc<InstanceType>>, String> {
    let mut all = Vec::new();
    for cpu in CPUS {
        for (family, factor) in FAMILIES {
            for system in ["linux", "windows"] {
                for architecture in ["amd64", "arm64"] {
                    all.push(generic_type(cpu, (family, factor), system, architecture));
                }
            }
        }
    }
    read_catalogue(&Value::Array(all).to_string())
}

fn generic_type(cpu: i64, (family, factor): (&str, i64), system: &str, architecture: &str) -> Value {
    let gib = cpu * factor;
    #[expect(clippy::cast_precision_loss, reason = "a few hundred CPUs, a few TiB")]
    let price = DOLLARS.0 * cpu as f64 + DOLLARS.1 * (gib << 30) as f64 / 1e9;
    let each = ZONES.iter().flat_map(|zone| [(zone, l::SPOT, price * SPOT_SHARE), (zone, l::ON_DEMAND, price)]);
    let offerings: Vec<Value> = each
        .map(|(zone, capacity_type, price)| {
            serde_json::json!({"price": price, "zone": zone, "capacityType": capacity_type})
        })
        .collect();
    serde_json::json!({
        "name": format!("{family}-{cpu}x-{architecture}-{system}"),
        "architecture": architecture, "operatingSystems": [system], "offerings": offerings,
        "resources": {"cpu": cpu.to_string(), "memory": format!("{gib}Gi"), "ephemeral-storage": "20Gi",
            "pods": (cpu * 16).min(1024).to_string()},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Arc<InstanceType>>, String> {
        read_catalogue(text)
    }

    fn label<'t>(one: &'t InstanceType, key: &str) -> &'t [String] {
        one.requirements.iter().find(|known| known.key == key).map(|known| known.values.as_slice()).unwrap_or_default()
    }

    #[test]
    fn both_forms_of_an_offering_are_read() {
        let newer = r#"[{"name": "m5.large", "architecture": "amd64", "operatingSystems": ["linux"],
            "resources": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": 1},
            "offerings": [{"Price": 0.1, "Available": true, "Requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}]}]}]"#;
        let older = r#"[{"name": "m5.large", "architecture": "amd64", "operatingSystems": {"linux": {}},
            "resources": {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "1"},
            "offerings": [{"price": 0.1, "CapacityType": "spot", "Zone": "a", "Available": true}]}]"#;
        let (newer, older) = (read(newer).unwrap_or_default(), read(older).unwrap_or_default());
        assert_eq!((newer.len(), &newer), (1, &older));
        let one = &newer[0];
        assert_eq!((one.capacity.get(PODS), one.capacity.get("nvidia.com/gpu")), (110, 1));
        assert_eq!(one.allocatable().get(CPU), 1900);
        assert_eq!((one.offerings[0].zone.as_str(), one.offerings[0].capacity_type.as_str()), ("a", "spot"));
        assert_eq!(
            (label(one, l::KWOK_INSTANCE_SIZE), label(one, l::KWOK_INSTANCE_FAMILY)),
            (&["large".to_owned()][..], &["m5".to_owned()][..])
        );
    }

    #[test]
    fn the_built_in_types_are_those_of_karpenters_provider() {
        let all = generic_types().unwrap_or_default();
        assert_eq!(all.len(), 12 * 3 * 2 * 2);
        let Some(one) = all.iter().find(|one| one.name == "c-1x-amd64-linux") else { panic!("{:?}", all[0].name) };
        let price = |capacity_type: &str| {
            one.offerings.iter().find(|of| of.capacity_type == capacity_type).map(|of| of.price).unwrap_or_default()
        };
        assert!((price("on-demand") - 0.027_147_483_648).abs() < 1e-12, "{}", price("on-demand"));
        assert!((price("spot") - 0.019_003_238_553_6).abs() < 1e-12, "{}", price("spot"));
        assert_eq!((one.capacity.get(PODS), one.capacity.get(MEMORY), one.offerings.len()), (16, 2 << 30, 8));
    }

    #[test]
    fn a_mistake_is_named_with_its_type() {
        let with = |changed: &str, to: &str| {
            let text = r#"[{"name": "a", "resources": {"cpu": "1", "memory": "1Gi"},
                "offerings": [{"price": 1, "zone": "a", "capacityType": "spot"}]}]"#;
            read(&text.replace(changed, to)).err().unwrap_or_default()
        };
        assert_eq!(with("never", ""), "");
        for (changed, to, says) in [
            ("\"a\", \"res", "\"a b\", \"res", "name is"),
            ("\"1Gi\"", "\"lots\"", "resources.memory"),
            ("\"memory\": \"1Gi\"", "\"pods\": 1", "no memory"),
            ("\"price\": 1", "\"price\": -1", "the price is -1"),
            ("\"price\": 1, ", "", "the price is missing"),
            ("\"zone\": \"a\", ", "", "topology.kubernetes.io/zone"),
            ("\"spot\"", "\"reserved\"", "allowed: spot, on-demand"),
        ] {
            let said = with(changed, to);
            assert!(said.contains(says) && said.starts_with("instance type 0"), "{changed} {to}: {said}");
        }
        assert!(read("[]").is_err() && read("{}").is_err());
        let twice = r#"{"name": "a", "resources": {"cpu": "1", "memory": "1Gi"},
            "offerings": [{"price": 1, "zone": "a", "capacityType": "spot"}]}"#;
        assert!(read(&format!("[{twice},{twice}]")).is_err());
    }
}
