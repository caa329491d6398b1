//! Selectors in CEL: their environment, and those that have no answer.

use dovetail_core::dra::{Answer, AttributeValue, DeviceTraits, Selectors};

fn h100() -> DeviceTraits {
    let name = |name: &str| ("gpu.nvidia.com".to_owned(), name.to_owned());
    let mut traits = DeviceTraits::default();
    traits.attributes.insert(name("productName"), AttributeValue::Text("NVIDIA H100 80GB HBM3".into()));
    traits.attributes.insert(name("cudaComputeCapability"), AttributeValue::Version("9.0.0".into()));
    traits.attributes.insert(name("index"), AttributeValue::Int(3));
    traits.attributes.insert(name("mig"), AttributeValue::Bool(false));
    traits.attributes.insert(name("pcieRoot"), AttributeValue::Bound(1));
    traits.capacity.insert(name("memory"), "81559Mi".into());
    traits
}

fn answer(text: &str) -> Answer {
    let mut selectors = Selectors::default();
    let number = selectors.number_of(&h100());
    selectors.matches(text, "gpu.nvidia.com", number, &h100()).0
}

#[test]
fn selectors_see_driver_attributes_and_capacity() {
    let gpu = r#"device.attributes["gpu.nvidia.com"]"#;
    for (text, expected) in [
        (r#"device.driver == "gpu.nvidia.com""#.to_owned(), true),
        (format!(r#"{gpu}.productName.matches("H100")"#), true),
        (format!(r#"{gpu}.productName.lowerAscii().contains("a100")"#), false),
        (format!("{gpu}.index > 2 && !{gpu}.mig"), true),
        (format!(r#"{gpu}.cudaComputeCapability.isGreaterThan(semver("8.0.0"))"#), true),
        (format!(r#"{gpu}.cudaComputeCapability.compareTo(semver("9.0.0")) == 0"#), true),
        (r#"device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))"#.to_owned(), true),
        (r#"device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80Gi")) >= 0"#.to_owned(), false),
        (r#"cel.bind(gpu, device.attributes["gpu.nvidia.com"], gpu.index == 3 && !gpu.mig)"#.to_owned(), true),
        (
            r#"["A100", "H100"].exists(one, device.attributes["gpu.nvidia.com"].productName.contains(one))"#.to_owned(),
            true,
        ),
        (format!("has({gpu}.index) && !has({gpu}.pcieRoot)"), true),
        (r#"has(device.attributes["dra.net"].rdma) || "dra.net" in device.attributes"#.to_owned(), false),
        (r#""gpu.nvidia.com" in device.attributes"#.to_owned(), true),
        (r#"!device.attributes["dra.net"].?rdma.orValue(false)"#.to_owned(), true),
    ] {
        assert_eq!(answer(&text), Ok(expected), "{text}");
    }
}

#[test]
fn selectors_without_an_answer_say_why() {
    for (text, part) in [
        ("device.driver ==", "Syntax"),
        ("gpu.memory > 3", "undeclared reference"),
        (r#"device.attributes["gpu.nvidia.com"].unknown == 1"#, "unknown"),
        ("device.driver", "string"),
        ("Device{}", "structure"),
        ("device.driver.launch()", "launch"),
    ] {
        let error = answer(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn hostile_selectors_are_refused_before_they_run() {
    let nested = format!("{}true{}", "(".repeat(3000), ")".repeat(3000));
    let negations = format!("{}true", "!".repeat(9000));
    let sum = format!("{}1 > 0", "1+".repeat(4000));
    let list = format!("[{}0]", "0,".repeat(300));
    let loops = format!("{list}.all(a, {list}.all(b, {list}.all(c, a + b + c == 0)))");
    let doubled = format!("size([\"ab\"]{}) > 0", ".map(x, x + x)".repeat(60));
    for text in [nested, negations, sum, loops, doubled] {
        assert!(answer(&text).unwrap_err().contains("too"), "{:.60}", text);
    }
}
