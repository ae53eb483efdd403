//! Environments for pull requests, with a double of GitHub, git over HTTP and a real runner.

use serde_json::json;

use super::fixes::{BRANCH, CHMOD_DIFF};
use super::pull_request_fixture::{AUTHOR, PullRequestFixture};
use crate::world::get;

const DEFINITION: &str = "version: 1
pipeline:
  name: Shop
  tracks: main
  ephemeral_environments:
    qa-1:
      triggers: [{ on: pull_request, target_branches: [main] }]
      release: [{ on: pr_closed }]
      on_release: deploy_tracked
  steps:
    - name: Deploy
      type: script
      params: { run: 'cat version.txt >> LEDGER' }
    - name: Announce
      type: script
      env: { API_KEY: '${{ secrets.API_KEY }}' }
      params: { run: 'echo announced $(cat version.txt) ${#API_KEY} >> LEDGER' }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pull_requests_use_one_environment_one_after_the_other() {
    let fixture = PullRequestFixture::start(DEFINITION).await;
    let first = fixture.push("first", "one");
    fixture.open(1, "first", &first, false).await;
    let comment = fixture.wait_for_comment(1, "· deployed").await;
    assert!(comment.contains(&format!("**qa-1** · deployed {}", &first[..8])), "{comment}");
    assert!(comment.contains("held by ci-bot for grace"), "{comment}");
    fixture.wait_for_line("announced one 23").await;
    let session = fixture.environment().await["lock"].clone();
    assert_eq!(session["contact"], "grace #1", "{session}");
    assert_eq!(session["holder"]["name"], "ci-bot", "{session}");

    let second = fixture.push("second", "two");
    fixture.open(2, "second", &second, false).await;
    fixture.wait_for_comment(2, "1st in queue for **qa-1**").await;

    // Newest wins, also for the ticket that waits.
    let first = fixture.push("first", "one again");
    fixture.change(1, |it| it.head = first.clone()).await;
    fixture.wait_for_line("announced one again 23").await;
    fixture.wait_for_comment(1, &format!("deployed {}", &first[..8])).await;
    let second = fixture.push("second", "two again");
    fixture.change(2, |it| it.head = second.clone()).await;
    fixture
        .wait_for("the ticket's commit", |it| {
            let second = second.clone();
            Box::pin(async move {
                let path = "/pipelines/shop/ephemeral-environments/qa-1/queue";
                let queue = it.pipelines.fetch(path).await;
                (queue[0]["commitId"] == json!(second)).then_some(())
            })
        })
        .await;

    fixture.change(1, |it| it.state = "closed").await;
    fixture.wait_for_line("announced two again 23").await;
    fixture.wait_for_comment(2, &format!("**qa-1** · deployed {}", &second[..8])).await;
    fixture.wait_for_comment(1, "uses no environment").await;
    let ledger = fixture.pipelines.read_file("ledger");
    let lines: Vec<_> = ledger.lines().filter(|line| !line.starts_with("announced")).collect();
    assert_eq!(lines, ["one", "one again", "main", "two again"], "reset in between");
    fixture.change(2, |it| it.state = "closed").await;
    fixture
        .wait_for("the release", |it| {
            Box::pin(async move { it.environment().await["lock"].is_null().then_some(()) })
        })
        .await;
    fixture.pipelines.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definition_of_a_pull_request_is_checked_and_not_used() {
    let fixture = PullRequestFixture::start(DEFINITION).await;
    let path = ".berth/shop/pipeline.yaml";
    let changed = std::fs::read_to_string(fixture.origin.path().join(path)).unwrap();
    fixture
        .origin
        .write(path, &changed.replace("echo announced", "echo hijacked").replace("steps:", "stepz:"));
    let head = fixture.push("evil", "one");
    fixture.open_with_files(1, "evil", &head, false, vec![".berth/shop/pipeline.yaml"]).await;
    fixture.wait_for_line("announced one 23").await;
    let (commit, _, state, description) = fixture
        .wait_for("the status", |it| {
            let model = it.model.lock().unwrap();
            let found = model.statuses.iter().find(|(_, context, ..)| context == "berth/definition").cloned();
            Box::pin(async move { found })
        })
        .await;
    assert_eq!((&commit, state.as_str()), (&head, "failure"));
    assert!(description.contains("pipeline.yaml"), "{description}");
    assert!(!fixture.pipelines.read_file("ledger").contains("hijacked"));
    fixture.pipelines.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fork_waits_for_approval_of_its_exact_commit_and_gets_no_secret() {
    let fixture = PullRequestFixture::start(DEFINITION).await;
    let world = &fixture.pipelines.world;
    let viewer = world.create_member("vera@acme.test", "viewer").await;
    let head = fixture.push_fork(7, "forked");
    fixture.open(7, "main", &head, true).await;
    fixture.wait_for_comment(7, &format!("`/berth approve {head}`")).await;
    assert!(fixture.environment().await["lock"].is_null(), "nothing runs before the approval");

    let ada = fixture.pipelines.ada().token.clone();
    assert_eq!(fixture.approve(7, &head, &viewer.token).await.status, 403);
    let (_, service) = world.create_service_account("review@acme.test", "admin").await;
    let refused = fixture.approve(7, &head, &service).await;
    assert!(refused.status == 403 && refused.text.contains("only people can approve"), "{}", refused.text);
    assert_eq!(fixture.approve(7, &"0".repeat(40), &ada).await.status, 409);
    assert_eq!(fixture.approve(8, &head, &ada).await.status, 404);
    assert!(fixture.environment().await["lock"].is_null());
    assert_eq!(fixture.approve(7, &head, &ada).await.status, 200);

    let comment = fixture.wait_for_comment(7, "failed to deploy").await;
    assert!(comment.contains("from a fork, without secrets"), "{comment}");
    fixture.wait_for_line("forked").await;
    let deployment = fixture.latest_deployment().await;
    assert_eq!(deployment["isUntrusted"], true, "{deployment}");
    let id = deployment["id"].as_str().unwrap();
    let ended = fixture.pipelines.wait_for_end(id).await;
    let step = ended["stages"][0]["steps"][1].to_string();
    assert!(step.contains("get no secrets"), "{step}");
    assert!(
        !fixture.pipelines.read_file("ledger").contains("announced"),
        "the step that names a secret never ran"
    );
    let path = format!("{}/events?kind=secret_read&limit=200", super::ORG);
    let reads = world.send(get(&path).with_account(fixture.pipelines.ada())).await.text;
    assert!(!reads.contains("API_KEY"), "{reads}");

    // Another head needs another approval.
    let next = fixture.push_fork(7, "forked again");
    fixture.change(7, |it| it.head = next.clone()).await;
    fixture.wait_for_comment(7, &format!("`/berth approve {next}`")).await;
    assert_eq!(fixture.latest_deployment().await["id"], id);
    let retried = fixture.pipelines.post(&format!("/deployments/{id}/stages/qa-1/retry"), &json!({})).await;
    assert_ne!(retried.status, 202, "only the service account holds the session: {}", retried.text);
    fixture.pipelines.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_act_once_with_the_permissions_of_the_linked_member() {
    let fixture = PullRequestFixture::start(DEFINITION).await;
    let world = &fixture.pipelines.world;
    let head = fixture.push("first", "one");
    fixture.open(1, "first", &head, false).await;
    fixture.wait_for_comment(1, "· deployed").await;
    let stranger = (99, "mallory");
    fixture.comment(1, "c1", stranger, " release").await;
    fixture.wait_for_comment(1, "not connected to Berth").await;
    assert!(!fixture.environment().await["lock"].is_null());

    let tester = world.create_member("tess@acme.test", "tester").await;
    let viewer = world.create_member("vera@acme.test", "viewer").await;
    for (account, member, comment) in [(AUTHOR, &tester, "c2"), (stranger, &viewer, "c3")] {
        let browser = world.log_in(&member.email, &member.password).await;
        let path = format!("{}/me/forge-accounts", super::ORG);
        let made = world.send(browser.post(&path).json(&json!({}))).await;
        let code = super::expect_data(&made, 201)["code"].as_str().unwrap().to_owned();
        fixture.comment(1, comment, account, &format!(" connect {code}")).await;
        let text = fixture.wait_for_comment(1, &format!("connect` by {}: connected", account.1)).await;
        assert!(!text.contains(&code), "{text}");
        // A code works once.
        fixture.comment(1, &format!("{comment}-again"), (5, "eve"), &format!(" connect {code}")).await;
        fixture.wait_for_comment(1, "by eve: refused").await;
    }
    fixture.comment(1, "c4", stranger, " release").await;
    fixture.wait_for_comment(1, "`release` by mallory: refused").await;
    assert!(!fixture.environment().await["lock"].is_null(), "a viewer may not release");

    fixture.comment(1, "c5", AUTHOR, " release").await;
    let text = fixture.wait_for_comment(1, "`release` by grace: released qa-1").await;
    assert!(text.contains("not claimed again until a member comments"), "{text}");
    let next = fixture.push("first", "one again");
    fixture.change(1, |it| it.head = next.clone()).await;
    fixture.comment(1, "c6", AUTHOR, " queue").await;
    fixture.wait_for_comment(1, "`queue` by grace: qa-1 is free").await;
    assert!(fixture.environment().await["lock"].is_null(), "a push does not undo the release");
    fixture.comment(1, "c7", AUTHOR, " claim").await;
    fixture.wait_for_comment(1, &format!("deployed {}", &next[..8])).await;
    // The same comment delivered again does nothing.
    fixture.comment(1, "c5", AUTHOR, " release").await;
    fixture.comment(1, "c8", AUTHOR, " extend 2h").await;
    fixture.wait_for_comment(1, "`extend 2h` by grace").await;
    assert!(!fixture.environment().await["lock"].is_null());

    let members = fixture.pipelines.fetch("/members").await;
    let tess = members.as_array().unwrap().iter().find(|it| it["email"] == "tess@acme.test").unwrap();
    let id = tess["id"].as_str().unwrap();
    assert_eq!(fixture.pipelines.delete(&format!("/members/{id}")).await.status, 200);
    fixture.comment(1, "c9", AUTHOR, " release").await;
    fixture.wait_for_comment(1, "`release` by grace: refused (your account is not connected").await;
    fixture.pipelines.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_pull_request_shows_its_cause_and_gets_a_fix_for_its_branch() {
    let (start, _) = DEFINITION.split_once("    - name: Deploy").unwrap();
    let step = "    - { name: Deploy, type: script, params: { run: './deploy.sh' } }\n";
    let fixture = PullRequestFixture::start(&format!("{start}{step}")).await;
    fixture.origin.write("deploy.sh", "#!/bin/sh\necho hi\n");
    let head = fixture.push("dark-mode", "one");
    fixture.open(1, "dark-mode", &head, false).await;
    let text = fixture.wait_for_comment(1, "failed to deploy").await;
    assert!(text.contains("Cause: `"), "{text}");
    let id = fixture.latest_deployment().await["id"].as_str().unwrap().to_owned();
    let failed = fixture.pipelines.wait_for_end(&id).await;
    let repository = fixture.repository.to_string();
    let analysis = fixture.pipelines.create_analysis(&repository, &failed, 1, Some(CHMOD_DIFF)).await;
    let made = fixture.pipelines.request_pull_request(&analysis).await;
    assert_eq!(made["state"], "open", "{made}");
    let opened = fixture.model.lock().unwrap().opened.clone();
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!((&opened[0]["head"], &opened[0]["base"]), (&json!(BRANCH), &json!("dark-mode")));
    let link = "Proposed fix: [pull request 900](<https://git.acme.test/admin/shop/pull/900>)";
    let text = fixture.wait_for_comment(1, link).await;
    assert!(text.contains("Cause: `'deploy.sh' is not executable. @acme/everyone`"), "{text}");
    fixture.pipelines.shut_down().await;
}
