/** How fast the dashboard is with much in it. Prints JSON lines; compare them on a machine that does nothing else. */
import { loadavg } from "node:os";
import { withToken } from "../harness/api";
import { definition, makePipeline, start } from "../harness/run";
import { expect, signedIn, test } from "../harness/test";
import { scrolled } from "./frames";

const PIPELINES = Number(process.env.BERTH_PIPELINES ?? 10_000);
const LINES = Number(process.env.BERTH_LINES ?? 1_000_000);
const AT_ONCE = 16;
const SLOW_PX = 60;
const FAST_PX = 10_000;
/** So that the end of the list is not reached before the frames are over. */
const FAST_ROWS_PX = 2_000;

function say(what: string, numbers: object) {
  const load = loadavg()[0]?.toFixed(1);
  process.stdout.write(`${JSON.stringify({ what, load, ...numbers })}\n`);
}

test("first useful paint", async ({ browser, world }) => {
  for (let round = 1; round <= 5; round++) {
    const context = await browser.newContext({ baseURL: world.base });
    const page = await signedIn(context, world, world.ada);
    await page.addInitScript(() => {
      const seen = new MutationObserver(() => {
        if (!document.querySelector("main section h2, main article")) return;
        seen.disconnect();
        requestAnimationFrame(() => performance.mark("useful"));
      });
      seen.observe(document, { childList: true, subtree: true });
    });
    await page.goto("/o/acme");
    await page.waitForFunction(() => performance.getEntriesByName("useful").length > 0);
    const numbers = await page.evaluate(() => ({
      firstPaintMs: Math.round(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0),
      usefulMs: Math.round(performance.getEntriesByName("useful")[0]?.startTime ?? 0),
    }));
    say(`Home with an empty cache, round ${round}`, numbers);
    await context.close();
  }
});

test("a log of many lines", async ({ ada, world }) => {
  const run = `seq -f "request %.0f answered with 200 in 12 ms" 1 ${LINES}`;
  await makePipeline(world, "measure-log", definition("Much", { Load: run }));
  const { id } = await start(world, "measure-log", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.locator(`[data-log-lines="${LINES}"][data-log-complete=true]`)).toBeVisible({
    timeout: 600_000,
  });
  await ada.reload();
  await expect(ada.getByRole("region", { name: "Log of Load" })).toContainText("request 1 answered");
  say("nothing scrolls", await scrolled(ada, { label: "Log of Load" }, 0));
  say(`a log of ${LINES} lines, slowly`, await scrolled(ada, { label: "Log of Load" }, SLOW_PX));
  say(`a log of ${LINES} lines, fast`, await scrolled(ada, { label: "Log of Load" }, FAST_PX));
});

test("many pipelines", async ({ ada, world }) => {
  const api = withToken(world);
  let next = 1;
  const make = async () => {
    for (let at = next++; at <= PIPELINES; at = next++) {
      const text = definition(`Service ${String(at).padStart(5, "0")}`, { Deploy: "true" });
      await api("POST", "/ORG/pipelines", { slug: `service-${at}`, definition: text });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, make));
  await ada.goto("/o/acme/pipelines");
  await expect(ada.getByText(/pipelines$/).first()).toBeVisible();
  say(`${PIPELINES} pipelines, slowly`, await scrolled(ada, { label: null }, SLOW_PX));
  say(`${PIPELINES} pipelines, fast`, await scrolled(ada, { label: null }, FAST_ROWS_PX));
});
