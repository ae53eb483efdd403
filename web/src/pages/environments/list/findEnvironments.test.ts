import { expect, test } from "vitest";
import type { Pipeline } from "@/api/types";
import { findEnvironments } from "./findEnvironments";

const OWNER = { role: "owner", grants: [] } as const;
const SHOP = { slug: "shop", name: "Harbour shop", environments: ["qa-1", "demo"] } as unknown as Pipeline;
const CART = { slug: "cart", name: "Cart", environments: [] as string[] } as Pipeline;

test.each([
  [undefined, ["qa-1", "demo"]],
  ["harbour", ["qa-1", "demo"]],
  ["QA", ["qa-1"]],
  ["cart", undefined],
  ["nothing", undefined],
])("findEnvironments of %s", (search, envNames) => {
  const found = findEnvironments([SHOP, CART], { ...OWNER, grants: [] }, search);
  expect(found[0]?.envNames).toEqual(envNames);
});
