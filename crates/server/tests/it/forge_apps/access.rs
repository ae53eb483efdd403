//! Access to repositories with the tokens of an app.

use berth_core::id::RepositoryId;
use berth_server::jobs;
use berth_store::StoreError;
use berth_store::tables::{organization, repository};
use serde_json::json;

use super::AppWorld;
use crate::git::{OriginRepository, serve_git};
use crate::world::DEFINITION;

impl AppWorld {
    /// Returns the credential of a repository, or why there is none.
    async fn credential(&self, repository: &str) -> Result<String, String> {
        let id: RepositoryId = repository.parse().unwrap();
        let services = self.world.app.services();
        let org = services.store.read(None, |db| {
            let slug = berth_core::name::Slug::parse("acme").unwrap();
            Ok::<_, StoreError>(organization::by_slug(db, &slug)?.unwrap().id)
        });
        let org = org.await.unwrap();
        let found = services
            .store
            .read(Some(org), move |db| Ok::<_, StoreError>(repository::by_id(db, id)?.unwrap()));
        let found = found.await.unwrap();
        let credential = services.repository_credential(org, &found).await.unwrap();
        credential
            .map(|it| it.and_then(|it| it.token()).map_or_else(String::new, |it| it.reveal().to_owned()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repository_is_synced_with_a_token_of_the_app() {
    let it = AppWorld::at("127.0.0.1").await;
    let origin = OriginRepository::new();
    origin.write(".berth/shop/pipeline.yaml", DEFINITION);
    let head = origin.commit("first");
    let served = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(served.path().join("acme")).unwrap();
    std::os::unix::fs::symlink(origin.path().join(".git"), served.path().join("acme/shop.git")).unwrap();
    let base = serve_git(served.path().to_owned(), "x-access-token:ghs_1");
    let repository = it.add_repository(&format!("{base}/acme/shop.git")).await;
    it.create_app(&repository).await;
    it.github.install("acme/shop");
    let connected = it.connect(&repository, &json!({})).await;
    assert_eq!(connected.body["data"]["status"], "connected", "{}", connected.text);
    jobs::tick(it.world.app.jobs()).await.unwrap();
    let synced = it.view(&format!("repositories/{repository}")).await;
    assert_eq!((&synced["error"], &synced["head"]), (&json!(null), &json!(head.as_str())));
    assert_eq!(synced["pipelines"][0]["slug"], "shop");
    // The API is called with the same token.
    let lists_pulls = it.github.forge.requests().into_iter().find(|it| it.line.contains("/pulls"));
    assert_eq!(lists_pulls.unwrap().headers["authorization"], "Bearer ghs_1");
    assert_eq!(it.github.tokens_made(), 1);

    // The app was uninstalled: no access, and the error says why.
    it.github.model().installed.clear();
    let hook = it.hook_path(&repository).await;
    let told = it.deliver(&hook, "installation", "d1", &json!({"action": "deleted"})).await;
    assert_eq!(told.body["data"]["outcome"], "GitHub App uninstalled", "{}", told.text);
    jobs::tick(it.world.app.jobs()).await.unwrap();
    let synced = it.view(&format!("repositories/{repository}")).await;
    assert!(synced["error"].as_str().unwrap().contains("is not installed for acme/shop"), "{synced}");
}

#[tokio::test]
async fn app_token_is_cached_until_shortly_before_it_expires() {
    let it = AppWorld::new().await;
    let repository = it.connect_repository().await;
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_1");
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_1");
    it.world.run_sql("UPDATE forge_apps SET installation_changed_at = 9000000000000000");
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_2", "the installation has changed");
    it.world.run_sql("UPDATE forge_apps SET installation_changed_at = 1");
    it.world.app.services().discard_app_token(repository.parse().unwrap());
    it.github.model().token_s = 9 * 60;
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_3");
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_4", "it expires soon");
    it.github.model().token_s = 60 * 60;
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_5");
    assert_eq!(it.credential(&repository).await.unwrap(), "ghs_5");
}

#[tokio::test]
async fn suspended_uninstalled_or_deleted_app_gives_no_access() {
    let it = AppWorld::new().await;
    let repository = it.connect_repository().await;
    // A credential of the repository is not used instead.
    let path = format!("{}/secrets", super::ORGANIZATION);
    let secret = json!({"name": "GIT_TOKEN", "value": "hunter2-token"});
    let made = it.world.send(crate::world::post(&path).with_account(&it.world.ada).json(&secret)).await;
    assert_eq!(made.status, 201, "{}", made.text);
    it.world.run_sql("UPDATE repositories SET credential = 'GIT_TOKEN'");
    it.github.model().is_suspended = true;
    let refused = it.credential(&repository).await.unwrap_err();
    assert!(refused.contains("suspended") && refused.contains("acme/shop"), "{refused}");
    it.github.model().is_suspended = false;
    it.github.model().installed.clear();
    let refused = it.credential(&repository).await.unwrap_err();
    assert!(refused.contains("https://git.acme.test/github-apps/berth-acme/installations/new"), "{refused}");
    it.github.model().is_deleted = true;
    let refused = it.credential(&repository).await.unwrap_err();
    assert!(refused.contains("rejected the key"), "{refused}");
    assert_eq!(it.github.tokens_made(), 0);
}
