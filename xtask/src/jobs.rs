//! Jobs of a pull request: parts of `cargo xtask test` that run alone, each on a machine of its own
//! (.github/workflows/pull-request.yaml). Together they are the whole; tests/docs holds both to each other.

use crate::deny;
use crate::programs;
use crate::steps;

type Step = fn() -> Result<(), String>;

/// A part of the tests.
struct Job {
    name: &'static str,
    before: &'static [Step],
    programs: Programs,
    /// Steps on what the programs have left behind.
    after: &'static [Step],
}

/// The test programs of a job.
enum Programs {
    /// Programs of the root package by their names; no other is built.
    Named(&'static [&'static str]),
    /// All that no job names, and the documentation's examples: a new program is one of these.
    Others,
}

const NONE: Programs = Programs::Named(&[]);

static JOBS: [Job; 8] = [
    Job {
        name: "lint",
        before: &[steps::format, steps::house, steps::references, deny::check, steps::clippy],
        programs: NONE,
        after: &[],
    },
    Job { name: "unit", before: &[steps::suites], programs: Programs::Others, after: &[steps::nothing_compiled_twice] },
    Job { name: "simulated", before: &[], programs: Programs::Named(&["simulated", "seeds"]), after: &[] },
    Job { name: "live", before: &[steps::real_parts], programs: Programs::Named(&["live", "conformance"]), after: &[] },
    Job {
        name: "real",
        before: &[steps::real_parts],
        programs: Programs::Named(&["real", "real_posts"]),
        after: &[steps::roles],
    },
    Job { name: "charts", before: &[steps::helm, steps::deploy], programs: Programs::Named(&["commands"]), after: &[] },
    Job { name: "image", before: &[steps::binary, steps::image], programs: NONE, after: &[] },
    Job { name: "docs", before: &[steps::docs], programs: NONE, after: &[] },
];

/// Runs jobs, one after the other, in the order of their names in `names`, which commas part.
///
/// # Errors
/// There is no such job, or one fails: those after it do not run.
pub fn test(names: &str, environment: &[(&str, &str)]) -> Result<(), String> {
    chosen(names)?.into_iter().try_for_each(|job| job.run(environment))
}

fn chosen(names: &str) -> Result<Vec<&'static Job>, String> {
    let known = || JOBS.iter().map(|job| job.name).collect::<Vec<_>>().join(", ");
    let job = |name: &str| JOBS.iter().find(|job| job.name == name);
    let jobs = names
        .split(',')
        .map(|name| job(name).ok_or_else(|| format!("there is no job {name:?} (there are: {})", known())));
    jobs.collect()
}

/// True for a test program that a job names.
fn is_named(program: &str) -> bool {
    JOBS.iter().any(|job| matches!(job.programs, Programs::Named(names) if names.contains(&program)))
}

impl Job {
    fn run(&self, environment: &[(&str, &str)]) -> Result<(), String> {
        println!("== job {}", self.name);
        self.before.iter().try_for_each(|step| step())?;
        match self.programs {
            Programs::Named([]) => {}
            Programs::Named(names) => programs::run_some(programs::built_of_root(names)?, environment)?,
            Programs::Others => {
                let mut others = programs::built()?;
                others.retain(|program| !is_named(program.name()));
                programs::run(others, environment)?;
            }
        }
        self.after.iter().try_for_each(|step| step())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named() -> Vec<&'static str> {
        let names = JOBS.iter().filter_map(|job| match job.programs {
            Programs::Named(names) => Some(names),
            Programs::Others => None,
        });
        names.flatten().copied().collect()
    }

    #[test]
    fn a_job_names_programs_that_are_there_and_no_other_names() {
        let (root, mut names) = (crate::commands::root(), named());
        for name in &names {
            let places = [format!("tests/{name}.rs"), format!("tests/{name}/main.rs")];
            assert!(places.iter().any(|place| root.join(place).exists()), "{name}");
        }
        names.sort_unstable();
        assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    }

    #[test]
    fn one_job_runs_every_program_that_none_names() {
        assert_eq!(JOBS.iter().filter(|job| matches!(job.programs, Programs::Others)).count(), 1);
        assert!(is_named("live") && !is_named("dovetail_core") && !is_named("a_new_one"));
    }

    #[test]
    fn jobs_run_in_the_order_in_which_they_are_named() {
        let names = |text| chosen(text).map(|jobs| jobs.iter().map(|job| job.name).collect::<Vec<_>>());
        assert_eq!(names("real,unit"), Ok(vec!["real", "unit"]));
        let wrong = names("unit,units").unwrap_err();
        assert_eq!(
            wrong,
            "there is no job \"units\" (there are: lint, unit, simulated, live, real, charts, image, docs)"
        );
        assert!(names("").is_err());
    }
}
