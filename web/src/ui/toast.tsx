import { Anchor } from "@mantine/core";
import type { NotificationData } from "@mantine/notifications";
import { toProblem } from "@/api/problem";

function show(notification: NotificationData) {
  import("@mantine/notifications").then(({ notifications }) => notifications.show(notification));
}

/** Action of a toast. Toasts are rendered outside the router, so the caller navigates. */
export type ToastAction = { label: string; onClick: () => void };

let actionsShown = 0;

/** Shows toasts. One with an action stays longer. */
export const toast = {
  success(message: string, action?: ToastAction) {
    if (!action) return show({ message, color: "kelp", autoClose: 4000 });
    // Unique ID: a toast whose ID is already shown would be dropped.
    const id = `action-${++actionsShown}`;
    const onClick = () => {
      import("@mantine/notifications").then(({ notifications }) => notifications.hide(id));
      action.onClick();
    };
    const content = (
      <>
        {message}{" "}
        <Anchor component="button" type="button" inherit underline="always" onClick={onClick}>
          {action.label}
        </Anchor>
      </>
    );
    show({ id, message: content, color: "kelp", autoClose: 12_000 });
  },

  warning(message: string) {
    show({ message, color: "lantern", autoClose: 12_000 });
  },

  failure(message: string) {
    show({ message, color: "buoy", autoClose: 12_000 });
  },

  /** For errors that no dialog shows. */
  problem(error: unknown) {
    const { title, detail, requestId } = toProblem(error);
    const message = requestId ? `${detail} (request ID ${requestId})` : detail;
    show({ title, message, color: "buoy", autoClose: 9000 });
  },
};
