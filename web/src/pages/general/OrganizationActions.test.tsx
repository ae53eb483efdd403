import { screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Organization } from "@/api/types";
import { removePage, renderPage } from "../../../tests/renderPage";
import { OrganizationActions } from "./OrganizationActions";

const ACME = { id: "org_1", slug: "acme", name: "Acme" } as Organization;

afterEach(removePage);

test("a member who is not an instance admin sees who may delete the organization", async () => {
  renderPage(() => <OrganizationActions organization={ACME} />);
  await screen.findByText("Only an instance admin can change the slug or delete the organization");
  expect(screen.queryByRole("button")).toBeNull();
});
