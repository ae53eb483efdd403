import { Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useState } from "react";
import { toProblem } from "@/api/problem";
import type { useLogIn } from "@/data/me";
import { CodeInput } from "@/ui/CodeInput";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { logIn: ReturnType<typeof useLogIn>; email?: string; onSuccess?: () => void };

/** Login form. With `email`, the address is fixed. Asks for a code if the account has a second factor. */
export function LoginForm({ logIn, email, onSuccess }: Props) {
  const form = useForm({ initialValues: { email: email ?? "", password: "", code: "" } });
  const [needsCode, setNeedsCode] = useState(false);
  const isCodeRequest = logIn.isError && requestsCode(logIn.error);
  const submit = form.onSubmit(({ code, ...values }) =>
    logIn.mutate(needsCode ? { ...values, code } : values, {
      onSuccess,
      onError: error => {
        form.setFieldValue("code", "");
        if (requestsCode(error)) setNeedsCode(true);
      },
    }),
  );
  return (
    <form onSubmit={submit}>
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
        {needsCode && <CodeInput autoFocus {...form.getInputProps("code")} />}
        {logIn.isError && !isCodeRequest && <ProblemPanel error={logIn.error} compact />}
        <Button type="submit" loading={logIn.isPending} fullWidth size="md">
          Log in
        </Button>
      </Stack>
    </form>
  );
}

function requestsCode(error: unknown): boolean {
  return toProblem(error).code === "second_factor_code_required";
}
