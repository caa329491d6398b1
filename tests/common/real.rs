//! A real cluster on a foreign AWS, and replicas of the binary on it: tests/real/cluster.py from inside a test.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::page::get;
use super::spans::Traces;
use super::{arg, root, stderr, stdout, write};

/// Nothing that a cluster is asked for takes longer.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A pool on moto's machines, with its node class.
pub const POOL: &str = "tests/real/manifests/pool.yaml";

/// The same with one more requirement, as YAML of one line, in a file of this name.
pub fn pool_with(name: &str, requirement: &str) -> String {
    let first = "        - key: kubernetes.io/arch\n";
    let pool = std::fs::read_to_string(root().join(POOL)).unwrap();
    assert!(pool.contains(first));
    let with = format!("        - {requirement}\n{first}");
    write(&format!("real-{name}-pool.yaml"), &pool.replacen(first, &with, 1))
}

/// One cluster at a time: two control planes on two cores only keep each other waiting.
static ONE: Mutex<()> = Mutex::new(());

/// Runs one of the scripts of tests that start a cluster by themselves.
pub fn script(name: &str, args: &[&str]) -> Output {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let script = root().join("tests").join(name);
    Command::new("python3").arg(script).args(args).output().expect("python3 starts: it is needed")
}

/// Everything that was started; it ends with the test, also with one that panics or is killed.
pub struct Real {
    cluster: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    facts: Value,
    _one: MutexGuard<'static, ()>,
}

impl Real {
    /// Starts etcd, the control plane, kwok, moto and the stand-ins; builds what is missing, which takes minutes once.
    pub fn start(name: &str, settings: &[&str]) -> Self {
        Self::start_with(name, settings, &[])
    }

    /// The same with Jaeger, to which the replicas send their traces, and nodes that come `boot` seconds after their instance.
    pub fn traced(name: &str, boot: &str) -> Self {
        Self::start_with(name, &[], &["--jaeger", "--boot", boot])
    }

    /// The same with an API server whose feature gates are these.
    pub fn gated(name: &str, gates: &str) -> Self {
        Self::start_with(name, &[], &["--gates", gates])
    }

    /// The same by the chart with this value.
    pub fn charted(name: &str, value: &str) -> Self {
        Self::start_with(name, &[], &["--chart", value])
    }

    fn start_with(name: &str, settings: &[&str], flags: &[&str]) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let state = root().join("target/real/run").join(name);
        let mut command = Command::new("python3");
        command.arg(root().join("tests/real/cluster.py")).args(["run", "--state", arg(&state)]);
        command.args(flags);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let mut cluster =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts: it is needed");
        let orders = cluster.stdin.take();
        let mut answers = BufReader::new(cluster.stdout.take().expect("piped"));
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        let facts = serde_json::from_str(&line).expect("tests/real/cluster.py said what is missing");
        Self { cluster, orders, answers, facts, _one: one }
    }

    /// Gives an order of cluster.py's.
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().expect("it runs"), "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "done", "{order}");
    }

    /// Two replicas.
    pub fn two_replicas(&mut self) {
        self.order("start dovetail-0");
        self.order("start dovetail-1");
    }

    /// kubectl, as the cluster's administrator.
    pub fn kubectl(&self, args: &[&str]) -> Output {
        let program = self.facts["kubectl"].as_str().unwrap();
        let config = self.facts["kubeconfig"].as_str().unwrap();
        let cache = format!("{}/cache", self.facts["state"].as_str().unwrap());
        let own = ["--kubeconfig", config, "--cache-dir", &cache];
        Command::new(program).args(own).args(args).current_dir(root()).output().unwrap()
    }

    /// Output of a kubectl command, which has to succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.kubectl(args);
        assert!(output.status.success(), "kubectl {args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Objects of a kind, in all namespaces.
    pub fn objects(&self, kind: &str) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.ok(&["get", kind, "-A", "-o", "json"])).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    /// The names of objects of a kind.
    pub fn names(&self, kind: &str) -> Vec<String> {
        self.objects(kind).iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Number of pods of an app on each node; those without a node under the empty name.
    pub fn pods_by_node(&self, app: &str) -> BTreeMap<String, usize> {
        let mut nodes = BTreeMap::new();
        for pod in self.objects("pods").iter().filter(|pod| pod["metadata"]["labels"]["app"] == app) {
            *nodes.entry(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()).or_insert(0) += 1;
        }
        nodes
    }

    /// Instances that moto has and has not ended.
    pub fn instances(&self) -> usize {
        let script = "import sys; sys.path.insert(0, 'tests/real'); from joiner import instances; \
                      print(len(list(instances(sys.argv[1], 'eu-west-1'))))";
        let output = Command::new("python3")
            .args(["-c", script, self.facts["aws"].as_str().unwrap()])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).trim().parse().unwrap()
    }

    /// The replica that leads, from the Lease; waits until one does.
    pub fn leader(&self) -> String {
        let holder = || {
            let path = "jsonpath={.spec.holderIdentity}";
            self.ok(&[
                "-n",
                "kube-system",
                "get",
                "lease",
                "karpenter-leader-election",
                "--ignore-not-found",
                "-o",
                path,
            ])
        };
        self.until("somebody leads", |_| !holder().is_empty());
        holder().split('_').next().unwrap().to_owned()
    }

    /// Number of Ready pods: asked as a table, which costs the API server least.
    pub fn ready(&self) -> usize {
        let table = self.ok(&["get", "pods", "-A", "--no-headers"]);
        table.lines().filter(|line| line.split_whitespace().nth(2) == Some("1/1")).count()
    }

    /// Begins to follow how many pods of a Deployment are Ready; what is answered ends that and says every count that was seen.
    pub fn follow_ready(&self, deployment: &str) -> impl FnOnce() -> Vec<u32> + use<> {
        let own = ["--kubeconfig", self.facts["kubeconfig"].as_str().unwrap()];
        let what = ["get", deployment, "--watch", "-o", "jsonpath={.status.readyReplicas}{\"\\n\"}"];
        let mut command = Command::new(self.facts["kubectl"].as_str().unwrap());
        let mut child = command.args(own).args(what).stdout(Stdio::piped()).spawn().unwrap();
        move || {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            // None is Ready where the field is not there.
            stdout(&output).lines().map(|line| line.trim().parse().unwrap_or(0)).collect()
        }
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < LONGEST_WAIT, "never came to pass: {what}\n{}", self.log_events());
            sleep(Duration::from_secs(1));
        }
        println!("after {:5.1} s: {what}", begun.elapsed().as_secs_f64());
    }

    /// Answer of Jaeger's API.
    pub fn jaeger(&self, path: &str) -> Value {
        let (status, body) = get(self.facts["jaeger"]["query"].as_str().unwrap(), path);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Address at which Jaeger takes OTLP by this protocol, `grpc` or `http`.
    pub fn collector(&self, protocol: &str) -> String {
        self.facts["jaeger"][protocol].as_str().unwrap().to_owned()
    }

    /// The traces that Jaeger finds by a tag.
    pub fn traces(&self, tag: &str, value: &str) -> Traces {
        let tags = format!("%7B%22{tag}%22%3A%22{value}%22%7D");
        Traces::of_jaeger(&self.jaeger(&format!("/api/traces?service=dovetail&limit=20&lookback=1h&tags={tags}")))
    }

    /// A file of the cluster's own.
    pub fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.facts["state"].as_str().unwrap())
    }

    /// True while a replica's process runs.
    pub fn runs(&mut self, name: &str) -> bool {
        writeln!(self.orders.as_mut().expect("it runs"), "runs {name}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim() == "done"
    }

    /// Log of a part.
    pub fn log(&self, part: &str) -> String {
        let path = format!("{}/log/{part}.log", self.facts["state"].as_str().unwrap());
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// The replicas' logs, line by line; what is no JSON is a line with that text alone.
    pub fn said(&self) -> Vec<Value> {
        let logs = [self.log("dovetail-0"), self.log("dovetail-1")].concat();
        logs.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line))).collect()
    }

    /// The end of the replicas' logs, for a test that failed.
    fn log_events(&self) -> String {
        let tail = |part: &str| {
            let log = self.log(part);
            let lines: Vec<&str> = log.lines().collect();
            format!("{part}:\n{}", lines[lines.len().saturating_sub(25)..].join("\n"))
        };
        [tail("dovetail-0"), tail("dovetail-1"), tail("joiner"), self.ok(&["get", "nodeclaims,nodes"])].join("\n")
    }

    /// Nothing was forbidden, no conflict went unhandled, nobody panicked.
    pub fn nothing_was_forbidden(&self) {
        self.nothing_was_forbidden_since("");
    }

    /// The same from a time on, as the log writes it: an API server that starts forbids everything until it has read its roles.
    pub fn nothing_was_forbidden_since(&self, time: &str) {
        let said = self.said();
        assert!(!said.is_empty(), "the replicas have logged nothing");
        // Streams of lists are forbidden where the API server has none: that line quotes it.
        let counts =
            |line: &&Value| line["time"].as_str().is_none_or(|when| when >= time) && line["event"] != "lists_by_pages";
        for line in said.iter().filter(counts) {
            let text = line.to_string();
            let wrong = ["forbidden", "Forbidden", "the object has been modified", "panic"];
            assert!(!wrong.iter().any(|word| text.contains(word)), "{text}");
        }
    }

    /// No node, no claim, no instance.
    pub fn until_nothing_is_left(&self) {
        self.until("no claim is left", |real| real.objects("nodeclaims").is_empty());
        self.until("no node is left", |real| real.objects("nodes").is_empty());
        self.until("no instance is left", |real| real.instances() == 0);
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        // The end of its input is the order to end.
        self.orders.take();
        let _ = self.cluster.wait();
    }
}
