import { withToken } from "./harness/api";
import { runDeployment } from "./harness/deployments";
import { expect, expectAccessible, test } from "./harness/test";

test.use({ parts: ["approval", "search", "warehouse"] });

test("a deployment continues after an approval with a comment", async ({ ada, world }) => {
  await ada.goto("/o/acme");
  await ada.getByRole("link", { name: "Review Checkout → production" }).click();
  const approval = ada.getByRole("article", { name: "Checkout → production" });
  await approval.getByRole("button", { name: "Approve" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Comment").fill("ship it");
  await expectAccessible(ada, "the approval dialog");
  await dialog.getByRole("button", { name: "Approve" }).click();
  await expect(ada.getByText("No pending approvals")).toBeVisible();
  await ada.getByText("Approved", { exact: true }).click();
  await expect(ada.getByText("“ship it”")).toBeVisible();
  await ada.goto("/o/acme");
  const pipeline = ada.getByRole("listitem", { name: "Checkout", exact: true });
  await expect(pipeline.getByRole("link", { name: "v1.1.0" })).toHaveCount(2);
  expect((await withToken(world)("GET", "/ORG/approvals")).length).toBe(0);
});

test("an approval that not enough people can give shows a warning", async ({ ada, world }) => {
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
  const approval = ada.getByRole("article", { name: "Vault → production" });
  await expect(approval.getByText("Cannot approve: ada")).toBeVisible();
  await expect(approval.getByText("Not enough people can approve")).toBeVisible();
  await expect(approval.getByText(/bypass/)).toBeVisible();
  await expectAccessible(ada, "an approval that cannot be given");
});

test("the audit log is live, filtered by its URL, verified and exported", async ({ ada, world }) => {
  await ada.goto("/o/acme/events?kind=pipeline_deleted");
  await expect(ada.getByText("No matching events")).toBeVisible();
  await ada.goto("/o/acme/events?kind=pipeline_stopped");
  const api = withToken(world);
  await api("POST", "/ORG/pipelines/search/stop", { reason: "index migration" });
  await expect(ada.getByText(/index migration/)).toBeVisible();
  await api("POST", "/ORG/pipelines/search/resume", {});

  await ada.getByRole("button", { name: "Verify" }).click();
  await expect(ada.getByText("Audit log verified")).toBeVisible();
  // The result does not move the buttons apart.
  const topOf = (role: "button" | "link", name: string) =>
    ada.getByRole(role, { name }).evaluate(it => it.getBoundingClientRect().top);
  expect(await topOf("button", "Verify")).toBe(await topOf("link", "Export"));
  const download = ada.waitForEvent("download");
  await ada.getByRole("link", { name: "Export" }).click();
  expect((await download).suggestedFilename()).toContain("events");

  await ada.goto("/o/acme/events");
  await ada.getByRole("button", { name: /index migration/ }).click();
  await expect(ada).toHaveURL(/event=evt_/);
  await expect(ada.getByLabel("Event data")).toContainText("index migration");
  await expectAccessible(ada, "an opened event");
});

test("events are sentences with links, grouped by deployment and filtered by chips", async ({
  ada,
  world,
}) => {
  const api = withToken(world);
  const id = (await runDeployment(world, "search", "broken-chips")).id;
  await ada.goto("/o/acme/events");
  const events = ada.getByRole("list", { name: "Events", exact: true });
  // The deployment is one row, which opens to its events.
  const group = events.getByRole("button", {
    name: /events of “Deployment #\d+ of search \(broken-chips\) failed/,
  });
  await expect(group).toHaveCount(1);
  await group.click();
  const members = events.getByRole("list", { name: /broken-chips/ });
  await expect(members.getByText(/was queued by ada/)).toBeVisible();
  await expect(members.getByRole("link", { name: "Step deploy" }).first()).toBeVisible();
  await expectAccessible(ada, "an opened group of events");
  await ada.getByRole("switch", { name: "Group by deployment" }).uncheck();
  await expect(ada).toHaveURL(/flat=1/);
  await expect(members).toHaveCount(0);
  await expect(events.getByText(/Stage staging of search failed/).first()).toBeVisible();

  await ada.getByRole("button", { name: "Failures" }).click();
  await expect(ada).toHaveURL(/kind=deployment_failed/);
  await expect(events.getByText(/Stage staging/)).toHaveCount(0);
  await events.getByRole("button", { name: /broken-chips/ }).click();
  await ada.getByRole("button", { name: "Only this pipeline" }).click();
  await ada.getByRole("button", { name: "Failures" }).click();
  await expect(ada.getByRole("button", { name: "Remove filter: In Search" })).toBeVisible();
  await expect(events.getByText(/Stage staging of search failed/).first()).toBeVisible();
  await ada.getByRole("button", { name: "Remove filter: In Search" }).click();
  await expect(ada).not.toHaveURL(/pipeline=/);

  await ada.getByRole("button", { name: "More filters" }).click();
  await ada.getByLabel("Event", { exact: true }).selectOption({ label: "Pipeline created" });
  await expect(ada.getByRole("button", { name: "Remove filter: Pipeline created" })).toBeVisible();
  await ada.getByRole("button", { name: "Remove filter: Pipeline created" }).click();

  // What a sentence names is a link.
  await events.getByRole("link", { name: "Step deploy" }).first().click();
  await expect(ada).toHaveURL(new RegExp(`deployments/${id}\\?step=stp_`));
  await ada.goto("/o/acme/events?kind=session_claimed");
  await api("POST", "/ORG/pipelines/search/ephemeral-environments/perf/sessions", { context: "chips" });
  await events.getByRole("link", { name: "perf" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "perf" })).toBeVisible();
});

test("an event that happens while the page connects is shown", async ({ ada, world }) => {
  let connect = () => {};
  const stream = new Promise<void>(resolve => {
    connect = resolve;
  });
  await ada.route("**/organizations/acme/events", async route => {
    await stream;
    await route.continue();
  });
  await ada.goto("/o/acme/events?kind=secret_created");
  await expect(ada.getByText("No matching events")).toBeVisible();
  await withToken(world)("POST", "/ORG/secrets", { name: "DEPLOY_KEY", value: "stocktaking" });
  connect();
  await expect(ada.getByText(/DEPLOY_KEY/)).toBeVisible();
});

test("an unknown URL shows a not-found page, an error shows its request ID", async ({ ada }) => {
  await ada.goto("/o/acme/nowhere");
  await expect(ada.getByText("Page not found")).toBeVisible();
  await expect(ada.getByRole("navigation", { name: "Main" })).toBeVisible();
  await ada.goto("/mistyped");
  await expect(ada.getByText("Page not found")).toBeVisible();
  await expect(ada).toHaveURL(/\/o\/acme\/mistyped$/);
  await ada.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Pipelines" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Pipelines" })).toBeVisible();
  await ada.goto("/environments?show=free");
  await expect(ada).toHaveURL(/\/o\/acme\/environments\?show=free$/);
  await expect(ada.getByRole("heading", { level: 1, name: "Shared environments" })).toBeVisible();
  await ada.goto("/o/acme/deployments/dep_01k9x8s6q0e3v8n5j2m4t7w9yb");
  await ada.getByRole("link", { name: "Go to Home" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();
  await ada.goto("/o/acme/environments/checkout/no-such");
  await expect(ada.getByRole("alert")).toContainText(/Request ID req_/);
  await ada.goto("/o/globex");
  await expect(ada.getByText("Page not found")).toBeVisible();
  await ada.getByRole("navigation", { name: "Your organizations" }).getByRole("link").click();
  await expect(ada.getByRole("heading", { level: 1, name: "Home" })).toBeVisible();
});

test("markup in a reason is rendered as text", async ({ ada, world }) => {
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
