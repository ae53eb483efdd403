import { Button, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { fieldError } from "@/api/problem";
import type { InvitationOffer } from "@/api/types";
import { useSignUp } from "@/data/me";
import { checkNewPassword, NewPasswordInput, newPasswordError } from "@/ui/NewPasswordInput";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { offer: InvitationOffer; token: string; onSuccess: () => void };

/** Creates an account for the invited email address. */
export function SignUpForm({ offer, token, onSuccess }: Props) {
  const signUp = useSignUp();
  const form = useForm({
    initialValues: { name: offer.name ?? "", password: "" },
    validate: { password: checkNewPassword },
  });
  const name = form.getInputProps("name");
  const password = form.getInputProps("password");
  const nameProblem = signUp.isError ? fieldError(signUp.error, "/name") : undefined;
  const passwordProblem = newPasswordError(signUp.error, "/password");
  return (
    <form
      onSubmit={form.onSubmit(values =>
        signUp.mutate(
          { token, name: values.name.trim() || undefined, password: values.password },
          { onSuccess },
        ),
      )}
    >
      <Stack>
        <TextInput
          label="Email"
          type="email"
          autoComplete="username"
          variant="filled"
          readOnly
          value={offer.email}
        />
        <TextInput
          label="Name"
          description="Visible to everyone in the organization"
          autoComplete="name"
          maxLength={120}
          autoFocus
          {...name}
          error={name.error ?? (nameProblem && `The name ${nameProblem}`)}
        />
        <NewPasswordInput label="Password" {...password} error={password.error ?? passwordProblem} />
        {signUp.isError && !nameProblem && !passwordProblem && <ProblemPanel error={signUp.error} compact />}
        <Button type="submit" loading={signUp.isPending} fullWidth size="md">
          Create account and join
        </Button>
      </Stack>
    </form>
  );
}
