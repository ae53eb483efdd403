/** Scoped access: what a member with grants sees, and how grants and teams are managed. */
import { addMember, withToken } from "./harness/api";
import { createPipeline } from "./harness/deployments";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";
import type { World } from "./harness/world";

test.use({ parts: ["quay"] });

/** The server applies changed access within a second and ends the stream within 15; then the page updates. */
const ACCESS_MS_MAX = 30_000;

async function findMember(world: World, email: string): Promise<{ id: string }> {
  const members: { id: string; email: string }[] = await withToken(world)("GET", "/ORG/members");
  const found = members.find(each => each.email === email);
  if (!found) throw new Error(`${email} is not a member`);
  return found;
}

test("a tester on quay-1 gets stage buttons after joining a team of deployers", async ({
  ada,
  browser,
  world,
}) => {
  await addMember(world, world.grace, "Grace Hopper", "member");
  const grace = await findMember(world, world.grace.email);

  await ada.goto(`/o/acme/settings/members/${grace.id}`);
  await ada.getByRole("button", { name: "Add grant" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Role").selectOption("tester");
  await dialog.getByLabel("On", { exact: true }).selectOption("environment");
  await dialog.getByRole("combobox", { name: "Pipeline" }).fill("quay");
  await dialog.getByRole("combobox", { name: "Environment" }).fill("quay-1*");
  await expect(dialog.getByRole("status")).toHaveText(
    "Grace Hopper can claim, deploy and release in environments of quay that begin with quay-1",
  );
  await expectAccessible(ada, "the dialog to add a grant");
  await dialog.getByRole("button", { name: "Add grant" }).click();
  await expect(ada.getByRole("region", { name: "Grants" })).toContainText("environment:quay/quay-1*");

  const page = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.grace);
  await page.goto("/o/acme/environments");
  await expect(
    page.getByRole("article", { name: "quay-1" }).getByRole("button", { name: "Claim" }),
  ).toBeVisible();
  await expect(page.getByRole("article", { name: "quay-2" })).toHaveCount(0);
  await expect(page.getByRole("navigation").getByText("Insights")).toHaveCount(0);
  await page.goto("/o/acme/pipelines/quay");
  await expect(page.getByRole("heading", { level: 1, name: "Quay" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Deploy" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Pause new deployments" })).toHaveCount(0);
  await expect(page.getByRole("tab", { name: "Environments (1)" })).toBeVisible();
  await page.keyboard.press("Control+k");
  await page.getByRole("textbox", { name: "Search", exact: true }).fill("quay-");
  await expect(page.getByRole("button", { name: /^quay-1.*Quay/ })).toBeVisible();
  await expect(page.getByRole("button", { name: /quay-2/ })).toHaveCount(0);
  await page.keyboard.press("Escape");

  await ada.goto("/o/acme/settings/teams");
  await ada.getByRole("button", { name: "Create team" }).click();
  await dialog.getByLabel("Slug").fill("sre");
  await dialog.getByLabel("Name").fill("Site reliability");
  await dialog.getByRole("button", { name: "Create" }).click();
  await expect(ada.getByRole("heading", { level: 1, name: "Site reliability" })).toBeVisible();
  await withToken(world)("POST", "/ORG/grants", {
    subject: "team:sre",
    role: "deployer",
    scope: "stage:quay@production",
  });
  await ada.getByRole("button", { name: "Add member" }).click();
  await dialog.getByLabel("Member").selectOption({ label: "Grace Hopper (grace@acme.test)" });
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(ada.getByRole("region", { name: "Members" })).toContainText("Grace Hopper");
  await expect(ada.getByRole("region", { name: "Grants" })).toContainText("the stage production of quay");
  await expectAccessible(ada, "a team");

  // Without a reload.
  await expect(page.getByRole("button", { name: "Deploy" })).toBeVisible({ timeout: ACCESS_MS_MAX });
  await expect(page.getByRole("button", { name: "Pause new deployments" })).toHaveCount(0);

  await ada.goto(`/o/acme/settings/members/${grace.id}`);
  const access = ada.getByRole("region", { name: "Access" });
  await access.getByLabel("Resource").selectOption("stage");
  await access.getByRole("combobox", { name: "Pipeline" }).fill("quay");
  await access.getByRole("combobox", { name: "Stage" }).fill("production");
  await expect(access.getByRole("row", { name: /^stages:deploy/ })).toContainText(
    "role deployer on the stage production of quay, team Site reliability",
  );
  await expectAccessible(ada, "the access of a member");
});

test("a restricted token is created and its restriction is listed", async ({ ada }) => {
  await ada.goto("/o/acme/settings/tokens");
  await ada.getByRole("button", { name: "Create token" }).click();
  const dialog = ada.getByRole("dialog");
  await dialog.getByLabel("Name").fill("nightly");
  await dialog.getByLabel("Only selected permissions").check();
  await expect(dialog.getByRole("button", { name: "Create" })).toBeDisabled();
  await dialog.getByLabel("environments:claim").check();
  await dialog.getByLabel("In", { exact: true }).selectOption("environment");
  await dialog.getByRole("combobox", { name: "Pipeline" }).fill("quay");
  await dialog.getByRole("combobox", { name: "Environment" }).fill("quay-*");
  await expectAccessible(ada, "the dialog to create a restricted token");
  await dialog.getByRole("button", { name: "Create" }).click();
  await ada.getByRole("button", { name: "Done" }).click();
  const row = ada.getByRole("row", { name: /nightly/ });
  await expect(row).toContainText("environments:claim in environments of quay that begin with quay-");
});

const GATE = `version: 1
pipeline:
  name: Gate
  stages: [{ name: production }]
  steps:
    - name: Ask
      type: approval
      params: { approvals: 1 }
  ephemeral_environments:
    qa-1: {}
    demo: {}
`;

test("an approver on an environment sees its approvals on the home page", async ({ browser, world }) => {
  const send = withToken(world);
  await createPipeline(world, "gate", GATE);
  await addMember(world, world.linus, "Linus", "member");
  const { id } = await findMember(world, world.linus.email);
  await send("POST", "/ORG/grants", {
    subject: `user:${id}`,
    role: "approver",
    scope: "environment:gate/qa-*",
  });
  for (const environment of ["qa-1", "demo"]) {
    const sessions = `/ORG/pipelines/gate/ephemeral-environments/${environment}/sessions`;
    await send("POST", sessions, { commitId: "9fceb02" });
  }
  await expect.poll(async () => (await send("GET", "/ORG/approvals")).length).toBe(2);

  const page = await openPageAs(await browser.newContext({ baseURL: world.base }), world, world.linus);
  await page.goto("/o/acme");
  const attention = page.getByRole("region", { name: "Needs you" });
  await expect(attention.getByRole("link", { name: "Review Gate → qa-1" })).toBeVisible();
  await expect(attention.getByRole("link", { name: /Review/ })).toHaveCount(1);
  await attention.getByRole("link", { name: "Review Gate → qa-1" }).click();
  await expect(
    page.getByRole("article", { name: "Gate → qa-1" }).getByRole("button", { name: "Approve" }),
  ).toBeVisible();
});
