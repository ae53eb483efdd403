import { defineConfig } from "@playwright/test";
import tests from "./playwright.config";

/** `npm run measure` tells how fast pages are here and now, and fails when a frame takes too long. Not among the tests: it wants the machine for itself. */
export default defineConfig({
  ...tests,
  testDir: "tests/measure",
  testMatch: "*.measure.ts",
  workers: 1,
  timeout: 900_000,
});
