import { defineConfig } from "@playwright/test";
import tests from "./playwright.config";

/** Screenshots and the recording of the documentation (`npm run screenshots`), written to `docs/images`. */
export default defineConfig({
  ...tests,
  testDir: "tests/screenshots",
  testMatch: "*.shots.ts",
  workers: 1,
  timeout: 300_000,
});
