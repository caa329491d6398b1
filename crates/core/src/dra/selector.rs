//! Selectors of devices: expressions in CEL with Kubernetes' functions, over `device.driver`, `device.attributes` and
//! `device.capacity`. They come from users: each is bounded before it is read ([`super::weight`]), and is evaluated once for
//! devices that are alike.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::operators::{INDEX, OPT_INDEX, OPT_SELECT};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue};
use kube_cel::cel::objects::Map;
use kube_cel::cel::parser::{Expression, Parser};
use kube_cel::cel::{Context, Value};
use rustc_hash::FxHashMap;

use super::device::{AttributeValue, DeviceTraits};
use super::weight::{check_nesting, weigh};

/// Deepest nesting that the parser follows.
const DEEPEST: u16 = 64;
/// The name of the variable for a domain's attributes or amounts: no expression can spell it.
const DOMAIN: char = '/';

/// A compiled selector.
#[derive(Debug)]
struct Selector {
    expression: Expression,
    /// `attributes` or `capacity`, and a domain that the expression names.
    domains: Vec<(String, String)>,
    /// Bound on the steps of one evaluation.
    weight: u64,
}

/// An answer of a selector for a device: `true` if it is meant, or the reason that there is none.
pub type Answer = Result<bool, String>;

/// Compiles and evaluates selectors, each once.
pub struct Selectors {
    context: Context<'static>,
    compiled: FxHashMap<String, Arc<Result<Selector, String>>>,
    answers: FxHashMap<(String, String, DeviceTraitsKey), Answer>,
    /// Numbers of traits, so that an answer is found by two small keys.
    numbers: BTreeMap<DeviceTraits, DeviceTraitsKey>,
}

/// Number of devices' traits, the same for devices that are alike.
pub type DeviceTraitsKey = u32;

impl Default for Selectors {
    fn default() -> Self {
        Self {
            context: Context::default().with_all(),
            compiled: FxHashMap::default(),
            answers: FxHashMap::default(),
            numbers: BTreeMap::new(),
        }
    }
}

impl Selectors {
    /// The number of traits.
    pub fn number_of(&mut self, traits: &DeviceTraits) -> DeviceTraitsKey {
        if let Some(number) = self.numbers.get(traits) {
            return *number;
        }
        let number = DeviceTraitsKey::try_from(self.numbers.len()).unwrap_or(DeviceTraitsKey::MAX);
        self.numbers.insert(traits.clone(), number);
        number
    }

    /// Checks that an expression can be evaluated at all.
    ///
    /// # Errors
    /// The reason that it cannot.
    pub fn check(&mut self, expression: &str) -> Result<(), String> {
        self.compile(expression).as_ref().as_ref().map(drop).map_err(Clone::clone)
    }

    /// The answer for a device with these traits, and the steps that it took: none if it was known.
    pub fn matches(
        &mut self,
        text: &str,
        driver: &str,
        number: DeviceTraitsKey,
        traits: &DeviceTraits,
    ) -> (Answer, u64) {
        let key = (text.to_owned(), driver.to_owned(), number);
        if let Some(answer) = self.answers.get(&key) {
            return (answer.clone(), 0);
        }
        let compiled = self.compile(text);
        let (answer, weight) = match compiled.as_ref() {
            Ok(selector) => (self.evaluate(selector, driver, traits), selector.weight),
            Err(error) => (Err(error.clone()), 1),
        };
        self.answers.insert(key, answer.clone());
        (answer, weight)
    }

    fn compile(&mut self, text: &str) -> Arc<Result<Selector, String>> {
        if let Some(known) = self.compiled.get(text) {
            return known.clone();
        }
        let compiled = Arc::new(compile_text(text));
        self.compiled.insert(text.to_owned(), compiled.clone());
        compiled
    }

    fn evaluate(&self, selector: &Selector, driver: &str, traits: &DeviceTraits) -> Answer {
        let run = || {
            let mut scope = self.context.new_inner_scope();
            let attributes = self.attribute_values(traits)?;
            let capacity = self.capacity_values(traits)?;
            for (kind, domain) in &selector.domains {
                let all = if kind == "attributes" { &attributes } else { &capacity };
                let own = all.get(domain).cloned().unwrap_or_else(|| as_map([]));
                scope.add_variable_from_value(variable(kind, domain), own);
            }
            let device = as_map([
                ("driver".to_owned(), Value::String(Arc::new(driver.to_owned()))),
                ("allowMultipleAllocations".to_owned(), Value::Bool(false)),
                ("attributes".to_owned(), as_map(attributes)),
                ("capacity".to_owned(), as_map(capacity)),
            ]);
            scope.add_variable_from_value("device", device);
            match Value::resolve(&selector.expression, &scope) {
                Ok(Value::Bool(answer)) => Ok(answer),
                Ok(other) => Err(format!("it answers {} and not true or false", other.type_of())),
                Err(error) => Err(error.to_string()),
            }
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("it cannot be evaluated".into()))
    }

    /// Attributes by domain.
    fn attribute_values(&self, traits: &DeviceTraits) -> Result<BTreeMap<String, Value>, String> {
        let known = traits.attributes.iter().filter_map(|(name, value)| {
            Some((
                name,
                match value {
                    AttributeValue::Bool(truth) => Ok(Value::Bool(*truth)),
                    AttributeValue::Int(int) => Ok(Value::Int(*int)),
                    AttributeValue::Text(text) => Ok(Value::String(Arc::new(text.clone()))),
                    AttributeValue::Version(text) => self.call("semver", text),
                    AttributeValue::Bound(_) => return None,
                },
            ))
        });
        by_domain(known)
    }

    fn capacity_values(&self, traits: &DeviceTraits) -> Result<BTreeMap<String, Value>, String> {
        by_domain(traits.capacity.iter().map(|(name, text)| (name, self.call("quantity", text))))
    }

    /// The value that a function of Kubernetes makes of a text.
    fn call(&self, function: &str, text: &str) -> Result<Value, String> {
        let literal = |text: &str| Expression { id: 0, expr: Expr::Ident(text.to_owned()) };
        let call = CallExpr { func_name: function.to_owned(), target: None, args: vec![literal("text")] };
        let mut scope = self.context.new_inner_scope();
        scope.add_variable_from_value("text", Value::String(Arc::new(text.to_owned())));
        Value::resolve(&Expression { id: 0, expr: Expr::Call(call) }, &scope).map_err(|error| error.to_string())
    }
}

fn by_domain<'a>(
    all: impl Iterator<Item = (&'a (String, String), Result<Value, String>)>,
) -> Result<BTreeMap<String, Value>, String> {
    let mut domains: BTreeMap<String, Vec<(String, Value)>> = BTreeMap::new();
    for ((domain, name), value) in all {
        domains.entry(domain.clone()).or_default().push((name.clone(), value?));
    }
    Ok(domains.into_iter().map(|(domain, values)| (domain, as_map(values))).collect())
}

fn as_map(values: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Map(Map { map: Arc::new(values.into_iter().map(|(name, value)| (name.into(), value)).collect()) })
}

fn variable(kind: &str, domain: &str) -> String {
    format!("{kind}{DOMAIN}{domain}")
}

fn compile_text(text: &str) -> Result<Selector, String> {
    check_nesting(text)?;
    let parse = || Parser::new().max_recursion_depth(DEEPEST).enable_optional_syntax(true).parse(text);
    // The parser is a library's, the text is a user's.
    let parsed = catch_unwind(AssertUnwindSafe(parse)).map_err(|_| "it cannot be parsed".to_owned())?;
    let mut expression = parsed.map_err(|errors| errors.to_string())?;
    let mut preparing = Preparing::default();
    preparing.prepare(&mut expression)?;
    let weight = weigh(&expression)?;
    Ok(Selector { expression, domains: preparing.domains, weight })
}

/// True for names that stand for a type or a library of functions.
fn is_library(name: &str) -> bool {
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "type", "math", "sets", "optional", "format"]
        .contains(&name)
}

/// Makes an expression one that can be evaluated: a domain that a device lacks is empty and no error, `cel.bind` is a loop
/// without turns, and nothing is left that the interpreter does not know.
#[derive(Default)]
struct Preparing {
    domains: Vec<(String, String)>,
    /// Variables of the loops around.
    bound: Vec<String>,
}

impl Preparing {
    fn prepare(&mut self, at: &mut Expression) -> Result<(), String> {
        if let Some((kind, domain)) = domain_of(at) {
            at.expr = Expr::Ident(variable(&kind, &domain));
            if !self.domains.contains(&(kind.clone(), domain.clone())) {
                self.domains.push((kind, domain));
            }
            return Ok(());
        }
        if let Some(bound) = bound_of(at) {
            at.expr = bound;
        }
        match &mut at.expr {
            Expr::Unspecified | Expr::Struct(_) => Err("it has a structure, which no selector has".into()),
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => {
                let known = name == "device" || name.starts_with('@') || is_library(name) || self.bound.contains(name);
                if known { Ok(()) } else { Err(format!("undeclared reference to {name:?}")) }
            }
            Expr::Call(call) => {
                if call.func_name == OPT_SELECT {
                    // The interpreter takes a field that is not there for an error, and a key that is not there for none.
                    call.func_name = OPT_INDEX.to_owned();
                }
                call.target.iter_mut().try_for_each(|one| self.prepare(one))?;
                call.args.iter_mut().try_for_each(|one| self.prepare(one))
            }
            Expr::Select(select) => self.prepare(&mut select.operand),
            Expr::List(list) => list.elements.iter_mut().try_for_each(|one| self.prepare(one)),
            Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.prepare(&mut entry.key)?;
                    self.prepare(&mut entry.value)
                }
                EntryExpr::StructField(_) => Ok(()),
            }),
            Expr::Comprehension(all) => {
                self.prepare(&mut all.iter_range)?;
                self.prepare(&mut all.accu_init)?;
                let names = [Some(&all.iter_var), all.iter_var2.as_ref(), Some(&all.accu_var)];
                let before = self.bound.len();
                self.bound.extend(names.into_iter().flatten().cloned());
                let parts = [&mut all.loop_cond, &mut all.loop_step, &mut all.result];
                parts.into_iter().try_for_each(|one| self.prepare(one))?;
                self.bound.truncate(before);
                Ok(())
            }
        }
    }
}

/// The kind and the domain of `device.attributes["domain"]` or `device.capacity["domain"]`.
fn domain_of(at: &Expression) -> Option<(String, String)> {
    let Expr::Call(call) = &at.expr else { return None };
    let ([of, domain], INDEX) = (call.args.as_slice(), call.func_name.as_str()) else { return None };
    let (Expr::Select(select), Expr::Literal(LiteralValue::String(domain))) = (&of.expr, &domain.expr) else {
        return None;
    };
    let is_device = matches!(&select.operand.expr, Expr::Ident(name) if name == "device");
    let known = is_device && ["attributes", "capacity"].contains(&select.field.as_str());
    known.then(|| (select.field.clone(), domain.inner().to_owned()))
}

/// `cel.bind(name, value, expression)` as a loop without turns, whose result is the expression.
fn bound_of(at: &mut Expression) -> Option<Expr> {
    let Expr::Call(call) = &mut at.expr else { return None };
    let is_bind = call.func_name == "bind"
        && call.target.as_ref().is_some_and(|of| matches!(&of.expr, Expr::Ident(name) if name == "cel"));
    let ([name, value, result], true) = (call.args.as_mut_slice(), is_bind) else { return None };
    let Expr::Ident(name) = std::mem::take(&mut name.expr) else { return None };
    let plain = |expr| Expression { id: 0, expr };
    Some(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: plain(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "@none".to_owned(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: std::mem::take(value),
        loop_cond: plain(Expr::Literal(LiteralValue::Null)),
        loop_step: plain(Expr::Ident(name)),
        result: std::mem::take(result),
    })))
}
