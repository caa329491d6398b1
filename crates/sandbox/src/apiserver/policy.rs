//! ValidatingAdmissionPolicies, on every create and update as in kube-apiserver: bindings, parameters by name, expressions
//! with messages. What is left out, as nothing here uses it: selectors, match conditions, variables, audit annotations.
use super::error::{ApiError, Result};
use super::gvr::Key;
use super::meta;
use super::registry::FoundResource;
use super::store::StoreState;
use super::writing::write::WriteOptions;
use kube_cel::KubeCelExt;
use kube_cel::cel::{Context, Program, Value as CelValue, to_value};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::LazyLock;

const GROUP: &str = "admissionregistration.k8s.io";

/// Kubernetes' functions, which take longer to set up than an expression to evaluate.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

struct Validation {
    expression: Program,
    message: String,
    message_expression: Option<Program>,
}

/// Variables that expressions may refer to.
const VARIABLES: [&str; 4] = ["object", "oldObject", "params", "request"];

/// A policy's validations, and which of the variables they refer to.
struct Checks {
    validations: Vec<Validation>,
    variables: Vec<&'static str>,
}

/// Validations that have been compiled, or why they cannot be, by the policy's uid and generation.
#[derive(Default)]
pub(super) struct CompiledPolicies(RefCell<BTreeMap<(String, i64), std::result::Result<Checks, String>>>);

impl std::fmt::Debug for CompiledPolicies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").finish_non_exhaustive()
    }
}

/// A write that policies look at.
struct Write<'a> {
    found: &'a FoundResource,
    object: &'a Value,
    old: Option<&'a Value>,
    options: &'a WriteOptions,
}

impl StoreState {
    /// Asks every binding that fits.
    ///
    /// # Errors
    /// The refusal of the first policy that does not allow the write.
    pub(super) fn ask_policies(
        &self,
        found: &FoundResource,
        object: &Value,
        old: Option<&Value>,
        options: &WriteOptions,
    ) -> Result<()> {
        let rid = |plural| self.registry.rid(GROUP, plural);
        let (Some(policies), Some(bindings)) =
            (rid("validatingadmissionpolicies"), rid("validatingadmissionpolicybindings"))
        else {
            return Ok(());
        };
        if found.def.group == GROUP {
            return Ok(());
        }
        let write = Write { found, object, old, options };
        for binding in self.table(bindings).within(None) {
            let spec = &binding.value["spec"];
            let named = spec["policyName"].as_str().unwrap_or_default();
            let Some(policy) = self.get(policies, &Key::new("", named)) else { continue };
            let denies = meta::strings(&spec["validationActions"]).contains(&"Deny");
            let narrowed = spec["matchResources"].is_object();
            let fits = write.matches(&policy.value["spec"]["matchConstraints"])
                && (!narrowed || write.matches(&spec["matchResources"]));
            if denies && fits {
                self.ask(&write, &policy.value, &binding.value)?;
            }
        }
        Ok(())
    }

    fn ask(&self, write: &Write<'_>, policy: &Value, binding: &Value) -> Result<()> {
        let fails = policy["spec"]["failurePolicy"].as_str() != Some("Ignore");
        let reference = &binding["spec"]["paramRef"];
        let params = self.params(&policy["spec"]["paramKind"], reference);
        if params.is_none() && reference.is_object() {
            if reference["parameterNotFoundAction"].as_str() == Some("Allow") || !fails {
                return Ok(());
            }
            let why =
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(write.refusal(policy, binding, why));
        }
        let mut compiled = self.compiled.0.borrow_mut();
        let key = (meta::text(policy, "uid").to_owned(), policy["metadata"]["generation"].as_i64().unwrap_or(0));
        let refused = match compiled.entry(key).or_insert_with(|| checks(policy)) {
            Ok(checks) => match write.context(params.as_ref(), &checks.variables) {
                Ok(context) => checks.validations.iter().find_map(|one| one.refuses(&context)),
                Err(why) => Some(why),
            },
            Err(why) => Some(why.clone()),
        };
        match refused {
            Some(why) if fails => Err(write.refusal(policy, binding, &why)),
            _ => Ok(()),
        }
    }

    /// The object that a binding names as its parameter.
    fn params(&self, kind: &Value, reference: &Value) -> Option<Value> {
        let rid = self.registry.rid_of_kind(kind["apiVersion"].as_str()?, kind["kind"].as_str()?)?;
        let key = Key::new(reference["namespace"].as_str().unwrap_or_default(), reference["name"].as_str()?);
        self.get(rid, &key).map(|object| Value::clone(&object.value))
    }
}

impl Write<'_> {
    fn operation(&self) -> &'static str {
        if self.old.is_some() { "UPDATE" } else { "CREATE" }
    }

    /// True if one of the rules names the resource and the operation.
    fn matches(&self, constraints: &Value) -> bool {
        let has = |list: &Value, wanted: &str| meta::strings(list).iter().any(|one| *one == wanted || *one == "*");
        let (def, subresource) = (&self.found.def, &self.options.subresource);
        let resource =
            if subresource.is_empty() { def.plural.clone() } else { format!("{}/{subresource}", def.plural) };
        let rules = constraints["resourceRules"].as_array();
        rules.into_iter().flatten().any(|rule| {
            has(&rule["apiGroups"], &def.group)
                && has(&rule["apiVersions"], &self.found.version.name)
                && has(&rule["operations"], self.operation())
                && has(&rule["resources"], &resource)
        })
    }

    /// Values of the variables that expressions refer to. Keys of maps are as they are written, which `kube_cel`'s own evaluator,
    /// without a schema, takes for fields' names and escapes.
    fn context(
        &self,
        params: Option<&Value>,
        variables: &[&'static str],
    ) -> std::result::Result<Context<'static>, String> {
        let mut context = FUNCTIONS.new_inner_scope();
        for name in variables {
            let value = match *name {
                "object" => to_value(self.object),
                "oldObject" => to_value(self.old.unwrap_or(&Value::Null)),
                "params" => to_value(params.unwrap_or(&Value::Null)),
                _ => to_value(self.request()),
            };
            context.add_variable_from_value(*name, value.map_err(|why| format!("{name}: {why}"))?);
        }
        Ok(context)
    }

    /// The request, as expressions see it.
    fn request(&self) -> Value {
        let def = &self.found.def;
        json!({
            "operation": self.operation(),
            "name": meta::text(self.object, "name"),
            "namespace": meta::text(self.object, "namespace"),
            "dryRun": self.options.dry_run,
            "kind": {"group": def.group, "version": self.found.version.name, "kind": def.kind},
            "resource": {"group": def.group, "version": self.found.version.name, "resource": def.plural},
            "userInfo": {"username": self.options.user},
        })
    }

    fn refusal(&self, policy: &Value, binding: &Value, why: &str) -> ApiError {
        let (policy, binding) = (meta::text(policy, "name"), meta::text(binding, "name"));
        let why = format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {why}");
        let def = &self.found.def;
        ApiError::forbidden(&def.group, &def.plural, meta::text(self.object, "name"), &why)
    }
}

impl Validation {
    fn refers_to(&self, variable: &str) -> bool {
        let programs = std::iter::once(&self.expression).chain(&self.message_expression);
        programs.into_iter().any(|program| program.references().has_variable(variable))
    }

    /// The message of its refusal, if it refuses.
    fn refuses(&self, context: &Context<'_>) -> Option<String> {
        match self.expression.execute(context) {
            Ok(CelValue::Bool(true)) => None,
            Ok(CelValue::Bool(false)) => {
                let said = self.message_expression.as_ref().and_then(|program| match program.execute(context) {
                    Ok(CelValue::String(text)) => Some(text.to_string()),
                    _ => None,
                });
                Some(said.unwrap_or_else(|| self.message.clone()))
            }
            Ok(other) => Some(format!("expression returned {other:?}, no boolean")),
            Err(why) => Some(format!("expression resulted in error: {why}")),
        }
    }
}

fn checks(policy: &Value) -> std::result::Result<Checks, String> {
    let validations = validations(policy)?;
    let refer = |name: &&str| validations.iter().any(|one| one.refers_to(name));
    let variables = VARIABLES.into_iter().filter(refer).collect();
    Ok(Checks { validations, variables })
}

fn validations(policy: &Value) -> std::result::Result<Vec<Validation>, String> {
    let compile = |text: &str| Program::compile(text).map_err(|why| format!("compilation error: {why}"));
    let validation = |one: &Value| {
        let expression = one["expression"].as_str().unwrap_or_default();
        let message = one["message"].as_str().map_or_else(|| format!("failed expression: {expression}"), str::to_owned);
        let message_expression = one["messageExpression"].as_str().map(compile).transpose()?;
        Ok(Validation { expression: compile(expression)?, message, message_expression })
    };
    policy["spec"]["validations"].as_array().into_iter().flatten().map(validation).collect()
}
