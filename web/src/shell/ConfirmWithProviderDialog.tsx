import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useEffect } from "react";
import { onConfirmation, useConfirmWithProvider } from "@/data/providers";
import { ProblemPanel } from "@/ui/ProblemPanel";

type Props = { provider: string; zIndex: number; onAnswer: (isConfirmed: boolean) => void };

/** Dialog for a login that came from an identity provider: the person logs in there again, in another tab. */
export function ConfirmWithProviderDialog({ provider, zIndex, onAnswer }: Props) {
  const confirm = useConfirmWithProvider();
  useEffect(() => onConfirmation(() => onAnswer(true)), [onAnswer]);
  return (
    <Modal
      opened
      onClose={() => onAnswer(false)}
      title={<Text fw={600}>Confirm that it is you</Text>}
      closeOnClickOutside={false}
      zIndex={zIndex}
    >
      <Stack>
        <Text size="sm">
          You logged in more than an hour ago. Log in to {provider} again to continue; it opens in another
          tab.
        </Text>
        {confirm.isError && <ProblemPanel error={confirm.error} compact />}
        <Group justify="flex-end">
          <Button variant="default" onClick={() => onAnswer(false)}>
            Cancel
          </Button>
          {/* The tab must be opened by the click itself; browsers block it later. */}
          <Button
            data-autofocus
            loading={confirm.isPending}
            onClick={() => confirm.mutate(window.open("", "_blank"))}
          >
            Log in to {provider}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
