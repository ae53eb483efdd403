import { Button, Checkbox, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { problemOf } from "@/api/problem";
import { useLinkToken } from "@/data/linkToken";
import { useResetPassword } from "@/data/me";
import { EntryPage } from "@/ui/entry/EntryPage";
import { checkNewPassword, NewPasswordInput, newPasswordProblem } from "@/ui/NewPassword";
import { ProblemPanel } from "@/ui/Problem";

const NAME = "Reset password";

/** Where the link of `berth admin reset-password` leads. */
export function ResetPasswordPage() {
  const token = useLinkToken();
  const navigate = useNavigate();
  const reset = useResetPassword();
  const form = useForm({
    initialValues: { newPassword: "", revokeTokens: false },
    validate: { newPassword: checkNewPassword },
  });
  if (token === "")
    return (
      <EntryPage
        name={NAME}
        title="Open your reset link"
        lead="This address has no reset link in it. Open the whole link that you were given."
      />
    );
  if (reset.isError && problemOf(reset.error).status === 404)
    return (
      <EntryPage
        name={NAME}
        title="This link is no longer valid"
        lead="It was used or replaced, or has expired. Ask the operator of this server for a new one."
      />
    );
  const password = form.getInputProps("newPassword");
  const passwordProblem = newPasswordProblem(reset.error, "/newPassword");
  const submit = form.onSubmit(values =>
    reset.mutate(
      { token, ...values },
      {
        onSuccess: ({ email, tokensRevoked }) => {
          const tokens = tokensRevoked === 1 ? "1 API token was" : `${tokensRevoked} API tokens were`;
          const revoked = values.revokeTokens ? ` ${tokens} revoked.` : "";
          const notice = `The password of ${email} is changed.${revoked} Log in with the new one.`;
          navigate({ to: "/sign-in", state: { notice } });
        },
      },
    ),
  );
  return (
    <EntryPage
      name={NAME}
      title="Set a new password"
      lead="You are logged out in all browsers when you save it."
    >
      <form onSubmit={submit}>
        <Stack>
          <NewPasswordInput autoFocus {...password} error={password.error ?? passwordProblem} />
          <Checkbox
            label="Also revoke my API tokens"
            description="Programs that use them are refused at once"
            {...form.getInputProps("revokeTokens", { type: "checkbox" })}
          />
          {reset.isError && !passwordProblem && <ProblemPanel error={reset.error} compact />}
          <Button type="submit" loading={reset.isPending} fullWidth size="md">
            Set password
          </Button>
        </Stack>
      </form>
    </EntryPage>
  );
}
