//! Evaluates an expression by walking its syntax tree.
//!
//! Values are borrowed from the contexts for as long as possible, so that selecting one from a large context is cheap.
//! The recursion is bounded because the parser limits the depth of expressions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use github_actions_expressions::op::{BinExpr, BinOp};
use github_actions_expressions::{Expr, SpannedExpr};
use serde_json::Value;

use super::reference::{ContextReference, parse_expression};
use super::value::{equal, find_key, is_collection, is_truthy, literal, number, order, text};
use super::{EvaluationBudget, condition, function};
use crate::wording::quote;

/// Contexts by name: "vars", "stage", "steps", "build", "secrets", …
pub type ExpressionContexts = BTreeMap<String, Value>;

/// The message quotes only the expression, never a value, because a value may be a secret.
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

/// Evaluates an expression given without `${{ }}`.
pub fn evaluate(expression: &str, contexts: &ExpressionContexts) -> Result<Value, EvaluationError> {
    evaluate_within(expression, contexts, &mut EvaluationBudget::for_one_call())
}

/// Evaluates the `if` condition of a step.
pub fn is_true(text: &str, contexts: &ExpressionContexts) -> Result<bool, EvaluationError> {
    is_true_within(text, contexts, &mut EvaluationBudget::for_one_call())
}

pub fn is_true_within(
    text: &str,
    contexts: &ExpressionContexts,
    budget: &mut EvaluationBudget,
) -> Result<bool, EvaluationError> {
    evaluate_within(condition(text), contexts, budget).map(|value| is_truthy(&value))
}

pub(super) fn evaluate_within(
    expression: &str,
    contexts: &ExpressionContexts,
    budget: &mut EvaluationBudget,
) -> Result<Value, EvaluationError> {
    let named = |message: &str| EvaluationError::new(format!("{} {message}", quote(expression)));
    let (parsed, references) = parse_expression(expression).map_err(|errors| {
        named(&format!("cannot be evaluated: {}", errors.first().map_or("", |error| error.message.as_str())))
    })?;
    let mut walk = ExpressionEvaluator { contexts, budget };
    let value = walk.check_names(&references).and_then(|()| walk.value(&parsed)).and_then(|value| {
        let bytes = walk.budget.charge_copy(&value)?;
        walk.budget.charge_result(bytes)?;
        Ok(value.into_owned())
    });
    value.map_err(|error| named(&error.message))
}

/// The value of a sub-expression.
enum SelectedValue<'c> {
    One(Cow<'c, Value>),
    /// The result of `.*`: the next member selection applies to each of these items.
    Many(Vec<Cow<'c, Value>>),
}

struct ExpressionEvaluator<'c, 'b> {
    contexts: &'c ExpressionContexts,
    budget: &'b mut EvaluationBudget,
}

impl<'c> ExpressionEvaluator<'c, '_> {
    /// Checks all context names before evaluating anything, so that an unknown name is an error even in a part that
    /// would not be evaluated.
    fn check_names(&self, references: &[ContextReference]) -> Result<(), EvaluationError> {
        let missing =
            references.iter().find(|reference| !self.contexts.contains_key(reference.context.as_str()));
        missing.map_or(Ok(()), |reference| {
            let name = reference.context.as_str();
            Err(EvaluationError::new(format!("refers to `{name}`, which is not known here")))
        })
    }

    fn value(&mut self, expression: &SpannedExpr<'_>) -> Result<Cow<'c, Value>, EvaluationError> {
        match self.visit(expression)? {
            SelectedValue::One(value) => Ok(value),
            SelectedValue::Many(items) => {
                for item in &items {
                    self.budget.charge_copy(item)?;
                }
                Ok(Cow::Owned(items.into_iter().map(Cow::into_owned).collect()))
            }
        }
    }

    fn visit(&mut self, expression: &SpannedExpr<'_>) -> Result<SelectedValue<'c>, EvaluationError> {
        self.budget.charge_steps(1)?;
        let value = match &expression.inner {
            Expr::Literal(written) => Cow::Owned(literal(written)?),
            Expr::Identifier(name) => {
                self.contexts.get(name.as_str()).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
            }
            Expr::Context(context) => {
                let Some((head, rest)) = context.parts.split_first() else {
                    return Ok(SelectedValue::One(Cow::Owned(Value::Null)));
                };
                let mut found = self.visit(head)?;
                for part in rest {
                    found = self.select_member(found, part)?;
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
                Cow::Owned(Value::Bool(!is_truthy(&value)))
            }
            Expr::BinExpr(both) => self.evaluate_binary(both)?,
            // These occur only inside a member path, which is evaluated elsewhere.
            Expr::Index(_) | Expr::Star => Cow::Owned(Value::Null),
        };
        Ok(SelectedValue::One(value))
    }

    fn evaluate_binary(
        &mut self,
        BinExpr { lhs, op, rhs }: &BinExpr<'_>,
    ) -> Result<Cow<'c, Value>, EvaluationError> {
        let left = self.value(lhs)?;
        if matches!(op, BinOp::And | BinOp::Or) {
            let decided = is_truthy(&left) == matches!(op, BinOp::Or);
            return if decided { Ok(left) } else { self.value(rhs) };
        }
        let right = self.value(rhs)?;
        self.budget.charge_comparison(&left, &right)?;
        let order = || order(&left, &right);
        let answer = match op {
            BinOp::Eq => equal(&left, &right),
            BinOp::Neq => !equal(&left, &right),
            BinOp::Gt => order() == Some(Ordering::Greater),
            BinOp::Ge => matches!(order(), Some(Ordering::Greater | Ordering::Equal)),
            BinOp::Lt => order() == Some(Ordering::Less),
            BinOp::Le => matches!(order(), Some(Ordering::Less | Ordering::Equal)),
            // Handled above with short-circuit evaluation.
            BinOp::And | BinOp::Or => false,
        };
        Ok(Cow::Owned(Value::Bool(answer)))
    }

    /// Selects a member of a value, or of each item after `.*`. A missing member is null; after `.*`, items without the
    /// member are left out.
    fn select_member(
        &mut self,
        from: SelectedValue<'c>,
        part: &SpannedExpr<'_>,
    ) -> Result<SelectedValue<'c>, EvaluationError> {
        let member = self.member(part)?;
        match from {
            SelectedValue::One(value) if matches!(member, MemberKey::All) => {
                self.all_members(value).map(SelectedValue::Many)
            }
            SelectedValue::One(value) => {
                Ok(SelectedValue::One(self.one_member(value, &member)?.unwrap_or(Cow::Owned(Value::Null))))
            }
            SelectedValue::Many(items) => {
                let mut found = Vec::new();
                for item in items {
                    match member {
                        MemberKey::All => found.extend(self.all_members(item)?),
                        MemberKey::Value(_) => found.extend(self.one_member(item, &member)?),
                    }
                }
                Ok(SelectedValue::Many(found))
            }
        }
    }

    fn member(&mut self, part: &SpannedExpr<'_>) -> Result<MemberKey, EvaluationError> {
        self.budget.charge_steps(1)?;
        match &part.inner {
            Expr::Star => Ok(MemberKey::All),
            Expr::Identifier(name) => Ok(MemberKey::Value(Value::String(name.as_str().to_owned()))),
            Expr::Index(index) if matches!(index.inner, Expr::Star) => Ok(MemberKey::All),
            Expr::Index(index) => {
                let value = self.value(index)?;
                // A collection is never a valid key, so it need not be copied.
                Ok(MemberKey::Value(if is_collection(&value) { Value::Null } else { value.into_owned() }))
            }
            _ => Ok(MemberKey::Value(Value::Null)),
        }
    }

    fn all_members(&mut self, value: Cow<'c, Value>) -> Result<Vec<Cow<'c, Value>>, EvaluationError> {
        let found: Vec<Cow<'c, Value>> = match value {
            Cow::Borrowed(Value::Array(items)) => items.iter().map(Cow::Borrowed).collect(),
            Cow::Borrowed(Value::Object(fields)) => fields.values().map(Cow::Borrowed).collect(),
            Cow::Owned(Value::Array(items)) => items.into_iter().map(Cow::Owned).collect(),
            Cow::Owned(Value::Object(fields)) => {
                fields.into_iter().map(|(_, value)| Cow::Owned(value)).collect()
            }
            _ => Vec::new(),
        };
        self.budget.charge_steps(found.len())?;
        Ok(found)
    }

    fn one_member(
        &mut self,
        value: Cow<'c, Value>,
        member: &MemberKey,
    ) -> Result<Option<Cow<'c, Value>>, EvaluationError> {
        let MemberKey::Value(member) = member else { return Ok(None) };
        self.budget.charge_text(member.as_str().map_or(0, str::len))?;
        let size = match value.as_ref() {
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        self.budget.charge_steps(1 + size / super::EXPR_STEP_BYTES)?;
        let name = text(member);
        Ok(match value {
            Cow::Borrowed(Value::Object(fields)) => {
                find_key(fields, &name).and_then(|key| fields.get(key)).map(Cow::Borrowed)
            }
            Cow::Owned(Value::Object(mut fields)) => {
                let key = find_key(&fields, &name).map(str::to_owned);
                key.and_then(|key| fields.swap_remove(&key)).map(Cow::Owned)
            }
            Cow::Borrowed(Value::Array(items)) => {
                index_of(member).and_then(|place| items.get(place)).map(Cow::Borrowed)
            }
            Cow::Owned(Value::Array(mut items)) => index_of(member)
                .filter(|place| *place < items.len())
                .map(|place| Cow::Owned(items.swap_remove(place))),
            _ => None,
        })
    }
}

enum MemberKey {
    All,
    Value(Value),
}

/// Converts a number to a list index. Fractions are truncated, as in GitHub Actions.
fn index_of(member: &Value) -> Option<usize> {
    let place = number(member).floor();
    (0.0..=f64::from(u32::MAX)).contains(&place).then_some(place as usize)
}
