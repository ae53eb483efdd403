import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Environment, Ticket } from "@/api/types";
import { expectToast, removePage, renderPage, stubServer } from "../../../tests/renderPage";
import { EnvironmentActions } from "./EnvironmentActions";

const ENVIRONMENT = "/pipelines/shop/ephemeral-environments/qa-1";
const BOB = { type: "user", id: "usr_2", name: "Bob" } as const;
const ADA = { type: "user", id: "usr_1", name: "Ada" } as const;
const LOCK = {
  status: "locked",
  sessionId: "ses_1",
  holder: BOB,
  commitId: null,
  context: "customer demo",
  claimedAt: "2026-11-18T12:00:00.000Z",
  expiresAt: null,
  fence: 3,
} as const;

function ticketOf(holder: Ticket["holder"], ticketId: string, position: number): Ticket {
  return { holder, ticketId, position, status: "waiting", groupId: null } as Ticket;
}

function renderActions(lock: Environment["lock"], queue: Ticket[]) {
  const environment = { envName: "qa-1", lock, queueLength: queue.length } as Environment;
  const sent = stubServer({
    [`GET ${ENVIRONMENT}/queue`]: { data: queue },
    [`GET ${ENVIRONMENT}/sessions/ses_1`]: { data: { deployments: [] } },
    [`DELETE ${ENVIRONMENT}/queue/tkt_1`]: { data: queue[0] },
    [`POST ${ENVIRONMENT}/force-claim`]: { data: { sessionId: "ses_2" } },
  });
  const where = { org: "acme", pipelineId: "shop", envName: "qa-1" };
  renderPage(() => <EnvironmentActions where={where} environment={environment} pipeline="shop" />);
  return sent;
}

afterEach(removePage);

test("a takeover withdraws the ticket of the user, and only that one", async () => {
  const sent = renderActions(LOCK, [
    ticketOf(ADA, "tkt_1", 1),
    ticketOf({ ...BOB, id: "usr_3" }, "tkt_2", 2),
  ]);
  fireEvent.click(await screen.findByRole("button", { name: "Take over" }));
  const dialog = await screen.findByRole("dialog");
  await waitFor(() =>
    expect(dialog.textContent).toContain("1 person stays in the queue. You leave the queue."),
  );
  fireEvent.change(screen.getByLabelText(/^Reason/), { target: { value: "hotfix" } });
  const [confirm] = screen.getAllByRole("button", { name: "Take over" }).slice(-1);
  fireEvent.click(confirm as HTMLElement);
  await expectToast("qa-1 taken over");
  await waitFor(() => {
    const changes = sent.filter(each => !each.call.startsWith("GET")).map(each => each.call);
    expect(changes).toEqual([`POST ${ENVIRONMENT}/force-claim`, `DELETE ${ENVIRONMENT}/queue/tkt_1`]);
  });
});

test("an announced takeover is cancelled with a button that says so", async () => {
  const takeover = { by: ADA, at: "2026-11-18T12:05:00.000Z", reason: "hotfix" };
  const sent = renderActions({ ...LOCK, takeover }, [ticketOf(ADA, "tkt_1", 1)]);
  fireEvent.click(await screen.findByRole("button", { name: "Cancel takeover" }));
  await expectToast("Takeover of qa-1 cancelled");
  expect(sent.map(each => each.call)).toContain(`DELETE ${ENVIRONMENT}/queue/tkt_1`);
  expect(screen.queryByRole("button", { name: /Leave queue/ })).toBeNull();
});
