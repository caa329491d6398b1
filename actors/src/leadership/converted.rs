//! A new leader whose objects are stored as v1beta1 waits here until the API server converts them. Until the definitions name
//! the webhook (`crate::webhook` writes that), it serves what is stored as if it were v1. What v1 does not know is missing from
//! that, and is lost for good with the first write.

use std::time::Duration;

use dovetail_core::webhook::definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, ResourceExt};

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::failure::KubeFailure;
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;
use crate::webhook::DEFINITIONS;

/// Every API server follows a changed definition within this time.
const PROPAGATION_TIME: Duration = Duration::from_secs(5);
/// Pauses between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Looks after which the wait is reported, and those after which it is again: about once a minute.
const REPORTED_AFTER: u32 = 6;
const REPORTED_EVERY: u32 = 16;
/// Consequence of the wait, and its remedy.
const REMEDY: &str = "no node is launched and none goes until then: let the webhook write the definition, or store its objects \
                      as v1 and set webhook.enabled=false";

/// Comes back when nothing is stored as v1beta1, or whatever is gets converted. Without the webhook it cannot be known, and
/// is not waited for.
pub async fn until_converted(client: &Client, env: &Env) {
    if !env.settings.webhook.enabled {
        return;
    }
    let api = LenientApi::<CustomResourceDefinition>::all(client.clone());
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, env.rng("converted"));
    let mut waited = false;
    while let Err(error) = all_converted(&api).await {
        waited = true;
        let pause = backoff.pause();
        if backoff.failures() % REPORTED_EVERY == REPORTED_AFTER {
            let what = "waiting until what is stored as v1beta1 is converted".to_owned();
            let error = format!("{error}; {REMEDY}");
            env.emit(LogEvent::Retrying { what, error });
        }
        tokio::time::sleep(pause).await;
    }
    if waited {
        tokio::time::sleep(PROPAGATION_TIME).await;
    }
}

/// True if each definition that may have objects stored as v1beta1 converts them; the error names one that does not. A definition
/// that is missing, or may not be read, needs no wait.
async fn all_converted(api: &LenientApi<CustomResourceDefinition>) -> Result<(), String> {
    for name in DEFINITIONS {
        let found = match api.get_opt(name).await {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(kube::Error::Api(status)) if status.code == 403 => continue,
            Err(error) => return Err(KubeFailure::from(error).to_string()),
        };
        let converts = found.spec.conversion.as_ref().is_some_and(|one| one.strategy == "Webhook");
        if definition::stores_older(&found) && !converts {
            return Err(format!("{} names no conversion webhook yet", found.name_any()));
        }
    }
    Ok(())
}
