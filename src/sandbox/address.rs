//! Addresses of the sandbox: on loopback for anybody on this machine, elsewhere by TLS and with a token only.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use dovetail_actors::settings::SHORTEST_TOKEN;
use dovetail_input::{Failure, Mistake, describe};
use dovetail_sandbox::apiserver::{Listener, TlsIdentity};
use dovetail_simulation::World;

use super::page;
use super::serving::Serving;
use crate::cli::SandboxArgs;

/// Address for kubeconfigs if the sandbox listens on all.
const HERE: &str = "127.0.0.1";

/// An address that has been looked at.
pub struct Address {
    asked: SocketAddr,
    token: Option<String>,
    identity: Option<TlsIdentity>,
}

impl Address {
    /// The address asked for.
    pub fn from_args(args: &SandboxArgs) -> Result<Self, Failure> {
        let token = args.token.clone().filter(|token| !token.is_empty());
        let open = !args.listen.is_loopback();
        if open && token.is_none() {
            let what = format!("other machines can reach {}, and requests would need no authentication", args.listen);
            return Err(Mistake::of_file("--listen", what)
                .allowing("127.0.0.1 or ::1, or --token TOKEN besides")
                .into());
        }
        if let Some(token) = token.as_deref().filter(|token| token.len() < SHORTEST_TOKEN || !token.is_ascii()) {
            let what = format!("has {} characters", token.chars().count());
            return Err(Mistake::of_file("--token", what)
                .allowing(format!("{SHORTEST_TOKEN} or more characters of ASCII"))
                .into());
        }
        // kubectl sends a token by TLS only.
        let identity = match open || args.tls || token.is_some() {
            true => Some(TlsIdentity::new(names(args.listen)).map_err(|why| Failure::System(why.to_string()))?),
            false => None,
        };
        Ok(Self { asked: SocketAddr::from((args.listen, args.port)), token, identity })
    }

    /// Serves the world's API there, and its pages beside it, on a thread of its own.
    pub async fn serve(&self, world: &Rc<World>, args: &SandboxArgs, shown: page::Shown) -> Result<Serving, Failure> {
        let (api, asked, token) = (world.api.clone(), self.asked, self.token.clone());
        let ((pages, actions), identity) = (page::pages(world.clone(), args, shown), self.identity.clone());
        let serving = Serving::start(async move || {
            let listener = Listener::bind(api, asked, token).await?.with_pages(pages).with_actions(actions);
            Ok(match &identity {
                Some(identity) => listener.with_tls(identity),
                None => listener,
            })
        });
        serving.await.map_err(|why| self.not_bound(&why))
    }

    fn not_bound(&self, why: &std::io::Error) -> Failure {
        let what = match why.kind() {
            std::io::ErrorKind::AddrInUse => {
                "is taken; another program listens there (--port 0 takes a free one)".to_owned()
            }
            std::io::ErrorKind::PermissionDenied => {
                "may not be listened on by this user; take one above 1023".to_owned()
            }
            std::io::ErrorKind::AddrNotAvailable => {
                format!("cannot be had: {} is no address of this machine", self.asked.ip())
            }
            _ => describe(why),
        };
        Failure::System(format!("--port {}: {what}", self.asked.port()))
    }

    /// The API's address.
    fn endpoint(&self, serving: &Serving) -> String {
        let bound = serving.address();
        let host = match bound.ip() {
            ip if ip.is_unspecified() => HERE.to_owned(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        };
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}", bound.port())
    }

    /// Address of the page for people.
    pub fn page(&self, serving: &Serving) -> String {
        let hint = if self.token.is_some() { "   (any name, the token as the password)" } else { "" };
        format!("{}/{hint}", self.endpoint(serving))
    }

    /// Writes a kubeconfig, to where the user said or into the folder for temporary files.
    pub fn write_kubeconfig(&self, args: &SandboxArgs, serving: &Serving) -> Result<String, Failure> {
        let path = match &args.kubeconfig {
            Some(path) => std::path::PathBuf::from(path),
            None => std::env::temp_dir().join(format!("dovetail-sandbox-{}.kubeconfig", std::process::id())),
        };
        let text = self.kubeconfig(&args.cluster_name, &self.endpoint(serving));
        write_private(&path, &text)
            .map_err(|why| Failure::System(format!("--kubeconfig {}: {}", path.display(), describe(&why))))?;
        Ok(path.display().to_string())
    }

    fn kubeconfig(&self, name: &str, endpoint: &str) -> String {
        let authority = match &self.identity {
            Some(identity) => {
                format!("\n    certificate-authority-data: {}", identity.authority())
            }
            None => String::new(),
        };
        let user = match (&self.token, &self.identity) {
            (Some(token), _) => format!("{{token: {token:?}}}"),
            // By TLS kubectl asks for a name, unless it has something to show.
            (None, Some(_)) => "{token: none-is-asked-for}".to_owned(),
            (None, None) => "{}".to_owned(),
        };
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: \"{endpoint}\"{authority}\ncontexts:\n- name: {name}\n  \
             context: {{cluster: {name}, user: {name}}}\ncurrent-context: {name}\nusers:\n- name: {name}\n  user: {user}\n"
        )
    }
}

/// Names for the certificate.
fn names(listen: IpAddr) -> Vec<String> {
    let mut names = vec!["localhost".to_owned(), HERE.to_owned(), "::1".to_owned()];
    if !listen.is_unspecified() && !names.contains(&listen.to_string()) {
        names.push(listen.to_string());
    }
    names
}

/// A file that its owner alone may read: it may carry the token.
fn write_private(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(text.as_bytes())
}
