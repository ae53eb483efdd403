/** The tasks of docs/everyday-tasks.md, with the keyboard alone. */
import { logInAs, withToken } from "./harness/api";
import { isFinished, waitForStatus } from "./harness/deployments";
import { Keyboard } from "./harness/keyboard";
import { Repository } from "./harness/repository";
import { expect, test } from "./harness/test";
import type { World } from "./harness/world";

test.use({ parts: ["grace"] });

const DEFINITION = `version: 1
pipeline:
  name: Kiosk
  tracks: main
  stages:
    - name: staging
    - name: production
      requires: { approvals: 1 }
  steps:
    - name: Deploy
      type: script
      params: { run: sh deploy.sh }
  ephemeral_environments:
    kiosk-1: { ttl: 8h }
    kiosk-2: { ttl: 2h }
`;

const ENVIRONMENTS = "/ORG/pipelines/kiosk/ephemeral-environments";

/** A first deployment is in production, Grace holds kiosk-1, and there are branches of which one is broken. */
async function setUp(world: World) {
  const api = withToken(world);
  const kiosk = new Repository(world, "kiosk")
    .write(".berth/kiosk/pipeline.yaml", DEFINITION)
    .write("deploy.sh", "echo deploying\n");
  kiosk.commit("Open the kiosk");
  kiosk.git("branch", "feature/dark");
  kiosk.git("switch", "--quiet", "--create", "broken");
  kiosk.write("deploy.sh", "echo 'no such host: cart' >&2; exit 3\n").commit("Move the cart");
  kiosk.git("switch", "--quiet", "main");
  await api("POST", "/ORG/repositories", { url: kiosk.path, pollSeconds: 10 });
  const deployments = () => api("GET", "/ORG/deployments");
  await expect.poll(async () => (await deployments()).length, { timeout: 60_000 }).toBe(1);
  const [first] = await deployments();
  await waitForStatus(world, first.id, status => status === "waiting");
  const [asked] = await api("GET", `/ORG/approvals?deployment=${first.id}`);
  await api("POST", `/ORG/approvals/${asked.id}/approve`, {});
  await waitForStatus(world, first.id, isFinished);
  const grace = await logInAs(world, world.grace);
  await grace("POST", `${ENVIRONMENTS}/kiosk-1/sessions`, { context: "load test" });
}

test("ten everyday tasks are completed with the keyboard alone", async ({ ada, world }) => {
  test.setTimeout(300_000);
  await setUp(world);
  const keyboard = new Keyboard(ada);
  const main = ada.getByRole("main");
  const dialog = ada.getByRole("dialog");
  const heading = (name: string | RegExp) => ada.getByRole("heading", { level: 1, name });
  await ada.goto("/o/acme/inbox");
  await heading("Inbox").waitFor();

  await test.step("1. See what is deployed, and who has which environment", async () => {
    await keyboard.press("g", "h");
    const environment = ada.getByRole("listitem", { name: "Kiosk kiosk-1", exact: true });
    await expect(environment).toContainText("Grace Hopper");
    await expect(environment).toContainText("“load test”");
    const pipeline = ada.getByRole("listitem", { name: "Kiosk", exact: true });
    await keyboard.activate(pipeline.getByRole("link", { name: "Open the kiosk" }).last());
    await heading("Kiosk #1").waitFor();
  });

  await test.step("2. Claim an environment and deploy a branch", async () => {
    await keyboard.press("g", "e");
    await keyboard.activate(
      main.getByRole("article", { name: "kiosk-2" }).getByRole("button", { name: "Claim" }),
    );
    await keyboard.fill(dialog.getByLabel("Commit, branch or tag"), "feature/dark");
    await keyboard.fill(dialog.getByLabel("Reason"), "the kiosk at night");
    await keyboard.activate(dialog.getByRole("button", { name: "Claim" }));
    await expect(main.getByRole("article", { name: "kiosk-2" })).toContainText("Held by you");
  });

  await test.step("3. Wait for an environment", async () => {
    await keyboard.choose("queue kiosk-1", /^Join queue for kiosk-1/);
    await keyboard.activate(dialog.getByRole("button", { name: "Join queue" }));
    await keyboard.activate(main.getByRole("button", { name: "Leave queue (position 1)" }));
    await expect(ada.getByText("Left the queue")).toBeVisible();
  });

  await test.step("4. Take over an environment", async () => {
    await keyboard.choose("take over kiosk-1", /^Take over kiosk-1/);
    await expect(dialog.getByLabel("Reason")).toBeFocused();
    await keyboard.type("a hotfix");
    await keyboard.activate(dialog.getByRole("button", { name: "Take over" }));
    await expect(main).toContainText("Held by you");
  });

  await test.step("5. Keep it for longer, and release it", async () => {
    await keyboard.activate(main.getByRole("button", { name: "Extend" }));
    await expect(dialog.getByLabel("Expires in")).toBeFocused();
    await keyboard.press("ArrowDown");
    await keyboard.activate(dialog.getByRole("button", { name: "Extend" }));
    await expect(ada.getByText("Session on kiosk-1 extended")).toBeVisible();
    await keyboard.activate(main.getByRole("button", { name: "Release" }));
    await keyboard.activate(dialog.getByRole("button", { name: "Release" }));
    await expect(ada.getByText("kiosk-1 released")).toBeVisible();
  });

  await test.step("6. Deploy through the stages", async () => {
    await keyboard.choose("deploy kiosk", /^Deploy Kiosk/);
    await keyboard.activate(dialog.getByRole("button", { name: "Deploy" }));
    await heading("Kiosk #2").waitFor();
    await expect(main).toContainText(/approval/, { timeout: 30_000 });
  });

  await test.step("7. Approve a deployment", async () => {
    await keyboard.press("g", "a");
    await keyboard.activate(main.getByRole("button", { name: "Approve" }));
    await keyboard.activate(dialog.getByRole("button", { name: "Approve" }));
    await expect(ada.getByText("Kiosk → production approved")).toBeVisible();
    await expect(dialog).toHaveCount(0);
  });

  await test.step("8. Find out why a deployment failed, and retry it", async () => {
    await keyboard.choose("kiosk-2", /^Deploy to kiosk-2|^kiosk-2/);
    await heading("kiosk-2").waitFor();
    await keyboard.activate(main.getByRole("button", { name: "Deploy", exact: true }));
    await keyboard.fill(dialog.getByLabel("Commit, branch or tag"), "broken");
    await keyboard.activate(dialog.getByRole("button", { name: "Deploy" }));
    await expect(dialog).toHaveCount(0);
    await keyboard.press("g", "h");
    const failing = ada.getByRole("region", { name: "Failing" });
    await expect(failing).toContainText("Move the cart", { timeout: 30_000 });
    await keyboard.activate(failing.getByRole("link", { name: /^Log of/ }));
    await expect(ada.getByRole("region", { name: "Log of Deploy" })).toContainText("no such host: cart");
    await keyboard.activate(main.getByRole("button", { name: "Retry failed" }));
    await keyboard.activate(dialog.getByRole("button", { name: "Retry" }));
    await heading("kiosk-2 #3").waitFor();
    await expect(dialog).toHaveCount(0);
  });

  await test.step("9. Roll back, and resume deployments", async () => {
    await keyboard.choose("kiosk #2", /^Kiosk #2/);
    await heading("Kiosk #2").waitFor();
    await keyboard.activate(main.getByRole("button", { name: "Roll back" }));
    await keyboard.activate(dialog.getByRole("button", { name: "Roll back production" }));
    await heading("Kiosk #3").waitFor();
    await keyboard.press("g", "p");
    await keyboard.activate(main.getByRole("link", { name: /^Kiosk/ }).first());
    await keyboard.activate(main.getByRole("button", { name: "Resume" }));
    await keyboard.activate(dialog.getByRole("button", { name: "Resume" }));
    await expect(main.getByRole("button", { name: "Resume" })).toHaveCount(0);
  });

  await test.step("10. Find out who did what", async () => {
    await keyboard.press("g", "v");
    await keyboard.activate(main.getByRole("button", { name: "Takeovers" }));
    await expect(main).toContainText("ada took kiosk-1 of kiosk over from Grace Hopper: a hotfix");
    await keyboard.choose("move the cart", /^Move the cart/);
    await heading(/^kiosk-2 #/).waitFor();
  });
});
