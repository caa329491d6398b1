//! Python suites that need nothing that is built here, each once: a whole run plays all, `--changed` those whose folders have
//! changed.

use crate::commands::run;

/// A suite of Python tests.
pub struct Suite {
    what: &'static str,
    /// Beginnings of the paths of files that it reads.
    reads: &'static [&'static str],
    args: &'static [&'static str],
}

/// All of them, in the order in which they run.
pub const SUITES: [Suite; 6] = [
    Suite { what: "checkers can fail", reads: &["tests/plan/"], args: &["tests/plan/mutations.py"] },
    Suite { what: "checkers pass what is right", reads: &["tests/plan/"], args: &["tests/plan/test_checker.py"] },
    Suite {
        what: "audit can fail",
        reads: &["tests/simulation/"],
        args: &["-m", "unittest", "discover", "-s", "tests/simulation", "-p", "test_*.py"],
    },
    Suite {
        what: "times are told apart",
        reads: &["tests/real/"],
        args: &["-m", "unittest", "discover", "-s", "tests/real", "-p", "test_*.py"],
    },
    Suite {
        what: "the day's bound is one",
        reads: &["tests/day/"],
        args: &["-m", "unittest", "discover", "-s", "tests/day", "-p", "test_*.py"],
    },
    Suite {
        what: "workloads are made",
        reads: &["tests/workloads/"],
        args: &["-m", "unittest", "discover", "-s", "tests/workloads"],
    },
];

/// Suites on documents, lengths and what is deployed. A whole run plays them at moments of their own (`steps`), as some need
/// parts that others wrote. An empty name is every file.
pub const OF_THE_TREE: [Suite; 4] = [
    Suite { what: "references", reads: &[""], args: &["tests/references.py"] },
    Suite { what: "lengths, widths, words", reads: &[""], args: &["tools/lint.py"] },
    Suite {
        what: "deploy",
        reads: &["deploy/", "tests/deploy/", "crates/cloud/"],
        args: &["tests/suite.py", "deploy"],
    },
    Suite {
        what: "docs",
        reads: &[
            "docs/",
            "tests/docs/",
            "README.md",
            "CHANGELOG.md",
            "CONTRIBUTING.md",
            ".github/",
            "xtask/",
            "actors/",
            "crates/",
            "observability/",
        ],
        args: &["tests/suite.py", "docs"],
    },
];

impl Suite {
    /// Runs it; fails with its name.
    pub fn run(&self) -> Result<(), String> {
        run(self.what, "python3", self.args)
    }

    /// True if it reads a file.
    pub fn reads(&self, file: &str) -> bool {
        self.reads.iter().any(|folder| file.starts_with(folder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_reads_a_folder_that_is_there() {
        let root = crate::commands::root();
        for suite in SUITES.iter().chain(&OF_THE_TREE) {
            assert!(suite.reads.iter().all(|path| root.join(path).exists()), "{}", suite.what);
        }
        let of =
            |file: &str| SUITES.iter().filter(|suite| suite.reads(file)).map(|suite| suite.what).collect::<Vec<_>>();
        assert_eq!(of("tests/real/places.py"), ["times are told apart"]);
        assert_eq!(of("docs/pools.md"), [""; 0]);
    }
}
