import { defineConfig, type ReporterDescription } from "@playwright/test";

/** Path of the JUnit report; no report when unset. */
const junit = process.env.BERTH_JUNIT_BROWSER;
const list: ReporterDescription = ["list"];

/** Each file has a server of its own, and the tests of a file share it: files run two at a time, their tests in order. */
export default defineConfig({
  testDir: "tests",
  workers: 2,
  fullyParallel: false,
  retries: 0,
  // Limits of a single step find what hangs. A test is up to fifty steps: on two cores that also build something it took
  // four times as long as alone, and none of its steps reached its own limit.
  timeout: 90_000,
  expect: { timeout: 10_000 },
  reporter: junit ? [list, ["junit", { outputFile: junit }]] : [list],
  outputDir: "test-results",
  use: {
    actionTimeout: 15_000,
    navigationTimeout: 30_000,
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      executablePath: process.env.BERTH_CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-background-networking"],
    },
    trace: "off",
    screenshot: "only-on-failure",
  },
});
