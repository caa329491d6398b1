//! Bounds on selectors before they are parsed and before they run: an estimate from above of the steps of one evaluation, by the
//! lengths of lists and texts that it goes through.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use kube_cel::cel::parser::Expression;

/// Deepest nesting of brackets.
const DEEPEST_NESTING: usize = 32;
/// Most operators of an expression: each may be a level of recursion.
const MOST_OPERATORS: usize = 600;
/// Most steps of one evaluation.
const MOST_STEPS: u64 = 1_000_000;
/// Longest text or list in a device, in bytes: as many properties as it may have, as long as they may be.
const DEVICE_SIZE: u64 = 32 * 256;
/// Longest list in a device.
const DEVICE_COUNT: u64 = 32;
/// Bytes that are compared or copied in one step.
const BYTES_A_STEP: u64 = 64;

/// Checks that a text can be parsed without too deep a recursion.
///
/// # Errors
/// Says by what it is too large.
pub(super) fn check_nesting(text: &str) -> Result<(), String> {
    let (mut depth, mut operators, mut quoted) = (0_usize, 0_usize, None);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match (quoted, byte) {
            (Some(_), b'\\') => drop(bytes.next()),
            (Some(mark), _) if mark == byte => quoted = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quoted = Some(byte),
            (None, b'(' | b'[' | b'{') => {
                (depth, operators) = (depth + 1, operators + 1);
                if depth > DEEPEST_NESTING {
                    return Err(format!("it is nested too deep, more than {DEEPEST_NESTING} levels"));
                }
            }
            (None, b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            (None, b'!' | b'-' | b'+' | b'*' | b'/' | b'%' | b'?' | b'<' | b'>' | b'=' | b'.' | b'&' | b'|') => {
                operators += 1
            }
            (None, _) => {}
        }
    }
    if operators > MOST_OPERATORS {
        return Err(format!("it has too many operators, more than {MOST_OPERATORS}"));
    }
    Ok(())
}

/// Bounds of an expression's evaluation and value.
#[derive(Clone, Copy)]
struct Weight {
    /// Steps of the evaluation.
    steps: u64,
    /// Elements of the value, if it is a list or map.
    count: u64,
    /// Bytes of the value.
    size: u64,
}

/// Most steps of one evaluation.
///
/// # Errors
/// Says that they are too many.
pub(super) fn weigh(expression: &Expression) -> Result<u64, String> {
    let weight = weight_of(expression, &mut BTreeMap::new());
    if weight.steps > MOST_STEPS || weight.size > MOST_STEPS.saturating_mul(BYTES_A_STEP) {
        return Err(format!("it may take too long, more than {MOST_STEPS} steps"));
    }
    Ok(weight.steps)
}

/// Adds up parts of which all are evaluated; the value has all of theirs.
fn together<'a>(parts: impl IntoIterator<Item = &'a Expression>, scope: &mut BTreeMap<String, Weight>) -> Weight {
    let mut all = Weight { steps: 1, count: 0, size: 1 };
    for part in parts {
        let one = weight_of(part, scope);
        all.steps = all.steps.saturating_add(one.steps);
        all.size = all.size.saturating_add(one.size);
        all.count = all.count.saturating_add(1);
    }
    all
}

fn weight_of(at: &Expression, scope: &mut BTreeMap<String, Weight>) -> Weight {
    match &at.expr {
        Expr::Literal(LiteralValue::String(text)) => {
            let size = u64::try_from(text.inner().len()).unwrap_or(u64::MAX).max(1);
            Weight { steps: 1, count: size, size }
        }
        Expr::Unspecified | Expr::Struct(_) | Expr::Literal(_) => Weight { steps: 1, count: 1, size: 16 },
        Expr::Ident(name) => match scope.get(name) {
            Some(known) => Weight { steps: 1, ..*known },
            None => Weight { steps: 1, count: DEVICE_COUNT, size: DEVICE_SIZE },
        },
        Expr::Select(select) => {
            let of = weight_of(&select.operand, scope);
            Weight { steps: of.steps.saturating_add(1), ..of }
        }
        Expr::List(list) => together(&list.elements, scope),
        Expr::Map(map) => {
            let pairs = map.entries.iter().filter_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => Some([&entry.key, &entry.value]),
                EntryExpr::StructField(_) => None,
            });
            together(pairs.flatten(), scope)
        }
        Expr::Call(call) => weight_of_call(call, scope),
        Expr::Comprehension(all) => weight_of_loop(all, scope),
    }
}

fn weight_of_call(call: &CallExpr, scope: &mut BTreeMap<String, Weight>) -> Weight {
    let parts: Vec<Weight> =
        call.target.as_deref().into_iter().chain(&call.args).map(|one| weight_of(one, scope)).collect();
    let steps = parts.iter().fold(1_u64, |steps, one| steps.saturating_add(one.steps));
    let sum = parts.iter().fold(1_u64, |size, one| size.saturating_add(one.size));
    let size = match call.func_name.as_str() {
        name if answers_little(name) => 16,
        "replace" | "format" | "join" => {
            parts.iter().fold(1, |size: u64, one| size.saturating_mul(one.size.saturating_add(1)))
        }
        _ => sum,
    };
    Weight { steps: steps.saturating_add(sum.max(size) / BYTES_A_STEP), count: size, size }
}

fn weight_of_loop(all: &ComprehensionExpr, scope: &mut BTreeMap<String, Weight>) -> Weight {
    let range = weight_of(&all.iter_range, scope);
    let start = weight_of(&all.accu_init, scope);
    let turns = range.count;
    let element = Weight { steps: 1, count: range.size, size: range.size };
    let names = [Some(&all.iter_var), all.iter_var2.as_ref(), Some(&all.accu_var)];
    let before: Vec<_> =
        names.into_iter().flatten().map(|name| (name.clone(), scope.insert(name.clone(), element))).collect();
    scope.insert(all.accu_var.clone(), start);
    let turn = together([&all.loop_cond, &all.loop_step], scope);
    let grown = start.size.saturating_add(turns.saturating_mul(turn.size));
    let end = Weight { steps: 1, count: start.count.saturating_add(turns), size: grown };
    scope.insert(all.accu_var.clone(), if turns == 0 { start } else { end });
    let result = weight_of(&all.result, scope);
    for (name, known) in before.into_iter().rev() {
        match known {
            Some(known) => scope.insert(name, known),
            None => scope.remove(&name),
        };
    }
    let looped = turns.saturating_mul(turn.steps.saturating_add(grown / BYTES_A_STEP));
    let steps = range.steps.saturating_add(start.steps).saturating_add(looped).saturating_add(result.steps);
    Weight { steps, ..result }
}

/// True for operators and functions whose value is small whatever they are given.
fn answers_little(name: &str) -> bool {
    [
        op::LOGICAL_AND,
        op::LOGICAL_OR,
        op::LOGICAL_NOT,
        op::EQUALS,
        op::NOT_EQUALS,
        op::GREATER,
        op::GREATER_EQUALS,
        op::LESS,
        op::LESS_EQUALS,
        op::IN,
        op::NOT_STRICTLY_FALSE,
        "size",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "semver",
        "quantity",
    ]
    .contains(&name)
}
