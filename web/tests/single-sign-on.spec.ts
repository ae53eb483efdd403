import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base, expect, type Page } from "@playwright/test";
import { type ApiCaller, withToken } from "./harness/api";
import { Server } from "./harness/server";

/** Directory of npm packages, set by `cargo xtask`. */
const NPM = process.env.BERTH_TEST_NPM;
const PROGRAM = "../crates/server/tests/it/identity_provider/provider.mjs";
const START_MS_MAX = 60_000;
/** The server ends the event stream within 15 seconds of a change of access; then the page updates. */
const ACCESS_MS_MAX = 30_000;

type Fixtures = { provider: { url: string }; dashboard: string; ageLogins: () => void; asOwner: ApiCaller };

/** Each test has its own provider and server. */
const test = base.extend<Fixtures & { running: Fixtures }>({
  running: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names from here
    async ({}, use) => {
      const port = await findFreePort();
      const url = `http://127.0.0.1:${port}`;
      const provider = spawn("node", [PROGRAM, NPM ?? "", String(port)], { stdio: "ignore" });
      const files = mkdtempSync(join(tmpdir(), "berth-sso-"));
      const server = new Server([
        "--bare",
        "--rate-limit",
        "off",
        "--egress-allow",
        "127.0.0.1",
        "--config",
        writeConfig(files, url),
      ]);
      try {
        const { baseUrl, dashboardUrl, organizations } = await server.ready();
        await waitForProvider(url);
        const token = organizations[0]?.apiToken ?? "";
        const asOwner = withToken({ server: baseUrl.replace(/\/api\/v1$/, ""), org: "acme", token });
        await use({
          provider: { url },
          dashboard: dashboardUrl,
          ageLogins: () => server.ageLogins(),
          asOwner,
        });
      } finally {
        await server.stop();
        await stop(provider);
        rmSync(files, { recursive: true, force: true });
      }
    },
    { timeout: START_MS_MAX },
  ],
  dashboard: async ({ running }, use) => use(running.dashboard),
  provider: async ({ running }, use) => use(running.provider),
  ageLogins: async ({ running }, use) => use(running.ageLogins),
  asOwner: async ({ running }, use) => use(running.asOwner),
});

test.skip(!NPM, "BERTH_TEST_NPM names no directory with the identity provider");

test("a person logs in through the provider, confirms there, and logs out", async ({
  page,
  dashboard,
  ageLogins,
}) => {
  await logInWithProvider(page, dashboard);
  await page.goto(`${dashboard}/profile`);
  await expect(page.getByText("Grace Hopper, grace@acme.test")).toBeVisible();
  const linked = page.getByRole("region", { name: "Linked accounts" });
  await expect(linked.getByText("Acme SSO")).toBeVisible();
  await expect(linked.getByText("Active")).toBeVisible();
  await expect(page.getByRole("region", { name: "Password" })).toBeHidden();

  ageLogins();
  await page.goto(`${dashboard}/o/acme/settings/tokens`);
  await page.getByRole("button", { name: "Create token" }).first().click();
  await page.getByRole("dialog").getByLabel("Name").fill("laptop");
  await page.getByRole("dialog").getByRole("button", { name: "Create", exact: true }).click();
  const opened = page.waitForEvent("popup");
  await page.getByRole("button", { name: "Log in to corp" }).click();
  await expect((await opened).getByRole("heading", { name: "Confirmed" })).toBeVisible();
  await expect(page.getByText("berth_api_").first()).toBeVisible();

  await page.goto(`${dashboard}/profile`);
  await page.goto(`${dashboard}/o/acme`);
  await page.getByRole("button", { name: "Grace Hopper, user menu" }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page.getByRole("heading", { name: "Log in to Berth" })).toBeVisible();
});

test("a login that the provider's token does not prove ends on a page that says why", async ({
  page,
  dashboard,
  provider,
}) => {
  await changeProvider(provider.url, { fault: "audience" });
  await page.goto(`${dashboard}/sign-in`);
  await page.getByRole("button", { name: "Log in with Acme SSO" }).click();
  await expect(page.getByRole("heading", { name: "You are not logged in" })).toBeVisible();
  await expect(page.getByText("the ID token is for another client")).toBeVisible();
  await page.getByRole("link", { name: "Log in" }).click();
  await expect(page.getByRole("heading", { name: "Log in to Berth" })).toBeVisible();
});

test("a person in the group qa claims qa-1 and gets the production buttons as a member of sre", async ({
  page,
  dashboard,
  provider,
  asOwner,
}) => {
  await asOwner("POST", "/ORG/pipelines", { slug: "ferry", definition: FERRY });
  await asOwner("POST", "/ORG/teams", { slug: "qa" });
  await asOwner("POST", "/ORG/teams", { slug: "sre" });
  await asOwner("POST", "/ORG/grants", {
    subject: "team:qa",
    role: "tester",
    scope: "environment:ferry/qa-*",
  });
  await asOwner("POST", "/ORG/grants", {
    subject: "team:sre",
    role: "deployer",
    scope: "stage:ferry@production",
  });
  await changeProvider(provider.url, {
    claims: {
      sub: "u-1",
      email: "grace@acme.test",
      email_verified: true,
      name: "Grace Hopper",
      groups: ["qa"],
    },
  });

  await logInWithProvider(page, dashboard);
  await page.goto(`${dashboard}/o/acme/environments`);
  const environment = page.getByRole("article", { name: "qa-1" });
  await environment.getByRole("button", { name: "Claim" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Claim" }).click();
  await expect(environment).toContainText("Held by you");
  await page.goto(`${dashboard}/o/acme/pipelines/ferry`);
  await expect(page.getByRole("heading", { level: 1, name: "Ferry" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Deploy" })).toHaveCount(0);

  const members: { id: string; email: string }[] = await asOwner("GET", "/ORG/members");
  const grace = members.find(each => each.email === "grace@acme.test");
  await asOwner("PUT", `/ORG/teams/sre/members/${grace?.id}`);
  await expect(page.getByRole("button", { name: "Deploy" })).toBeVisible({ timeout: ACCESS_MS_MAX });
});

const FERRY = `version: 1
pipeline:
  name: Ferry
  stages:
    - name: production
  steps:
    - name: Deploy
      type: dummy
  ephemeral_environments:
    qa-1: {}
`;

async function changeProvider(url: string, behaviour: object) {
  await fetch(`${url}/control`, { method: "POST", body: JSON.stringify(behaviour) });
}

async function logInWithProvider(page: Page, dashboard: string) {
  await page.goto(`${dashboard}/o/acme`);
  await page.getByRole("button", { name: "Log in with Acme SSO" }).click();
  await page.waitForURL(`${dashboard}/o/acme`);
}

/** Writes the server's configuration and returns its path. */
function writeConfig(directory: string, issuer: string): string {
  const secret = join(directory, "secret");
  const config = join(directory, "berth.toml");
  writeFileSync(secret, "s3cret\n");
  writeFileSync(
    config,
    `[[auth.oidc]]
name = "corp"
label = "Acme SSO"
issuer = "${issuer}"
client_id = "berth"
client_secret_file = "${secret}"
provision = "always"
organization = "acme"
groups_claim = "groups"
groups = { qa = "team:qa" }
`,
  );
  return config;
}

async function findFreePort(): Promise<number> {
  const probe = createServer();
  probe.listen(0, "127.0.0.1");
  await once(probe, "listening");
  const address = probe.address();
  probe.close();
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

async function waitForProvider(url: string) {
  await expect
    .poll(
      () =>
        fetch(`${url}/control`).then(
          answer => answer.ok,
          () => false,
        ),
      { timeout: START_MS_MAX },
    )
    .toBe(true);
}

async function stop(process: ChildProcess) {
  if (process.exitCode !== null) return;
  const exited = once(process, "exit");
  process.kill();
  await exited;
}
