/** Connecting a repository through a GitHub App, with a double of GitHub. */
import { withToken } from "./harness/api";
import { GitHubDouble } from "./harness/gitHubDouble";
import { expect, expectAccessible, openPageAs, test } from "./harness/test";

test("a GitHub App is created and installed, and connects the repository", async ({
  browser,
  fileServer,
}, info) => {
  const github = await GitHubDouble.start();
  try {
    const args = ["--forge", `127.0.0.1=github=${github.url}/api`];
    // Replaces the server that the fixtures have started without these arguments.
    const world = await fileServer.worldOf(`${info.file} with a forge`, [], args);
    const added = await withToken(world)("POST", "/ORG/repositories", { url: `${github.url}/acme/shop.git` });
    const context = await browser.newContext();
    const ada = await openPageAs(context, world, world.ada);
    await ada.goto(`${world.base}/o/acme/settings/repositories/${added.id}`);
    await ada.getByRole("region", { name: "Connection" }).getByRole("button", { name: "Connect" }).click();
    const dialog = ada.getByRole("dialog");
    await dialog.getByText("GitHub App", { exact: true }).click();
    await expectAccessible(ada, "the dialog to connect through a GitHub App");
    await ada.screenshot({ path: "screenshots/github-app.png" });
    await dialog.getByRole("button", { name: "Connect with a GitHub App" }).click();

    await expect(ada.getByRole("heading", { level: 1, name: "Create a GitHub App" })).toBeVisible();
    await expectAccessible(ada, "the page that continues to GitHub");
    await ada.getByRole("button", { name: "Continue to GitHub" }).click();
    await ada.getByRole("link", { name: "Create GitHub App" }).click();
    await ada.getByRole("link", { name: "Install" }).click();

    await expect(ada).toHaveURL(new RegExp(`/settings/repositories/${added.id}$`));
    await expect(ada.getByText(`Through the GitHub App ${github.manifest?.name}`)).toBeVisible();
    expect(github.manifest?.hook_attributes.url).toMatch(/\/hooks\/github\/hook_/);

    // The code and the state do not work again.
    await ada.goto(`${world.base}/o/acme/github-app?code=abc&state=def`);
    await expect(ada.getByText("start again from the page of the repository")).toBeVisible();
    await context.close();
  } finally {
    github.stop();
  }
});
