import { Anchor } from "@mantine/core";
import type { NotificationData } from "@mantine/notifications";
import { problemOf } from "@/api/problem";

function show(notice: NotificationData) {
  import("@mantine/notifications").then(({ notifications }) => notifications.show(notice));
}

/** Where a line in the corner leads. It is drawn outside of the pages, so it is told how to go there. */
export type Way = { words: string; go: () => void };

let waysTold = 0;

/** It worked: a short line in the corner. With a way it stays until somebody can have pressed it. */
export function tell(message: string, way?: Way) {
  if (!way) return show({ message, color: "kelp", autoClose: 4000 });
  // The same words may lead elsewhere: an id that is shown already would swallow them.
  const id = `way-${++waysTold}`;
  const go = () => {
    import("@mantine/notifications").then(({ notifications }) => notifications.hide(id));
    way.go();
  };
  const said = (
    <>
      {message}{" "}
      <Anchor component="button" type="button" inherit underline="always" onClick={go}>
        {way.words}
      </Anchor>
    </>
  );
  show({ id, message: said, color: "kelp", autoClose: 12_000 });
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
