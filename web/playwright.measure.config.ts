import { defineConfig } from "@playwright/test";
import tests from "./playwright.config";

/** Performance measurements (`npm run measure`). Separate from the tests because they need an idle machine. */
export default defineConfig({
  ...tests,
  testDir: "tests/measure",
  testMatch: "*.measure.ts",
  workers: 1,
  timeout: 900_000,
});
