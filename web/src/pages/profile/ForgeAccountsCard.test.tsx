import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { expectToast, removePage, renderPage, stubServer } from "../../../tests/renderPage";
import { ForgeAccountsCard } from "./ForgeAccountsCard";

afterEach(removePage);

test("connecting an account shows the comment to post", async () => {
  const code = { code: "K7QX", comment: "/berth connect K7QX", expiresAt: new Date().toISOString() };
  stubServer({ "GET /me/forge-accounts": { data: [] }, "POST /me/forge-accounts": { data: code } });
  renderPage(ForgeAccountsCard);
  await screen.findByText("No account connected");
  fireEvent.click(screen.getByRole("button", { name: "Connect" }));
  const comment = await screen.findByLabelText("Comment that connects your account");
  expect(comment.textContent).toBe("/berth connect K7QX");
});

test("linked account can be unlinked", async () => {
  const account = {
    host: "github.com",
    accountId: "583231",
    name: "grace",
    linkedAt: "2026-11-18T14:00:00Z",
  };
  const path = "DELETE /me/forge-accounts/github.com/583231";
  const sent = stubServer({ "GET /me/forge-accounts": { data: [account] }, [path]: { data: account } });
  renderPage(ForgeAccountsCard);
  await screen.findByText("grace");
  fireEvent.click(screen.getByRole("button", { name: "Unlink" }));
  await waitFor(() => expect(sent.map(each => each.call)).toContain(path));
  await expectToast("Account unlinked");
});
