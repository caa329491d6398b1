//! The project's habits as commands. `cargo xtask` alone lists them.

mod changed;
mod checkout;
mod commands;
mod deny;
mod jobs;
mod ledger;
mod lint;
mod programs;
mod steps;
mod suites;
mod testing;
mod usage;
mod yardstick;

use std::process::ExitCode;

const HABITS: &[(&str, &str, fn() -> Result<(), String>)] = &[
    (
        "test",
        "everything that has to hold, once: format, lints, what we depend on, references, all tests; \
         `test --changed [REVISION]` what the changes since HEAD, or a revision, can reach; \
         `test --only JOB[,JOB]` one of the parts that a pull request runs side by side: lint, unit, simulated, live, real, \
         charts, image, docs",
        testing::test,
    ),
    ("lint", "format, references, lengths, widths, words and clippy, warnings refused", steps::lint),
    ("chart", "the Helm chart, rendered and tested; builds helm the first time (Go, minutes)", steps::chart),
    ("deploy", "the CloudFormation template, its policies, the Terraform module and the eksctl files", steps::deploy),
    ("docs", "the book in target/book, its links, and what its pages have to name", steps::docs),
    (
        "image",
        "the image of target/release/dovetail, built without a daemon and started (root, Debian's apt)",
        steps::image,
    ),
    (
        "release",
        "a release of this checkout in target/release-files: program, image, charts, CRDs, bill of materials, checksums, and a \
         signature with --key SSH_KEY; more: tools/release.py --help",
        steps::release,
    ),
    ("real", "`real up|down|status`: a real control plane and a foreign AWS on loopback, by hand", steps::real),
    ("deny", "licences, bans, sources and advisories of all dependencies, by cargo-deny (deny.toml)", deny::check),
    (
        "proof",
        "the full figure of something: `proof seeds [FIRST..LAST]` plays random scenarios, 1..100000 unless given: hours; \
         `proof properties [FIRST..LAST]` draws other cases for the core's property tests; \
         `proof lines [LINES]` tries 10,000 random command lines and files that are cut short; \
         `proof load` packs 400, then 5,000 pods on the real parts; \
         `proof handover [ROUNDS]` ends leaders in mid-burst on the real parts, 5 rounds of each kind unless given; \
         `proof scale [PART…]` is what a thousand nodes take, and what grows faster than the cluster, in 20 minutes; \
         `proof scale-in` takes half of 400 pods away, and drains 100 nodes at once, on the real parts; \
         `proof drift` has nodes drift there by each cause; `proof adoption` takes a cluster of Karpenter's over and gives it back; \
         `proof webhook` is what becomes of v1beta1 when certificates, replicas and the API server go; \
         `proof posts` applies the posts' files by kubectl; `proof shadow` holds a shadow's report against what happened; \
         `proof verdicts` holds plan's verdicts on drawn pods against kube-scheduler's, and has the audit log say that what only reads writes nothing; \
         `proof explain` has what is in the way of eight things named there, makes the change that is suggested, and holds a plan against what is then created; \
         `proof doctor` breaks an installation there in 22 ways, one at a time: each has its own check complain, and no other; \
         `proof gated [PART…]` plays what stands behind gates there: quotas, overlays, buffers, gangs, devices, spot shares, resizes, a scale-in; \
         `proof upstream --source PATH` plays the end-to-end suites of a checkout of Karpenter's on the real parts: an hour and more; \
         `proof repair` has nodes of kwok fall sick there, by scripted conditions and an alarm; \
         `proof kwok` is the provider kwok with a killed leader, without any AWS; `proof hostile [--minutes 7]` lets users with few rights do their worst on the real parts, beside ordinary pods; \
         `proof fuzz [--minutes 2] [TARGET…]` gives what comes from outside to a fuzzer, by target; \
         `proof model` follows every history of a launch further than the tests do: an hour and a few GiB; \
         `proof day [SEED…] [--gap]` is the bill of one virtual day against what its pods cost at least; \
         `proof bill [SEED…] [--run LABEL:NAME=VALUE,+GATE…]` the same on a spot market that the seed draws, ten seeds unless given; \
         `proof tracing [ROUNDS]` holds what tracing costs against none; \
         `proof metrics` counts the series of 5,000 nodes; `proof console` the frames of 2,000",
        steps::proof,
    ),
    (
        "measure",
        "how fast a stranger finds their way: figures of the tree beside their goals; --all names what is over",
        steps::measure,
    ),
    ("figures", "the figures of docs/performance.md, made anew (minutes)", steps::figures),
];

fn main() -> ExitCode {
    if let Some(code) = lint::stand_in() {
        return code;
    }
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, _, habit)) = HABITS.iter().find(|(habit, _, _)| *habit == name) else {
        eprintln!("usage: cargo xtask NAME, where NAME is one of");
        for (habit, what, _) in HABITS {
            eprintln!("  {habit:<10}{what}");
        }
        return ExitCode::from(2);
    };
    match habit() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask {name}: {why}");
            ExitCode::FAILURE
        }
    }
}
