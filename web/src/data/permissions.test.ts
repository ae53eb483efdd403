import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { LOWEST_ROLE } from "./permissions";

test("LOWEST_ROLE matches docs/permissions.md", () => {
  const page = readFileSync("../docs/permissions.md", "utf8");
  const roles = ["viewer", "deployer", "admin", "owner"];
  for (const [permission, lowest] of Object.entries(LOWEST_ROLE)) {
    const row = page.split("\n").find(line => line.startsWith(`| \`${permission}\``));
    const cells = row?.split("|").slice(3, 7) ?? [];
    expect(roles[cells.findIndex(cell => cell.trim() === "yes")], permission).toBe(lowest);
  }
});
