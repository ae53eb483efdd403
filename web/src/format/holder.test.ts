import { expect, test } from "vitest";
import { formatHolder } from "./holder";

const holder = { id: "usr_1", name: "ci-bot" };

test("a holder is shown with the contact, if there is one", () => {
  expect(formatHolder({ holder })).toBe("ci-bot");
  expect(formatHolder({ holder, contact: "grace" })).toBe("ci-bot for grace");
});

test("the user's own session is shown as held by you", () => {
  expect(formatHolder({ holder }, "usr_1")).toBe("you");
  expect(formatHolder({ holder, contact: "grace (#42)" }, "usr_1")).toBe("you for grace (#42)");
  expect(formatHolder({ holder, contact: "grace" }, "usr_2")).toBe("ci-bot for grace");
});

test("an agent is shown with its owner", () => {
  const agent = { id: "usr_3", name: "claude", owner: { name: "Ada" } };
  expect(formatHolder({ holder: agent })).toBe("claude, agent of Ada");
  expect(formatHolder({ holder: agent, contact: "grace" })).toBe("claude, agent of Ada for grace");
});
