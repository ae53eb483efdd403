import { Button, Checkbox, Stack } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useNavigate } from "@tanstack/react-router";
import { toProblem } from "@/api/problem";
import { useLinkToken } from "@/data/linkToken";
import { useResetPassword } from "@/data/me";
import { EntryPage } from "@/ui/entry/EntryPage";
import { checkNewPassword, NewPasswordInput, newPasswordError } from "@/ui/NewPasswordInput";
import { ProblemPanel } from "@/ui/ProblemPanel";

const TAB_TITLE = "Reset password";

/** Target of the link printed by `berth admin reset-password`. */
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
        name={TAB_TITLE}
        title="Open your reset link"
        lead="This URL contains no reset token. Open the complete link that you were given."
      />
    );
  if (reset.isError && toProblem(reset.error).status === 404)
    return (
      <EntryPage
        name={TAB_TITLE}
        title="This link is no longer valid"
        lead="It was used or replaced, or has expired. Ask your server administrator for a new one."
      />
    );
  const password = form.getInputProps("newPassword");
  const passwordProblem = newPasswordError(reset.error, "/newPassword");
  const submit = form.onSubmit(values =>
    reset.mutate(
      { token, ...values },
      {
        onSuccess: ({ email, tokensRevoked }) => {
          const tokens = tokensRevoked === 1 ? "1 API token was" : `${tokensRevoked} API tokens were`;
          const revoked = values.revokeTokens ? ` ${tokens} revoked.` : "";
          const notice = `Password of ${email} changed.${revoked} Log in with the new password.`;
          navigate({ to: "/sign-in", state: { notice } });
        },
      },
    ),
  );
  return (
    <EntryPage name={TAB_TITLE} title="Set a new password" lead="This logs you out in all browsers">
      <form onSubmit={submit}>
        <Stack>
          <NewPasswordInput autoFocus {...password} error={password.error ?? passwordProblem} />
          <Checkbox
            label="Also revoke my API tokens"
            description="They stop working immediately"
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
