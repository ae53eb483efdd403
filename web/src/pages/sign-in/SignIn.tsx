import {
  Anchor,
  Box,
  Button,
  Code,
  Paper,
  PasswordInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDocumentTitle } from "@mantine/hooks";
import { useRouter, useSearch } from "@tanstack/react-router";
import { useSignIn } from "@/data/me";
import { Logo } from "@/shell/Logo";
import { ProblemPanel } from "@/ui/Problem";
import { Harbour } from "./Harbour";
import { ownPath } from "./ownPath";
import classes from "./sign-in.module.css";

const CAN_KEEP_COOKIE = window.isSecureContext;

export function SignIn() {
  useDocumentTitle("Sign in · Berth");
  const { next } = useSearch({ from: "/sign-in" });
  const router = useRouter();
  const signIn = useSignIn();
  const form = useForm({ initialValues: { email: "", password: "" } });
  const submit = form.onSubmit(values =>
    signIn.mutate(values, { onSuccess: () => router.history.push(ownPath(next)) }),
  );
  return (
    <main className={classes.page}>
      <Harbour />
      <Paper className={classes.card} radius="lg" p="xl" shadow="md" withBorder>
        <form onSubmit={submit}>
          <Stack>
            <Stack gap="xs">
              <Logo size={40} />
              <Title order={1}>Welcome to Berth</Title>
              <Text c="dimmed">Sign in to see what is where, and who holds what.</Text>
            </Stack>
            {!CAN_KEEP_COOKIE && (
              <Text size="sm" c="var(--berth-warn)">
                This page came over plain http from another machine. The browser will not keep a sign-in here:
                use https, or open it on the machine itself.
              </Text>
            )}
            <TextInput
              label="Email"
              type="email"
              autoComplete="username"
              required
              autoFocus
              {...form.getInputProps("email")}
            />
            <PasswordInput
              label="Password"
              autoComplete="current-password"
              required
              {...form.getInputProps("password")}
            />
            {signIn.isError && <ProblemPanel error={signIn.error} compact />}
            <Button type="submit" loading={signIn.isPending} fullWidth size="md">
              Sign in
            </Button>
          </Stack>
        </form>
        <Box mt="lg" fz="sm" c="dimmed">
          The first person of an organization is made on the server with <Code>berth init</Code>; others are
          added under Settings, Members. Programs use <Anchor href="/api/v1/openapi.json">the API</Anchor>.
        </Box>
      </Paper>
    </main>
  );
}
