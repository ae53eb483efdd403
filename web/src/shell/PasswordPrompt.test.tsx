import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { api, fetchData } from "@/api/client";
import { PasswordPrompt } from "./PasswordPrompt";

const CONFIRM = { code: "reauthentication_required", detail: "confirm your password", status: 403 };

/** Stubs `fetch`: every request fails until the password is confirmed. */
function stubServer() {
  let isConfirmed = false;
  const sent: string[] = [];
  vi.stubGlobal("fetch", async (request: Request) => {
    const path = new URL(request.url, "http://berth.test").pathname;
    sent.push(path);
    if (path.endsWith("/auth/confirm")) isConfirmed = true;
    return Response.json(isConfirmed ? { data: {} } : CONFIRM, { status: isConfirmed ? 200 : 403 });
  });
  return sent;
}

function changeSecret(secretId: string) {
  const path = "/api/v1/organizations/{orgId}/secrets/{secretId}";
  return fetchData(api.DELETE(path, { params: { path: { orgId: "acme", secretId } } }));
}

function renderPrompt() {
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient()}>
        <PasswordPrompt />
      </QueryClientProvider>
    </MantineProvider>,
  );
}

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

test("concurrent requests that require reauthentication share one password prompt", async () => {
  const sent = stubServer();
  renderPrompt();
  const changes = Promise.all([changeSecret("sec_1"), changeSecret("sec_2")]);
  const password = await screen.findByLabelText(/Password/);
  expect(screen.getAllByRole("dialog")).toHaveLength(1);
  fireEvent.change(password, { target: { value: "a quiet harbour" } });
  fireEvent.click(screen.getByRole("button", { name: "Confirm" }));
  await changes;
  expect(sent.filter(path => path.endsWith("/auth/confirm"))).toHaveLength(1);
  expect(sent).toHaveLength(5);
});

test("Escape in the password prompt closes only the prompt and fails every request", async () => {
  stubServer();
  renderPrompt();
  const below = vi.fn();
  window.addEventListener("keydown", below, { capture: true });
  const changes = Promise.allSettled([changeSecret("sec_1"), changeSecret("sec_2")]);
  await screen.findByRole("dialog");
  fireEvent.keyDown(document.body, { key: "Escape" });
  const ended = await changes;
  expect(ended.map(each => each.status)).toEqual(["rejected", "rejected"]);
  expect(below).not.toHaveBeenCalled();
  window.removeEventListener("keydown", below, { capture: true });
});
