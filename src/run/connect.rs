//! Choice of the API server and account: a kubeconfig that was named, else the service account of the pod that we run in, else
//! ~/.kube/config. Nothing of what a kubeconfig holds besides names is ever repeated in a message: it may be a secret.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dovetail_actors::{ClusterClock, Settings};
use dovetail_input::{Failure, Mistake, describe};
use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::limit::RateLimit;

/// Timeout of making a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Longest silence of a server that has been asked. It is longer than a watch lasts, which is our longest request.
const READ_WITHIN: Duration = Duration::from_secs(60);
/// Requests a second about the Lease, and at once: controller-runtime's for its leader's client.
const LEASE_RATE: (f64, u32) = (20.0, 30);
/// Set in every pod.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";
/// Folder in which a pod finds its account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A cluster that can be spoken to.
pub struct ApiTarget {
    /// Configuration of the client.
    pub config: Config,
    /// True if we run in it.
    pub in_cluster: bool,
}

/// Finds the cluster. `place` is how the user named the kubeconfig: a flag or a variable.
pub async fn find(settings: &Settings, place: &str) -> Result<ApiTarget, Failure> {
    let home = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| path.exists());
    let (mut config, in_cluster) = if !settings.kube_access.kubeconfig.is_empty() {
        (of_kubeconfig(&settings.kube_access.kubeconfig, place, settings).await?, false)
    } else if std::env::var_os(IN_CLUSTER).is_some_and(|host| !host.is_empty()) {
        (Config::incluster().map_err(|why| not_in_cluster(&why))?, true)
    } else if let Some(path) = home {
        (of_kubeconfig(&path.display().to_string(), "", settings).await?, false)
    } else {
        let what = format!(
            "there is no cluster to run on: neither KUBECONFIG (--kubeconfig) nor {IN_CLUSTER} is set, and there is no \
             ~/.kube/config"
        );
        return Err(Mistake::of_file("KUBECONFIG (--kubeconfig)", what).allowing("the path of a kubeconfig").into());
    };
    config.connect_timeout = Some(CONNECT_WITHIN);
    // A server that is gone without a word leaves a watch that says nothing for ever. From the request on, not from when a
    // connection was last used.
    config.read_timeout = Some(READ_WITHIN);
    config.reset_reader_on_write = true;
    // The caller decides, in one place, what is tried again and when.
    config.default_retry = false;
    Ok(ApiTarget { config, in_cluster })
}

impl ApiTarget {
    /// The API server's address.
    pub fn server(&self) -> String {
        self.config.cluster_url.to_string().trim_end_matches('/').to_owned()
    }

    /// For everything but the Lease, within KUBE_CLIENT_QPS; its answers set the clock, and `waited` hears of requests that had to
    /// wait.
    pub fn client(
        &self,
        settings: &Settings,
        clock: &ClusterClock,
        waited: impl Fn(Duration) + Clone + Send + 'static,
    ) -> Result<Client, Failure> {
        self.limited(RateLimit::new(settings.kube_access.qps, settings.kube_access.burst, waited), clock)
    }

    /// For the Lease alone: renewals do not queue behind the rest.
    pub fn lease_client(&self, clock: &ClusterClock) -> Result<Client, Failure> {
        self.limited(RateLimit::new(LEASE_RATE.0, LEASE_RATE.1, |_| {}), clock)
    }

    fn limited(
        &self,
        limit: RateLimit<impl Fn(Duration) + Clone + Send + 'static>,
        clock: &ClusterClock,
    ) -> Result<Client, Failure> {
        let builder = ClientBuilder::try_from(self.config.clone());
        let builder = builder.map_err(|why| Failure::System(format!("{}: {}", self.server(), plainly(&why))))?;
        // The clock inside: a request that waits for its turn has not been sent.
        Ok(builder.with_layer(clock).with_layer(&limit).build())
    }

    /// The authority that signed the API server's certificate, in PEM and base64, as nodes are told it; empty without.
    pub fn authority(&self) -> String {
        let certificates = self.config.root_cert.iter().flatten().map(|der| pem(der)).collect::<String>();
        STANDARD.encode(certificates)
    }

    /// Namespace that we run in, in a cluster.
    pub fn namespace(&self) -> Option<String> {
        let text = std::fs::read_to_string(format!("{SERVICE_ACCOUNT}/namespace")).ok()?;
        let name = text.trim();
        (self.in_cluster && !name.is_empty()).then(|| name.to_owned())
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    // Base64 is ASCII: every cut is one between characters.
    let lines: Vec<&str> = (0..text.len()).step_by(64).filter_map(|at| text.get(at..text.len().min(at + 64))).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// An error of the client without what a credentials command has printed.
pub fn plainly(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(kube::client::AuthError::AuthExecRun { cmd, out }) => {
            format!("the kubeconfig's command for credentials, {cmd:?}, failed with {}", out.status)
        }
        kube::Error::Auth(kube::client::AuthError::AuthExecParse(_)) => {
            "what the kubeconfig's command for credentials printed is no ExecCredential".to_owned()
        }
        kube::Error::Auth(why) => format!("credentials: {why}"),
        kube::Error::Api(status) => format!("{} {}", status.code, status.message),
        kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. } => {
            "the kubeconfig names a proxy-url: proxies are not supported yet".to_owned()
        }
        other => chain(other),
    }
}

/// An error and what it came from, each said once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// In a pod, but without what a pod is given.
fn not_in_cluster(why: &InClusterError) -> Failure {
    let file = |name: &str, what: String| {
        let mut mistake = Mistake::of_file(format!("{SERVICE_ACCOUNT}/{name}"), what);
        mistake.allowed = "a pod with automountServiceAccountToken: true, or --kubeconfig".into();
        Failure::from(mistake)
    };
    match why {
        InClusterError::ReadDefaultNamespace(why) => file("namespace", describe(why)),
        InClusterError::ReadCertificateBundle(why) => file("ca.crt", describe(why)),
        InClusterError::ParseCertificates(_) => file("ca.crt", "is no certificate in PEM".to_owned()),
        other => Failure::from(Mistake::of_file(
            format!("{IN_CLUSTER}, KUBERNETES_SERVICE_PORT"),
            format!("do not say where the API server is: {other}"),
        )),
    }
}

async fn of_kubeconfig(paths: &str, place: &str, settings: &Settings) -> Result<Config, Failure> {
    let kubeconfig = read_kubeconfigs(paths, place)?;
    let context = Some(settings.kube_access.context.clone()).filter(|name| !name.is_empty());
    let names: Vec<String> = kubeconfig.contexts.iter().map(|one| one.name.clone()).collect();
    let current = context.clone().or_else(|| kubeconfig.current_context.clone()).unwrap_or_default();
    let named = kubeconfig.contexts.iter().find(|one| one.name == current).and_then(|one| one.context.clone());
    let cluster_name = named.map(|context| context.cluster).unwrap_or_default();
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == cluster_name);
    let own_proxy = cluster.and_then(|one| one.cluster.as_ref()).and_then(|one| one.proxy_url.clone());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|why| bad_kubeconfig(paths, &current, &cluster_name, &names, why))?;
    if own_proxy.is_none_or(|url| url.is_empty()) {
        // HTTPS_PROXY is for the way to AWS.
        config.proxy_url = None;
    }
    Ok(config)
}

/// One kubeconfig, or several, as KUBECONFIG has them: those that are not there are passed over, unless none is.
fn read_kubeconfigs(paths: &str, place: &str) -> Result<Kubeconfig, Mistake> {
    let all: Vec<&str> = paths.split(':').filter(|path| !path.is_empty()).collect();
    let there: Vec<&str> = all.iter().copied().filter(|path| Path::new(path).exists()).collect();
    if there.is_empty() {
        let place = if place.is_empty() { String::new() } else { format!(" (given by {place})") };
        return Err(Mistake::of_file(paths, format!("no such file{place}")));
    }
    let mut merged: Option<Kubeconfig> = None;
    for path in there {
        let one = Kubeconfig::read_from(path).map_err(|why| unreadable(path, &why))?;
        merged = Some(match merged {
            None => one,
            Some(before) => before.merge(one).map_err(|why| Mistake::of_file(path, why.to_string()))?,
        });
    }
    Ok(merged.unwrap_or_default())
}

fn unreadable(path: &str, why: &KubeconfigError) -> Mistake {
    match why {
        KubeconfigError::ReadConfig(why, _) => Mistake::of_file(path, describe(why)),
        KubeconfigError::Parse(why) => {
            let line = why.location().and_then(|place| usize::try_from(place.line()).ok()).unwrap_or(0);
            Mistake { line, ..Mistake::of_file(path, "is not a kubeconfig") }
        }
        other => Mistake::of_file(path, other.to_string()),
    }
}

fn bad_kubeconfig(path: &str, context: &str, cluster: &str, contexts: &[String], why: KubeconfigError) -> Failure {
    let known = if contexts.is_empty() { "a context, of which there is none".to_owned() } else { contexts.join(", ") };
    let of_cluster = |field: &str| format!("clusters[{cluster}].cluster.{field}");
    let (field, what, allowed) = match why {
        KubeconfigError::CurrentContextNotSet => ("current-context".to_owned(), "is not set".to_owned(), known),
        KubeconfigError::LoadContext(name) => {
            ("current-context".to_owned(), format!("there is no context {name:?}"), known)
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            let field = format!("contexts[{context}].context.cluster");
            (field, format!("there is no cluster {name:?}"), String::new())
        }
        KubeconfigError::MissingClusterUrl => {
            (of_cluster("server"), "is missing".to_owned(), "https://HOST".to_owned())
        }
        KubeconfigError::ParseClusterUrl(why) => (of_cluster("server"), why.to_string(), "https://HOST".to_owned()),
        KubeconfigError::ParseProxyUrl(why) => (of_cluster("proxy-url"), why.to_string(), String::new()),
        KubeconfigError::LoadCertificateAuthority(why) => {
            (of_cluster("certificate-authority"), why.to_string(), String::new())
        }
        KubeconfigError::ParseCertificates(_) => {
            (of_cluster("certificate-authority"), "is no certificate in PEM".to_owned(), String::new())
        }
        other => (String::new(), other.to_string(), String::new()),
    };
    Mistake { field, allowed, ..Mistake::of_file(path, what) }.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn with_kubeconfig(path: &str) -> Settings {
        let mut settings = Settings::default();
        settings.kube_access.kubeconfig = path.to_owned();
        settings
    }

    fn kubeconfig(text: &str) -> String {
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("dovetail-kubeconfig-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn refused(text: &str) -> Mistake {
        let path = kubeconfig(text);
        let settings = with_kubeconfig(&path);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(find(&settings, "--kubeconfig"));
        std::fs::remove_file(path).unwrap();
        match found {
            Err(Failure::Input(mut mistakes)) => mistakes.remove(0),
            _ => panic!("it is not refused as bad input"),
        }
    }

    const WHOLE: &str = "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                         contexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n";

    #[test]
    fn a_broken_kubeconfig_is_refused_by_field() {
        let unset = refused(WHOLE);
        assert_eq!((unset.field.as_str(), unset.allowed.as_str()), ("current-context", "x"));
        let other = refused(&format!("{WHOLE}current-context: y\n"));
        assert_eq!((other.field.as_str(), other.what.as_str()), ("current-context", "there is no context \"y\""));
        let nowhere = refused(&format!("{WHOLE}current-context: x\n").replace("cluster: c,", "cluster: d,"));
        assert_eq!(nowhere.field, "contexts[x].context.cluster");
        let no_server = refused(&format!("{WHOLE}current-context: x\n").replace("server: 'http://127.0.0.1:1'", ""));
        assert_eq!(no_server.field, "clusters[c].cluster.server");
        let no_url = refused(&format!("{WHOLE}current-context: x\n").replace("http://127.0.0.1:1", "http://a b"));
        assert_eq!(no_url.field, "clusters[c].cluster.server");
    }

    #[test]
    fn invalid_kubeconfig_is_refused_by_line_without_its_content() {
        let mistake = refused("apiVersion: v1\nusers:\n- name: u\n  user: {token: [sesame}\n");
        assert_eq!(mistake.what, "is not a kubeconfig");
        assert!(mistake.line >= 4 && !mistake.to_string().contains("sesame"), "{mistake}");
    }

    #[test]
    fn a_kubeconfig_that_is_not_there_is_named_with_who_named_it() {
        let settings = with_kubeconfig("/nowhere/config");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let Err(Failure::Input(mistakes)) = runtime.block_on(find(&settings, "--kubeconfig")) else { panic!() };
        assert_eq!(mistakes[0].to_string(), "/nowhere/config: no such file (given by --kubeconfig)");
    }

    #[test]
    fn of_several_kubeconfigs_those_that_are_there_are_merged() {
        let (whole, current) = (kubeconfig(WHOLE), kubeconfig("current-context: x\n"));
        let settings = with_kubeconfig(&format!("/nowhere:{whole}:{current}"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let target = runtime.block_on(find(&settings, "KUBECONFIG")).map_err(|_| ()).unwrap();
        assert_eq!((target.server().as_str(), target.in_cluster), ("http://127.0.0.1:1", false));
    }

    #[test]
    fn the_authority_is_told_as_base64_of_pem() {
        assert_eq!(pem(&[0; 50]).lines().count(), 4);
        assert!(pem(b"abc").contains("\nYWJj\n"));
    }
}
