//! Snapshots of the comment on a pull request.

use expect_test::expect;

use super::*;

fn time(minutes: i64) -> Timestamp {
    Timestamp::parse("2026-11-18T17:00:00Z").unwrap().plus_seconds(minutes * 60)
}

fn section(state: EnvironmentUse) -> EnvironmentSection {
    EnvironmentSection {
        pipeline: None,
        environment: "qa-1".into(),
        url: None,
        state,
        log_url: None,
        holder: None,
        author: "grace".into(),
        expires_at: None,
        failure: None,
        is_untrusted: false,
    }
}

fn deployment(status: &'static str, at: Option<Timestamp>) -> EnvironmentSection {
    section(EnvironmentUse::Deployment { commit: "4d6d0ebe".repeat(5), status, at })
}

fn cause(text: &str) -> FailureCause {
    FailureCause { text: text.into(), url: None, fix: None }
}

fn content(environments: Vec<EnvironmentSection>) -> CommentContent {
    CommentContent { marker: render_marker("0123"), environments, ..CommentContent::default() }
}

#[test]
fn comment_of_deployed_pull_request_shows_state_log_holder_and_last_command() {
    let deployed = EnvironmentSection {
        url: Some("https://berth.acme.test/o/acme/environments/pl_1/qa-1".into()),
        log_url: Some("https://berth.acme.test/o/acme/deployments/dp_1".into()),
        holder: Some("acme/shop (pull requests)".into()),
        expires_at: Some(time(240)),
        ..deployment("succeeded", Some(time(20)))
    };
    let last_command = Some(LastCommand {
        author: "grace".into(),
        text: "extend 2h".into(),
        answer: "extended qa-1 until 2026-11-18 21:00 UTC".into(),
    });
    expect![[r#"
        [//]: # (berth:pull-request 0123)

        **[qa-1](<https://berth.acme.test/o/acme/environments/pl_1/qa-1>)** · deployed 4d6d0ebe · 2026-11-18 17:20 UTC

        [Steps and logs](<https://berth.acme.test/o/acme/deployments/dp_1>) · held by acme/shop (pull requests) for grace until 2026-11-18 21:00 UTC

        Last command: `extend 2h` by grace: extended qa-1 until 2026-11-18 21:00 UTC

        Commands: `/berth` and claim [NAME], release, deploy, queue, extend 2h, take-over NAME REASON, approve SHA, connect CODE, help
    "#]]
    .assert_eq(&render_comment(&CommentContent { last_command, ..content(vec![deployed]) }));
}

#[test]
fn comment_of_waiting_failed_and_ended_claims_shows_queue_cause_and_what_to_do() {
    let queued = section(EnvironmentUse::Queued { position: 2, expected_at: Some(time(45)) });
    let queued = EnvironmentSection { pipeline: Some("shop".into()), ..queued };
    let failed = EnvironmentSection {
        failure: Some(cause("step \"test\" failed: exit code 1")),
        is_untrusted: true,
        ..deployment("failed", Some(time(3)))
    };
    let stopped = section(EnvironmentUse::Ended { how: "released", is_stopped: true });
    let idle = section(EnvironmentUse::Ended { how: "idle", is_stopped: false });
    expect![[r#"
        [//]: # (berth:pull-request 0123)

        2nd in queue for **shop / qa-1**, expected at about 2026-11-18 17:45 UTC

        **qa-1** · failed to deploy 4d6d0ebe · 2026-11-18 17:03 UTC · from a fork, without secrets

        Cause: `step "test" failed: exit code 1`

        **qa-1** · released. It is not claimed again until a member comments `/berth claim`

        **qa-1** · released after the idle timeout. A new commit or `/berth claim` claims an environment again

        Commands: `/berth` and claim [NAME], release, deploy, queue, extend 2h, take-over NAME REASON, approve SHA, connect CODE, help
    "#]]
    .assert_eq(&render_comment(&content(vec![queued, failed, stopped, idle])));
}

#[test]
fn comment_of_failed_deployment_links_the_analysis_and_the_fix() {
    let mut failure = cause("`deploy.sh` is not executable");
    failure.url = Some("https://berth.acme.test/o/acme/deployments/dp_1?step=st_1&attempt=1".into());
    let url = "https://git.acme.test/acme/shop/pull/43".to_owned();
    failure.fix = Some(ProposedFix { number: 43, url, is_merged: false });
    let failed = EnvironmentSection { failure: Some(failure), ..deployment("failed", Some(time(3))) };
    expect![[r#"
        [//]: # (berth:pull-request 0123)

        **qa-1** · failed to deploy 4d6d0ebe · 2026-11-18 17:03 UTC

        Cause: `'deploy.sh' is not executable` · [Analysis](<https://berth.acme.test/o/acme/deployments/dp_1?step=st_1&attempt=1>) · Proposed fix: [pull request 43](<https://git.acme.test/acme/shop/pull/43>)

        Commands: `/berth` and claim [NAME], release, deploy, queue, extend 2h, take-over NAME REASON, approve SHA, connect CODE, help
    "#]]
    .assert_eq(&render_comment(&content(vec![failed])));
}

#[test]
fn comment_of_unapproved_fork_names_the_exact_commit() {
    let unapproved_head = Some("4d6d0ebe".repeat(5));
    let text = render_comment(&CommentContent { unapproved_head, ..CommentContent::default() });
    assert!(text.contains(&format!("`/berth approve {}`", "4d6d0ebe".repeat(5))), "{text}");
}

#[test]
fn comment_with_hostile_names_contains_no_markup_and_no_code() {
    let hostile = "@acme/owners [x](https://evil.test) ![i](//e) <img src=x>\n/merge httpsː//evil.test #1 `a` www.evil.test";
    let mut held = section(EnvironmentUse::Held);
    held.holder = Some(hostile.into());
    held.failure = Some(cause(hostile));
    let last_command = Some(LastCommand {
        author: hostile.into(),
        text: "connect SECRETCODE".into(),
        answer: hostile.into(),
    });
    let problem = Some(hostile.to_owned());
    let text = render_comment(&CommentContent { last_command, problem, ..content(vec![held]) });
    let (before, code) = text.split_once("Cause: `").unwrap();
    let (code, after) = code.split_once('`').unwrap();
    assert!(!code.contains('\n') && after.starts_with("\n\n"), "the cause is one line of code: {text}");
    let text = format!("{before}{after}");
    for part in ["@", "](", "<img", "\n/merge", "#1", "www.", "https:", "SECRETCODE", "`a`"] {
        assert!(!text.contains(part), "{part} in {text}");
    }
}

#[test]
fn queue_position_is_shown_as_ordinal() {
    let words: Vec<_> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].into_iter().map(ordinal).collect();
    assert_eq!(words.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th");
}
