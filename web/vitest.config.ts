import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** Path of the JUnit report; no report when unset. */
const junit = process.env.BERTH_JUNIT_WEB;

export default defineConfig({
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    // Loading the environment and React once per file takes longer than the tests. Every test restores the timers and
    // unmounts the components it uses.
    setupFiles: ["./tests/patience.ts"],
    testTimeout: 30_000,
    pool: "threads",
    isolate: false,
    reporters: junit ? ["default", ["junit", { outputFile: junit }]] : ["default"],
  },
});
