//! Examples at the end of each command's `--help`.

use clap::Command;

/// The commands with their examples.
const EXAMPLES: [(&str, &str); 16] = [
    (
        "plan",
        "  dovetail plan -f pool.yaml -f deployment.yaml
  helm template CHART | dovetail plan -f pool.yaml -f -
  kubectl get nodes,nodeclaims,nodepools,ec2nodeclasses,daemonsets,pods -A -o yaml | dovetail plan -f -
  dovetail plan --live --scale deployment/web=200 --diff
  dovetail plan -f pool.yaml -f deployment.yaml --price m5.large=0.05 --otherwise --html plan.html
  dovetail plan -f pool.yaml -f deployment.yaml --json > before.json
  dovetail plan -f other-pool.yaml -f deployment.yaml --diff=before.json",
    ),
    (
        "explain",
        "  dovetail explain pod web-5d8f-x2x7p -n shop
  dovetail explain node ip-10-0-32-10.ec2.internal
  dovetail explain nodepool default -o yaml
  kubectl dovetail explain nodeclaim default-xqnrr",
    ),
    ("doctor", "  dovetail doctor\n  dovetail doctor --context production -o json"),
    ("top", "  dovetail top\n  dovetail top --context production --every 10s\n  dovetail top --once -o json"),
    (
        "record",
        "  dovetail record day.jsonl --for 24h
  dovetail record day.jsonl --for 24h --every 1m --hash-names
  dovetail record --schema",
    ),
    (
        "replay",
        "  dovetail replay day.jsonl
  dovetail replay day.jsonl --set PACKING_POLICY=fewest-nodes --svg day.svg
  dovetail replay day.jsonl --node-pool pool.yaml --json",
    ),
    (
        "compare",
        "  dovetail compare day.jsonl
  dovetail compare day.jsonl --with PACKING_POLICY=fewest-nodes --with CONSOLIDATION_LEAST_AGE=1h --svg day.svg
  dovetail compare day.jsonl --with INTERRUPTION=evict,BATCH_IDLE_DURATION=5s --seeds 5 --json",
    ),
    (
        "savings",
        "  dovetail savings day.jsonl
  dovetail savings day.jsonl --points 96 --json
  dovetail savings --prometheus http://localhost:9090 --since 7d
  dovetail savings --file answer.json --json",
    ),
    (
        "simulate",
        "  dovetail simulate deploy/examples/scenario.yaml
  dovetail simulate deploy/examples/scenario.yaml --json --events events.jsonl
  dovetail simulate deploy/examples/scenario.yaml --record day.jsonl
  dovetail simulate --random --seeds 1..200",
    ),
    (
        "sandbox",
        "  dovetail sandbox -f deploy/examples/spot.yaml
  dovetail sandbox -f deploy/examples/spot.yaml --speed 10 --port 6443 --kubeconfig sandbox.kubeconfig",
    ),
    (
        "run",
        "  dovetail run --cluster-name demo --kubeconfig ~/.kube/config
  dovetail run --config dovetail.yaml
  dovetail run --cluster-name demo --shadow",
    ),
    ("convert", "  dovetail convert -f old.yaml > new.yaml\n  dovetail convert -f old.yaml --diff"),
    ("crds", "  dovetail crds | kubectl apply -f -"),
    (
        "completions",
        "  dovetail completions bash > /etc/bash_completion.d/dovetail
  dovetail completions zsh > \"${fpath[1]}/_dovetail\"
  dovetail completions fish > ~/.config/fish/completions/dovetail.fish",
    ),
    ("man", "  dovetail man plan | man -l -\n  dovetail man --out /usr/local/share/man/man1"),
    ("version", "  dovetail version\n  dovetail version -o json"),
];

/// Puts its examples at the end of each command's help.
pub fn add_to(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (name, examples)| {
        command.mut_subcommand(name, |one| one.after_help(format!("Examples:\n{examples}")))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn every_command_has_examples_that_it_understands() {
        let command = crate::cli::command();
        for one in command.get_subcommands().filter(|one| one.get_name() != "help") {
            let name = one.get_name();
            let (_, examples) = EXAMPLES.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
            assert!(one.get_after_help().is_some_and(|help| help.to_string().contains("Examples:")), "{name}");
            for line in examples.lines() {
                let Some(own) = line.split(" | ").find(|part| part.trim_start().starts_with("dovetail ")) else {
                    assert!(line.contains("kubectl dovetail "), "{line}");
                    continue;
                };
                let words = own.split(" > ").next().unwrap_or_default().split_whitespace();
                let read = crate::cli::command().try_get_matches_from(words);
                assert!(read.is_ok(), "{line}: {}", read.err().map(|why| why.to_string()).unwrap_or_default());
            }
        }
    }
}
