import { expect, test } from "vitest";
import { formatStepYaml, listParams } from "./schema";

const SCHEMA = {
  type: "object",
  required: ["target", "replicas"],
  properties: {
    target: { type: "string", enum: ["eu-1", "us-1"], description: "target region" },
    replicas: { type: "integer", minimum: 2, maximum: 9, default: 3 },
    hosts: { type: "array", items: { type: "object", properties: { port: { type: ["integer", "null"] } } } },
    note: { oneOf: [{ type: "string" }, { type: "boolean" }] },
  },
};

test("listParams lists parameters, nested ones with a path", () => {
  expect(listParams(SCHEMA)).toEqual([
    { name: "target", type: "eu-1 | us-1", isRequired: true, note: "target region" },
    {
      name: "replicas",
      type: "integer",
      isRequired: true,
      note: "default 3; minimum 2; maximum 9",
    },
    { name: "hosts", type: "array of object", isRequired: false, note: "" },
    { name: "hosts[].port", type: "integer or null", isRequired: false, note: "" },
    { name: "note", type: "string or boolean", isRequired: false, note: "" },
  ]);
});

test("formatStepYaml contains the required parameters", () => {
  expect(formatStepYaml("tools/deploy", "Deploy it", SCHEMA)).toBe(
    `- name: Deploy it\n  type: tools/deploy\n  params:\n    target: "eu-1"\n    replicas: 3\n`,
  );
  expect(formatStepYaml("tools/go", "yes", {})).toBe(`- name: "yes"\n  type: tools/go\n`);
});

test("malformed, recursive and huge schemas are handled", () => {
  for (const odd of [null, 7, "x", [], { properties: [] }, { properties: { a: null, b: 4 } }])
    expect(() => listParams(odd)).not.toThrow();
  const round: Record<string, unknown> = { type: "object" };
  round.properties = { again: round };
  round.required = ["again"];
  expect(listParams(round).length).toBeLessThan(10);
  expect(formatStepYaml("a/b", "Round", round)).toContain("again");
  const wide = { properties: Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`p${at}`, {}])) };
  expect(listParams(wide)).toHaveLength(100);
});
