import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { IconEyeOff } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { Snippet } from "@/ui/Copy";

type Props = { secret: string; children: ReactNode; onClose: () => void };

/** A webhook's signing secret, for the only time. */
export function SecretOnce({ secret, children, onClose }: Props) {
  return (
    <Modal
      opened
      onClose={onClose}
      title={<Text fw={650}>Copy its secret now</Text>}
      closeOnClickOutside={false}
    >
      <Stack>
        <Alert icon={<IconEyeOff />} color="lantern" title="This is the only time you see it">
          {children}
        </Alert>
        <Snippet label="The webhook's secret" text={secret} />
        <Group justify="flex-end">
          <Button onClick={onClose}>I have it</Button>
        </Group>
      </Stack>
    </Modal>
  );
}
