import { defineConfig } from "@playwright/test";
import tests from "./playwright.config";

/** Numbers, not verdicts: `npm run measure` tells how fast pages are here and now, and fails by nothing but an error. */
export default defineConfig({
  ...tests,
  testDir: "tests/measure",
  testMatch: "*.measure.ts",
  timeout: 900_000,
});
