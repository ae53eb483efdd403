//! Tests the results of expressions.

use std::fmt::Write as _;

use berth_core::expression::{ExpressionContexts, evaluate, is_true};
use expect_test::{Expect, expect};
use serde_json::json;

pub(crate) const SECRET: &str = "hunter2-never-shown";

pub(crate) fn contexts() -> ExpressionContexts {
    let known = json!({
        "vars": {
            "url": "https://shop.test", "replicas": 3, "ratio": 0.5, "large": 1e30, "on": true, "off": false,
            "empty": "", "Mixed-Case": "kept", "list": ["a", "B", 3, null, true],
        },
        "stage": { "name": "production", "kind": "stage" },
        "steps": { "a": { "image": "app:1" }, "b": { "image": "app:2" }, "c": { "other": "x" } },
        "trigger": { "commit": "9fceb02", "people": [{ "name": "Ada", "tags": ["x", "y"] }, { "name": "Bob" }, 7] },
        "session": null,
        "secrets": { "TOKEN": SECRET },
    });
    serde_json::from_value(known).expect("contexts")
}

/// Compares the results, one line per expression.
fn check(expressions: &[&str], expected: &Expect) {
    let contexts = contexts();
    let mut lines = String::new();
    for expression in expressions {
        let _ = match evaluate(expression, &contexts) {
            Ok(value) => writeln!(lines, "{expression} → {value}"),
            Err(error) => writeln!(lines, "error: {error}"),
        };
    }
    expected.assert_eq(&lines);
}

#[test]
fn comparison_is_loose_and_ignores_case() {
    check(
        &[
            "'Main' == 'mAIN'",
            "'ı' == 'I'",
            "'a' < 'B'",
            "1 == '1'",
            "'0x10' == 16",
            "' 2 ' == 2",
            "'' == 0",
            "null == 0",
            "null == ''",
            "true == 1",
            "true == '1'",
            "true == 'true'",
            "'a' == 1",
            "'a' != 1",
            "'a' > 1",
            "'a' <= 1",
            "2 >= '2'",
            "10 > 9",
            "'10' > '9'",
            "vars == vars",
            "vars == stage",
            "vars == null",
            "vars.list != vars.list",
        ],
        &expect![[r#"
            'Main' == 'mAIN' → true
            'ı' == 'I' → false
            'a' < 'B' → true
            1 == '1' → true
            '0x10' == 16 → true
            ' 2 ' == 2 → true
            '' == 0 → true
            null == 0 → true
            null == '' → true
            true == 1 → true
            true == '1' → true
            true == 'true' → false
            'a' == 1 → false
            'a' != 1 → true
            'a' > 1 → false
            'a' <= 1 → false
            2 >= '2' → true
            10 > 9 → true
            '10' > '9' → false
            vars == vars → true
            vars == stage → false
            vars == null → false
            vars.list != vars.list → false
        "#]],
    );
}

#[test]
fn and_or_return_an_operand() {
    check(
        &[
            "vars.on && 'yes' || 'no'",
            "vars.off && 'yes' || 'no'",
            "vars.empty || vars.url",
            "vars.empty && vars.url",
            "0 || null",
            "vars.list && 1",
            "!vars.empty",
            "!!'false'",
            "!session",
            "!0 && !null && !false",
            "stage.name == 'production' && vars.replicas > 2",
        ],
        &expect![[r#"
            vars.on && 'yes' || 'no' → "yes"
            vars.off && 'yes' || 'no' → "no"
            vars.empty || vars.url → "https://shop.test"
            vars.empty && vars.url → ""
            0 || null → null
            vars.list && 1 → 1
            !vars.empty → true
            !!'false' → true
            !session → true
            !0 && !null && !false → true
            stage.name == 'production' && vars.replicas > 2 → true
        "#]],
    );
}

#[test]
fn missing_member_is_null_and_names_ignore_case() {
    check(
        &[
            "vars.url",
            "vars.URL",
            "vars['mixed-case']",
            "vars.gone",
            "vars.gone.further[0].and['more']",
            "session.id",
            "vars.list[1]",
            "vars.list[1.9]",
            "vars.list['2']",
            "vars.list[99]",
            "vars.list[-1]",
            "vars.list['x']",
            "vars.url[0]",
            "vars.replicas.x",
            "steps['a'].image",
            "vars[format('{0}l', 'ur')]",
            "vars[vars]",
            "fromJSON('{\"a\": [1, {\"b\": 2}]}').a[1].B",
            "fromJSON('[10, 20]')[1]",
        ],
        &expect![[r#"
            vars.url → "https://shop.test"
            vars.URL → "https://shop.test"
            vars['mixed-case'] → "kept"
            vars.gone → null
            vars.gone.further[0].and['more'] → null
            session.id → null
            vars.list[1] → "B"
            vars.list[1.9] → "B"
            vars.list['2'] → 3
            vars.list[99] → null
            vars.list[-1] → null
            vars.list['x'] → null
            vars.url[0] → null
            vars.replicas.x → null
            steps['a'].image → "app:1"
            vars[format('{0}l', 'ur')] → "https://shop.test"
            vars[vars] → null
            fromJSON('{"a": [1, {"b": 2}]}').a[1].B → 2
            fromJSON('[10, 20]')[1] → 20
        "#]],
    );
}

#[test]
fn star_selects_members_and_skips_missing_ones() {
    check(
        &[
            "steps.*.image",
            "trigger.people.*.name",
            "trigger.people.*.tags",
            "trigger.people.*.tags.*",
            "trigger.people.*.tags[1]",
            "trigger.people[*].name",
            "vars.url.*",
            "session.*.x",
            "join(steps.*.image, ' ')",
            "contains(trigger.people.*.name, 'ada')",
            "fromJSON('[[1,2],[3]]').*.*",
        ],
        &expect![[r#"
            steps.*.image → ["app:1","app:2"]
            trigger.people.*.name → ["Ada","Bob"]
            trigger.people.*.tags → [["x","y"]]
            trigger.people.*.tags.* → ["x","y"]
            trigger.people.*.tags[1] → ["y"]
            trigger.people[*].name → ["Ada","Bob"]
            vars.url.* → []
            session.*.x → []
            join(steps.*.image, ' ') → "app:1 app:2"
            contains(trigger.people.*.name, 'ada') → true
            fromJSON('[[1,2],[3]]').*.* → [1,2,3]
        "#]],
    );
}

#[test]
fn functions_match_github_actions() {
    check(
        &[
            "format('{0} and {1} and {0}', 'a', 2)",
            "format('{{0}} {0} }}{{', true)",
            "format('{0}|{1}|{2}', null, vars.list, stage)",
            "format('plain')",
            "contains('Hello', 'ELL')",
            "contains(vars.list, 'b')",
            "contains(vars.list, '3')",
            "contains(vars.list, 'z')",
            "contains(stage, 'production')",
            "contains(1234, 23)",
            "startsWith('Hello', 'hE')",
            "startsWith(vars.list, 'a')",
            "endsWith('Hello', 'LO')",
            "endsWith('', '')",
            "join(vars.list)",
            "join(vars.list, '-')",
            "join(vars.list, vars.list)",
            "join('one', '-')",
            "join(stage, '-')",
            "toJSON(vars.list)",
            "toJSON('a\"b')",
            "toJSON(null)",
            "fromJSON('true') && fromJSON('{\"a\": 1.5}').a",
            "fromJSON(toJSON(stage)).name",
            "format('{0} {1} {2} {3}', vars.ratio, vars.large, 1e3, -0.25)",
            "ENDSWITH('ab', 'B')",
        ],
        &expect![[r#"
            format('{0} and {1} and {0}', 'a', 2) → "a and 2 and a"
            format('{{0}} {0} }}{{', true) → "{0} true }{"
            format('{0}|{1}|{2}', null, vars.list, stage) → "|Array|Object"
            format('plain') → "plain"
            contains('Hello', 'ELL') → true
            contains(vars.list, 'b') → true
            contains(vars.list, '3') → true
            contains(vars.list, 'z') → false
            contains(stage, 'production') → false
            contains(1234, 23) → true
            startsWith('Hello', 'hE') → true
            startsWith(vars.list, 'a') → false
            endsWith('Hello', 'LO') → true
            endsWith('', '') → true
            join(vars.list) → "a,B,3,,true"
            join(vars.list, '-') → "a-B-3--true"
            join(vars.list, vars.list) → "a,B,3,,true"
            join('one', '-') → "one"
            join(stage, '-') → ""
            toJSON(vars.list) → "[\n  \"a\",\n  \"B\",\n  3,\n  null,\n  true\n]"
            toJSON('a"b') → "\"a\\\"b\""
            toJSON(null) → "null"
            fromJSON('true') && fromJSON('{"a": 1.5}').a → 1.5
            fromJSON(toJSON(stage)).name → "production"
            format('{0} {1} {2} {3}', vars.ratio, vars.large, 1e3, -0.25) → "0.5 1e+30 1000 -0.25"
            ENDSWITH('ab', 'B') → true
        "#]],
    );
}

#[test]
fn evaluation_error_explains_the_expression() {
    check(
        &[
            "build.image",
            "vars.on || environment.name",
            "vars.a ==",
            "success()",
            "nope.x",
            "format('{1}', 'a')",
            "format('{0', 'a')",
            "format('}', 'a')",
            "format('{a}', 'a')",
            "format('{99999999999999999999999}', 'a')",
            "fromJSON('{')",
            "fromJSON(null)",
            "NaN",
            "Infinity > 1",
        ],
        &expect![[r#"
            error: `build.image` refers to `build`, which is not known here
            error: `vars.on || environment.name` refers to `environment`, which is not known here
            error: `vars.a ==` cannot be evaluated: the expression cannot be read: unexpected end of expression
            error: `success()` cannot be evaluated: status functions are not available: a step runs when all it needs succeeded, and `on_failure` of the stage says what happens otherwise
            error: `nope.x` cannot be evaluated: there is no `nope` in expressions; there are stage, pipeline, organization, trigger, vars, build, steps, environment, session and secrets
            error: `format('{1}', 'a')` uses a `format` placeholder beyond the 1 given values; the first one is `{0}`
            error: `format('{0', 'a')` gives `format` a text with a lone brace; write `{{` and `}}` for braces
            error: `format('}', 'a')` gives `format` a text with a lone brace; write `{{` and `}}` for braces
            error: `format('{a}', 'a')` gives `format` a text with a lone brace; write `{{` and `}}` for braces
            error: `format('{99999999999999999999999}', 'a')` gives `format` a text with a lone brace; write `{{` and `}}` for braces
            error: `fromJSON('{')` gives `fromJSON` a text that is not JSON, at line 1, column 1
            error: `fromJSON(null)` gives `fromJSON` a text that is not JSON, at line 1, column 0
            error: `NaN` has a number that is none
            error: `Infinity > 1` has a number that is none
        "#]],
    );
}

#[test]
fn evaluation_error_contains_no_secret() {
    for expression in [
        "fromJSON(secrets.TOKEN)",
        "fromJSON(format('[{0}]', secrets.TOKEN))",
        "format(format('{{{0}', secrets.TOKEN))",
        "format(format('{{9{0}}}', secrets.TOKEN), 1)",
        "fromJSON(format('\"{0}', secrets.TOKEN))",
        "fromJSON(format('{{\"a\": 1{0}}}', secrets.TOKEN))",
    ] {
        let error = evaluate(expression, &contexts()).expect_err(expression);
        assert!(!error.message.contains(SECRET) && !error.message.contains("hunter2"), "{error}");
    }
}

#[test]
fn condition_with_or_without_braces_is_a_boolean() {
    for (condition, expected) in [
        ("vars.on", true),
        ("${{ vars.on }}", true),
        (" ${{ stage.name == 'staging' }} ", false),
        ("vars.empty", false),
        ("'false'", true),
        ("false", false),
        ("vars.list", true),
        ("session", false),
    ] {
        assert_eq!(is_true(condition, &contexts()), Ok(expected), "{condition}");
    }
}
