import { Anchor } from "@mantine/core";
import type { NotificationData } from "@mantine/notifications";
import { problemOf } from "@/api/problem";

function show(notification: NotificationData) {
  import("@mantine/notifications").then(({ notifications }) => notifications.show(notification));
}

/** A link in a toast. Toasts are rendered outside of the router, so the caller navigates. */
export type ToastAction = { label: string; onClick: () => void };

let actionsShown = 0;

/** Short messages in the corner. One with an action stays long enough to be clicked. */
export const toast = {
  success(message: string, action?: ToastAction) {
    if (!action) return show({ message, color: "kelp", autoClose: 4000 });
    // The same message may have another action: an id that is shown already would swallow it.
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

  /** For failures where no dialog is open to show them. */
  problem(error: unknown) {
    const { title, detail, requestId } = problemOf(error);
    const message = requestId ? `${detail} (request ${requestId})` : detail;
    show({ title, message, color: "buoy", autoClose: 9000 });
  },
};
