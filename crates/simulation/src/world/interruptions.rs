//! Spot instances that get their warning: a share of them, a node's, or a pool's.

use std::time::Duration;

use dovetail_input::Failure;
use dovetail_sandbox::region::{CapacityType, InstanceState, RegionInstance};

use super::World;
use super::actions::later;

/// Time between a spot instance's warning and its end.
const NOTICE: Duration = Duration::from_secs(120);

impl World {
    /// Ids of the spot instances that run.
    pub(super) fn running_spot(&self) -> Vec<String> {
        self.spot(|one| one.state == InstanceState::Running)
    }

    fn spot(&self, wanted: impl Fn(&RegionInstance) -> bool) -> Vec<String> {
        let is_wanted = |one: &RegionInstance| one.capacity_type == CapacityType::Spot && wanted(one);
        self.region.instances().into_iter().filter(is_wanted).map(|one| one.id).collect()
    }

    pub(super) fn interrupt_share(&self, share: f64) -> Result<(), Failure> {
        let spot = self.running_spot();
        let count = (spot.len() as f64 * share).ceil() as usize;
        spot.iter().take(count).try_for_each(|id| self.interrupt(id))
    }

    /// Interrupts what lives in a pool, which is nothing where it is not used, and sells the pool out for a while.
    pub(super) fn interrupt_pool(&self, pool: &str, duration: Duration) -> Result<(), Failure> {
        let of_pool = |one: &RegionInstance| {
            one.state.is_alive() && pool.split_once('/') == Some((&*one.instance_type, &*one.zone))
        };
        self.spot(of_pool).iter().try_for_each(|id| self.interrupt(id))?;
        if !duration.is_zero() {
            let (faults, glob) = (self.faults.clone(), format!("{pool}/spot"));
            faults.change(|faults| faults.ec2.insufficient_capacity.push(glob.clone()));
            later(Some(duration), move || {
                faults.change(|faults| {
                    let globs = &mut faults.ec2.insufficient_capacity;
                    // One of its kind: the scenario may have the same from the start, or a step that overlaps.
                    if let Some(at) = globs.iter().rposition(|one| *one == glob) {
                        globs.remove(at);
                    }
                });
            });
        }
        Ok(())
    }

    pub(super) fn interrupt_node(&self, node: &str) -> Result<(), Failure> {
        let found = self.region.instances().into_iter().find(|one| one.hostname == node && one.state.is_alive());
        let Some(instance) = found else { return Err(Failure::System(format!("no instance is behind node {node}"))) };
        self.interrupt(&instance.id)
    }

    fn interrupt(&self, id: &str) -> Result<(), Failure> {
        self.region.interrupt(id, NOTICE, false).map_err(|why| Failure::System(why.to_string()))
    }
}
