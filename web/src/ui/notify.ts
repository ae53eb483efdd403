import type { NotificationData } from "@mantine/notifications";
import { problemOf } from "@/api/problem";

function show(notice: NotificationData) {
  import("@mantine/notifications").then(({ notifications }) => notifications.show(notice));
}

/** It worked: a short line in the corner. */
export function tell(message: string) {
  show({ message, color: "kelp", autoClose: 4000 });
}

/** It happened, and is nothing to be glad about. It stays a while. */
export function warn(message: string) {
  show({ message, color: "lantern", autoClose: 12_000 });
}

/** It did not, where no dialog is open to say so. */
export function tellProblem(error: unknown) {
  const problem = problemOf(error);
  const message = problem.requestId ? `${problem.detail} (request ${problem.requestId})` : problem.detail;
  show({ title: problem.title, message, color: "buoy", autoClose: 9000 });
}
