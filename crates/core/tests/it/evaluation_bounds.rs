//! Tests that every evaluation ends within its limits.

use berth_core::expression::{EXPR_RESULT_BYTES_MAX, ExpressionContexts, evaluate, fill, is_true, mark};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::evaluation::{SECRET, contexts};

#[test]
fn expensive_expression_runs_out_of_fuel_or_memory() {
    let numbers: Vec<usize> = (0..900).collect();
    let list = serde_json::to_string(&numbers).expect("json");
    let texts = serde_json::to_string(&vec![""; 500]).expect("json");
    let large = "x".repeat(60_000);
    let wide: Value = (0..20_000).collect();
    let contexts = ExpressionContexts::from([("vars".to_owned(), json!({ "large": large, "wide": wide }))]);
    let nested = |inner: &str, depth: usize| {
        (0..depth).fold(inner.to_owned(), |text, _| format!("format('{{0}}{{0}}{{0}}{{0}}', {text})"))
    };
    let check = |expression: &str, expected: &str| {
        let error = evaluate(expression, &contexts).expect_err(expected);
        assert!(error.message.contains(expected), "{error}");
    };
    check(&nested("'xxxxxxxx'", 20), "bytes");
    check(&format!("join(fromJSON('{list}'), vars.large)"), "bytes");
    check(&format!("contains(fromJSON('{texts}'), vars.large)"), "steps");
    check("contains(vars.wide, vars.large)", "steps");
    check("toJSON(vars)", "bytes");
    check("vars.wide.*", "steps");
    check("vars.wide", "bytes");
    check("join(vars.wide)", "steps");
    check(&vec!["contains(format('{0}y', vars.large), 'z')"; 20].join(" || "), "steps");
    assert!(evaluate("vars.wide[19999] == 19999", &contexts).is_ok(), "what is not walked through is free");
}

#[test]
fn result_size_is_refused_above_the_limit_only() {
    let contexts = |length: usize| {
        ExpressionContexts::from([("vars".to_owned(), json!({ "text": "x".repeat(length) }))])
    };
    assert!(evaluate("vars.text", &contexts(EXPR_RESULT_BYTES_MAX)).is_ok());
    assert!(evaluate("vars.text", &contexts(EXPR_RESULT_BYTES_MAX + 1)).is_err());
    assert!(evaluate("format('{0}', vars.text)", &contexts(EXPR_RESULT_BYTES_MAX)).is_ok());
    assert!(evaluate("format('{0}!', vars.text)", &contexts(EXPR_RESULT_BYTES_MAX)).is_err());
}

/// Generates valid expressions that cover every syntax element.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "vars",
        "vars.url",
        "vars.list",
        "vars.large",
        "steps",
        "steps.a.image",
        "secrets.TOKEN",
        "trigger.people",
        "session",
        "'text'",
        "'{0} {1}'",
        "'[1, [2, {\"a\": null}]]'",
        "''",
        "0",
        "-1",
        "1.5",
        "1e300",
        "0xff",
        "true",
        "null",
        "NaN",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(6, 60, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        let operator = prop::sample::select(vec!["&&", "||", "==", "!=", "<", "<=", ">", ">="]);
        let function = prop::sample::select(vec!["contains", "startsWith", "endsWith", "join", "format"]);
        let unary = prop::sample::select(vec!["toJSON", "fromJSON", "join", "format"]);
        prop_oneof![
            (two.clone(), operator).prop_map(|((a, b), op)| format!("({a} {op} {b})")),
            (two.clone(), function).prop_map(|((a, b), name)| format!("{name}({a}, {b})")),
            (inner.clone(), unary).prop_map(|(a, name)| format!("{name}({a})")),
            two.prop_map(|(a, b)| format!("fromJSON(toJSON({a}))[{b}]")),
            inner.clone().prop_map(|a| format!("!{a}")),
            inner.clone().prop_map(|a| format!("fromJSON({a}).*.name")),
            inner.prop_map(|a| format!("vars[{a}]")),
        ]
    })
}

proptest! {
    #[test]
    fn every_expression_terminates_within_its_limits(text in expression()) {
        match evaluate(&text, &contexts()) {
            Ok(value) => prop_assert!(value.as_str().map_or(0, str::len) <= EXPR_RESULT_BYTES_MAX),
            Err(error) => prop_assert!(!error.message.contains(SECRET)),
        }
        let template = format!("a ${{{{ {text} }}}} b");
        let _ = fill(&template, &contexts());
        prop_assert!(!mark(&template, &contexts()).contains(SECRET));
    }

    #[test]
    fn template_filling_survives_any_text(text in "\\PC{0,60}(\\$\\{\\{\\PC{0,60}\\}\\}){0,2}") {
        let _ = fill(&text, &contexts());
        let _ = mark(&text, &contexts());
        let _ = is_true(&text, &contexts());
    }

    #[test]
    fn context_text_is_inserted_unchanged(text in "\\PC{0,200}") {
        let contexts = ExpressionContexts::from([("vars".to_owned(), json!({ "text": text }))]);
        prop_assert_eq!(fill("<${{ vars.text }}>", &contexts), Ok(format!("<{text}>")));
        prop_assert_eq!(mark("<${{ vars.text }}>", &contexts), format!("<{text}>"));
    }
}
