//! Proxies of the control plane's process: the API server and EC2's metadata have to be reached without one.

use k8s_openapi::api::core::v1::Pod;

use super::{Finding, Installation};

/// EC2's metadata, from which credentials come.
const METADATA: &str = "169.254.169.254";

pub(super) async fn proxies(installation: &Installation) -> Finding {
    match &installation.pod {
        Some(pod) => judge(&|name| variable_of(pod, name), "the pod that leads"),
        None => judge(&|name| std::env::var(name).ok(), "this process"),
    }
}

/// A variable that a pod's containers have.
fn variable_of(pod: &Pod, name: &str) -> Option<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.flat_map(|container| container.env.iter().flatten()).find(|one| one.name == name)?.value.clone()
}

fn judge(variable: &dyn Fn(&str) -> Option<String>, whose: &str) -> Finding {
    let either = |upper: &str| {
        let found = variable(upper).or_else(|| variable(&upper.to_lowercase()));
        found.filter(|value| !value.is_empty())
    };
    if either("HTTPS_PROXY").or_else(|| either("HTTP_PROXY")).is_none() {
        return Finding::green(format!("{whose} has none"));
    }
    let without = either("NO_PROXY").unwrap_or_default();
    if without.split(',').any(|one| one.trim() == METADATA || one.trim() == "*") {
        return Finding::green(format!("{whose} has a proxy, and NO_PROXY leaves EC2's metadata out of it"));
    }
    Finding::yellow(
        format!(
            "{whose} has a proxy, and NO_PROXY does not name {METADATA}: credentials of the instance are not found"
        ),
        format!("add {METADATA} to NO_PROXY, or use IRSA or pod identity"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Light;
    use super::*;

    #[test]
    fn proxy_without_an_exception_for_metadata_is_yellow() {
        let with = |proxy: &'static str, without: &'static str| {
            let given = move |name: &str| match name {
                "https_proxy" => Some(proxy.to_owned()),
                "NO_PROXY" => Some(without.to_owned()),
                _ => None,
            };
            judge(&given, "it").light
        };
        assert_eq!(with("", ""), Light::Green);
        assert_eq!(with("http://proxy:3128", ".svc"), Light::Yellow);
        assert_eq!(with("http://proxy:3128", ".svc, 169.254.169.254"), Light::Green);
    }
}
