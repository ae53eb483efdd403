import { PasswordInput, Text } from "@mantine/core";
import { useState } from "react";
import { useMe } from "@/data/me";
import { useDisableSecondFactor } from "@/data/secondFactor";
import { CodeInput } from "@/ui/CodeInput";
import { ConfirmDialog } from "@/ui/ConfirmDialog";

/** Dialog that switches off the second factor with the password and a code. */
export function DisableSecondFactorDialog({ onClose }: { onClose: () => void }) {
  const disable = useDisableSecondFactor();
  const requiring = useMe().organizations.filter(each => each.requireSecondFactor);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Switch off the second factor?"
      action="Switch off"
      danger
      mutation={disable}
      input={password && code ? { password, code } : null}
      success={() => "Second factor switched off"}
    >
      <Text size="sm">
        Your recovery codes stop working.
        {requiring.length > 0 &&
          ` You lose access to ${requiring.map(each => each.name).join(", ")} until you set up a second factor again.`}
      </Text>
      <PasswordInput
        label="Password"
        required
        data-autofocus
        autoComplete="current-password"
        value={password}
        onChange={event => setPassword(event.currentTarget.value)}
      />
      <CodeInput value={code} onChange={event => setCode(event.currentTarget.value)} />
    </ConfirmDialog>
  );
}
