//! The API server's own guard against leaders that have been succeeded (deploy/helm/dovetail/files/fence.yaml): whether it
//! stands and goes by the Lease of this election, and how a new leader makes sure that it stands behind it before it begins.
//! What its refusals mean is in `kube::failure`.

use std::fmt::Debug;
use std::time::Duration;

use dovetail_api::names::annotations;
use dovetail_api::v1::NodeClassRef;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::context::leader_term::LeaderTerm;
use crate::kube::failure::{FailureKind, KubeFailure};
use crate::kube::watch::{tell_failed, tell_recovered};
use crate::reading;
use crate::settings::Settings;
use crate::telemetry::log_event::LogEvent;

/// Longest wait for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between two attempts: an API server learns of a Lease within milliseconds; one that is away is not made worse.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Number of refusals in a row after which one counts: an API server that has just started does not know all roles.
const BELIEVED: u32 = 6;

/// Result of a look at the fence.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The fence stands, and goes by the Lease of this election.
    Stands,
    /// There is no fence, for this reason.
    Missing(String),
    /// The state of the fence is not known, for this reason.
    Unknown(String),
    /// The fence goes by another Lease.
    Astray(String),
    /// The API server is to be asked again.
    Away(String),
}

/// Looks whether the API server guards against earlier leaders, for who has been elected: tells where it does not, and where
/// that cannot be seen. An API server that is away is waited for while the leadership holds.
///
/// # Errors
/// The reason not to lead: the fence goes by another Lease than the election, so that it refuses the wrong ones or nobody.
pub async fn look_at_binding(client: &Client, leader_term: &LeaderTerm, env: &Env) -> Result<(), String> {
    let (env, what) = (env.in_term(leader_term.term()), "looking at the fence");
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, env.rng("binding"));
    loop {
        let doubts = backoff.failures() < BELIEVED;
        let looking = leader_term.while_holds(find_binding(client, &env.settings, doubts));
        let error = match tokio::time::timeout(ANSWER_TIMEOUT, looking).await {
            // That the term is over is found out by who stands behind the fence.
            Ok(None) => return Ok(()),
            Ok(Some(Seen::Away(error))) => error,
            Ok(Some(seen)) => {
                tell_recovered(&env, what, backoff.failures());
                match seen {
                    Seen::Missing(why) => env.emit(LogEvent::NoFence { why }),
                    Seen::Unknown(why) => env.emit(LogEvent::FenceUnknown { why }),
                    Seen::Astray(why) => return Err(why),
                    Seen::Stands | Seen::Away(_) => {}
                }
                return Ok(());
            }
            Err(_) => format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
        };
        let pause = backoff.pause();
        tell_failed(&env, what, backoff.failures(), &error);
        tokio::time::sleep(pause).await;
    }
}

/// One look; `doubts` that something is forbidden.
async fn find_binding(client: &Client, settings: &Settings, doubts: bool) -> Seen {
    let binding = match get_object(client, &settings.fence_name, doubts).await {
        Ok(binding) => binding,
        Err(seen) => return seen,
    };
    match bound_by(&binding, settings) {
        Seen::Stands => {}
        seen => return seen,
    }
    let policy = binding.spec.and_then(|spec| spec.policy_name).unwrap_or_default();
    get_object::<ValidatingAdmissionPolicy>(client, &policy, doubts).await.map_or_else(|seen| seen, |_| Seen::Stands)
}

async fn get_object<K>(client: &Client, name: &str, doubts: bool) -> Result<K, Seen>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    reading::LenientApi::<K>::all(client.clone())
        .get(name)
        .await
        .map_err(|error| unread::<K>(&error.into(), name, doubts))
}

/// Result of a look in which an object of the fence could not be read.
fn unread<K: Resource<DynamicType = ()>>(failure: &KubeFailure, name: &str, doubts: bool) -> Seen {
    let kind = K::kind(&());
    match failure.kind {
        FailureKind::Away | FailureKind::Unreadable | FailureKind::Budget => Seen::Away(failure.to_string()),
        FailureKind::Forbidden if doubts => Seen::Away(failure.to_string()),
        FailureKind::Missing => Seen::Missing(format!("there is no {kind} {name}")),
        FailureKind::NotServed => Seen::Missing(format!("this API server has no {kind} in {}", K::api_version(&()))),
        _ => Seen::Unknown(format!("{kind} {name}: {failure}")),
    }
}

/// Result of a look at a binding, for this election.
fn bound_by(binding: &ValidatingAdmissionPolicyBinding, settings: &Settings) -> Seen {
    let (name, spec) = (&settings.fence_name, binding.spec.clone().unwrap_or_default());
    if !spec.validation_actions.unwrap_or_default().iter().any(|action| action == "Deny") {
        return Seen::Missing(format!("ValidatingAdmissionPolicyBinding {name} denies nothing"));
    }
    let by = spec.param_ref.unwrap_or_default();
    let Some(lease) = by.name.filter(|lease| !lease.is_empty()) else {
        return Seen::Unknown(format!("ValidatingAdmissionPolicyBinding {name} names no Lease"));
    };
    let lease = format!("{}/{lease}", by.namespace.unwrap_or_default());
    let elected = format!("{}/{}", settings.lease_namespace, settings.lease_name);
    if lease == elected {
        return Seen::Stands;
    }
    Seen::Astray(format!(
        "the fence goes by another Lease than the election, and would not refuse a leader that has been succeeded: \
         ValidatingAdmissionPolicyBinding {name} names {lease}, LEADER_ELECTION_NAMESPACE and LEADER_ELECTION_NAME come to \
         {elected}; the chart's fence.lease and fence.leaseNamespace set both"
    ))
}

/// Comes back with `true` when the API server lets this term create a NodeClaim: from then on it lets no earlier one. A dry
/// run, repeated while the leadership holds; where it cannot be tried, which is told, the answer is `true` as well. With `false`
/// the term is over.
pub async fn stand_behind(client: &Client, leader_term: &LeaderTerm, env: &Env) -> bool {
    let (term, env, what) = (leader_term.term(), env.in_term(leader_term.term()), "standing behind the fence");
    let kind = GroupVersionKind::gvk("karpenter.sh", "v1", "NodeClaim");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut probe = DynamicObject::new(&format!("dovetail-term-{}", term.0), &resource).data(json!({
        "spec": {
            "nodeClassRef": NodeClassRef::for_provider(env.settings.provider, "none"),
            "requirements": [],
            "expireAfter": "Never",
        },
    }));
    probe.metadata.annotations = Some([(annotations::TERM.to_owned(), term.0.to_string())].into());
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1, env.rng("fence"));
    loop {
        let trying = leader_term.while_holds(api.create(&params, &probe));
        let error = match tokio::time::timeout(ANSWER_TIMEOUT, trying).await {
            Ok(None) => return false,
            Ok(Some(Ok(_))) => {
                tell_recovered(&env, what, backoff.failures());
                return true;
            }
            Ok(Some(Err(error))) => match tried(&error.into(), backoff.failures() < BELIEVED) {
                Tried::Again(error) => error,
                Tried::Succeeded => {
                    leader_term.end();
                    return false;
                }
                Tried::Cannot(why) => {
                    let why = format!("a NodeClaim's dry run was refused: {why}");
                    env.emit(LogEvent::FenceUnknown { why });
                    return true;
                }
            },
            Err(_) => format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()),
        };
        let pause = backoff.pause();
        tell_failed(&env, what, backoff.failures(), &error);
        tokio::time::sleep(pause).await;
    }
}

/// Result of a dry run that did not pass.
enum Tried {
    /// The dry run has to be repeated.
    Again(String),
    /// A newer term has begun.
    Succeeded,
    /// The refusal is not the fence's: a webhook that takes no dry runs, a role, a schema.
    Cannot(String),
}

fn tried(failure: &KubeFailure, doubts: bool) -> Tried {
    match failure.kind {
        FailureKind::Away | FailureKind::Unreadable | FailureKind::Budget => Tried::Again(failure.to_string()),
        FailureKind::Forbidden if doubts => Tried::Again(failure.to_string()),
        // An API server that has just started serves our kinds a little later than its own.
        FailureKind::NotServed => Tried::Again("NodeClaims are not served".to_owned()),
        FailureKind::Succeeded => Tried::Succeeded,
        _ => Tried::Cannot(failure.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::{ParamRef, ValidatingAdmissionPolicyBindingSpec};
    use kube::core::Status;

    use super::*;

    fn answered(code: u16, message: &str) -> KubeFailure {
        kube::Error::Api(Status::failure(message, "").with_code(code).boxed()).into()
    }

    fn binding(actions: &[&str], by: Option<(&str, &str)>) -> ValidatingAdmissionPolicyBinding {
        let param_ref = by.map(|(namespace, name)| ParamRef {
            name: Some(name.into()).filter(|name: &String| !name.is_empty()),
            namespace: Some(namespace.into()),
            ..ParamRef::default()
        });
        let spec = ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some("dovetail-fence".into()),
            validation_actions: Some(actions.iter().map(|one| (*one).to_owned()).collect()),
            param_ref,
            ..ValidatingAdmissionPolicyBindingSpec::default()
        };
        ValidatingAdmissionPolicyBinding { spec: Some(spec), ..ValidatingAdmissionPolicyBinding::default() }
    }

    #[test]
    fn fence_stands_only_by_the_election_lease_in_its_namespace() {
        let settings = Settings { lease_namespace: "infra".into(), lease_name: "own".into(), ..Settings::default() };
        let seen = |actions: &[&str], by| bound_by(&binding(actions, by), &settings);
        assert_eq!(seen(&["Deny", "Audit"], Some(("infra", "own"))), Seen::Stands);
        for other in [("kube-system", "own"), ("infra", "karpenter-leader-election"), ("", "own")] {
            let Seen::Astray(why) = seen(&["Deny"], Some(other)) else { unreachable!("{other:?}") };
            assert!(
                why.contains(&format!("names {}/{},", other.0, other.1)) && why.contains("come to infra/own"),
                "{why}"
            );
        }
        assert!(matches!(seen(&["Warn"], Some(("infra", "own"))), Seen::Missing(_)));
        assert!(matches!(seen(&["Deny"], None), Seen::Unknown(_)));
        assert!(matches!(seen(&["Deny"], Some(("infra", ""))), Seen::Unknown(_)));
    }

    #[test]
    fn what_a_look_that_failed_says_of_the_fence() {
        let seen = |code, message: &str, doubts| {
            unread::<ValidatingAdmissionPolicyBinding>(&answered(code, message), "x", doubts)
        };
        let missing = "validatingadmissionpolicybindings.admissionregistration.k8s.io \"x\" not found";
        assert_eq!(seen(404, missing, true), Seen::Missing("there is no ValidatingAdmissionPolicyBinding x".into()));
        for unserved in ["404 page not found", "the server could not find the requested resource"] {
            let why = "this API server has no ValidatingAdmissionPolicyBinding in admissionregistration.k8s.io/v1";
            assert_eq!(seen(404, unserved, true), Seen::Missing(why.into()));
        }
        let forbidden = "is forbidden: User \"a\" cannot get resource";
        assert!(matches!(seen(403, forbidden, true), Seen::Away(_)));
        let Seen::Unknown(why) = seen(403, forbidden, false) else { unreachable!() };
        assert!(why.contains("403 is forbidden"), "{why}");
        for away in [401, 429, 500, 503] {
            assert!(matches!(seen(away, "later", false), Seen::Away(_)), "{away}");
        }
    }

    #[test]
    fn dry_run_refused_by_others_cannot_be_tried_unanswered_repeats() {
        let cannot = |code, message: &str, doubts| matches!(tried(&answered(code, message), doubts), Tried::Cannot(_));
        let again = |code, message: &str, doubts| matches!(tried(&answered(code, message), doubts), Tried::Again(_));
        assert!(cannot(400, "admission webhook \"x\" does not support dry run", true));
        assert!(cannot(422, "spec.requirements: Required value", true));
        assert!(cannot(403, "User \"a\" cannot create resource", false));
        assert!(again(403, "User \"a\" cannot create resource", true));
        for code in [401, 404, 408, 425, 429, 500, 503] {
            assert!(again(code, "the server could not find the requested resource", false), "{code}");
        }
        assert!(again(403, "dovetail.dev/term is 10, the Lease's is 9", false));
        assert!(matches!(tried(&answered(403, "dovetail.dev/term is 9, the Lease's is 10"), false), Tried::Succeeded));
    }
}
