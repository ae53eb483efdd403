import { Button, Group, Modal, PasswordInput, Stack, Text } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError, toProblem } from "@/api/problem";
import { meQuery, useConfirmPassword } from "@/data/me";
import { CodeInput } from "@/ui/CodeInput";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { ConfirmWithProviderDialog } from "./ConfirmWithProviderDialog";

/** Above the dialog that sent the request. */
const Z_INDEX = 300;

type Props = { onAnswer: (isConfirmed: boolean) => void };

/** Dialog that asks the user to confirm: with the password, or at the identity provider that the login came from. */
export default function ConfirmationDialog({ onAnswer }: Props) {
  const provider = useQueryClient().getQueryData(meQuery.queryKey)?.provider;
  if (provider) return <ConfirmWithProviderDialog provider={provider} zIndex={Z_INDEX} onAnswer={onAnswer} />;
  return <ConfirmPasswordDialog onAnswer={onAnswer} />;
}

/** Dialog that asks for the user's password, and for a code if the account has a second factor. */
function ConfirmPasswordDialog({ onAnswer }: Props) {
  const confirm = useConfirmPassword();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const hasFactor = useQueryClient().getQueryData(meQuery.queryKey)?.secondFactor.status === "enabled";
  const isCodeRequest = confirm.isError && toProblem(confirm.error).code === "second_factor_code_required";
  const needsCode = hasFactor || isCodeRequest;
  const wrongCode = confirm.isError && fieldError(confirm.error, "/code");
  const isWrong = confirm.isError && fieldError(confirm.error, "/password") !== undefined;
  return (
    <Modal
      opened
      onClose={() => onAnswer(false)}
      title={<Text fw={600}>Confirm your password</Text>}
      closeOnClickOutside={false}
      zIndex={Z_INDEX}
    >
      <form
        onSubmit={event => {
          event.preventDefault();
          confirm.mutate(needsCode ? { password, code } : { password }, {
            onSuccess: () => onAnswer(true),
            // The login has expired: the client redirects to the login page.
            onError: error => toProblem(error).status === 401 && onAnswer(false),
          });
        }}
      >
        <Stack>
          <Text size="sm">You entered it more than an hour ago. Enter it again to continue.</Text>
          <PasswordInput
            label="Password"
            required
            data-autofocus
            autoComplete="current-password"
            value={password}
            onChange={event => {
              setPassword(event.currentTarget.value);
              confirm.reset();
            }}
            error={isWrong && "Wrong password"}
          />
          {needsCode && (
            <CodeInput
              value={code}
              onChange={event => setCode(event.currentTarget.value)}
              error={wrongCode && `The code ${wrongCode}`}
            />
          )}
          {confirm.isError && !isWrong && !wrongCode && <ProblemPanel error={confirm.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={() => onAnswer(false)}>
              Cancel
            </Button>
            <Button type="submit" loading={confirm.isPending} disabled={password === ""}>
              Confirm
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
