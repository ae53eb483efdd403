import { Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { useSignIn } from "@/data/me";
import { ProblemPanel } from "@/ui/Problem";

type Props = { signIn: ReturnType<typeof useSignIn>; email?: string; onSuccess?: () => void };

/** Login form. With `email`, the address is fixed. */
export function LogInForm({ signIn, email, onSuccess }: Props) {
  const form = useForm({ initialValues: { email: email ?? "", password: "" } });
  return (
    <form onSubmit={form.onSubmit(values => signIn.mutate(values, { onSuccess }))}>
      <Stack>
        <TextInput
          label="Email"
          type="email"
          autoComplete="username"
          required
          readOnly={email !== undefined}
          variant={email === undefined ? "default" : "filled"}
          autoFocus={email === undefined}
          {...form.getInputProps("email")}
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          autoFocus={email !== undefined}
          {...form.getInputProps("password")}
        />
        {signIn.isError && <ProblemPanel error={signIn.error} compact />}
        <Button type="submit" loading={signIn.isPending} fullWidth size="md">
          Log in
        </Button>
      </Stack>
    </form>
  );
}
