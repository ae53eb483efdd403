import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Path of the JUnit report; no report when unset. */
const junit = process.env.BERTH_JUNIT_WEB;

export default defineConfig({
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    // Not isolated: loading the environment and React per file takes longer than the tests. Every test restores its
    // timers and unmounts its components.
    setupFiles: ["./tests/setupUnitTests.ts"],
    testTimeout: 30_000,
    pool: "threads",
    isolate: false,
    reporters: junit ? ["default", ["junit", { outputFile: junit }]] : ["default"],
  },
});
