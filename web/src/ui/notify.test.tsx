import { notificationsStore } from "@mantine/notifications";
import { expect, test, vi } from "vitest";
import { tell } from "./notify";

test("the same words twice are two lines, each with its own way", async () => {
  const shown = () => notificationsStore.getState().notifications;
  const way = { words: "Watch it", go: () => {} };
  tell("Deployment #1 is on its way.", way);
  tell("Deployment #1 is on its way.", way);
  tell("Saved.");
  await vi.waitFor(() => expect(shown().at(-1)?.message).toBe("Saved."));
  expect(shown()).toHaveLength(3);
});
