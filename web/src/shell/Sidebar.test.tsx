import { AppShell } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { ME_KEY } from "@/data/queryKeys";
import { removePage, renderPage, stubServer } from "../../tests/renderPage";
import { Sidebar } from "./Sidebar";

const PAGINATION = { limit: 100, offset: 0, total: 1, hasMore: false, nextCursor: null };

function renderSidebar(role: string) {
  const sent = stubServer({
    "GET /approvals": { data: [{ id: "apr_1" }], pagination: PAGINATION },
    "GET /notifications": { data: [{ id: "ntf_1" }, { id: "ntf_2" }], pagination: PAGINATION },
  });
  const nothing = () => {};
  renderPage(() => {
    useQueryClient().setQueryData(ME_KEY, {
      user: { id: "usr_1", name: "Vera", email: "vera@acme.test" },
      organizations: [{ id: "org_1", slug: "acme", name: "Acme", role, grants: [] }],
    });
    return (
      <AppShell>
        <Sidebar find={nothing} showKeys={nothing} toggleScheme={nothing} onNavigate={nothing} />
      </AppShell>
    );
  });
  return sent;
}

afterEach(removePage);

test("pending approvals are counted for users who may decide approvals", async () => {
  renderSidebar("admin");
  expect((await screen.findByLabelText("1 pending")).textContent).toBe("1");
});

test("pending approvals are not counted for viewers", async () => {
  const sent = renderSidebar("viewer");
  await screen.findByRole("link", { name: "Approvals" });
  expect(screen.queryByLabelText("1 pending")).toBeNull();
  expect(sent.filter(each => each.call === "GET /approvals")).toEqual([]);
});

test("unread notifications are counted", async () => {
  renderSidebar("member");
  expect((await screen.findByLabelText("2 unread")).textContent).toBe("2");
});
