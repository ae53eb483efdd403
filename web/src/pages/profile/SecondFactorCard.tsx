import { Button, Card, Group, Text, Title } from "@mantine/core";
import { useState } from "react";
import { useMe } from "@/data/me";
import { useBeginSecondFactor, useReplaceRecoveryCodes } from "@/data/secondFactor";
import { ProblemPanel } from "@/ui/ProblemPanel";
import { RelativeTime } from "@/ui/RelativeTime";
import { DisableSecondFactorDialog } from "./DisableSecondFactorDialog";
import { RecoveryCodesDialog } from "./RecoveryCodesDialog";
import { SecondFactorSetUp } from "./SecondFactorSetUp";

/** Number of recovery codes below which the card suggests new ones. */
const FEW_CODES = 3;

/** Second factor of the current user: set-up, recovery codes, switching off. */
export function SecondFactorCard() {
  const { secondFactor } = useMe();
  const [codes, setCodes] = useState<string[] | null>(null);
  if (secondFactor.status === "unavailable") return null;
  return (
    <Card component="section" aria-label="Second factor">
      <Title order={2} mb={4}>
        Second factor
      </Title>
      {secondFactor.status === "enabled" ? (
        <EnabledFactor show={setCodes} />
      ) : (
        <DisabledFactor show={setCodes} />
      )}
      {codes && <RecoveryCodesDialog codes={codes} onClose={() => setCodes(null)} />}
    </Card>
  );
}

type Props = { show: (codes: string[]) => void };

function DisabledFactor({ show }: Props) {
  const begin = useBeginSecondFactor();
  if (begin.data) {
    return <SecondFactorSetUp enrolment={begin.data} onSuccess={show} onCancel={begin.reset} />;
  }
  return (
    <>
      <Text c="dimmed" size="sm" mb="sm">
        Logging in needs only your password. With a second factor, it also needs a code from an authenticator
        app on your phone.
      </Text>
      {begin.isError && <ProblemPanel error={begin.error} compact />}
      <Group justify="flex-end">
        <Button onClick={() => begin.mutate()} loading={begin.isPending}>
          Set up
        </Button>
      </Group>
    </>
  );
}

function EnabledFactor({ show }: Props) {
  const { enabledAt, recoveryCodesLeft } = useMe().secondFactor;
  const replace = useReplaceRecoveryCodes();
  const [isDisabling, setDisabling] = useState(false);
  return (
    <>
      <Text size="sm">
        On
        {enabledAt && (
          <>
            , set up <RelativeTime at={enabledAt} />
          </>
        )}
        . Logging in needs a code from your authenticator app.
      </Text>
      <Text size="sm" c={recoveryCodesLeft < FEW_CODES ? "var(--berth-warn)" : "dimmed"} mb="sm">
        {recoveryCodesLeft === 1 ? "1 recovery code" : `${recoveryCodesLeft} recovery codes`} left
        {recoveryCodesLeft < FEW_CODES && ". Create new ones before you run out"}
      </Text>
      {replace.isError && <ProblemPanel error={replace.error} compact />}
      <Group justify="flex-end">
        <Button variant="default" onClick={() => setDisabling(true)}>
          Switch off
        </Button>
        <Button
          variant="default"
          loading={replace.isPending}
          onClick={() => replace.mutate(undefined, { onSuccess: made => show(made.recoveryCodes) })}
        >
          New recovery codes
        </Button>
      </Group>
      {isDisabling && <DisableSecondFactorDialog onClose={() => setDisabling(false)} />}
    </>
  );
}
