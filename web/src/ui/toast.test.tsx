import { notificationsStore } from "@mantine/notifications";
import { expect, test, vi } from "vitest";
import { toast } from "./toast";

test("two toasts with the same message and an action are both shown", async () => {
  const shown = () => notificationsStore.getState().notifications;
  const action = { label: "View deployment", onClick: () => {} };
  toast.success("Deployment #1 started", action);
  toast.success("Deployment #1 started", action);
  toast.success("Saved");
  await vi.waitFor(() => expect(shown().at(-1)?.message).toBe("Saved"));
  expect(shown()).toHaveLength(3);
});
