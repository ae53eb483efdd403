import { Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import type { useLogIn } from "@/data/me";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { logIn: ReturnType<typeof useLogIn>; email?: string; onSuccess?: () => void };

/** Login form. With `email`, the address is fixed. */
export function LoginForm({ logIn, email, onSuccess }: Props) {
  const form = useForm({ initialValues: { email: email ?? "", password: "" } });
  return (
    <form onSubmit={form.onSubmit(values => logIn.mutate(values, { onSuccess }))}>
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
        {logIn.isError && <ProblemPanel error={logIn.error} compact />}
        <Button type="submit" loading={logIn.isPending} fullWidth size="md">
          Log in
        </Button>
      </Stack>
    </form>
  );
}
