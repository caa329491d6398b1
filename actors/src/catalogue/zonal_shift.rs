//! Zones that the cluster is shifted away from, where ENABLE_ZONAL_SHIFT is set. ARC is asked twice a minute on every replica, so that a new
//! leader knows at once; instance types wait for the first answer, a moment at most. Zones count while they are confirmed, until
//! their end, and never all of them (docs/decisions/088).

use std::collections::BTreeMap;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::EC2NodeClassStatus;
use dovetail_cloud::CloudError;
use dovetail_core::pause::DoublingPause;
use dovetail_core::zonal_shift::{AllShifted, ShiftAnswer, ShiftedZones, ZoneShift};

use super::Catalogue;
use crate::messages::{ShiftsAttach, ZonesShifted};
use crate::telemetry::log_event::LogEvent;

/// Interval between two questions (karpenter-aws 5.2).
const REFRESH: Duration = Duration::from_secs(30);
/// Pauses after failures.
const FAILED_AGAIN: DoublingPause = DoublingPause { first: REFRESH, longest: Duration::from_secs(5 * 60) };
/// Time that instance types wait for the first answer.
const LONGEST_AWAITED: Duration = Duration::from_secs(20);
/// Most zones that are known: more than a region has.
const MOST_ZONES: usize = 64;
/// Stands for the code of an answer that is not believed.
const ALL_ZONES: &str = "AllZones";

/// Shifts, and the state of asking for them.
#[derive(Default)]
pub(super) struct ZoneShifts {
    answer: ShiftAnswer,
    /// Names of the classes' zones by id.
    zones: BTreeMap<String, String>,
    counted: ShiftedZones,
    /// Code of the failure that was reported last; `None` after an answer.
    unread: Option<String>,
    /// Failures in a row.
    failures: u32,
    /// True while instance types wait for the first answer.
    awaited: bool,
    listener: Option<Recipient<ZonesShifted>>,
}

impl ZoneShifts {
    /// True while instance types wait for the first answer.
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited
    }
}

impl Handler<ShiftsAttach> for Catalogue {
    type Result = ();

    fn handle(&mut self, attach: ShiftsAttach, _: &mut Self::Context) {
        self.shifts.listener = Some(attach.0);
        self.report_shifts();
    }
}

impl Catalogue {
    /// Begins to ask, where the settings say so.
    pub(super) fn begin_shifts(&mut self, ctx: &mut Context<Self>) {
        if !self.env.settings.zonal_shift {
            return;
        }
        self.shifts.awaited = true;
        self.ask_for_shifts(ctx);
        ctx.run_later(LONGEST_AWAITED, |catalogue, _| {
            if std::mem::take(&mut catalogue.shifts.awaited) {
                catalogue.note_unread("Late", "there is no answer yet".to_owned());
                catalogue.world_changed();
            }
        });
    }

    fn ask_for_shifts(&mut self, ctx: &mut Context<Self>) {
        let cloud = self.cloud.clone();
        let call = async move { cloud.zone_shifts().await }.into_actor(self);
        ctx.spawn(call.map(|answer, catalogue, ctx| {
            let pause = catalogue.learn_shifts(answer);
            if std::mem::take(&mut catalogue.shifts.awaited) {
                catalogue.world_changed();
            }
            ctx.run_later(pause, Self::ask_for_shifts);
        }));
    }

    /// Takes an answer; returns the pause before the next question.
    fn learn_shifts(&mut self, answer: Result<Vec<ZoneShift>, CloudError>) -> Duration {
        let pause = match answer {
            Ok(shifts) => {
                let all = self.shifts.unread.as_deref() == Some(ALL_ZONES);
                self.shifts.unread = self.shifts.unread.take().filter(|_| all);
                self.shifts.failures = 0;
                self.shifts.answer.learn(shifts, self.env.wall());
                REFRESH
            }
            Err(error) => {
                self.shifts.failures = self.shifts.failures.saturating_add(1);
                self.note_unread(&error.code().to_owned(), error.to_string());
                FAILED_AGAIN.length_of_nth(self.shifts.failures)
            }
        };
        self.count_shifts();
        pause
    }

    /// Takes note of the zones of a class: shifts name zones by their ids.
    pub(super) fn note_zones(&mut self, status: &EC2NodeClassStatus) {
        if !self.env.settings.zonal_shift {
            return;
        }
        let known = &mut self.shifts.zones;
        let before = known.len();
        for subnet in status.subnets.iter().filter(|subnet| !subnet.zone_id.is_empty()) {
            if known.len() < MOST_ZONES && !known.contains_key(&subnet.zone_id) {
                known.insert(subnet.zone_id.clone(), subnet.zone.clone());
            }
        }
        if known.len() != before {
            self.count_shifts();
        }
    }

    /// Counts the zones anew: a shift may have ended, or may no longer be confirmed.
    pub(super) fn count_shifts(&mut self) {
        let counted = match self.shifts.answer.counted(&self.shifts.zones, self.env.wall()) {
            Ok(counted) => {
                if self.shifts.unread.as_deref() == Some(ALL_ZONES) {
                    self.shifts.unread = None;
                }
                counted
            }
            Err(AllShifted) => {
                self.note_unread(
                    ALL_ZONES,
                    "it names all zones of the node classes, and none would be left".to_owned(),
                );
                ShiftedZones::default()
            }
        };
        if counted == self.shifts.counted {
            return;
        }
        let before = std::mem::replace(&mut self.shifts.counted, counted.clone());
        for (id, shifted) in counted.iter().filter(|(id, _)| before.of_zone(id).is_none()) {
            self.env.emit(LogEvent::ZoneShifted {
                zone: shifted.name.clone(),
                zone_id: id.to_owned(),
                why: shifted.to_string(),
            });
        }
        for (id, shifted) in before.iter().filter(|(id, _)| counted.of_zone(id).is_none()) {
            self.env.emit(LogEvent::ZoneShiftOver { zone: shifted.name.clone(), zone_id: id.to_owned() });
        }
        self.unavailable.shift_zones(counted);
        self.report_shifts();
        self.world_changed();
    }

    fn report_shifts(&self) {
        if let Some(listener) = &self.shifts.listener {
            self.env.post(listener, ZonesShifted(self.shifts.counted.clone()));
        }
    }

    /// Reports a failure unless the last report was of the same code.
    fn note_unread(&mut self, code: &str, why: String) {
        if self.shifts.unread.as_deref() != Some(code) {
            self.shifts.unread = Some(code.to_owned());
            self.env.emit(LogEvent::ZoneShiftsUnread { why });
        }
    }
}
