import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { removePage, renderPage } from "../../../tests/renderPage";
import { DesktopNotificationsCard } from "./DesktopNotificationsCard";

function stubPermission(permission: NotificationPermission, answer = permission) {
  const stub = {
    permission,
    async requestPermission() {
      stub.permission = answer;
      return answer;
    },
  };
  vi.stubGlobal("Notification", stub);
}

beforeEach(() => localStorage.clear());
afterEach(removePage);

test("turning desktop notifications on asks for permission", async () => {
  stubPermission("default", "granted");
  renderPage(DesktopNotificationsCard);
  const toggle = await screen.findByRole<HTMLInputElement>("switch");
  expect(toggle.checked).toBe(false);
  fireEvent.click(toggle);
  await waitFor(() => expect(toggle.checked).toBe(true));
  fireEvent.click(toggle);
  await waitFor(() => expect(toggle.checked).toBe(false));
});

test("desktop notifications stay off if the user refuses", async () => {
  stubPermission("default", "denied");
  renderPage(DesktopNotificationsCard);
  const toggle = await screen.findByRole<HTMLInputElement>("switch");
  fireEvent.click(toggle);
  await waitFor(() => expect(toggle.disabled).toBe(true));
  expect(toggle.checked).toBe(false);
  expect(localStorage.getItem("berth.desktopNotifications")).toBe("off");
});
