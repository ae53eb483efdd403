//! Computing an expression: the walk over its parts.
//!
//! Values are borrowed from the contexts for as long as they can be, so that picking one out of a large context is
//! cheap. Recursion follows the parsed expression, whose depth is bounded when it is read.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use github_actions_expressions::op::{BinExpr, BinOp};
use github_actions_expressions::{Expr, SpannedExpr};
use serde_json::Value;

use super::reference::{Reference, parsed};
use super::value::{equal, is_collection, key, literal, number, order, text, truth};
use super::{Budget, condition, function};
use crate::wording::quoted;

/// Contexts by name: "vars", "stage", "steps", "build", "secrets", …
pub type Contexts = BTreeMap<String, Value>;

/// Names what is written in the expression, and never what a value holds: that may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvaluationError {
    pub message: String,
}

impl EvaluationError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

/// The value of an expression (without its `${{ }}`).
pub fn evaluate(expression: &str, contexts: &Contexts) -> Result<Value, EvaluationError> {
    evaluate_within(expression, contexts, &mut Budget::of_one())
}

/// Whether a step with this `if` runs.
pub fn is_true(text: &str, contexts: &Contexts) -> Result<bool, EvaluationError> {
    is_true_within(text, contexts, &mut Budget::of_one())
}

pub fn is_true_within(text: &str, contexts: &Contexts, budget: &mut Budget) -> Result<bool, EvaluationError> {
    evaluate_within(condition(text), contexts, budget).map(|value| truth(&value))
}

pub(super) fn evaluate_within(
    expression: &str,
    contexts: &Contexts,
    budget: &mut Budget,
) -> Result<Value, EvaluationError> {
    let named = |message: &str| EvaluationError::new(format!("{} {message}", quoted(expression)));
    let (parsed, references) = parsed(expression).map_err(|errors| {
        named(&format!("cannot be evaluated: {}", errors.first().map_or("", |error| error.message.as_str())))
    })?;
    let mut walk = Walk { contexts, budget };
    let value = walk.known(&references).and_then(|()| walk.value(&parsed)).and_then(|value| {
        let bytes = walk.budget.copy(&value)?;
        walk.budget.result(bytes)?;
        Ok(value.into_owned())
    });
    value.map_err(|error| named(&error.message))
}

/// What a part of an expression comes to.
enum Found<'c> {
    One(Cow<'c, Value>),
    /// By `.*`: whatever is picked next is picked from each of them.
    Many(Vec<Cow<'c, Value>>),
}

struct Walk<'c, 'b> {
    contexts: &'c Contexts,
    budget: &'b mut Budget,
}

impl<'c> Walk<'c, '_> {
    /// All at once and before anything else: whether a name is known must not depend on what is true today.
    fn known(&self, references: &[Reference]) -> Result<(), EvaluationError> {
        let missing =
            references.iter().find(|reference| !self.contexts.contains_key(reference.context.as_str()));
        missing.map_or(Ok(()), |reference| {
            let name = reference.context.as_str();
            Err(EvaluationError::new(format!("refers to `{name}`, which is not known here")))
        })
    }

    fn value(&mut self, expression: &SpannedExpr<'_>) -> Result<Cow<'c, Value>, EvaluationError> {
        match self.visit(expression)? {
            Found::One(value) => Ok(value),
            Found::Many(items) => {
                for item in &items {
                    self.budget.copy(item)?;
                }
                Ok(Cow::Owned(items.into_iter().map(Cow::into_owned).collect()))
            }
        }
    }

    fn visit(&mut self, expression: &SpannedExpr<'_>) -> Result<Found<'c>, EvaluationError> {
        self.budget.steps(1)?;
        let value = match &expression.inner {
            Expr::Literal(written) => Cow::Owned(literal(written)?),
            Expr::Identifier(name) => {
                self.contexts.get(name.as_str()).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
            }
            Expr::Context(context) => {
                let Some((head, rest)) = context.parts.split_first() else {
                    return Ok(Found::One(Cow::Owned(Value::Null)));
                };
                let mut found = self.visit(head)?;
                for part in rest {
                    found = self.pick(found, part)?;
                }
                return Ok(found);
            }
            Expr::Call(call) => {
                let arguments =
                    call.args.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>, _>>()?;
                Cow::Owned(function::call(call.func, &arguments, self.budget)?)
            }
            Expr::UnExpr { expr, .. } => {
                let value = self.value(expr)?;
                Cow::Owned(Value::Bool(!truth(&value)))
            }
            Expr::BinExpr(both) => self.both(both)?,
            // These stand inside a context, and are picked from there.
            Expr::Index(_) | Expr::Star => Cow::Owned(Value::Null),
        };
        Ok(Found::One(value))
    }

    fn both(&mut self, BinExpr { lhs, op, rhs }: &BinExpr<'_>) -> Result<Cow<'c, Value>, EvaluationError> {
        let left = self.value(lhs)?;
        if matches!(op, BinOp::And | BinOp::Or) {
            let decided = truth(&left) == matches!(op, BinOp::Or);
            return if decided { Ok(left) } else { self.value(rhs) };
        }
        let right = self.value(rhs)?;
        self.budget.compared(&left, &right)?;
        let order = || order(&left, &right);
        let answer = match op {
            BinOp::Eq => equal(&left, &right),
            BinOp::Neq => !equal(&left, &right),
            BinOp::Gt => order() == Some(Ordering::Greater),
            BinOp::Ge => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
            BinOp::Lt => order() == Some(Ordering::Less),
            BinOp::Le => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
            // Both are answered before the second operand is looked at.
            BinOp::And | BinOp::Or => false,
        };
        Ok(Cow::Owned(Value::Bool(answer)))
    }

    /// One step further into a value. What is not there is null, or left out among many.
    fn pick(&mut self, from: Found<'c>, part: &SpannedExpr<'_>) -> Result<Found<'c>, EvaluationError> {
        let member = self.member(part)?;
        match from {
            Found::One(value) if matches!(member, Member::All) => self.all(value).map(Found::Many),
            Found::One(value) => Ok(Found::One(self.one(value, &member)?.unwrap_or(Cow::Owned(Value::Null)))),
            Found::Many(items) => {
                let mut found = Vec::new();
                for item in items {
                    match member {
                        Member::All => found.extend(self.all(item)?),
                        Member::Value(_) => found.extend(self.one(item, &member)?),
                    }
                }
                Ok(Found::Many(found))
            }
        }
    }

    fn member(&mut self, part: &SpannedExpr<'_>) -> Result<Member, EvaluationError> {
        self.budget.steps(1)?;
        match &part.inner {
            Expr::Star => Ok(Member::All),
            Expr::Identifier(name) => Ok(Member::Value(Value::String(name.as_str().to_owned()))),
            Expr::Index(index) if matches!(index.inner, Expr::Star) => Ok(Member::All),
            Expr::Index(index) => {
                let value = self.value(index)?;
                // Nothing can be found by a collection, so that it need not be carried along.
                Ok(Member::Value(if is_collection(&value) { Value::Null } else { value.into_owned() }))
            }
            _ => Ok(Member::Value(Value::Null)),
        }
    }

    fn all(&mut self, value: Cow<'c, Value>) -> Result<Vec<Cow<'c, Value>>, EvaluationError> {
        let found: Vec<Cow<'c, Value>> = match value {
            Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
            Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
            Cow::Owned(Value::Object(fields)) => {
                fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect()
            }
            _ => Vec::new(),
        };
        self.budget.steps(found.len())?;
        Ok(found)
    }

    fn one(
        &mut self,
        value: Cow<'c, Value>,
        member: &Member,
    ) -> Result<Option<Cow<'c, Value>>, EvaluationError> {
        let Member::Value(member) = member else { return Ok(None) };
        self.budget.text(member.as_str().map_or(0, str::len))?;
        let size = match value.as_ref() {
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        self.budget.steps(1 + size / super::EXPR_STEP_BYTES)?;
        let name = text(member);
        Ok(match value {
            Cow::Borrowed(Value::Object(fields)) => {
                key(fields, &name).and_then(|key| fields.get(key)).map(Cow::Borrowed)
            }
            Cow::Owned(Value::Object(mut fields)) => {
                let key = key(&fields, &name).map(str::to_owned);
                key.and_then(|key| fields.swap_remove(&key)).map(Cow::Owned)
            }
            Cow::Borrowed(Value::Array(items)) => {
                place(member).and_then(|place| items.get(place)).map(Cow::Borrowed)
            }
            Cow::Owned(Value::Array(mut items)) => place(member)
                .filter(|place| *place < items.len())
                .map(|place| Cow::Owned(items.swap_remove(place))),
            _ => None,
        })
    }
}

enum Member {
    All,
    Value(Value),
}

/// Fractions are cut off, as GitHub does.
fn place(member: &Value) -> Option<usize> {
    let place = number(member).floor();
    (0.0..=f64::from(u32::MAX)).contains(&place).then_some(place as usize)
}
