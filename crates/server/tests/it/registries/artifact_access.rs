//! The artifact of a registry is given only to a runner that is executing one of the registry's steps.

use std::time::Duration;

use berth_api::runner::{AcquireParams, AttemptAssignment, LinkError, RunnerLink as _};
use berth_engine::EmbeddedLink;

use super::super::jobs_fixture::JobsFixture;
use super::super::world::TestWorld;
use super::*;

const STEPS: &str = "  steps:\n    - {name: Deploy, type: tools/deploy}\n";

/// Deploys the pipeline and acquires its step as a runner would.
async fn acquire_step(fixture: &JobsFixture) -> (EmbeddedLink, AttemptAssignment) {
    fixture.deploy("shop").await;
    jobs::tick(fixture.app.jobs()).await.unwrap();
    let link = EmbeddedLink::new(fixture.app.services().clone());
    let taken = tokio::task::spawn_blocking(move || {
        let boot = link.boot().to_owned();
        let asked = AcquireParams { boot, nonces: vec!["nonce".into()], labels: vec!["linux".into()] };
        let work = link.acquire(&asked, Duration::ZERO).unwrap();
        (link, work)
    });
    let (link, mut work) = taken.await.unwrap();
    (link, work.pop().unwrap())
}

#[tokio::test]
async fn registry_fetch_is_limited_to_the_planned_version() {
    let world = TestWorld::new().await;
    let fixture = JobsFixture::new(&world).await;
    let (tools, other) = (create_origin(&["deploy"]), create_origin(&["other"]));
    tools.write("extra", "of the first version");
    tools.commit("with a mark");
    add_and_build(&world, "tools", &tools).await;
    add_and_build(&world, "other", &other).await;
    fixture.create_pipeline(&world, "shop", STEPS).await;
    let (link, assignment) = acquire_step(&fixture).await;
    let call = assignment.custom.unwrap();
    let pinned = read_registry(&world, "tools").await["lastGood"]["digest"].clone();
    assert_eq!((&json!(call.digest), call.start.as_str()), (&pinned, "sh start.sh"));

    // Later changes to the registry do not affect the pinned version.
    tools.write("extra", "of another version");
    tools.commit("moves on");
    sync_registry(&world, "tools").await;
    let gone = world
        .send(super::call("DELETE", &format!("{REGISTRIES}/tools?force=true")).with_account(&world.ada))
        .await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    let foreign = read_registry(&world, "other").await["lastGood"]["digest"].as_str().unwrap().to_owned();

    let fetched = tokio::task::spawn_blocking(move || {
        let into = tempfile::tempdir().unwrap();
        link.fetch_registry(&assignment.attempt, &call.digest, into.path(), &|| true).unwrap();
        let extra = std::fs::read_to_string(into.path().join("extra")).unwrap();
        let refused = [foreign.as_str(), "sha256:0", "../../berth.db"].map(|digest| {
            let into = tempfile::tempdir().unwrap();
            let refused =
                link.fetch_registry(&assignment.attempt, digest, into.path(), &|| true).unwrap_err();
            assert_eq!(std::fs::read_dir(into.path()).unwrap().count(), 0);
            refused
        });
        (extra, refused)
    });
    let (extra, refused) = fetched.await.unwrap();
    assert_eq!(extra, "of the first version");
    for error in refused {
        assert_eq!(error, LinkError::Refused("the deployment has no step of such a registry".into()));
    }
}
