import { List, PasswordInput, Text } from "@mantine/core";
import { useState } from "react";
import type { Secret } from "@/api/types";
import { useOrg } from "@/data/me";
import { useDeleteSecret, useNewValue } from "@/data/secrets";
import { Confirm } from "@/ui/Confirm";

type Props = { secret: Secret; onClose: () => void };

export function ChangeSecret({ secret, onClose }: Props) {
  const change = useNewValue(useOrg());
  const [value, setValue] = useState("");
  return (
    <Confirm
      onClose={onClose}
      title={`New value of ${secret.name}`}
      action="Keep it"
      mutation={change}
      disabled={value === ""}
      input={{ id: secret.id, value }}
      success={changed => `${secret.name} has version ${changed.version} now.`}
    >
      <Text size="sm" c="dimmed">
        Deployments that have begun keep version {secret.version}; later ones get the new value.
      </Text>
      <PasswordInput
        label="Value"
        required
        autoComplete="off"
        data-autofocus
        value={value}
        onChange={event => setValue(event.currentTarget.value)}
      />
    </Confirm>
  );
}

export function DeleteSecret({ secret, onClose }: Props) {
  const remove = useDeleteSecret(useOrg());
  const isUsed = secret.usedBy.length > 0;
  return (
    <Confirm
      onClose={onClose}
      title={`Delete ${secret.name}`}
      action={isUsed ? "Delete anyway" : "Delete"}
      danger
      mutation={remove}
      input={{ id: secret.id, force: isUsed }}
      success={() => `${secret.name} is deleted.`}
    >
      {isUsed ? (
        <>
          <Text size="sm">Definitions that still name it; their next deployments would fail:</Text>
          <List size="sm">
            {secret.usedBy.map(each => (
              <List.Item key={each.pipelineId}>{each.slug}</List.Item>
            ))}
          </List>
        </>
      ) : (
        <Text size="sm">No definition names it. Its value cannot be brought back.</Text>
      )}
    </Confirm>
  );
}
