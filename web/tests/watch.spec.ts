import { withToken } from "./harness/api";
import { expect, isAccessible, test } from "./harness/test";

test.use({ parts: ["approval", "search", "warehouse"] });

test("an approval is given with a word, and the deployment goes on", async ({ ada, world }) => {
  await ada.goto("/o/acme");
  await ada.getByRole("link", { name: "Approve or reject Checkout → production" }).click();
  const question = ada.getByRole("article", { name: "Checkout → production" });
  await question.getByRole("button", { name: "Approve" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Comment").fill("ship it");
  await isAccessible(ada, "the approval dialog");
  await dialog.getByRole("button", { name: "Approve" }).click();
  await expect(ada.getByText("Nothing waits for an answer")).toBeVisible();
  await ada.getByText("Approved", { exact: true }).click();
  await expect(ada.getByText("“ship it”")).toBeVisible();
  await ada.goto("/o/acme");
  const production = ada.getByRole("region", { name: "Checkout" });
  await expect(production.getByRole("link", { name: "v1.1.0" })).toHaveCount(2);
  expect((await withToken(world)("GET", "/ORG/approvals")).length).toBe(0);
});

test("an approval that too few people can give says so, and how to go on", async ({ ada, world }) => {
  const api = withToken(world);
  const definition = `version: 1
pipeline:
  name: Vault
  stages: [{ name: production, requires: { self_approval: false } }]
  steps: [{ name: Deploy, type: dummy }]
`;
  await api("POST", "/ORG/pipelines", { slug: "vault", definition });
  await api("POST", "/ORG/pipelines/vault/deployments", { commitId: "v1" });
  await ada.goto("/o/acme/approvals");
  const question = ada.getByRole("article", { name: "Vault → production" });
  await expect(question.getByText("Cannot approve: ada")).toBeVisible();
  await expect(question.getByText("Too few people can approve")).toBeVisible();
  await expect(question.getByText("deploy again with a bypass, which is recorded")).toBeVisible();
  await isAccessible(ada, "an approval that cannot be given");
});

test("the history is live, filtered by its address, checked and exported", async ({ ada, world }) => {
  await ada.goto("/o/acme/events?kind=pipeline_deleted");
  await expect(ada.getByText("Nothing like that has happened")).toBeVisible();
  await ada.goto("/o/acme/events?kind=pipeline_stopped");
  const api = withToken(world);
  await api("POST", "/ORG/pipelines/search/stop", { reason: "index migration" });
  await expect(ada.getByText("ada paused new deployments of search: index migration")).toBeVisible();
  await api("POST", "/ORG/pipelines/search/resume", {});

  await ada.getByRole("button", { name: "Check the history" }).click();
  await expect(ada.getByText("The history is whole")).toBeVisible();
  const download = ada.waitForEvent("download");
  await ada.getByRole("link", { name: "Export" }).click();
  expect((await download).suggestedFilename()).toContain("events");

  await ada.goto("/o/acme/events");
  await ada.getByRole("button", { name: /paused new deployments of search/i }).click();
  await expect(ada).toHaveURL(/event=evt_/);
  await expect(ada.getByLabel("The event's data")).toContainText("index migration");
  await isAccessible(ada, "an opened event");
});

test("what happens while the page still connects is shown", async ({ ada, world }) => {
  let connect = () => {};
  const stream = new Promise<void>(resolve => {
    connect = resolve;
  });
  await ada.route("**/organizations/acme/events", async route => {
    await stream;
    await route.continue();
  });
  await ada.goto("/o/acme/events?kind=secret_created");
  await expect(ada.getByText("Nothing like that has happened")).toBeVisible();
  await withToken(world)("POST", "/ORG/secrets", { name: "DEPLOY_KEY", value: "stocktaking" });
  connect();
  await expect(ada.getByText(/DEPLOY_KEY/)).toBeVisible();
});

test("an address that leads nowhere says so, and a problem has its request id", async ({ ada }) => {
  await ada.goto("/o/acme/nowhere");
  await expect(ada.getByText("There is no page at this address")).toBeVisible();
  await ada.goto("/o/acme/environments/checkout/no-such");
  await expect(ada.getByRole("alert")).toContainText(/Request req_/);
  await ada.goto("/o/globex");
  await expect(ada.getByText("There is no page at this address")).toBeVisible();
});

test("scripts of others do not run, and text stays text", async ({ ada, world }) => {
  const evil = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>';
  const held = await withToken(world)(
    "POST",
    "/ORG/pipelines/warehouse/ephemeral-environments/dock-2/sessions",
    {
      context: evil,
    },
  );
  await ada.goto("/o/acme/environments/warehouse/dock-2");
  await expect(ada.getByText(evil).first()).toBeVisible();
  expect(await ada.evaluate(() => "evil" in window)).toBe(false);
  await withToken(world)(
    "DELETE",
    `/ORG/pipelines/warehouse/ephemeral-environments/dock-2/sessions/${held.id}`,
  );
});
