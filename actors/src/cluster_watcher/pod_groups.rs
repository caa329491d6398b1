//! PodGroups: watched only where their feature gate is open (docs/gangs.md), of each API that is served. Nothing of them is ever
//! written.

use actix::prelude::*;
use dovetail_api::scheduling::{COSCHEDULING_VERSION, CoschedulingGroup, KIND, PodGroup, PodGroupAlpha, VERSIONS};
use dovetail_core::pod_groups::{PodGroupApi, PodGroupBook, PodGroupRule, read_coscheduling_group, read_group};

use super::ClusterWatcher;
use crate::kube::served::{KindNews, OptionalKind, key_of};
use crate::telemetry::log_event::LogEvent;

/// A kind of PodGroups.
trait GroupKind: OptionalKind {
    const API: PodGroupApi;

    /// The meaning of a group.
    fn rule(&self) -> PodGroupRule;

    /// Takes in news. Answers true if groups, or what they ask for, are others now.
    fn take_in(groups: &mut PodGroupBook, news: &KindNews<Self>) -> bool {
        match news {
            KindNews::Seen(group) => groups.insert(Self::API, &key_of(group.meta()), group.rule()),
            KindNews::Unreadable(object) => {
                let why = format!("it cannot be read: {}", object.why);
                groups.insert(Self::API, &key_of(&object.metadata), Err(why))
            }
            KindNews::Gone(key) => groups.remove(Self::API, key),
            KindNews::Listed(keys) => groups.retain(Self::API, |key| keys.contains(key)),
            KindNews::Served(_) => groups.follow(Self::API, true),
            KindNews::NotServed => groups.follow(Self::API, false),
            KindNews::Failed(..) | KindNews::Runs => false,
        }
    }
}

impl OptionalKind for PodGroup {
    type Older = PodGroupAlpha;

    const KIND: &'static str = KIND;
    const RESOURCE: &'static str = "podgroups";
    const VERSIONS: &'static [&'static str] = &VERSIONS;
}

impl OptionalKind for CoschedulingGroup {
    type Older = Self;

    const KIND: &'static str = KIND;
    const RESOURCE: &'static str = "podgroups.scheduling.x-k8s.io";
    const VERSIONS: &'static [&'static str] = &[COSCHEDULING_VERSION];
}

impl GroupKind for PodGroup {
    const API: PodGroupApi = PodGroupApi::Native;

    fn rule(&self) -> PodGroupRule {
        read_group(&self.spec)
    }
}

impl GroupKind for CoschedulingGroup {
    const API: PodGroupApi = PodGroupApi::Coscheduling;

    fn rule(&self) -> PodGroupRule {
        read_coscheduling_group(&self.spec)
    }
}

macro_rules! groups {
    ($($kind:ident),*) => {$(
        impl Handler<KindNews<$kind>> for ClusterWatcher {
            type Result = ();

            fn handle(&mut self, news: KindNews<$kind>, _: &mut Self::Context) {
                let changed = $kind::take_in(self.state.pod_groups_mut(), &news);
                match news {
                    KindNews::NotServed => {
                        self.env.emit(LogEvent::PodGroupsNotServed { api: $kind::API.to_string() });
                        self.kind_known::<$kind>();
                    }
                    KindNews::Listed(_) => self.kind_known::<$kind>(),
                    KindNews::Failed(pause, error) => self.kind_failed::<$kind>(pause, error),
                    KindNews::Runs => self.watch_runs($kind::RESOURCE),
                    KindNews::Served(_) | KindNews::Seen(_) | KindNews::Unreadable(_) | KindNews::Gone(_) => {}
                }
                self.groups_changed(changed);
            }
        }
    )*};
}

groups!(PodGroup, CoschedulingGroup);

/// True if this is the resource of a kind of PodGroups.
pub(super) fn is_of_groups(resource: &str) -> bool {
    [PodGroup::RESOURCE, CoschedulingGroup::RESOURCE].contains(&resource)
}
