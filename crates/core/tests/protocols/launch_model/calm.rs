//! The end of a world in which nothing goes wrong any more: the leader does all that is to be done, in order.

use std::hash::BuildHasher;

use dovetail_core::lifecycle::protocol::LaunchCallResult;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::world::{Faults, World};

/// Long enough for a Lease to run out, a look, a launch, and two passes of the janitor.
const TICKS: u64 = 14;

impl World {
    /// Checks that all is well in the end. `calm` are worlds from which it was, or which are being followed.
    pub fn calms_down(&self, calm: &mut FxHashSet<u64>) -> Result<(), String> {
        let mut world = self.clone();
        world.faults = Faults::default();
        for write in std::mem::take(&mut world.writes) {
            world.arrive_late(&write);
        }
        world.deliver();
        for tick in 0..TICKS {
            // From here on it is as it was for another.
            if !calm.insert(FxBuildHasher.hash_one((tick, &world))) {
                return Ok(());
            }
            world.tick();
            for number in 0..world.all.len() {
                world.alarm(number);
                world.look(number);
                world.work(number);
            }
        }
        world.wrong.clone().map_or_else(|| world.is_well(), Err)
    }

    /// All that is on its way to EC2 arrives, and is answered.
    fn deliver(&mut self) {
        while !self.calls.is_empty() {
            let call = self.calls.remove(0);
            let launched = self.launch(&call, false, call.count);
            if let Some(number) = call.by {
                self.answered(number, &call.tag, &launched, &LaunchCallResult::Unknown);
            }
        }
    }

    fn work(&mut self, number: usize) {
        for _ in 0..200 {
            if self.can_hear(number) {
                self.hear_of_claims(number);
            }
            let unlaunched = (0..self.claims.len()).find(|claim| self.can_notice(number, *claim));
            if self.turn(number).is_some() {
                self.act(number);
            } else if let Some(claim) = unlaunched {
                self.begin(number, Some(claim), 0);
            } else if self.can_join(number) {
                self.join(number);
            } else if self.can_plan(number) {
                self.plan(number);
            } else {
                break;
            }
            self.deliver();
        }
        if self.acts(number) {
            let deleting =
                |world: &Self, claim: usize| !world.claims[claim].gone && world.claims[claim].deleting.is_some();
            let deleting: Vec<usize> = (0..self.claims.len()).filter(|claim| deleting(self, *claim)).collect();
            deleting.into_iter().for_each(|claim| self.terminate(claim));
            self.sweep(number);
        }
    }

    fn is_well(&self) -> Result<(), String> {
        if let Some(run) = self.all.iter().find_map(|one| one.runs.first()) {
            return Err(format!("a launch stands still at {:?}", run.step));
        }
        let has = |at: usize| self.claims.iter().any(|one| one.lives() && one.instance == Some(at));
        if let Some(at) = (0..self.instances.len()).find(|at| self.instances[*at].alive && !has(*at)) {
            return Err(format!("instance {at} lives in the end, and no claim has it"));
        }
        let lacks = |at: &usize| {
            let one = &self.claims[*at];
            one.lives() && !one.instance.is_some_and(|at| self.instances[at].alive)
        };
        if let Some(at) = (0..self.claims.len()).find(lacks) {
            return Err(format!("claim {at} has no instance in the end"));
        }
        let left = self.claims.iter().filter(|one| !one.gone).count();
        let full = self.claims.len() + self.needs - left.min(self.needs) > self.needs + super::world::MORE_CLAIMS;
        if left < self.needs && !full { Err("the need has no claim in the end".to_owned()) } else { Ok(()) }
    }
}

impl World {
    /// Time goes on.
    pub fn tick(&mut self) {
        self.now += 1;
        for one in &mut self.all {
            (one.looked, one.swept) = (false, false);
            one.runs.iter_mut().for_each(|run| run.looks = 0);
        }
    }
}
