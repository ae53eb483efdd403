import { PasswordInput, type PasswordInputProps } from "@mantine/core";
import { fieldError } from "@/api/problem";

const CHARS_MIN = 15;
const CHARS_MAX = 256;

export const NEW_PASSWORD_RULE = `${CHARS_MIN} to ${CHARS_MAX} characters. A passphrase works well.`;

/** Returns the error of a new password, or null. The server checks further rules. */
export function checkNewPassword(password: string): string | null {
  const chars = [...password].length;
  return chars < CHARS_MIN || chars > CHARS_MAX
    ? `Must be ${CHARS_MIN} to ${CHARS_MAX} characters long`
    : null;
}

/** Returns the server's error for a new password. */
export function newPasswordError(error: unknown, pointer: string): string | undefined {
  const detail = error ? fieldError(error, pointer) : undefined;
  return detail && `The password ${detail}`;
}

/** Password field with the rule for new passwords. */
export function NewPasswordInput({ label = "New password", ...props }: PasswordInputProps) {
  return (
    <PasswordInput
      label={label}
      description={NEW_PASSWORD_RULE}
      required
      autoComplete="new-password"
      {...props}
    />
  );
}
