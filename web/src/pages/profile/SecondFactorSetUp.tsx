import { Button, Group, Stack, Text } from "@mantine/core";
import { lazy, Suspense, useState } from "react";
import { fieldError } from "@/api/problem";
import type { components } from "@/api/schema.gen";
import { useConfirmSecondFactor } from "@/data/secondFactor";
import { CodeInput } from "@/ui/CodeInput";
import { Snippet } from "@/ui/Copy";
import { ProblemPanel } from "@/ui/ProblemPanel";

const QrCode = lazy(() => import("./QrCode"));

type Props = {
  enrolment: components["schemas"]["SecondFactorEnrolment"];
  onSuccess: (recoveryCodes: string[]) => void;
  onCancel: () => void;
};

/** Shows the secret for an authenticator app, and asks for a code of it. */
export function SecondFactorSetUp({ enrolment, onSuccess, onCancel }: Props) {
  const confirm = useConfirmSecondFactor();
  const [code, setCode] = useState("");
  const wrong = confirm.isError && fieldError(confirm.error, "/code");
  return (
    <form
      onSubmit={event => {
        event.preventDefault();
        // A callback of `mutate` is not called if the form is gone by then: it disappears once the second factor is on.
        confirm.mutateAsync(code).then(
          made => onSuccess(made.recoveryCodes),
          () => undefined,
        );
      }}
    >
      <Stack>
        <Text size="sm">1. Scan this code with an authenticator app, or enter the key in the app.</Text>
        <Suspense fallback={null}>
          <QrCode text={enrolment.uri} label="QR code for your authenticator app" />
        </Suspense>
        <Snippet label="Key" text={enrolment.secret} />
        <Text size="sm">2. Enter the code that the app shows.</Text>
        <CodeInput
          description="Six digits, new every 30 seconds"
          inputMode="numeric"
          autoFocus
          value={code}
          onChange={event => {
            setCode(event.currentTarget.value);
            confirm.reset();
          }}
          error={wrong && `The code ${wrong}`}
        />
        {confirm.isError && !wrong && <ProblemPanel error={confirm.error} compact />}
        <Group justify="flex-end">
          <Button variant="default" onClick={onCancel}>
            Cancel
          </Button>
          <Button type="submit" loading={confirm.isPending} disabled={code.trim() === ""}>
            Switch on
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
