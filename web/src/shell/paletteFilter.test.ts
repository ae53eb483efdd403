import type { SpotlightActionGroupData } from "@mantine/spotlight";
import { expect, test } from "vitest";
import { filterPalette } from "./paletteFilter";

const GROUPS: SpotlightActionGroupData[] = [
  { group: "Pipelines", actions: [{ id: "1", label: "Shop", description: "shop" }] },
  {
    group: "Actions",
    actions: [
      { id: "2", label: "Claim qa-2", description: "Shop, free" },
      { id: "3", label: "Join queue for qa-1", description: "Shop, held by Grace" },
      { id: "4", label: "Take over qa-1", description: "Shop, held by Grace" },
    ],
  },
  {
    group: "Commits",
    actions: [{ id: "5", label: "Make it green", keywords: ["4d6d0ebe", "main"] }],
  },
];

function find(query: string): string[] {
  return filterPalette(query, GROUPS).flatMap(each =>
    "actions" in each ? each.actions.map(it => it.id) : [],
  );
}

test("the words of a query match in any order and between other words", () => {
  expect(find("queue qa-1")).toEqual(["3"]);
  expect(find("QA-1 take")).toEqual(["4"]);
  expect(find("claim qa-1")).toEqual([]);
});

test("descriptions and keywords match as well", () => {
  expect(find("qa-1 grace")).toEqual(["3", "4"]);
  expect(find("4d6d")).toEqual(["5"]);
});

test("a label with the words as typed comes before one with other words between them", () => {
  const actions = [
    { id: "6", label: "Shop in qa-2 #2" },
    { id: "7", label: "Shop #2" },
  ];
  const found = filterPalette("shop #2", [{ group: "Deployments", actions }]);
  expect(found).toMatchObject([{ actions: [{ id: "7" }, { id: "6" }] }]);
});

test("matching labels come first", () => {
  expect(find("shop")).toEqual(["1", "2", "3", "4"]);
  expect(find("green")).toEqual(["5"]);
  expect(find("")).toEqual(["1", "2", "3", "4", "5"]);
});
