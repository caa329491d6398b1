//! Claims for devices, their classes, and the slices by which drivers publish devices: watched only where pods with claims get
//! nodes (docs/dra.md). Nothing of them is ever written.

use actix::prelude::*;
use dovetail_api::resource::{API_VERSION, DeviceClass, ResourceClaim, ResourceSlice};
use dovetail_core::dra::DeviceBook;

use super::ClusterWatcher;
use crate::kube::served::{KindNews, OptionalKind};
use crate::telemetry::log_event::LogEvent;

/// A kind of objects about devices.
trait DeviceKind: OptionalKind {
    /// Takes in news. Answers true if devices, or what is asked of them, are others now.
    fn take_in(devices: &mut DeviceBook, news: &KindNews<Self>) -> bool;
}

impl DeviceKind for ResourceClaim {
    fn take_in(devices: &mut DeviceBook, news: &KindNews<Self>) -> bool {
        match news {
            KindNews::Seen(claim) => devices.apply_claim(claim),
            KindNews::Unreadable(object) => devices.apply_unreadable_claim(&object.metadata, &object.why),
            KindNews::Gone(key) => devices.claims.remove(key),
            KindNews::Listed(keys) => devices.claims.retain_keys(|key| keys.contains(key)),
            _ => false,
        }
    }
}

impl DeviceKind for DeviceClass {
    fn take_in(devices: &mut DeviceBook, news: &KindNews<Self>) -> bool {
        match news {
            KindNews::Seen(class) => devices.apply_class(class),
            KindNews::Unreadable(object) => devices.apply_unreadable_class(&object.metadata, &object.why),
            KindNews::Gone(key) => devices.classes.remove(key),
            KindNews::Listed(keys) => devices.classes.retain_keys(|key| keys.contains(key)),
            _ => false,
        }
    }
}

impl DeviceKind for ResourceSlice {
    fn take_in(devices: &mut DeviceBook, news: &KindNews<Self>) -> bool {
        match news {
            KindNews::Seen(slice) => devices.apply_slice(slice),
            KindNews::Unreadable(object) => devices.apply_unreadable_slice(&object.metadata),
            KindNews::Gone(key) => devices.remove_slice(key),
            KindNews::Listed(keys) => devices.retain_slices(|key| keys.contains(key)),
            _ => false,
        }
    }
}

macro_rules! kinds {
    ($($kind:ident => $name:literal, $after:ident);*) => {$(
        impl OptionalKind for $kind {
            type Older = Self;

            const KIND: &'static str = stringify!($kind);
            const RESOURCE: &'static str = $name;
            const VERSIONS: &'static [&'static str] = &[API_VERSION];
        }

        impl Handler<KindNews<$kind>> for ClusterWatcher {
            type Result = ();

            fn handle(&mut self, news: KindNews<$kind>, _: &mut Self::Context) {
                let listing = self.not_known.contains($kind::RESOURCE);
                let changed = $kind::take_in(self.state.devices_mut(), &news);
                match news {
                    KindNews::NotServed => {
                        self.env.emit(LogEvent::DevicesNotServed { kind: $kind::KIND.to_owned() });
                        self.kind_known::<$kind>();
                    }
                    KindNews::Listed(_) => self.kind_known::<$kind>(),
                    KindNews::Failed(pause, error) => self.kind_failed::<$kind>(pause, error),
                    KindNews::Runs => self.watch_runs($kind::RESOURCE),
                    KindNews::Served(_) | KindNews::Seen(_) | KindNews::Unreadable(_) | KindNews::Gone(_) => {}
                }
                self.$after(changed || (listing && !self.not_known.contains($kind::RESOURCE)));
            }
        }
    )*};
}

kinds!(
    ResourceClaim => "resourceclaims", claims_changed;
    DeviceClass => "deviceclasses", claims_changed;
    ResourceSlice => "resourceslices", slices_changed
);

/// True if this is the resource of a kind of devices.
pub(super) fn is_of_devices(resource: &str) -> bool {
    [ResourceClaim::RESOURCE, DeviceClass::RESOURCE, ResourceSlice::RESOURCE].contains(&resource)
}
