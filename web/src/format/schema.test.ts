import { expect, test } from "vitest";
import { rowsOf, stepYaml } from "./schema";

const SCHEMA = {
  type: "object",
  required: ["target", "replicas"],
  properties: {
    target: { type: "string", enum: ["eu-1", "us-1"], description: "where to" },
    replicas: { type: "integer", minimum: 2, maximum: 9, default: 3 },
    hosts: { type: "array", items: { type: "object", properties: { port: { type: ["integer", "null"] } } } },
    note: { oneOf: [{ type: "string" }, { type: "boolean" }] },
  },
};

test("parameters are rows, those inside of others too", () => {
  expect(rowsOf(SCHEMA)).toEqual([
    { name: "target", type: "eu-1 | us-1", isRequired: true, note: "where to" },
    {
      name: "replicas",
      type: "whole number",
      isRequired: true,
      note: "3 unless given; at least 2; at most 9",
    },
    { name: "hosts", type: "list of object", isRequired: false, note: "" },
    { name: "hosts[].port", type: "whole number or nothing", isRequired: false, note: "" },
    { name: "note", type: "text or true or false", isRequired: false, note: "" },
  ]);
});

test("what a step cannot do without stands in its YAML", () => {
  expect(stepYaml("tools/deploy", "Deploy it", SCHEMA)).toBe(
    `- name: Deploy it\n  type: tools/deploy\n  params:\n    target: "eu-1"\n    replicas: 3\n`,
  );
  expect(stepYaml("tools/go", "yes", {})).toBe(`- name: "yes"\n  type: tools/go\n`);
});

test("whatever a registry says is read, and read to an end", () => {
  for (const odd of [null, 7, "x", [], { properties: [] }, { properties: { a: null, b: 4 } }])
    expect(() => rowsOf(odd)).not.toThrow();
  const round: Record<string, unknown> = { type: "object" };
  round.properties = { again: round };
  round.required = ["again"];
  expect(rowsOf(round).length).toBeLessThan(10);
  expect(stepYaml("a/b", "Round", round)).toContain("again");
  const wide = { properties: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`p${at}`, {}])) };
  expect(rowsOf(wide)).toHaveLength(100);
});
