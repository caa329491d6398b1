//! PodTemplates that requests refer to, as they were asked for last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dovetail_core::gangs::{TemplateFault, Templates};
use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};

use crate::kube::calls::Calls;
use crate::reading::LenientApi;

/// Interval at which a template that is not known is asked for again.
const FRESH: Duration = Duration::from_secs(10);
/// The same of one that is known: a request's template hardly changes.
const FRESH_WHERE_KNOWN: Duration = Duration::from_secs(60);

/// A template, and when it was asked for.
#[derive(Clone, Debug)]
struct Known {
    template: Result<PodTemplateSpec, TemplateFault>,
    /// Monotonic.
    asked: Duration,
}

impl Known {
    fn is_fresh(&self, now: Duration) -> bool {
        let fresh = if self.template.is_ok() { FRESH_WHERE_KNOWN } else { FRESH };
        now.saturating_sub(self.asked) < fresh
    }
}

/// Templates by namespace and name.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownTemplates(Arc<BTreeMap<(String, String), Known>>);

impl KnownTemplates {
    /// Templates of a namespace.
    pub(super) fn of_namespace(&self, namespace: &str) -> Templates {
        let own = self.0.range((namespace.to_owned(), String::new())..).take_while(|((of, _), _)| of == namespace);
        own.map(|((_, name), known)| (name.clone(), known.template.clone())).collect()
    }

    /// Asks for what is new or was asked for long ago. What cannot be asked for now stays as it was.
    pub(super) async fn refresh(&mut self, calls: &Calls, wanted: BTreeSet<(String, String)>, now: Duration) {
        let mut all = BTreeMap::new();
        for key in wanted {
            let known = self.0.get(&key).cloned();
            let known = match known {
                Some(known) if known.is_fresh(now) => known,
                known => match (ask(calls, &key).await, known) {
                    (Err(TemplateFault::Unanswered(_)), Some(known)) => known,
                    (template, _) => Known { template, asked: now },
                },
            };
            all.insert(key, known);
        }
        self.0 = Arc::new(all);
    }
}

async fn ask(calls: &Calls, (namespace, name): &(String, String)) -> Result<PodTemplateSpec, TemplateFault> {
    let api = LenientApi::<PodTemplate>::namespaced(calls.client.clone(), namespace);
    match calls.once(api.get_opt(name)).await {
        Ok(Some(found)) => Ok(found.template.unwrap_or_default()),
        Ok(None) => Err(TemplateFault::Missing),
        Err(error) => Err(TemplateFault::Unanswered(format!("PodTemplate {name} cannot be read: {error}"))),
    }
}
