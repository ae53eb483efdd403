import { Button, Code, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { toProblem } from "@/api/problem";
import type { PendingCliLogin } from "@/api/types";
import { cliLoginQuery, useApproveCliLogin, useDenyCliLogin } from "@/data/cliLogins";
import { useLinkToken } from "@/data/linkToken";
import { useMe } from "@/data/me";
import { loadLastOrganization } from "@/shell/lastOrganization";
import { EntryPage } from "@/ui/entry/EntryPage";
import { LoadingRows } from "@/ui/LoadingRows";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { RelativeTime } from "@/ui/RelativeTime";

const TAB_TITLE = "Authorize the CLI";

const EXPIRIES = [
  { value: "7", label: "7 days" },
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
];

/** Approves a login of the CLI: the code comes from a link that the CLI opened, or the person enters it. */
export function DevicePage() {
  const linked = useLinkToken();
  const [entered, setEntered] = useState("");
  const code = entered || linked;
  if (code === "") return <CodeForm onSubmit={setEntered} />;
  return <PendingLogin key={code} code={code} />;
}

function CodeForm({ onSubmit }: { onSubmit: (code: string) => void }) {
  const form = useForm({ initialValues: { code: "" } });
  return (
    <EntryPage name={TAB_TITLE} title="Authorize the CLI" lead="Enter the code that berth login shows">
      <form onSubmit={form.onSubmit(({ code }) => onSubmit(code.trim().toUpperCase()))}>
        <Stack>
          <TextInput
            label="Code"
            placeholder="BDFG-KLMN"
            required
            autoFocus
            autoComplete="off"
            maxLength={20}
            {...form.getInputProps("code")}
          />
          <Button type="submit" fullWidth size="md">
            Continue
          </Button>
        </Stack>
      </form>
    </EntryPage>
  );
}

function PendingLogin({ code }: { code: string }) {
  const login = useQuery(cliLoginQuery(code));
  if (login.data) return <DecisionForm code={code} login={login.data} />;
  if (login.isError && toProblem(login.error).status === 404)
    return (
      <EntryPage
        name={TAB_TITLE}
        title="This code is not valid"
        lead="It is wrong, was used or has expired. Run berth login again to get a new one."
      />
    );
  return (
    <EntryPage name={TAB_TITLE} title="Authorize the CLI">
      {login.isError ? (
        <ProblemPanel error={login.error} retry={() => login.refetch()} compact />
      ) : (
        <LoadingRows />
      )}
    </EntryPage>
  );
}

function DecisionForm({ code, login }: { code: string; login: PendingCliLogin }) {
  const { user, organizations } = useMe();
  const approve = useApproveCliLogin();
  const deny = useDenyCliLogin();
  const form = useForm({
    initialValues: {
      org: loadLastOrganization(organizations) ?? organizations[0]?.slug ?? "",
      days: "90",
    },
  });
  const decision = approve.data ?? deny.data;
  if (decision && !decision.redirectTo)
    return (
      <EntryPage
        name={TAB_TITLE}
        title={approve.data ? "CLI authorized" : "Login denied"}
        lead="You can close this page and return to the terminal."
      />
    );
  const returnToCli = (to: { redirectTo: string | null }) => {
    if (to.redirectTo) window.location.assign(to.redirectTo);
  };
  const isBusy = approve.isPending || deny.isPending || decision !== undefined;
  return (
    <EntryPage
      name={TAB_TITLE}
      title="Authorize the CLI"
      lead={
        <>
          The command line on {login.machine} asks to log in as {user.email}.
        </>
      }
    >
      <form
        onSubmit={form.onSubmit(({ org, days }) =>
          approve.mutate({ org, userCode: code, expiresInDays: Number(days) }, { onSuccess: returnToCli }),
        )}
      >
        <Stack>
          <Text size="sm">
            Compare the code with the one in your terminal: <Code fz="md">{code}</Code>
          </Text>
          <Text size="sm" c="dimmed">
            Requested from {login.address}, <RelativeTime at={login.createdAt} />.{" "}
            {!login.isLocal && "Continue only if you started this login yourself."}
          </Text>
          <NativeSelect
            label="Organization"
            data={organizations.map(each => ({ value: each.slug, label: each.name }))}
            {...form.getInputProps("org")}
          />
          <NativeSelect
            label="Token expires after"
            description="The CLI gets an API token with your permissions in this organization"
            data={EXPIRIES}
            {...form.getInputProps("days")}
          />
          {approve.isError && <ProblemPanel error={approve.error} compact />}
          {deny.isError && <ProblemPanel error={deny.error} compact />}
          <Group grow>
            <Button
              variant="default"
              size="md"
              disabled={isBusy}
              onClick={() => deny.mutate(code, { onSuccess: returnToCli })}
            >
              Deny
            </Button>
            <Button type="submit" size="md" loading={isBusy} disabled={form.values.org === ""}>
              Authorize
            </Button>
          </Group>
        </Stack>
      </form>
    </EntryPage>
  );
}
