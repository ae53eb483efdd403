import { PasswordInput, type PasswordInputProps } from "@mantine/core";
import { fieldProblem } from "@/api/problem";

const CHARS_MIN = 15;
const CHARS_MAX = 256;

export const NEW_PASSWORD_RULE = `${CHARS_MIN} to ${CHARS_MAX} characters; a sentence is a good password`;

/** What is wrong with a new password, as far as this page can tell. The server knows more rules. */
export function checkNewPassword(password: string): string | null {
  const chars = [...password].length;
  return chars < CHARS_MIN || chars > CHARS_MAX
    ? `It must have ${CHARS_MIN} to ${CHARS_MAX} characters`
    : null;
}

/** What the server found wrong with it. */
export function newPasswordProblem(error: unknown, pointer: string): string | undefined {
  const detail = error ? fieldProblem(error, pointer) : undefined;
  return detail && `The password ${detail}`;
}

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
