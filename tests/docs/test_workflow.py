"""What the platform that hosts the repository does by itself: the jobs of a pull request are the whole of `cargo xtask test`, they
may write nothing, and owners, updates and templates name what is there."""

import re
import tomllib
import unittest

import reference
from test_lists import block

ROOT = reference.ROOT
WORKFLOWS = ROOT / ".github/workflows"
PULL_REQUEST = (WORKFLOWS / "pull-request.yaml").read_text()
#: Steps of the whole that a job takes in another way, each with its own: a fresh machine has nothing that cargo's clippy could share.
OTHERWISE = {"lint::run": "steps::clippy"}
#: Functions of the whole that are no steps: a job builds its programs by itself.
NO_STEPS = {"programs::built", "checks", "checked_and_built", "property_seed"}


def read(path):
    return (ROOT / path).read_text()


def jobs(text):
    """The table of jobs: name, the test programs that it names (None: all others), its steps."""
    table = text[text.index("static JOBS") :]
    found = {}
    for job in table[: table.index("\n];")].split("Job {")[1:]:
        named = re.search(r"programs: (?:Programs::Named\(&\[(.*?)\]\)|(NONE)|(Programs::Others))", job, re.DOTALL)
        programs = None if named[3] else re.findall(r'"(\w+)"', named[1] or "")
        steps = re.findall(r"(?:steps|deny)::\w+", job)
        found[re.search(r'name: "(\w+)"', job)[1]] = (programs, steps)
    return found


def runs(workflow):
    """The jobs that a workflow runs, by the matrix of the step that names one."""
    matrix = re.search(r"^ +job: \[(.*)\]$", workflow, re.MULTILINE)
    return re.split(r",\s*", matrix[1]) if matrix and "cargo xtask test --only ${{ matrix.job }}\n" in workflow else []


def test_programs():
    """Names of the test programs of all packages, by their files; of unit tests, that of the package."""
    members = tomllib.loads(read("Cargo.toml"))["workspace"]["members"]
    found = []
    for folder in [ROOT, *(ROOT / member for member in members)]:
        found.append(tomllib.loads((folder / "Cargo.toml").read_text())["package"]["name"])
        found += [path.stem for path in folder.glob("tests/*.rs")] + [path.parent.name for path in folder.glob("tests/*/main.rs")]
    return found


def steps_of_the_whole(text):
    """The functions that `cargo xtask test` calls in steps.rs: those that only return what another does are left out."""
    bodies = "".join(block(text, rf"fn {name}\(\)[^{{]*\{{") for name in ("all_that_has_to_hold", "checks", "checked_and_built"))
    bodies = re.sub(r"//.*", "", bodies)
    called = re.findall(r"(?<![\w.:])((?:[a-z_]+::)?[a-z_]+)\(\)", bodies) + re.findall(r"\.spawn\(([a-z_]+)\)", bodies)
    return {name if "::" in name else f"steps::{name}" for name in set(called) - NO_STEPS}


class PullRequest(unittest.TestCase):
    JOBS = jobs(read("xtask/src/jobs.rs"))

    def test_every_workflow_calls_commands_of_xtask_that_exist(self):
        habits = set(re.findall(r'^ {4}\(\s*"([a-z]+)",', read("xtask/src/main.rs"), re.MULTILINE))
        self.assertIn("lint", habits)
        for workflow in WORKFLOWS.iterdir():
            called = re.findall(r"cargo xtask ([a-z]+)", re.sub(r"#.*", "", workflow.read_text()))
            self.assertTrue(called, workflow.name)
            self.assertLessEqual(set(called), habits, workflow.name)

    def test_it_runs_every_job_once(self):
        self.assertEqual(sorted(runs(PULL_REQUEST)), sorted(self.JOBS))
        self.assertEqual(len(re.findall(r"^  \w+:$", PULL_REQUEST.split("\njobs:\n")[1], re.MULTILINE)), 1)

    def test_every_test_program_runs_in_one_of_its_jobs(self):
        programs = test_programs()
        self.assertIn("simulated", programs)
        named = [name for names, _ in self.JOBS.values() for name in names or ()]
        self.assertEqual(sorted(named), sorted(name for name in programs if name in named), "one that is not there, or two of a name")
        others = [job for job, (names, _) in self.JOBS.items() if names is None]
        self.assertEqual(others, ["unit"])
        self.assertIn("unit", runs(PULL_REQUEST))

    def test_every_step_of_the_whole_is_taken_by_one_of_its_jobs(self):
        whole = steps_of_the_whole(read("xtask/src/steps.rs"))
        self.assertLessEqual({"steps::format", "steps::image", "deny::check", "steps::deploy", "lint::run"}, whole)
        taken = {step for _, steps in self.JOBS.values() for step in steps}
        self.assertEqual(sorted({OTHERWISE.get(step, step) for step in whole} - taken), [])

    def test_a_job_that_is_left_out_is_named(self):
        self.assertEqual(runs(PULL_REQUEST.replace("real, ", "")), [job for job in runs(PULL_REQUEST) if job != "real"])
        self.assertEqual(runs("matrix:\n        job: [lint]\n      - run: cargo test\n"), [])
        text = "fn checks() -> R {\n    new()?;\n    a::new()\n}\nfn all_that_has_to_hold() -> R {\n    scope.spawn(beside);\n}\n"
        self.assertEqual(steps_of_the_whole(text), {"steps::new", "a::new", "steps::beside"})

    def test_the_words_of_xtask_and_the_documents_name_every_job(self):
        for path in ("xtask/src/main.rs", "CONTRIBUTING.md"):
            text = read(path)
            self.assertEqual([job for job in self.JOBS if not re.search(rf"\b{job}\b", text[text.index("--only") :])], [], path)

    def test_it_may_write_nothing_and_sees_no_secret(self):
        self.assertRegex(PULL_REQUEST, r"(?m)^permissions:\n  contents: read$")
        self.assertNotRegex(PULL_REQUEST, r": write|pull_request_target|secrets\.|github\.event\.(?:pull_request|head)")
        self.assertIn("persist-credentials: false", PULL_REQUEST)

    def test_actions_are_pinned_and_the_toolchain_is_the_repositorys(self):
        for uses in re.findall(r"uses: (\S+)", PULL_REQUEST):
            self.assertRegex(uses, r"@(?:v\d+|[0-9a-f]{40})$")
        rust = tomllib.loads(read("Cargo.toml"))["workspace"]["package"]["rust-version"]
        self.assertIn(f"rustup toolchain install {rust} ", PULL_REQUEST)
        self.assertIn(f"rustup default {rust}\n", PULL_REQUEST)


class Repository(unittest.TestCase):
    def test_updates_are_looked_for_where_there_is_something(self):
        places = re.findall(r"package-ecosystem: (\S+)\n    directory: /(\S*)", read(".github/dependabot.yml"))
        self.assertEqual([kind for kind, _ in places], ["cargo", "github-actions", "docker"])
        files = {"cargo": "Cargo.lock", "github-actions": ".github/workflows", "docker": "Dockerfile"}
        self.assertEqual([place for place in places if not (ROOT / place[1] / files[place[0]]).exists()], [])

    def test_owners_have_places_that_are_there(self):
        lines = [line.split() for line in read(".github/CODEOWNERS").splitlines() if line and not line.startswith("#")]
        self.assertEqual([line for line in lines if line[0] != "*" and not (ROOT / line[0].strip("/")).exists()], [])
        self.assertTrue(all(owner.startswith("@OWNER/") for _, *owners in lines for owner in owners), "a template names nobody")

    def test_the_template_has_all_that_a_change_needs(self):
        needs = re.search(r"What a change needs:\n\n((?:- .*\n(?:  .*\n)*)+)", read("CONTRIBUTING.md"))[1]
        template = " ".join(read(".github/pull_request_template.md").split()).lower()
        for need in re.split(r"^- ", needs, flags=re.MULTILINE)[1:]:
            self.assertIn(" ".join(need.split()).rstrip(";.").lower(), template)

    def test_a_bug_is_told_with_version_manifests_and_logs(self):
        asked = re.findall(r"^    id: (\w+)\n(?:(?!  - ).*\n)*?    validations: \{required: true\}", read(".github/ISSUE_TEMPLATE/bug.yaml"), re.MULTILINE)
        self.assertLessEqual({"version", "manifests", "logs"}, set(asked))


if __name__ == "__main__":
    unittest.main()
