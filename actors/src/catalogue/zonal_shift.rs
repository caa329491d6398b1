//! Zones that the cluster is shifted away from, where ENABLE_ZONAL_SHIFT is set. ARC is asked twice a minute on every replica, so
//! that a new leader knows at once; instance types wait for the first answer, a moment at most. Zones count while they are
//! confirmed, until their end, and never all of them (docs/decisions/088).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassStatus};
use dovetail_cloud::CloudError;
use dovetail_core::pause::DoublingPause;
use dovetail_core::zonal_shift::{AllShifted, ShiftAnswer, ShiftedZones, ZoneShift};

use super::Catalogue;
use crate::context::env::Env;
use crate::messages::ZonesShifted;
use crate::telemetry::log_event::LogEvent;

/// Interval between two questions (karpenter-aws 5.2).
const REFRESH: Duration = Duration::from_secs(30);
/// Pauses after failures.
const FAILED_AGAIN: DoublingPause = DoublingPause { first: REFRESH, longest: Duration::from_secs(5 * 60) };
/// Time that instance types wait for the first answer.
const LONGEST_AWAITED: Duration = Duration::from_secs(20);
/// Most zones that are known: more than a region has.
const MOST_ZONES: usize = 64;
/// Stands for the code of an answer that does not come.
const LATE: &str = "Late";

/// Shifts, and the state of asking for them.
#[derive(Default)]
pub(super) struct ZoneShifts {
    answer: ShiftAnswer,
    /// Names of the classes' zones by id.
    zones: BTreeMap<String, String>,
    counted: ShiftedZones,
    /// Code of the failure that was reported last; `None` after an answer.
    unread: Option<String>,
    /// True once it was reported that an answer is not believed, as long as it is not.
    doubted: bool,
    /// Failures in a row.
    failures: u32,
    /// True while instance types wait for the first answer.
    awaited: bool,
    /// Told when other zones count.
    pub(super) listener: Option<Recipient<ZonesShifted>>,
}

impl ZoneShifts {
    /// True while instance types wait for the first answer.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Takes an answer; returns the pause before the next question.
    fn learn(&mut self, answer: Result<Vec<ZoneShift>, CloudError>, env: &Env) -> Duration {
        match answer {
            Ok(shifts) => {
                (self.unread, self.failures) = (None, 0);
                self.answer.learn(shifts, env.wall());
                REFRESH
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.note_unread(error.code(), error.to_string(), env);
                FAILED_AGAIN.length_of_nth(self.failures)
            }
        }
    }

    /// Takes note of the zones of a class, as shifts name zones by their ids; true if one is new.
    fn note_zones(&mut self, status: &EC2NodeClassStatus) -> bool {
        let before = self.zones.len();
        for subnet in status.subnets.iter().filter(|subnet| !subnet.zone_id.is_empty()) {
            if self.zones.len() < MOST_ZONES && !self.zones.contains_key(&subnet.zone_id) {
                self.zones.insert(subnet.zone_id.clone(), subnet.zone.clone());
            }
        }
        self.zones.len() != before
    }

    /// Counts the zones anew, as a shift may have ended or may no longer be confirmed; the zones that count, where these are others
    /// than before.
    fn count(&mut self, env: &Env) -> Option<ShiftedZones> {
        let counted = match self.answer.counted(&self.zones, env.wall()) {
            Ok(counted) => {
                self.doubted = false;
                counted
            }
            Err(AllShifted) => {
                if !std::mem::replace(&mut self.doubted, true) {
                    let why = "it names all zones of the node classes, and none would be left".to_owned();
                    env.emit(LogEvent::ZoneShiftsUnread { why });
                }
                ShiftedZones::default()
            }
        };
        if counted == self.counted {
            return None;
        }
        let before = std::mem::replace(&mut self.counted, counted.clone());
        for (id, shifted) in counted.iter().filter(|(id, _)| before.of_zone(id).is_none()) {
            let (zone, zone_id, why) = (shifted.name.clone(), id.to_owned(), shifted.to_string());
            env.emit(LogEvent::ZoneShifted { zone, zone_id, why });
        }
        for (id, shifted) in before.iter().filter(|(id, _)| counted.of_zone(id).is_none()) {
            env.emit(LogEvent::ZoneShiftOver { zone: shifted.name.clone(), zone_id: id.to_owned() });
        }
        if let Some(listener) = &self.listener {
            env.post(listener, ZonesShifted(counted.clone()));
        }
        Some(counted)
    }

    /// Reports a failure unless the last report was of the same code.
    fn note_unread(&mut self, code: &str, why: String, env: &Env) {
        if self.unread.as_deref() != Some(code) {
            self.unread = Some(code.to_owned());
            env.emit(LogEvent::ZoneShiftsUnread { why });
        }
    }
}

/// Begins to ask, where the settings say so.
pub(super) fn begin_shifts(catalogue: &mut Catalogue, ctx: &mut Context<Catalogue>) {
    if !catalogue.env.settings.zonal_shift {
        return;
    }
    catalogue.shifts.awaited = true;
    ask_for_shifts(catalogue, ctx);
    ctx.run_later(LONGEST_AWAITED, |catalogue, _| {
        if std::mem::take(&mut catalogue.shifts.awaited) {
            catalogue.shifts.note_unread(LATE, "there is no answer yet".to_owned(), &catalogue.env);
            catalogue.world_changed();
        }
    });
}

fn ask_for_shifts(catalogue: &mut Catalogue, ctx: &mut Context<Catalogue>) {
    let cloud = catalogue.cloud.clone();
    let call = async move { cloud.zone_shifts().await }.into_actor(catalogue);
    ctx.spawn(call.map(|answer, catalogue, ctx| {
        let pause = catalogue.shifts.learn(answer, &catalogue.env);
        count_shifts(catalogue);
        if std::mem::take(&mut catalogue.shifts.awaited) {
            catalogue.world_changed();
        }
        ctx.run_later(pause, ask_for_shifts);
    }));
}

/// Counts the zones anew; where others count than before, their offerings are withheld or there again.
pub(super) fn count_shifts(catalogue: &mut Catalogue) {
    if let Some(counted) = catalogue.shifts.count(&catalogue.env) {
        catalogue.unavailable.shift_zones(counted);
        catalogue.world_changed();
    }
}

/// Takes note of the zones of classes, where shifts are heeded.
pub(super) fn note_zones(catalogue: &mut Catalogue, classes: &[Arc<EC2NodeClass>]) {
    if !catalogue.env.settings.zonal_shift {
        return;
    }
    let mut news = false;
    for status in classes.iter().filter_map(|class| class.status.as_ref()) {
        news |= catalogue.shifts.note_zones(status);
    }
    if news {
        count_shifts(catalogue);
    }
}
