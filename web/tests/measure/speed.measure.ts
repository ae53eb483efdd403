/**
 * Performance of the dashboard with large amounts of data. Prints JSON lines and fails when a frame takes too long. Needs
 * an idle machine.
 */
import { loadavg } from "node:os";
import { withToken } from "../harness/api";
import { buildDefinition, createPipeline, startDeployment } from "../harness/deployments";
import { expect, openPageAs, test } from "../harness/test";
import { measureScrolling, type ScrollMetrics } from "./frames";

const PIPELINES = Number(process.env.BERTH_PIPELINES ?? 10_000);
const LINES = Number(process.env.BERTH_LINES ?? 1_000_000);
const AT_ONCE = 16;
const SLOW_PX = 60;
/** Just below the speed above which placeholders are shown. */
const READ_LINES_PX = 150;
const READ_ROWS_PX = 500;
const FAST_PX = 10_000;
/** Slow enough not to reach the end of the list. */
const FAST_ROWS_PX = 2_000;

function report(what: string, numbers: object) {
  const load = loadavg()[0]?.toFixed(1);
  process.stdout.write(`${JSON.stringify({ what, load, ...numbers })}\n`);
}

const FRAME_MS_MAX = 50;

function expectSmooth(what: string, numbers: ScrollMetrics) {
  report(what, numbers);
  // Frame timestamps are off by a few hundredths of a millisecond.
  expect.soft(Math.round(numbers.gapMsMax), `${what}: the longest frame`).toBeLessThanOrEqual(FRAME_MS_MAX);
  expect
    .soft(Math.round(numbers.cpuMsMax), `${what}: the most work in a frame`)
    .toBeLessThanOrEqual(FRAME_MS_MAX);
}

test("Home with an empty cache: first useful paint", async ({ browser, world }) => {
  for (let round = 1; round <= 5; round++) {
    const context = await browser.newContext({ baseURL: world.base });
    const page = await openPageAs(context, world, world.ada);
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
    report(`Home with an empty cache, round ${round}`, numbers);
    await context.close();
  }
});

test("a log of many lines scrolls smoothly", async ({ ada, world }) => {
  const run = `seq -f "request %.0f answered with 200 in 12 ms" 1 ${LINES}`;
  await createPipeline(world, "measure-log", buildDefinition("Much", { Load: run }));
  const { id } = await startDeployment(world, "measure-log", "v1");
  await ada.goto(`/o/acme/deployments/${id}`);
  await expect(ada.locator(`[data-log-lines="${LINES}"][data-log-complete=true]`)).toBeVisible({
    timeout: 600_000,
  });
  await ada.reload();
  await expect(ada.getByRole("region", { name: "Log of Load" })).toContainText("request 1 answered");
  report("nothing scrolls", await measureScrolling(ada, { label: "Log of Load" }, 0));
  for (const [how, px] of [
    ["slowly", SLOW_PX],
    ["as fast as lines are drawn", READ_LINES_PX],
    ["fast", FAST_PX],
  ] as const)
    expectSmooth(
      `a log of ${LINES} lines, ${how}`,
      await measureScrolling(ada, { label: "Log of Load" }, px),
    );
});

test("many pipelines scroll smoothly", async ({ ada, world }) => {
  const api = withToken(world);
  let next = 1;
  const make = async () => {
    for (let at = next++; at <= PIPELINES; at = next++) {
      const text = buildDefinition(`Service ${String(at).padStart(5, "0")}`, { Deploy: "true" });
      await api("POST", "/ORG/pipelines", { slug: `service-${at}`, definition: text });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, make));
  await ada.goto("/o/acme/pipelines");
  await expect(ada.getByText(/pipelines$/).first()).toBeVisible();
  for (const [how, px] of [
    ["slowly", SLOW_PX],
    ["as fast as rows are drawn", READ_ROWS_PX],
    ["fast", FAST_ROWS_PX],
  ] as const)
    expectSmooth(`${PIPELINES} pipelines, ${how}`, await measureScrolling(ada, { label: null }, px));
});
