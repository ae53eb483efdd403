import { fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { expectToast, removePage, renderPage, stubServer } from "../../../../tests/renderPage";
import { NewSecretDialog } from "./NewSecretDialog";

const KEY = "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----\n";

afterEach(removePage);

test("a value with several lines is sent unchanged, and can be shown", async () => {
  const sent = stubServer({ "POST /secrets": { data: { id: "sec_1" } } });
  renderPage(() => <NewSecretDialog onClose={() => {}} />);
  fireEvent.change(await screen.findByLabelText(/^Name/), { target: { value: "DEPLOY_KEY" } });
  const value = screen.getByLabelText(/^Value/) as HTMLTextAreaElement;
  fireEvent.change(value, { target: { value: KEY } });
  expect(value.value).toBe(KEY);
  expect(screen.getByRole("button", { name: "Show value" })).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Create" }));
  await waitFor(() =>
    expect(sent.find(each => each.call === "POST /secrets")?.body).toMatchObject({ value: KEY }),
  );
  await expectToast("DEPLOY_KEY created");
});
