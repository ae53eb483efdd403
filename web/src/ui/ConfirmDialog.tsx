import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import type { UseMutationResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ProblemPanel } from "./ProblemPanel";
import { toast } from "./toast";

type Props<Input, Output> = {
  onClose: () => void;
  title: string;
  children: ReactNode;
  action: string;
  danger?: boolean;
  disabled?: boolean;
  mutation: UseMutationResult<Output, Error, Input>;
  /** Null while it is incomplete: then the action is disabled. */
  input: NoInfer<Input> | null;
  /** Returns the message of a toast; the dialog closes with it. */
  success?: (output: NoInfer<Output>) => string;
  onSuccess?: (output: NoInfer<Output>) => void;
};

/** A dialog that runs a mutation. Enter confirms, Escape cancels. */
export function ConfirmDialog<Input, Output>(props: Props<Input, Output>) {
  const { mutation, input, onClose, success, onSuccess } = props;
  const isDisabled = props.disabled || input === null;
  return (
    <Modal opened onClose={onClose} title={<Text fw={600}>{props.title}</Text>}>
      <form
        onSubmit={event => {
          event.preventDefault();
          if (props.disabled || input === null || mutation.isPending) return;
          // Not callbacks of mutate(): those are skipped if an event removes the dialog before the response arrives.
          mutation.mutateAsync(input).then(
            output => {
              if (success) {
                toast.success(success(output));
                onClose();
              }
              onSuccess?.(output);
            },
            () => {},
          );
        }}
      >
        <Stack>
          {props.children}
          {mutation.isError && <ProblemPanel error={mutation.error} compact />}
          <Group justify="flex-end" className="dialog-actions">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button
              type="submit"
              // The focus of a dialog without a field, unless Enter could do harm.
              data-autofocus={!props.danger && !isDisabled ? true : undefined}
              color={props.danger ? "buoy.7" : undefined}
              loading={mutation.isPending}
              disabled={isDisabled}
            >
              {props.action}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
