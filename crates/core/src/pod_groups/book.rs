//! PodGroups of a cluster, by API, namespace and name; cloning is cheap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::read::{PodGroupApi, PodGroupRef};

/// The meaning of a group: number of members that have to have a place together, `None` if each pod is placed for itself; or why it
/// has none.
pub type PodGroupRule = Result<Option<usize>, String>;

/// All groups of the APIs that are followed; nothing where the feature gate is closed.
#[derive(Clone, Debug, Default)]
pub struct PodGroupBook {
    followed: BTreeSet<PodGroupApi>,
    groups: Arc<BTreeMap<(PodGroupApi, String), PodGroupRule>>,
}

impl PodGroupBook {
    /// Follows the groups of an API, which is served, or does not any more: pods that name one of them are placed each for itself.
    /// Answers true if that is news.
    pub fn follow(&mut self, api: PodGroupApi, follows: bool) -> bool {
        if follows { self.followed.insert(api) } else { self.followed.remove(&api) }
    }

    /// True if no groups are followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Keeps a group, by namespace and name, as it is now. Answers true if its meaning has changed.
    pub fn insert(&mut self, api: PodGroupApi, key: &str, rule: PodGroupRule) -> bool {
        let key = (api, key.to_owned());
        let news = self.groups.get(&key) != Some(&rule);
        if news {
            Arc::make_mut(&mut self.groups).insert(key, rule);
        }
        news
    }

    /// Forgets a group that is gone. Answers true if it was known.
    pub fn remove(&mut self, api: PodGroupApi, key: &str) -> bool {
        let key = (api, key.to_owned());
        self.groups.contains_key(&key) && Arc::make_mut(&mut self.groups).remove(&key).is_some()
    }

    /// Keeps only groups of an API whose namespace and name satisfy `keep`. Answers true if any goes.
    pub fn retain(&mut self, api: PodGroupApi, keep: impl Fn(&str) -> bool) -> bool {
        let stays = |(of, key): &(PodGroupApi, String)| *of != api || keep(key);
        let news = self.groups.keys().any(|key| !stays(key));
        if news {
            Arc::make_mut(&mut self.groups).retain(|key, _| stays(key));
        }
        news
    }

    /// The meaning of the group that a pod of a namespace names; `None` where groups of its API are not followed.
    #[must_use]
    pub fn find_rule(&self, namespace: &str, group: &PodGroupRef) -> Option<PodGroupRule> {
        if !self.followed.contains(&group.api) {
            return None;
        }
        let known = self.groups.get(&(group.api, format!("{namespace}/{}", group.name)));
        Some(known.cloned().unwrap_or_else(|| Err(format!("there is no such object of {} yet", group.api))))
    }
}
