//! Objects that replicas cannot read, and pods that a fault of the scenario keeps from a node.

use std::time::Duration;

use dovetail_sandbox::apiserver::{ApiServer, Gvr};
use dovetail_sandbox::faults::glob_matches;
use dovetail_sandbox::spoilt::{MARK, Spoilt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::World;
use super::actions::later;
use super::kinds::resource;

/// Kinds whose objects may be spoilt: those that replicas read.
pub const SPOILABLE: &[&str] = &[
    "Pod",
    "Node",
    "NodeClaim",
    "NodePool",
    "EC2NodeClass",
    "PodDisruptionBudget",
    "PersistentVolumeClaim",
    "StatefulSet",
    "DaemonSet",
    "Lease",
];

/// An oddity of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Odd {
    /// No type can read it.
    Unreadable(Spoilt),
    /// Its `managedFields` have a time beyond the range, and are nested deeper than parsers go. That keeps nobody from reading it.
    ManagedFields,
}

impl Odd {
    /// As scenarios have them.
    pub const WORDS: [(&str, Self); 3] = [
        ("type", Self::Unreadable(Spoilt::Type)),
        ("depth", Self::Unreadable(Spoilt::Depth)),
        ("managedFields", Self::ManagedFields),
    ];

    pub fn word(self) -> &'static str {
        match self {
            Self::Unreadable(how) => how.word(),
            Self::ManagedFields => "managedFields",
        }
    }

    /// The patch that makes an object so odd.
    fn patch(self) -> Value {
        match self {
            Self::Unreadable(how) => json!({"metadata": {"annotations": {MARK: how.word()}}}),
            Self::ManagedFields => {
                let deep = (0..130).fold(json!({}), |inner, _| json!({"f:a": inner}));
                let entry = json!({"manager": "odd", "operation": "Update", "apiVersion": "v1",
                    "time": "9999-12-31T23:59:59Z", "fieldsType": "FieldsV1", "fieldsV1": deep});
                json!({"metadata": {"managedFields": [entry]}})
            }
        }
    }
}

impl From<Odd> for &'static str {
    fn from(odd: Odd) -> Self {
        odd.word()
    }
}

impl TryFrom<String> for Odd {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let found = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, odd)| odd).ok_or_else(|| format!("{text:?} is no word for what is odd"))
    }
}

/// An object that is there.
struct Target {
    gvr: Gvr,
    namespace: String,
    name: String,
    uid: String,
}

impl Target {
    fn all(api: &ApiServer, kind: &str, fits: impl Fn(&Value) -> bool) -> Vec<Self> {
        let gvr = resource(kind);
        let one = |object: &Value| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
            Self { gvr: gvr.clone(), namespace: text("namespace"), name: text("name"), uid: text("uid") }
        };
        let mut all: Vec<Self> =
            api.list(&gvr).iter().filter(|object| fits(object)).map(|object| one(object)).collect();
        all.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
        all
    }

    fn patch(&self, api: &ApiServer, patch: &Value) {
        // An object that has gone meanwhile, or refuses the patch, stays as it is.
        let _ = api.patch(&self.gvr, &self.namespace, &self.name, patch);
    }

    /// It can be read again, if it is there still.
    fn mend(&self, api: &ApiServer) {
        let there = api.get(&self.gvr, &self.namespace, &self.name);
        if there.is_some_and(|object| object["metadata"]["uid"] == *self.uid) {
            self.patch(api, &json!({"metadata": {"annotations": {MARK: null}}}));
        }
    }
}

impl World {
    /// Spoils objects of a kind whose names match, the first by name, for a while.
    pub(super) fn spoil(&self, kind: &str, names: &str, count: Option<usize>, odd: Odd, duration: Option<Duration>) {
        let named = |object: &Value| glob_matches(names, object["metadata"]["name"].as_str().unwrap_or_default());
        let mut targets = Target::all(&self.api, kind, named);
        targets.truncate(count.unwrap_or(usize::MAX));
        self.faults.spoil();
        targets.iter().for_each(|one| one.patch(&self.api, &odd.patch()));
        if odd == Odd::ManagedFields {
            return;
        }
        self.spoilt.borrow_mut().extend(targets.iter().map(|one| one.uid.clone()));
        let (api, spoilt) = (self.api.clone(), self.spoilt.clone());
        later(duration, move || {
            for one in targets {
                spoilt.borrow_mut().remove(&one.uid);
                one.mend(&api);
            }
        });
    }

    /// Mends objects that are put back spoilt from a backup and had been mended since it was made.
    pub(super) fn mend_what_is_put_back(&self) {
        let spoilt = self.spoilt.borrow();
        let stale = |object: &Value| {
            is_marked(object) && !spoilt.contains(object["metadata"]["uid"].as_str().unwrap_or_default())
        };
        let all = SPOILABLE.iter().flat_map(|kind| Target::all(&self.api, kind, stale));
        all.for_each(|one| one.mend(&self.api));
    }

    /// True if a fault of the scenario keeps a waiting pod from a node, whatever the control plane does: packing is made to fail
    /// with it, kube-scheduler is made to refuse it nodes, or replicas cannot read it.
    pub fn is_kept_from_nodes(&self, pod: &Value) -> bool {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let refused = |glob: &String| {
            glob.split_once('/')
                .is_some_and(|(_, of)| glob_matches(of, &format!("{}/{}", text("namespace"), text("name"))))
        };
        self.config.panics_for.iter().any(|glob| glob_matches(glob, text("name")))
            || self.config.faults.scheduler.refuses.iter().any(refused)
            || is_marked(pod)
    }
}

fn is_marked(object: &Value) -> bool {
    object["metadata"]["annotations"][MARK].is_string()
}
