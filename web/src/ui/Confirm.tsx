import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { ProblemPanel } from "./Problem";

type Props = {
  opened: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  pending?: boolean;
  error?: unknown;
  disabled?: boolean;
  onConfirm: () => void;
};

/** A question with one answer that does it and one that does not. Enter confirms, Escape leaves. */
export function Confirm(props: Props) {
  return (
    <Modal opened={props.opened} onClose={props.onClose} title={<Text fw={650}>{props.title}</Text>}>
      <form
        onSubmit={event => {
          event.preventDefault();
          if (!props.disabled && !props.pending) props.onConfirm();
        }}
      >
        <Stack>
          {props.children}
          {props.error != null && <ProblemPanel error={props.error} compact />}
          <Group justify="flex-end">
            <Button variant="default" onClick={props.onClose}>
              Cancel
            </Button>
            <Button
              type="submit"
              color={props.danger ? "buoy.7" : undefined}
              loading={props.pending}
              disabled={props.disabled}
            >
              {props.action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
