import { ActionIcon, Textarea, type TextareaProps } from "@mantine/core";
import { IconEye, IconEyeOff } from "@tabler/icons-react";
import { useState } from "react";

/** Concealed value of a secret. Keeps line breaks, because keys and certificates have several lines. */
export function SecretValueInput(props: TextareaProps) {
  const [isShown, setShown] = useState(false);
  const Icon = isShown ? IconEyeOff : IconEye;
  return (
    <Textarea
      label="Value"
      description="May have several lines, for example a private key"
      required
      autosize
      minRows={2}
      maxRows={8}
      autoComplete="off"
      spellCheck={false}
      styles={{
        input: {
          fontFamily: "var(--mantine-font-family-monospace)",
          ...(isShown ? {} : { WebkitTextSecurity: "disc" }),
        },
      }}
      rightSection={
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={isShown ? "Hide value" : "Show value"}
          onClick={() => setShown(!isShown)}
        >
          <Icon size={16} />
        </ActionIcon>
      }
      {...props}
    />
  );
}
