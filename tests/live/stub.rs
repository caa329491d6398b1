//! An HTTP server on loopback that answers what a test tells it to, and the binary run against it.
#![allow(dead_code)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::live::LONGEST_WAIT;
use crate::common::page::get;
use crate::common::{arg, scratch};

/// A status, a content type and a body.
pub type Reply = (u16, &'static str, String);

/// A reply in JSON.
pub fn reply(status: u16, body: &Value) -> Reply {
    (status, "application/json", body.to_string())
}

/// Serves replies to (path with query, body) until the test ends.
pub fn serve(answer: impl Fn(&str, &str) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            thread::spawn(move || one(stream, &*answer));
        }
    });
    address
}

fn one(stream: TcpStream, answer: &(dyn Fn(&str, &str) -> Reply + Send + Sync)) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut first = String::new();
    if reader.read_line(&mut first).unwrap_or(0) == 0 {
        return;
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (status, kind, text) = answer(path, &String::from_utf8_lossy(&body));
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
}

/// An API server that answers `run` until all is well; `changed` may answer otherwise first.
pub fn api_server(changed: impl Fn(&str) -> Option<Reply> + Send + Sync + 'static) -> SocketAddr {
    serve(move |path, _| changed(path).unwrap_or_else(|| usual(path)))
}

/// The answer of an API server where all is well.
pub fn usual(path: &str) -> Reply {
    let kinds = |names: &[&str]| {
        let all: Vec<Value> = names
            .iter()
            .map(|kind| json!({"name": "x", "kind": kind, "namespaced": false, "singularName": "", "verbs": []}))
            .collect();
        reply(200, &json!({"kind": "APIResourceList", "groupVersion": "x", "resources": all}))
    };
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    match path {
        "/version" => {
            let text = |name: &str| (name.to_owned(), json!("x"));
            let mut version: serde_json::Map<String, Value> =
                ["gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"]
                    .into_iter()
                    .map(text)
                    .collect();
            version.insert("major".into(), "1".into());
            version.insert("minor".into(), "33+".into());
            reply(200, &version.into())
        }
        "/api/v1/namespaces/kube-system" => reply(200, &json!({"metadata": {"name": "kube-system", "uid": "u-1"}})),
        "/apis/karpenter.sh/v1" => kinds(&["NodePool", "NodeClaim"]),
        "/apis/karpenter.k8s.aws/v1" => kinds(&["EC2NodeClass"]),
        "/apis/apps/v1/deployments" | "/apis/coordination.k8s.io/v1/leases" => list(&[]),
        _ => not_found(),
    }
}

/// A list of objects.
pub fn list(items: &[Value]) -> Reply {
    reply(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}))
}

/// An API server's answer for an object that it does not have.
pub fn not_found() -> Reply {
    status(404, "NotFound", "the server could not find the requested resource")
}

/// An API server's refusal.
pub fn status(code: u16, reason: &str, message: &str) -> Reply {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    reply(code, &body)
}

/// EC2's refusal.
pub fn ec2_error(status: u16, code: &str) -> Reply {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>because of {code}</Message></Error></Errors>\
         <RequestID>r</RequestID></Response>"
    );
    (status, "text/xml", body)
}

/// A kubeconfig for an address, with a token that nobody may ever see again.
pub fn kubeconfig(name: &str, server: &str) -> String {
    let text = format!(
        "clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
         current-context: x\nusers: [{{name: u, user: {{token: \"{TOKEN}\"}}}}]\n"
    );
    let path = scratch(&format!("run-{name}.kubeconfig"));
    std::fs::write(&path, text).unwrap();
    arg(&path).to_owned()
}

/// In the kubeconfig.
pub const TOKEN: &str = "sesame-token";
/// In the environment.
pub const SECRET: &str = "sesame-secret";
/// Token that the console asks for, where it asks.
pub const CONSOLE_TOKEN: &str = "sesame-of-the-console";

/// `dovetail run` with nothing of our own environment.
pub struct Run {
    command: Command,
    name: String,
}

/// Exit status and output of a run.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// With these flags, ports that are free, and no waiting.
    pub fn new(name: &str, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
        command.arg("run").args(flags).env_clear().env("HOME", "/nonexistent").env("AWS_EC2_METADATA_DISABLED", "true");
        command.env("METRICS_PORT", "0").env("HEALTH_PROBE_PORT", "0").env("CONSOLE_PORT", "0");
        command.env("STARTUP_TIMEOUT", "20s");
        Self { command, name: name.to_owned() }
    }

    /// And this in its environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// On a cluster named demo at this address.
    pub fn on(self, server: SocketAddr) -> Self {
        let path = kubeconfig(&self.name, &format!("http://{server}"));
        self.env("KUBECONFIG", &path).env("CLUSTER_NAME", "demo")
    }

    /// With AWS at this address.
    pub fn aws(self, server: SocketAddr) -> Self {
        let run = self.env("AWS_ENDPOINT_URL", &format!("http://{server}")).env("AWS_REGION", "us-east-1");
        run.env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE").env("AWS_SECRET_ACCESS_KEY", SECRET)
    }

    /// Lets it end by itself; nothing secret may have been written.
    pub fn ended(self) -> Ended {
        self.start().ended()
    }

    /// Starts it, its outputs going to files.
    pub fn start(mut self) -> Running {
        let file = |what: &str| scratch(&format!("run-{}.{what}", self.name));
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        let create = |path: &PathBuf| Stdio::from(std::fs::File::create(path).unwrap());
        let child = self.command.stdout(create(&stdout)).stderr(create(&stderr)).spawn().unwrap();
        Running { child, stdout, stderr }
    }
}

/// One that runs. It is killed with the test.
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Waits for its end.
    pub fn ended(mut self) -> Ended {
        let begun = Instant::now();
        let code = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status.code(),
                None if begun.elapsed() > LONGEST_WAIT => panic!("it goes on and on: {}", self.said()),
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
        let (stdout, stderr) = (read(&self.stdout), read(&self.stderr));
        for secret in [TOKEN, SECRET, CONSOLE_TOKEN] {
            assert!(!stdout.contains(secret) && !stderr.contains(secret), "{secret} was written:\n{stdout}\n{stderr}");
        }
        Ended { code, stdout, stderr }
    }

    /// Everything that it has said so far.
    pub fn said(&self) -> String {
        [&self.stdout, &self.stderr].map(|path| std::fs::read_to_string(path).unwrap_or_default()).concat()
    }

    /// Waits for a line of its log, as JSON.
    pub fn line(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&self.stdout).unwrap();
            if let Some(line) = text.lines().filter_map(|line| serde_json::from_str(line).ok()).find(|line| fits(line))
            {
                return line;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended: {}", self.said());
            assert!(begun.elapsed() < LONGEST_WAIT, "it never said so: {}", self.said());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for an event of its story.
    pub fn event(&mut self, event: &str) -> Value {
        self.line(|line| line["event"] == event)
    }

    /// The most memory that it has had so far, in KiB.
    pub fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

/// The sandbox, without a control plane of its own.
pub struct Sandbox {
    child: Child,
    /// Its API server, `host:port`.
    pub api: String,
    /// Its region, `host:port`.
    pub aws: String,
    /// Its kubeconfig.
    pub kubeconfig: String,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sandbox {
    /// With these manifests.
    pub fn start(name: &str, manifests: &[&str]) -> Self {
        let kubeconfig = arg(&scratch(&format!("run-{name}.kubeconfig"))).to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
        command.args(["sandbox", "--replicas", "0", "--serve-aws", "0", "--kubeconfig", &kubeconfig]);
        for manifest in manifests {
            command.args(["-f", manifest]);
        }
        command.current_dir(crate::common::root()).env_remove("CLUSTER_NAME").env_remove("AWS_REGION");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.by_ref().find(|line| line.contains("AWS_ENDPOINT_URL=")).expect("the region's address");
        // Whatever else it says is read, so that it never waits for us.
        thread::spawn(move || lines.for_each(drop));
        let after = |text: &str, mark: &str| {
            let rest = text.split_once(mark).unwrap().1;
            rest.split([' ', '"', '/']).next().unwrap().to_owned()
        };
        let aws = after(&line, "AWS_ENDPOINT_URL=http://");
        let api = after(&std::fs::read_to_string(&kubeconfig).unwrap(), "http://");
        Self { child, api, aws, kubeconfig }
    }

    /// A replica for it.
    pub fn run(&self, name: &str) -> Run {
        let run = Run::new(name, &["--cluster-name", "demo"]).env("KUBECONFIG", &self.kubeconfig);
        run.aws(self.aws.parse().unwrap()).env("STARTUP_TIMEOUT", "120s")
    }

    /// Applies manifests with kubectl.
    pub fn apply(&self, manifests: &str) -> std::process::Output {
        let mut kubectl = Command::new(crate::common::live::kubectl_program());
        let cache = format!("{}.cache", self.kubeconfig);
        kubectl.args(["--kubeconfig", &self.kubeconfig, "--cache-dir", &cache, "apply", "-f", manifests]);
        kubectl.current_dir(crate::common::root()).output().unwrap()
    }

    /// An object of its API server.
    pub fn object(&self, path: &str) -> Value {
        serde_json::from_str(&get(&self.api, path).1).unwrap()
    }
}
