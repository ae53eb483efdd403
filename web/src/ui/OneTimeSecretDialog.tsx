import { Alert, Button, Group, Modal, Stack, Text } from "@mantine/core";
import { IconEyeOff } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { CopyTextButton, Snippet } from "./Copy";

type Props = {
  title: string;
  warning?: string;
  note: ReactNode;
  /** The secret, or a text that contains it. */
  text: string;
  label: string;
  /** Label of a button that copies the text. */
  copy?: string;
  done?: string;
  size?: string;
  children?: ReactNode;
  onClose: () => void;
};

/** Dialog that shows a secret once. A click outside does not close it. */
export function OneTimeSecretDialog(props: Props) {
  const { text, copy, done = "Done", warning = "Copy it now. It won’t be shown again.", onClose } = props;
  return (
    <Modal
      opened
      onClose={onClose}
      size={props.size}
      title={<Text fw={600}>{props.title}</Text>}
      closeOnClickOutside={false}
    >
      <Stack>
        <Alert icon={<IconEyeOff />} color="lantern" title={warning}>
          {props.note}
        </Alert>
        <Snippet label={props.label} text={text} />
        {props.children}
        <Group justify="flex-end">
          {copy && <CopyTextButton value={text} label={copy} />}
          <Button variant={copy ? "default" : "filled"} onClick={onClose}>
            {done}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
