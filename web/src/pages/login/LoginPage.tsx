import { Alert, Anchor, Code, Stack, Text } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useLocation, useRouter, useSearch } from "@tanstack/react-router";
import { useLogIn } from "@/data/me";
import { loginOptionsQuery } from "@/data/providers";
import { EntryPage } from "@/ui/entry/EntryPage";
import { LoginForm } from "@/ui/entry/LoginForm";
import { ProviderButtons } from "./ProviderButtons";
import { safeRedirectPath } from "./safeRedirectPath";

const CAN_STORE_COOKIE = window.isSecureContext;

export function LoginPage() {
  const { next } = useSearch({ from: "/sign-in" });
  const notice = useLocation({ select: location => location.state.notice });
  const router = useRouter();
  const logIn = useLogIn();
  const options = useQuery(loginOptionsQuery).data;
  return (
    <EntryPage
      name="Log in"
      title="Log in to Berth"
      lead="See what is deployed, and who holds which environment"
    >
      {notice && (
        <Alert role="status" color="kelp" icon={<IconCheck />}>
          {notice}
        </Alert>
      )}
      {!CAN_STORE_COOKIE && (
        <Text size="sm" c="var(--berth-warn)">
          This page was loaded over HTTP from another machine, so your browser will not store the login. Use
          HTTPS, or open the dashboard on the server’s own machine.
        </Text>
      )}
      <ProviderButtons providers={options?.providers ?? []} next={safeRedirectPath(next)} />
      {options?.passwordLogin === "owners" && (
        <Text size="sm" c="dimmed">
          Only owners log in with a password
        </Text>
      )}
      <LoginForm logIn={logIn} onSuccess={() => router.history.push(safeRedirectPath(next))} />
      <Stack gap="xs" fz="sm" c="dimmed">
        <details className="more">
          <summary>Forgot your password?</summary>
          Ask your server administrator to run <Code className="nowrap">berth admin reset-password</Code> with
          your email address. It prints a link to set a new password.
        </details>
        <div>
          No account? Ask an admin of your organization for an invitation. For programs, there is an{" "}
          <Anchor href="/api/v1/openapi.json" inherit>
            API
          </Anchor>
          .
        </div>
      </Stack>
    </EntryPage>
  );
}
