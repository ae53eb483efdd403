import { useMutation } from "@tanstack/react-query";
import { fireEvent, screen } from "@testing-library/react";
import { useState } from "react";
import { afterEach, test } from "vitest";
import { expectToast, removePage, renderPage } from "../../tests/renderPage";
import { ConfirmDialog } from "./ConfirmDialog";

afterEach(removePage);

let respond: (answer: string) => void = () => {};
const response = new Promise<string>(resolve => {
  respond = resolve;
});

function ApproveDialog() {
  const approve = useMutation({ mutationFn: () => response });
  return (
    <ConfirmDialog
      onClose={() => {}}
      title="Approve?"
      action="Approve"
      mutation={approve}
      input={undefined}
      success={answer => answer}
    >
      {null}
    </ConfirmDialog>
  );
}

function ApprovalsPage() {
  const [isPending, setPending] = useState(true);
  return (
    <>
      <button type="button" onClick={() => setPending(false)}>
        An event arrives
      </button>
      {isPending && <ApproveDialog />}
    </>
  );
}

test("the outcome is reported if the dialog is removed before the response", async () => {
  renderPage(ApprovalsPage);
  fireEvent.click(await screen.findByRole("button", { name: "Approve" }));
  fireEvent.click(screen.getByText("An event arrives"));
  respond("production approved");
  await expectToast("production approved");
});
