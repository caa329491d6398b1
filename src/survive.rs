//! A packing that panics or meets its bound does not end the command: the pods that break it are left out, each with the reason.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::pack::{Isolation, Options, Packing, PackingError, solve_within};

/// Packs, without the pods that break it.
pub fn solve(problem: &Arc<Problem>, options: &Options) -> Packing {
    driven(problem, options, solve_within)
}

/// Packs the problem by any solver.
fn driven(
    problem: &Arc<Problem>,
    options: &Options,
    solver: impl Fn(&Problem, &Options) -> Result<Packing, PackingError>,
) -> Packing {
    let mut isolation = Isolation::new(problem.clone(), options.clone(), |_| None);
    loop {
        let asked = isolation.asked();
        // A solver changes nothing but what it answers.
        let solving = catch_unwind(AssertUnwindSafe(|| solver(&asked.problem, &asked.options)));
        let answer = solving.unwrap_or_else(|panic| Err(PackingError::of_panic(&*panic)));
        if let Some(isolated) = isolation.answered(answer) {
            return isolated.packing;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn pod_packing_panics_for_is_left_out_and_others_are_planned() {
        let text = r#"{"nodePools": [{"name": "p"}],
            "instanceTypes": [{"name": "t", "capacity": {"cpu": "4", "memory": "8Gi", "pods": "9"},
                "offerings": [{"zone": "z", "capacityType": "on-demand", "price": 0.1, "available": true}]}],
            "pods": [{"name": "good", "requests": {"cpu": "1"}}, {"name": "bad", "requests": {"cpu": "2"}}]}"#;
        let problem: Arc<Problem> = Arc::new(serde_json::from_str(text).unwrap());
        let packing = driven(&problem, &Options::default(), |problem, options| {
            if problem.pods.iter().any(|pod| pod.name == "bad") {
                std::panic::resume_unwind(Box::new("a fault of the test"));
            }
            solve_within(problem, options)
        });
        assert_eq!(packing.claims.len(), 1);
        assert_eq!(packing.claims[0].pods, [0]);
        let (pod, reason) = &packing.unscheduled[0];
        assert_eq!((*pod, packing.unscheduled.len()), (1, 1));
        assert_eq!(reason.to_string(), "it is left out, as with it packing panics: a fault of the test");
    }
}
