import { defineConfig, type ReporterDescription } from "@playwright/test";

/** Path of the JUnit report; no report when unset. */
const junit = process.env.BERTH_JUNIT_BROWSER;
const list: ReporterDescription = ["list"];

/** Each spec file has its own server, shared by its tests. Two files run in parallel, the tests of a file in order. */
export default defineConfig({
  testDir: "tests",
  workers: 2,
  fullyParallel: false,
  // In CI, a failed test runs once more on a new server. One that then passes is reported as flaky.
  retries: process.env.CI ? 1 : 0,
  // Action timeouts detect hangs. The test timeout is generous: a test has up to fifty actions, and next to a build on
  // two cores it takes four times as long.
  timeout: 180_000,
  expect: { timeout: 20_000 },
  reporter: junit ? [list, ["junit", { outputFile: junit, includeRetries: true }]] : [list],
  outputDir: "test-results",
  use: {
    actionTimeout: 30_000,
    navigationTimeout: 60_000,
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      executablePath: process.env.BERTH_CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-background-networking"],
    },
    trace: "off",
    screenshot: "only-on-failure",
  },
});
