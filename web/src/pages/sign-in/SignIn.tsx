import { Alert, Anchor, Code, Stack, Text } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useLocation, useRouter, useSearch } from "@tanstack/react-router";
import { useSignIn } from "@/data/me";
import { EntryPage } from "@/ui/entry/EntryPage";
import { LogInForm } from "@/ui/entry/LogInForm";
import { ownPath } from "./ownPath";

const CAN_KEEP_COOKIE = window.isSecureContext;

export function SignIn() {
  const { next } = useSearch({ from: "/sign-in" });
  const notice = useLocation({ select: location => location.state.notice });
  const router = useRouter();
  const signIn = useSignIn();
  return (
    <EntryPage
      name="Log in"
      title="Welcome to Berth"
      lead="Log in to see what is deployed where, and who holds which environment."
    >
      {notice && (
        <Alert role="status" color="kelp" icon={<IconCheck />}>
          {notice}
        </Alert>
      )}
      {!CAN_KEEP_COOKIE && (
        <Text size="sm" c="var(--berth-warn)">
          This page came over plain http from another machine. The browser will not keep a log-in here: use
          https, or open it on the machine itself.
        </Text>
      )}
      <LogInForm signIn={signIn} onSuccess={() => router.history.push(ownPath(next))} />
      <Stack gap="xs" fz="sm" c="dimmed">
        <details className="more">
          <summary>Forgot your password?</summary>
          Ask the operator of this server to run <Code className="nowrap">berth admin reset-password</Code>{" "}
          with your email. It prints a link with which you set a new one.
        </details>
        <div>
          No account? Ask an admin of your organization for an invitation. Programs use{" "}
          <Anchor href="/api/v1/openapi.json" inherit>
            the API
          </Anchor>
          .
        </div>
      </Stack>
    </EntryPage>
  );
}
