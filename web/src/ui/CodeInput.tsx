import { TextInput, type TextInputProps } from "@mantine/core";

const CODE_CHARS_MAX = 32;

/** Field for a code of the second factor. */
export function CodeInput({
  description = "From your authenticator app, or a recovery code",
  ...props
}: TextInputProps) {
  return (
    <TextInput
      label="Code"
      description={description}
      required
      autoComplete="one-time-code"
      spellCheck={false}
      maxLength={CODE_CHARS_MAX}
      {...props}
    />
  );
}
