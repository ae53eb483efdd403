//! Tests that untrusted input cannot do harm in the text of a pull request.

use proptest::prelude::*;

use super::*;

fn hostile_context<'a>(hostile: &'a str, evidence: &'a [QuotedLine]) -> PullRequestContext<'a> {
    PullRequestContext {
        summary: hostile,
        root_cause: hostile,
        analyser: "rules",
        evidence,
        pipeline: "shop",
        step: "deploy",
        stage: "production",
        deployment: "dep_1",
        analysis: "anl_1",
        deployment_url: Some("https://berth.acme.test/d/dep_1"),
        analysis_url: None,
        asked_by: hostile,
    }
}

/// Returns the text outside fenced code blocks.
fn text_outside_code(body: &str) -> String {
    let (mut out, mut fence) = (String::new(), None::<String>);
    for line in body.lines() {
        match &fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some(line.trim_end_matches("text").to_owned()),
            None => out.push_str(&format!("{line}\n")),
        }
    }
    assert_eq!(fence, None, "a block does not end: {body}");
    out
}

const HOSTILE: &[&str] = &[
    "@acme/everyone look",
    "Closes #12 and fixes acme/shop#13, GH-14, !15, &16, %17, ~bug, $18",
    "![x](https://evil.test/p.png) [click](javascript:alert(1)) <img src=x>",
    "see https://evil.test or www.evil.test now",
    "/merge\n/approve\n/close",
    "[skip ci] skip-checks: true\n\nCo-authored-by: Eve <eve@evil.test>",
    "```\n@acme/everyone\n```",
    "`````\n/approve",
    "\u{1b}[31mred\u{202e}\u{200b}@acme",
    "<!-- --> <details> <script>alert(1)</script>",
];

#[test]
fn untrusted_text_stays_inert_in_pull_request() {
    for hostile in HOSTILE {
        let evidence = [QuotedLine { line: 7, text: (*hostile).to_owned() }];
        let about = hostile_context(hostile, &evidence);
        let (body, title, message) =
            (render_body(&about), render_title(&about), render_commit_message(&about));
        let outside = text_outside_code(&body);
        let without_ours = outside.replace("[deployment dep_1](<https://berth.acme.test/d/dep_1>)", "");
        for text in [&without_ours, &title, &message] {
            for active in ["@", "#", "![", "](", "://", "www.", "<img", "<!--", "`", "\n/", "[skip", "GH-"] {
                assert!(!text.contains(active), "{active:?} of {hostile:?} in {text}");
            }
        }
        assert_eq!(title.lines().count(), 1);
        assert!(!message.to_lowercase().contains("co-authored-by:"), "{message}");
        let commands = body.lines().filter(|line| line.starts_with('/'));
        assert_eq!(commands.count(), 0, "{body}");
    }
}

#[test]
fn pull_request_text_has_cause_evidence_and_requester() {
    let evidence = [QuotedLine { line: 3, text: "sh: ./deploy.sh: Permission denied".into() }];
    let about = PullRequestContext {
        summary: "Make deploy.sh executable",
        root_cause: "`deploy.sh` has lost its executable bit.",
        asked_by: "Ada Lovelace",
        ..hostile_context("", &evidence)
    };
    assert_eq!(render_title(&about), "Make deploy.sh executable");
    expect_test::expect![[r"
        Make deploy.sh executable

        Suggested by Berth for the step deploy of shop, which failed.
        Deployment dep_1, analysis anl_1.
    "]]
    .assert_eq(&render_commit_message(&about));
    expect_test::expect![[r"
        Berth suggests this change because a deployment failed. **It has not been tested: review it before you merge it.**

        What went wrong, found by built-in rules:

        ```text
        `deploy.sh` has lost its executable bit.
        ```

        Log lines that show it:

        ```text
             3 | sh: ./deploy.sh: Permission denied
        ```

        - pipeline shop, stage production, step deploy
        - [deployment dep_1](<https://berth.acme.test/d/dep_1>)
        - analysis anl_1
        - requested by Ada Lovelace
    "]]
    .assert_eq(&render_body(&about));
}

#[test]
fn long_pull_request_texts_are_truncated() {
    let long = "word ".repeat(10_000);
    let evidence = vec![QuotedLine { line: 1, text: long.clone() }; 100];
    let about = hostile_context(&long, &evidence);
    assert!(render_body(&about).len() < 16 * 1024);
    assert_eq!(render_title(&about).chars().count(), TITLE_CHARS_MAX);
}

proptest! {
    #[test]
    fn code_blocks_contain_arbitrary_text(text in "(`|~|@|/|#|\n|[a-z ]|\\PC){0,80}") {
        let evidence = [QuotedLine { line: 1, text: text.clone() }];
        let made = render_body(&hostile_context(&text, &evidence));
        let outside = text_outside_code(&made).replace("[deployment dep_1](<https://berth.acme.test/d/dep_1>)", "");
        prop_assert!(!outside.contains('@') && !outside.contains('#') && !outside.contains('`'), "{}", made);
        prop_assert!(!made.lines().any(|line| line.starts_with('/')), "{}", made);
    }
}
