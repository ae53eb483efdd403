import { defineConfig } from "@playwright/test";

/** One server for all, one worker: the tests share an organization as colleagues do. */
export default defineConfig({
  testDir: "tests",
  globalSetup: "./tests/harness/start.ts",
  workers: 1,
  retries: 0,
  timeout: 30_000,
  expect: { timeout: 10_000 },
  reporter: [["list"]],
  outputDir: "test-results",
  use: {
    viewport: { width: 1280, height: 900 },
    launchOptions: {
      executablePath: process.env.BERTH_CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-background-networking"],
    },
    trace: "off",
    screenshot: "only-on-failure",
  },
});
