//! `dovetail sandbox`: the world of a simulation, live: on real time, its API served on loopback.

use std::net::SocketAddr;
use std::sync::Arc;

use dovetail_cloud::shipped;
use dovetail_sandbox::apiserver::Listener;
use dovetail_sandbox::clock::RealClock;
use dovetail_sandbox::faults::FaultSettings;
use dovetail_sandbox::region;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use crate::cli::{LogFormat, SandboxArgs};
use crate::input::{Failure, Mistake, environment};
use crate::manifests::read_manifests;
use crate::story;
use crate::world::{Line, Watcher, World, WorldConfig};

/// Runs until Ctrl-C.
pub fn run(args: &SandboxArgs) -> Result<(), Failure> {
    if !shipped::regions().any(|known| known == args.region) {
        let what = format!("unknown region {:?}", args.region);
        return Err(Mistake::of_file("--region", what)
            .allowing(shipped::regions().collect::<Vec<_>>().join(", "))
            .into());
    }
    let env = environment(&args.environment.env, &args.environment.env_file)?;
    let manifests = read_manifests(&args.manifests, &env, &args.cluster_name)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    LocalSet::new().block_on(&runtime, live(args, &manifests))
}

async fn live(args: &SandboxArgs, manifests: &[dovetail_api::manifest::Manifest]) -> Result<(), Failure> {
    let world = World::new(config(args), Arc::new(RealClock::new()), Some(watcher(args)), |_| {})?;
    let asked = SocketAddr::from(([127, 0, 0, 1], args.port));
    let listener = Listener::bind(world.api.clone(), asked, None).await;
    let listener = listener.map_err(|why| Failure::System(format!("--port {}: {why}", args.port)))?;
    let address = listener.address().map_err(|why| Failure::System(why.to_string()))?;
    let kubeconfig = write_kubeconfig(args, &format!("http://{address}"))?;
    say(args, &format!("kubeconfig: {kubeconfig}   (kubectl --kubeconfig {kubeconfig} get nodes)"));
    say(args, "prices of spot capacity are synthetic: they come from a model, not from AWS");
    tokio::task::spawn_local(async move {
        if let Err(why) = listener.serve().await {
            eprintln!("dovetail: the Kubernetes API is no longer served: {why}");
        }
    });
    if let Some(port) = args.serve_aws {
        serve_aws(args, &world, port).await?;
    }
    world.apply(manifests)?;
    world.start_replicas()?;
    tokio::signal::ctrl_c().await.map_err(|why| Failure::System(format!("Ctrl-C cannot be heard: {why}")))?;
    say(args, "stopped: cluster and region were in this process and are gone");
    Ok(())
}

/// Serves the region on loopback. Whoever asks is taken for the one account that there is.
async fn serve_aws(args: &SandboxArgs, world: &World, port: u16) -> Result<(), Failure> {
    let refused = |why: std::io::Error| Failure::System(format!("--serve-aws {port}: {why}"));
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    say(args, &format!("aws: AWS_ENDPOINT_URL=http://{address} AWS_REGION={}, with any credentials", args.region));
    let serving = region::serve(world.region.clone(), listener);
    tokio::task::spawn_local(async move {
        let Err(why) = serving.await;
        eprintln!("dovetail: the region is no longer served: {why}");
    });
    Ok(())
}

fn config(args: &SandboxArgs) -> WorldConfig {
    WorldConfig {
        region: args.region.clone(),
        cluster_name: args.cluster_name.clone(),
        seed: args.seed,
        replicas: args.replicas,
        settings: std::collections::BTreeMap::new(),
        faults: FaultSettings::default(),
        nodes: Vec::new(),
        endpoint: None,
    }
}

fn watcher(args: &SandboxArgs) -> Watcher {
    match args.log_format {
        LogFormat::Text => Arc::new(|line: &Line| story::print_plain(line)),
        LogFormat::Json => Arc::new(|line: &Line| story::print_json(line)),
    }
}

/// Says something of the sandbox's own, on standard error where standard output is for a machine.
fn say(args: &SandboxArgs, text: &str) {
    match args.log_format {
        LogFormat::Text => println!("{text}"),
        LogFormat::Json => eprintln!("{text}"),
    }
}

/// Writes a kubeconfig for the address, to where the user said or into the folder for temporary files.
fn write_kubeconfig(args: &SandboxArgs, endpoint: &str) -> Result<String, Failure> {
    let path = match &args.kubeconfig {
        Some(path) => std::path::PathBuf::from(path),
        None => std::env::temp_dir().join(format!("dovetail-sandbox-{}.kubeconfig", std::process::id())),
    };
    let name = &args.cluster_name;
    let text = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster: {{server: \"{endpoint}\"}}\ncontexts:\n- name: {name}\n  \
         context: {{cluster: {name}, user: {name}}}\ncurrent-context: {name}\nusers:\n- name: {name}\n  user: {{}}\n"
    );
    std::fs::write(&path, text)
        .map_err(|why| Failure::System(format!("{}: {}", path.display(), crate::input::describe(&why))))?;
    Ok(path.display().to_string())
}
