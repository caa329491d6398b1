//! The conversion webhook's Secret and the definitions: one writer, everybody serves, and it heals.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dovetail_actors::context::identities::Identities;
use dovetail_actors::settings::WebhookSettings;
use dovetail_actors::{ClusterClock, InlineSolver, LogEvent, ReplicaHandle, ReplicaParts, Settings};
use dovetail_core::clock::Clock as _;
use dovetail_core::webhook::kept::ServingIdentity;
use dovetail_sandbox::Caller;
use dovetail_sandbox::apiserver::{CUSTOM_RESOURCE_DEFINITIONS, DeleteOptions, SECRETS};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{self, World, minutes};

/// Certificates that are text: each by a number of its own. Serving fails so many times.
#[derive(Default)]
pub struct Texts {
    pub made: Mutex<u32>,
    pub served: Mutex<Vec<String>>,
    pub fails: Mutex<u32>,
}

impl Identities for Texts {
    fn make(&self, names: &[String], begins: Timestamp, until: Timestamp) -> Result<ServingIdentity, String> {
        let mut made = self.made.lock().unwrap();
        *made += 1;
        let text = |what: &str| format!("{what} {} {}", *made, names.join(","));
        Ok(ServingIdentity { certificate: text("crt"), key: text("key"), authority: text("ca"), begins, until })
    }

    fn is_sound(&self, identity: &ServingIdentity, names: &[String], now: Timestamp) -> bool {
        identity.certificate.ends_with(&names.join(",")) && identity.begins <= now && now < identity.until
    }

    fn serve(&self, identity: &ServingIdentity) -> Result<(), String> {
        let mut fails = self.fails.lock().unwrap();
        if *fails > 0 {
            *fails -= 1;
            return Err("the port is taken".into());
        }
        self.served.lock().unwrap().push(identity.certificate.clone());
        Ok(())
    }
}

impl Texts {
    pub fn served(&self) -> usize {
        self.served.lock().unwrap().len()
    }

    pub fn made(&self) -> u32 {
        *self.made.lock().unwrap()
    }
}

fn replica(world: &World, number: u32, identities: &Arc<Texts>, settings: Settings) -> ReplicaHandle {
    let client = |name: &str| world.api.client(Caller::replica(number, name));
    dovetail_actors::start(ReplicaParts {
        identity: format!("replica-{number}"),
        kube: client("controller"),
        lease_kube: client("lease"),
        cloud: world.cloud.clone(),
        clock: ClusterClock::over(world.clock.clone()),
        streams_lists: false,
        rng_seed: u64::from(number),
        settings: Settings {
            cluster_name: "demo".into(),
            webhook: WebhookSettings { enabled: true, ..settings.webhook },
            ..settings
        },
        identities: Some(identities.clone()),
        solver: Arc::new(InlineSolver),
        journal: world.journal.clone(),
    })
}

fn secret(world: &World) -> Value {
    world.api.get(&SECRETS, "kube-system", "dovetail-webhook").map(|secret| (*secret).clone()).unwrap_or_default()
}

fn entry(secret: &Value, name: &str) -> String {
    secret["data"][name].as_str().unwrap_or_default().to_owned()
}

/// Authorities that the definitions have their API server trust, and true if v1beta1 is served.
fn trusted(world: &World) -> BTreeSet<(String, bool)> {
    let all = world.api.list(&CUSTOM_RESOURCE_DEFINITIONS);
    let of = |crd: &Value| {
        let bundle = crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        (bundle.to_owned(), crd["spec"]["versions"][1]["served"] == true)
    };
    // Those that have a v1beta1 to be converted.
    all.iter().filter(|crd| crd["spec"]["versions"][1].is_object()).map(|crd| of(crd)).collect()
}

#[test]
fn one_replica_writes_all_serve_and_crds_trust_what_is_served() {
    world::run(|world| async move {
        let (one, two) = (Arc::new(Texts::default()), Arc::new(Texts::default()));
        let _first = replica(&world, 0, &one, Settings::default());
        let _second = replica(&world, 1, &two, Settings::default());
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(*one.made.lock().unwrap() + *two.made.lock().unwrap(), 1, "one of the two makes one");
        assert_eq!(*one.served.lock().unwrap(), *two.served.lock().unwrap());
        assert_eq!(trusted(&world), [(authority_of(&one), true)].into(), "all three, and nothing else");
    });
}

/// Sets the definitions as an older Karpenter leaves them, updated: objects are stored as v1beta1, and nothing converts them.
fn stored_by_an_older(world: &World) {
    for crd in world.api.list(&CUSTOM_RESOURCE_DEFINITIONS) {
        let name = crd["metadata"]["name"].as_str().unwrap();
        let stored = json!({"status": {"storedVersions": ["v1beta1", "v1"]}});
        world.api.patch_status(&CUSTOM_RESOURCE_DEFINITIONS, "", name, &stored).unwrap();
    }
}

#[test]
fn leader_begins_only_once_stored_v1beta1_is_converted() {
    world::run(|world| async move {
        world.pool("default", world::on_demand_m5());
        stored_by_an_older(&world);
        assert!(trusted(&world).iter().all(|(bundle, _)| bundle.is_empty()));
        let _replica = replica(&world, 0, &Arc::new(Texts::default()), Settings::default());
        tokio::time::sleep(minutes(2)).await;
        let events: Vec<&str> = world.journal.entries().iter().map(|entry| entry.log_event.event()).collect();
        let last_defined = events.iter().rposition(|event| *event == "webhook_defined").unwrap();
        let first_written = events.iter().position(|event| ["node_class", "node_pool"].contains(event)).unwrap();
        assert!(last_defined < first_written, "{events:?}");
        assert_eq!(events.iter().filter(|event| **event == "webhook_defined").count(), 3, "{events:?}");
    });
}

#[test]
fn wait_for_failed_conversion_is_said_about_every_minute() {
    world::run(|world| async move {
        world.pool("default", world::on_demand_m5());
        stored_by_an_older(&world);
        let texts = Arc::new(Texts { fails: Mutex::new(u32::MAX), ..Texts::default() });
        let _replica = replica(&world, 0, &texts, Settings::default());
        tokio::time::sleep(minutes(10)).await;
        let entries = world.journal.entries();
        let said = entries.iter().filter(|entry| match &entry.log_event {
            LogEvent::Retrying { what, error } => what.contains("v1beta1") && error.contains("nodepools.karpenter.sh"),
            _ => false,
        });
        let said = said.count();
        assert!((8..=12).contains(&said), "{said} times in ten minutes");
        let begun = |event: &str| ["node_class", "node_pool", "nodeclaim_created"].contains(&event);
        assert!(!entries.iter().any(|entry| begun(entry.log_event.event())), "nobody has begun");
    });
}

#[test]
fn two_that_both_lead_come_to_serve_the_same() {
    world::run(|world| async move {
        let (one, two) = (Arc::new(Texts::default()), Arc::new(Texts::default()));
        let alone = || Settings { disable_leader_election: true, ..Settings::default() };
        let _first = replica(&world, 0, &one, alone());
        let _second = replica(&world, 1, &two, alone());
        tokio::time::sleep(minutes(3)).await;
        let last = |texts: &Texts| texts.served.lock().unwrap().last().cloned();
        assert!(last(&one).is_some());
        assert_eq!(last(&one), last(&two));
        let found = trusted(&world);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found.contains(&(authority_of(&one), true)), "{found:?}");
    });
}

#[test]
fn expired_certificate_is_replaced_and_overwritten_one_remade() {
    world::run(|world| async move {
        let texts = Arc::new(Texts::default());
        let _replica = replica(&world, 0, &texts, Settings::default());
        tokio::time::sleep(minutes(3)).await;
        let first = entry(&secret(&world), "tls.crt");
        for broken in [json!({"data": {"until": "MjAyMC0wMS0wMVQwMDowMDowMFo="}}), json!({"data": {"tls.crt": "AAAA"}})]
        {
            world.api.patch(&SECRETS, "kube-system", "dovetail-webhook", &broken).unwrap();
            tokio::time::sleep(minutes(2)).await;
            let now = entry(&secret(&world), "tls.crt");
            assert!(now != first && now != "AAAA", "{broken}");
        }
        world.api.delete(&SECRETS, "kube-system", "dovetail-webhook", &DeleteOptions::default()).unwrap();
        tokio::time::sleep(minutes(2)).await;
        assert_eq!(*texts.made.lock().unwrap(), 4);
        let found = trusted(&world);
        assert_eq!((found.len(), texts.served.lock().unwrap().len()), (1, 4), "{found:?}");
    });
}

#[test]
fn next_certificate_is_trusted_before_served_former_a_day_after() {
    world::run(|world| async move {
        let texts = Arc::new(Texts::default());
        let _replica = replica(&world, 0, &texts, Settings::default());
        tokio::time::sleep(minutes(3)).await;
        let before = secret(&world);
        // As if it had been made sixty days ago.
        let until = world.clock.wall() + jiff::SignedDuration::from_hours(24 * 29);
        let until = base64(&until.to_string());
        world.api.patch(&SECRETS, "kube-system", "dovetail-webhook", &json!({"data": {"until": until}})).unwrap();
        tokio::time::sleep(minutes(2)).await;
        let prepared = secret(&world);
        assert_eq!(entry(&prepared, "tls.crt"), entry(&before, "tls.crt"), "not served yet");
        assert_ne!(entry(&prepared, "next.tls.crt"), "");
        tokio::time::sleep(minutes(15)).await;
        let promoted = secret(&world);
        assert_eq!(entry(&promoted, "tls.crt"), entry(&prepared, "next.tls.crt"));
        assert_eq!(entry(&promoted, "former.ca.crt"), entry(&before, "ca.crt"));
        let both = trusted(&world);
        // As if a day had passed.
        let until = base64(&(world.clock.wall() + jiff::SignedDuration::from_mins(1)).to_string());
        world
            .api
            .patch(&SECRETS, "kube-system", "dovetail-webhook", &json!({"data": {"former.until": until}}))
            .unwrap();
        tokio::time::sleep(minutes(3)).await;
        assert_eq!(entry(&secret(&world), "former.ca.crt"), "");
        assert_ne!(trusted(&world), both);
        assert_eq!(trusted(&world).len(), 1);
    });
}

#[test]
fn undone_definition_is_not_rewritten_without_end() {
    world::run(|world| async move {
        let texts = Arc::new(Texts::default());
        let _replica = replica(&world, 0, &texts, Settings::default());
        let mut undone = 0;
        for _ in 0..60 {
            tokio::time::sleep(Duration::from_secs(31)).await;
            let crd = world.api.get(&CUSTOM_RESOURCE_DEFINITIONS, "", "nodepools.karpenter.sh").unwrap();
            if crd["spec"]["conversion"]["strategy"] == "Webhook" {
                undone += 1;
                let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
                world.api.patch(&CUSTOM_RESOURCE_DEFINITIONS, "", "nodepools.karpenter.sh", &none).unwrap();
            }
        }
        assert!((12..=16).contains(&undone), "{undone} in half an hour, at four in ten minutes");
        assert!(world.journal.count("webhook_not_defined") > 0);
    });
}

/// Bundle of the definitions while they trust the served certificate's authority only.
fn authority_of(texts: &Texts) -> String {
    let served = texts.served.lock().unwrap().last().cloned().unwrap_or_default();
    base64(&format!("{}\n", served.replacen("crt", "ca", 1)))
}

fn base64(text: &str) -> String {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap().as_str().unwrap().to_owned()
}
