import { notificationsStore } from "@mantine/notifications";
import { expect, test, vi } from "vitest";
import { toast } from "./toast";

test("the same message twice is two toasts, each with its own action", async () => {
  const shown = () => notificationsStore.getState().notifications;
  const action = { label: "Watch it", onClick: () => {} };
  toast.success("Deployment #1 is on its way.", action);
  toast.success("Deployment #1 is on its way.", action);
  toast.success("Saved.");
  await vi.waitFor(() => expect(shown().at(-1)?.message).toBe("Saved."));
  expect(shown()).toHaveLength(3);
});
